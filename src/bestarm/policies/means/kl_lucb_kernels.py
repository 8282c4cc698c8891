"""KL-LUCB round by round, compiled: with Gaussian and with Bernoulli divergence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.means.divergences import bernoulli, upper_bound
from bestarm.policies.means.kl_bounds import HEIGHT, SLOPE, draw, forget, lowest, solve_highest
from bestarm.policies.means.rates import best_mean, first_without_pulls, rate
from bestarm.policies.stepwise import Indices
from bestarm.presampled import reward_at


@compiled
def advance_gaussian(
    presampled: tuple[Any, ...],
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
        sums[arm] += reward_at(presampled, i, arm)
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
    presampled: tuple[Any, ...],
    due: Indices,
    counts: Indices,
    sums: Array,
    bounds: tuple[float, float],
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, bool]:
    """The same with bounds u: N d(mean, u) = β(t), for rewards between two bounds.

    Of several arms with the highest bound, the challenger is the first. Which one it is, lines
    mostly tell (`kl_bounds`). Returns −1 − i pulls if the reward of pull i is outside the bounds;
    nothing else is valid then.
    """
    arms = len(counts)
    means, upper, lines = np.zeros(arms), np.zeros(arms), np.zeros((5, arms))
    for a in range(arms):
        forget(lines, a)
        means[a] = _mean(sums[a], counts[a], bounds)
    total, missing, level = counts.sum(), first_without_pulls(counts), 0.0
    leader, rival = 0, math.inf  # no mean but the leader's is above `rival`
    for i in range(most):
        arm = due[0]
        reward = reward_at(presampled, i, arm)
        if not bounds[0] <= reward <= bounds[1]:
            return -1 - i, False
        sums[arm] += reward
        counts[arm] += 1
        total += 1
        wide = lines[HEIGHT, arm] + lines[SLOPE, arm] * level - means[arm]
        means[arm] = _mean(sums[arm], counts[arm], bounds)
        if missing >= 0:
            missing = first_without_pulls(counts)
        if missing >= 0:
            due[0], due[1], due[2] = missing, -1, best_mean(means, counts)
            continue
        if due[1] >= 0:
            forget(lines, arm)  # that of the leader is not needed
            due[0], due[1] = due[1], -1
            continue
        # The tangent near where the new bound is: w is about proportional to N^−½.
        draw(lines, arm, means[arm], counts[arm], means[arm] + wide * (1 - 0.5 / counts[arm]))
        level, rival = rate(total, constants), max(rival, means[arm])
        if not means[leader] > rival:
            leader, rival = _best_two(means)
        for a in range(arms):
            upper[a] = lines[HEIGHT, a] + lines[SLOPE, a] * level
        upper[leader] = -math.inf
        # These loops are not functions: Numba would count references to arrays in every round.
        top, q, second = 0, upper[0], -math.inf
        for a in range(1, arms):
            second = max(second, min(upper[a], q))
            top = a if upper[a] > q else top
            q = max(upper[a], q)
        q = lowest(lines, top, level)
        if not q > second:
            top, q = solve_highest(lines, upper, means, counts, level)
        due[0], due[1], due[2] = leader, top, leader
        best = means[leader]
        gap, spread = best - q, min(q * (1 - q), best * (1 - best))
        if (  # d ≤ gap²/(2 spread), and q may be slightly too low: mostly this is enough to know
            gap > 0
            and counts[leader] * gap * gap > 2 * level * spread
            and _separated(best, counts[leader], means[top], counts[top], level)
        ):
            return i + 1, True
    return most, False


@compiled
def _mean(total: float, n: int, bounds: tuple[float, float]) -> float:
    """The mean of n rewards on the scale from 0 to 1; 0 if there is none."""
    low, high = bounds
    return min(max((total / n - low) / (high - low), 0.0), 1.0) if n else 0.0


@inlined
def _best_two(means: Array) -> tuple[int, float]:
    """The first arm with the best mean, and the best mean of the others."""
    leader, rival = 0, -math.inf
    for a in range(1, len(means)):
        if means[a] > means[leader]:
            leader, rival = a, means[leader]
        else:
            rival = max(rival, means[a])
    return leader, rival


@inlined
def _separated(mean: float, n: int, other: float, m: int, level: float) -> bool:
    """Whether the lower bound of one arm exceeds the upper bound q of another.

    It does if and only if the mean is above q and N d(mean, q) > β(t).
    """
    q = upper_bound(other, level / m)
    return mean > q and n * bernoulli(mean, q) > level
