"""What the sharp reading of SP-BAI spends of δ."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import SPBAI
from bestarm.environments import Semiparametric


def test_each_contrast_of_those_left_has_an_equal_share() -> None:
    """The best target is dropped only if one of the |A| − 1 others passes it: δ/(|A| − 1) each."""
    world = Semiparametric(np.eye(5), [1.0, 0.85, 0.4, 0.3, 0.0], noise=1.0)
    delta = 0.08
    policy = SPBAI(world.problem(delta), design="centered", stability="actual")
    stream = world.begin(np.random.default_rng(2))
    sizes = set()
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
        phase = policy.recommend().trace[-1]
        share = delta / (len(phase.active) - 1)
        assert phase.delta == pytest.approx(share)
        options = policy.problem.target
        differences = options[phase.leader] - options[list(phase.active)]
        np.testing.assert_allclose(phase.radii, policy._pooled.radii(differences, delta=share))
        sizes.add(len(phase.active))
    assert sizes >= {5, 2}
