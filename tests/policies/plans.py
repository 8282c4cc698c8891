"""The next plan of a policy that has not stopped, outcomes by hand, and runs of policies."""

from __future__ import annotations

import numpy as np

from bestarm import Plan, Recommendation, Summary
from bestarm.environments import Semiparametric
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.presampled import PresampledRewards
from bestarm.records import Counts

__all__ = [
    "carry_out",
    "equal_rewards",
    "next_counts",
    "next_plan",
    "next_weights",
    "run",
    "without_noise",
]


def next_plan(policy: Policy) -> Plan:
    plan = policy.plan()
    assert plan is not None
    return plan


def next_counts(policy: Policy) -> Counts:
    counts = next_plan(policy).counts
    assert counts is not None
    return counts


def next_weights(policy: Policy) -> Array:
    weights = next_plan(policy).weights
    assert weights is not None
    return weights


def equal_rewards(counts: object, sums: object) -> Summary:
    """Totals of equal rewards within each arm."""
    numbers, totals = np.asarray(counts, dtype=np.int64), np.asarray(sums, dtype=float)
    return Summary(numbers, totals, totals**2 / np.maximum(numbers, 1))


def without_noise(policy: Policy, means: Array, plans: int | None = None) -> list[Plan]:
    """Carry out all plans, or so many: rewards equal means, and arms are drawn in proportion."""
    made: list[Plan] = []
    while len(made) != plans and (plan := policy.plan()) is not None:
        counts = plan.counts
        if counts is None:
            assert plan.weights is not None
            counts = np.floor(plan.weights * plan.pulls).astype(np.int64)
            counts[np.argmax(plan.weights)] += plan.pulls - counts.sum()
        policy.update(Summary(counts, counts * means, counts * means**2))
        made.append(plan)
    return made


def carry_out(policy: Policy, world: Semiparametric, *, seed: int = 0) -> Recommendation:
    """The recommendation after all plans, drawn in a world."""
    stream = world.begin(np.random.default_rng(seed))
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
    return policy.recommend()


def run(policy: Policy, rewards: PresampledRewards, block: int = 0) -> Recommendation:
    """A policy of fixed plans, pulled in index order, until it stops or the rewards run out.

    With a `block`, it follows so many rewards at once wherever it can.
    """
    table, rows, common = rewards[:3]
    used = 0
    while (plan := policy.plan()) is not None and used + plan.pulls <= len(rows):
        many, pulls = slice(used, used + block), 0
        if block:
            pulls, _ = policy.run_presampled(PresampledRewards(table, rows[many], common[many]))
        if not pulls:
            arms = np.flatnonzero(next_counts(policy))
            few = slice(used, used + len(arms))
            paid = table[rows[few], arms] + common[few]
            policy.update(Summary.from_pulls(arms, paid, size=policy.problem.arms))
            pulls = len(arms)
        used += pulls
    return policy.recommend()
