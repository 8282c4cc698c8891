"""Once rewards contradict what was declared of them, nothing is claimed any more."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, Summary


def finished(*, first: float) -> AnytimeBAI:
    """Two arms that pay 1 and 0 but for the first batch, in which both pay `first` more.

    With noise, baseline and means within 1 each, no mean of many rewards is far beyond 2.
    """
    rng = np.random.default_rng(1)
    policy = AnytimeBAI(Problem(np.eye(2), delta=0.1, noise=0.1), mean_bound=1.0)
    more = first
    while (plan := policy.plan()) is not None:
        assert plan.weights is not None
        arms = rng.choice(2, size=plan.pulls, p=plan.weights)
        policy.update(Summary.from_pulls(arms, 1.0 - arms + more, size=2))
        more = 0.0
    return policy


@pytest.mark.parametrize(("first", "bound"), [(0.0, 0.1), (50.0, None)])
def test_a_contradicted_experiment_ends_without_an_error_bound(
    first: float, bound: float | None
) -> None:
    said = finished(first=first).recommend()
    assert (said.target, said.final, said.reason) == (0, True, "identified")
    assert said.error_bound == bound
