"""At what lead RAGE drops a target."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import RAGE, Problem, Summary


@pytest.mark.parametrize(("factor", "left"), [(0.999, (0, 1)), (1.001, (0,))])
def test_a_phase_drops_what_lags_by_its_accuracy(factor: float, left: tuple[int, ...]) -> None:
    """Phase t knows contrasts within 2^−(t+2): 1/8, then 1/16. Rewards here have no noise."""
    policy = RAGE(Problem(np.eye(2)))
    for phase, lead in ((1, 0.999 / 8), (2, factor / 16)):
        plan = policy.plan()
        assert plan is not None
        assert plan.counts is not None
        sums = plan.counts * np.array([lead, 0.0])
        policy.update(Summary(plan.counts, sums, sums * lead))
        assert policy.recommend().trace[-1].radii == (2.0 ** -(phase + 2),) * 2
    assert policy.recommend().active == left
