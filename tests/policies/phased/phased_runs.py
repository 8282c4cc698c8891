"""Runs of policies in phases."""

from __future__ import annotations

import numpy as np

from bestarm import Recommendation, Summary
from bestarm.environments import Semiparametric
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy

__all__ = ["carry_out", "carry_out_without_noise", "plan_of"]


def carry_out(policy: Policy, world: Semiparametric, *, seed: int = 0) -> Recommendation:
    """The recommendation after all plans, drawn in a world."""
    stream = world.begin(np.random.default_rng(seed))
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
    return policy.recommend()


def carry_out_without_noise(policy: Policy, means: Array) -> None:
    """Carry out one plan with rewards equal to means, as often as its weights say on average."""
    plan = policy.plan()
    assert plan is not None
    counts = plan.counts
    if counts is None:
        assert plan.weights is not None
        counts = np.floor(plan.pulls * plan.weights).astype(np.int64)
        counts[np.argmax(plan.weights)] += plan.pulls - counts.sum()
    policy.update(Summary(counts, counts * means, counts * means**2))


def plan_of(policy: Policy) -> tuple[Array, int]:
    """The weights and the pulls of its plan."""
    plan = policy.plan()
    assert plan is not None
    assert plan.weights is not None
    return plan.weights, plan.pulls
