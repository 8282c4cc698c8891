"""KL-LUCB round by round, compiled: with Gaussian and with Bernoulli divergence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.ahead.paying import pay
from bestarm.compiling import compiled
from bestarm.geometry import Array
from bestarm.policies.index.divergences import entropy, upper_bound
from bestarm.policies.index.rates import best_mean, first_without_pulls, rate
from bestarm.policies.stepwise import Indices


@compiled
def advance_gaussian(
    ahead: tuple[Any, ...],
    due: Indices,
    counts: Indices,
    sums: Array,
    scale: float,
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, bool]:
    """Pull until `most` pulls are made or the leader's lower bound exceeds all upper bounds.

    The bounds of an arm are its mean ± √(2σ² β(t)/N), and `scale` is 2σ². `due` has the arm to pull
    next and the other arm of the round, −1 once that was pulled, and the leader.
    """
    arms = len(counts)
    means, widths = np.zeros(arms), np.zeros(arms)
    for a in range(arms):
        if counts[a]:
            means[a], widths[a] = sums[a] / counts[a], math.sqrt(scale / counts[a])
    total, missing = counts.sum(), first_without_pulls(counts)
    for i in range(most):
        arm = due[0]
        sums[arm] += pay(ahead, i, arm)
        counts[arm] += 1
        total += 1
        means[arm], widths[arm] = sums[arm] / counts[arm], math.sqrt(scale / counts[arm])
        if missing >= 0:
            missing = first_without_pulls(counts)
        if missing >= 0:
            due[0], due[1], due[2] = missing, -1, best_mean(means, counts)
            continue
        if due[1] >= 0:
            due[0], due[1] = due[1], -1
            continue
        root = math.sqrt(rate(total, constants))
        leader, challenger, highest = best_mean(means, counts), -1, -math.inf
        for a in range(arms):
            upper = means[a] + root * widths[a]
            if a != leader and upper > highest:
                challenger, highest = a, upper
        due[0], due[1], due[2] = leader, challenger, leader
        if means[leader] - root * widths[leader] > highest:
            return i + 1, True
    return most, False


@compiled
def advance_bernoulli(
    ahead: tuple[Any, ...],
    due: Indices,
    counts: Indices,
    sums: Array,
    bounds: tuple[float, float],
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, bool]:
    """The same with bounds u: N d(mean, u) = β(t), for rewards between two bounds.

    The leader's lower bound is above q if and only if its mean is and N d(mean, q) > β(t). Returns
    −1 − i pulls if the reward of pull i is outside the bounds; nothing else is valid then.
    """
    arms = len(counts)
    low, width = bounds[0], bounds[1] - bounds[0]
    means, own = np.zeros(arms), np.zeros(arms)
    for a in range(arms):
        if counts[a]:
            means[a] = min(max((sums[a] / counts[a] - low) / width, 0.0), 1.0)
            own[a] = entropy(means[a])
    total, missing, candidate = counts.sum(), first_without_pulls(counts), 0
    for i in range(most):
        arm = due[0]
        reward = pay(ahead, i, arm)
        if not bounds[0] <= reward <= bounds[1]:
            return -1 - i, False
        sums[arm] += reward
        counts[arm] += 1
        total += 1
        means[arm] = min(max((sums[arm] / counts[arm] - low) / width, 0.0), 1.0)
        own[arm] = entropy(means[arm])
        if missing >= 0:
            missing = first_without_pulls(counts)
        if missing >= 0:
            due[0], due[1], due[2] = missing, -1, best_mean(means, counts)
            continue
        if due[1] >= 0:
            due[0], due[1] = due[1], -1
            continue
        level, leader = rate(total, constants), best_mean(means, counts)
        candidate = candidate if candidate != leader else (leader + 1) % arms
        candidate, q = _highest(means, own, counts, level, leader, candidate)
        due[0], due[1], due[2] = leader, candidate, leader
        if means[leader] > q and counts[leader] * _distance(means, own, leader, q) > level:
            return i + 1, True
    return most, False


@compiled
def _distance(means: Array, own: Array, arm: int, q: float) -> float:
    """d(mean of the arm, q), with 0 < q < 1, or with q ≤ 1 for a mean of 1."""
    mean = float(means[arm])
    part = float(own[arm]) - mean * math.log(q)
    return part - (1 - mean) * math.log1p(-q) if mean < 1 else part


@compiled
def _highest(
    means: Array, own: Array, counts: Indices, level: float, leader: int, candidate: int
) -> tuple[int, float]:
    """The arm with the highest upper bound, other than the leader, and that bound.

    The bound q of the candidate is solved for; that of another arm is higher if and only if its
    mean is above q or N d(mean, q) < β(t).
    """
    q = upper_bound(means[candidate], level / counts[candidate])
    for a in range(len(means)):
        if a not in (leader, candidate) and q < 1:
            first, second = math.log(q), math.log1p(-q)
            distance = own[a] - means[a] * first - (1 - means[a]) * second
            if means[a] >= q or counts[a] * distance < level:
                candidate, q = a, upper_bound(means[a], level / counts[a])
    return candidate, q
