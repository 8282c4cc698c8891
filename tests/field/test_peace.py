"""Peace at a fixed confidence: lengths, drops and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm import Problem, Summary
from bestarm.field import thresholds
from bestarm.field.peace import Peace
from bestarm.field.widths import width_design
from bestarm.numerics.geometry import linear_diameter

RNG = np.random.default_rng(11)
ARMS, TARGETS = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))


def test_length_of_a_phase() -> None:
    """1.5 σ² τ/(gap/2)², and at least two pulls per arm of the design."""
    length = thresholds.peace_phase_length(10.0, sigma=2.0, gap=0.5, slack=0.5, support=3)
    assert length == 960
    assert thresholds.peace_phase_length(10.0, sigma=2.0, gap=50.0, slack=0.5, support=3) == 6
    assert thresholds.peace_delta(0.1, phase=3) == pytest.approx(0.1 / 18)
    assert sum(thresholds.peace_delta(0.1, phase=k) for k in range(1, 1000)) < 0.1


def test_phases_drop_what_trails_by_a_gap_that_is_halved() -> None:
    problem = Problem(ARMS, TARGETS, delta=0.05)
    policy, theta = Peace(problem, sigma=0.5), np.array([1.0, 0.3, -0.2])
    means = TARGETS @ theta
    gap = 0.5 * width_design(ARMS, TARGETS, penalty=2 * math.log(2 / 0.05)).value / 2
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        gap /= 2
        active = list(policy.recommend().active)
        delta = 0.05 / (2 * plan.phase**2)
        design = width_design(ARMS, TARGETS[active], penalty=2 * math.log(1 / delta))
        support = int(np.count_nonzero(design.weights))
        assert plan.pulls == max(math.ceil(1.5 * design.value * (2 * 0.5 / gap) ** 2), 2 * support)
        worst = linear_diameter(ARMS, plan.counts / plan.pulls, TARGETS[active])
        assert worst <= 1.5 * 1.05 * design.variance  # rounding costs no more than its slack
        policy.update(Summary(plan.counts, plan.counts * (ARMS @ theta), np.zeros(6)))
        left = [target for target in active if means[active].max() - means[target] < gap]
        assert sorted(left) == list(policy.recommend().active)
    assert policy.recommend().target == int(np.argmax(means))
    assert policy.recommend().final
    assert policy.recommend().error_bound is None
