"""Empirical Bernstein elimination against the rule written out, reward by reward."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm import Problem, Summary, bounds
from bestarm.policies import BernsteinElimination

ARMS, DELTA = 5, 0.08
MEANS = np.array([0.8, 0.7, 0.45, 0.3, 0.1])


def beaten(rewards: list[list[float]], guesses: list[list[float]], active: list[int]) -> list[int]:
    """Those whom the leader is shown to exceed, at log((K − 1)/δ) of all K arms there ever were."""
    sums = {arm: sum(rewards[arm]) for arm in active}
    spread = {
        arm: sum((r - g) ** 2 for r, g in zip(rewards[arm], guesses[arm], strict=True))
        for arm in active
    }
    leader = max(active, key=lambda arm: sums[arm])
    lost = []
    for arm in active:
        evidence = bounds.bernstein_evidence(
            np.asarray(sums[leader] - sums[arm]),
            np.asarray(spread[leader] + spread[arm]),
            reach=1.0,
            reference=30.0,
        )
        if arm != leader and evidence >= math.log((ARMS - 1) / DELTA):
            lost.append(arm)
    return lost


@pytest.mark.parametrize("seed", range(3))
def test_arms_are_dropped_when_the_rule_says_so(seed: int) -> None:
    """A guess is the mean before the batch: one that has seen the batch would fit too well."""
    rng = np.random.default_rng(seed)
    policy = BernsteinElimination(Problem(np.eye(ARMS), delta=DELTA), bounds=(0, 1))
    rewards: list[list[float]] = [[] for _ in range(ARMS)]
    guesses: list[list[float]] = [[] for _ in range(ARMS)]
    active, sizes = list(range(ARMS)), set()
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        arms = np.repeat(np.arange(ARMS), plan.counts)
        paid = rng.binomial(1, MEANS[arms]).astype(float)
        for arm in active:
            seen = rewards[arm]
            guess = sum(seen) / len(seen) if seen else 0.5
            guesses[arm] += [guess] * int(plan.counts[arm])
            rewards[arm] = seen + paid[arms == arm].tolist()
        policy.update(Summary.from_pulls(arms, paid, size=ARMS))
        lost = beaten(rewards, guesses, active)
        active = [arm for arm in active if arm not in lost]
        assert list(policy.recommend().active) == active
        sizes.add(len(active))
    assert active == [0]
    assert len(sizes) >= 4  # they go one by one, so that a union over those left would show
