"""KL-LUCB: LUCB with bounds from a divergence, the leader and its challenger in every round."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from bestarm.checks import choice
from bestarm.field.divergences import bernoulli, upper_bound
from bestarm.field.kernels import compiled, reward_at
from bestarm.field.means_rule import MeansRule, best_mean, rate
from bestarm.field.pull_by_pull import Rewards
from bestarm.field.thresholds import kl_lucb_rate, tuned_rate
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.stepwise import NO_DRIFT, sub_gaussian_assumptions
from bestarm.problem import Problem

# Upper bounds are kept as tangents (`set_tangent`), and solved for where these do not decide. Rows
# of `tangents`, one column per arm: the value at β = 0, the slope, β₀, c, and what rounding can do
# to a tangent or to a solution.
HEIGHT, SLOPE, START, CURVE, ROUNDING = range(5)

_ROUNDING = 2e-14  # in units of 1 + q (1 − q)/w, and more than was ever found
_QUARTER = 0.25


class KLLUCB(MeansRule):
    """Each round pulls the arm with the best mean and the other arm with the highest upper bound.

    The bounds of an arm are the values u with N d(mean, u) = β(t, δ), where d(a, b) is
    (a − b)²/(2σ²), or with `bounds` the divergence of Bernoulli laws.

    Proven for rewards that are σ-sub-Gaussian around fixed arm means, given the past, or with
    `bounds` for all rewards between them: with `threshold="published"`, log(405.5 K t^1.1/δ), and
    with `"small"`, log(11 K t^1.1/δ), which the same theorem allows. `"experiments"` is
    log((log t + 1)/δ), with which later papers compare, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"`, `"small"` or `"experiments"`: see above.
        bounds: if given, between which all rewards lie; others are refused, and σ is not used.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import KLLUCB
        >>> KLLUCB(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Kaufmann and Kalyanakrishnan (2013), Theorems 1 and 3.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "small", "experiments"] = "published",
        bounds: tuple[float, float] | None = None,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, bounds=bounds, max_pulls=max_pulls)
        choice(threshold, ("published", "small", "experiments"), "threshold")
        delta, arms = problem.delta, problem.arms
        self._proven = threshold != "experiments"
        self._rate = tuned_rate(delta)
        if self._proven:
            constant = 405.5 if threshold == "published" else 11.0
            self._rate = kl_lucb_rate(delta, arms=arms, constant=constant)
        self._other = -1  # the arm to pull after the next one

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        state = np.array([self._next_arm, self._other, self._leader])
        known = rewards, state, self._counts, self._sums
        if self._bounds is None:
            scale = 2 * self._sigma**2
            pulls, stopped = advance_gaussian(*known, scale, tuple(self._rate), most)
        else:
            pulls, stopped = advance_bernoulli(*known, self._bounds, tuple(self._rate), most)
        if pulls < 0:
            raise self._outside_bounds()
        self._next_arm, self._other, self._leader = state.tolist()
        return pulls, stopped

    def _assumptions(self) -> tuple[str, ...]:
        if not self._proven:
            return ()
        if self._bounds is None:
            return sub_gaussian_assumptions(self._sigma)
        return "Every reward lies between {:g} and {:g}.".format(*self._bounds), NO_DRIFT


@compiled
def advance_gaussian(
    rewards: Rewards,
    state: Indices,
    counts: Indices,
    sums: Array,
    scale: float,
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, bool]:
    """Pull until `most` pulls are made or the leader's lower bound exceeds all upper bounds.

    The bounds of an arm are its mean ± √(2σ² β(t)/N), and `scale` is 2σ². `state` has the arm to
    pull next, the other arm of the round, −1 once that was pulled, and the leader.
    """
    arms = len(counts)
    means, widths, total = np.empty(arms), np.empty(arms), counts.sum()
    for a in range(arms):
        means[a], widths[a] = sums[a] / counts[a], math.sqrt(scale / counts[a])
    for i in range(most):
        arm = state[0]
        sums[arm] += reward_at(rewards, i, arm)
        counts[arm] += 1
        total += 1
        means[arm], widths[arm] = sums[arm] / counts[arm], math.sqrt(scale / counts[arm])
        if state[1] >= 0:
            state[0], state[1] = state[1], -1
            continue
        root = math.sqrt(rate(total, constants))
        leader, challenger, highest = best_mean(means), -1, -math.inf
        for a in range(arms):
            upper = means[a] + root * widths[a]
            if a != leader and upper > highest:
                challenger, highest = a, upper
        state[0], state[1], state[2] = leader, challenger, leader
        if means[leader] - root * widths[leader] > highest:
            return i + 1, True
    return most, False


@compiled
def advance_bernoulli(
    rewards: Rewards,
    state: Indices,
    counts: Indices,
    sums: Array,
    bounds: tuple[float, float],
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, bool]:
    """The same with bounds u: N d(mean, u) = β(t), for rewards between two bounds.

    Of several arms with the highest bound, the challenger is the first. Tangents mostly tell which
    one it is. Returns −1 − i pulls if the reward of pull i is outside the bounds; nothing else is
    valid then.
    """
    arms = len(counts)
    means, upper, tangents = np.zeros(arms), np.zeros(arms), np.zeros((5, arms))
    for a in range(arms):
        reset_tangent(tangents, a)
        means[a] = _mean(sums[a], counts[a], bounds)
    total, level = counts.sum(), 0.0
    leader, rival = 0, math.inf  # no mean but the leader's is above `rival`
    for i in range(most):
        arm = state[0]
        reward = reward_at(rewards, i, arm)
        if not bounds[0] <= reward <= bounds[1]:
            return -1 - i, False
        sums[arm] += reward
        counts[arm] += 1
        total += 1
        width = tangents[HEIGHT, arm] + tangents[SLOPE, arm] * level - means[arm]
        means[arm] = _mean(sums[arm], counts[arm], bounds)
        if state[1] >= 0:
            reset_tangent(tangents, arm)  # that of the leader is not needed
            state[0], state[1] = state[1], -1
            continue
        # The tangent near where the new bound is: w is about proportional to N^−½.
        q = means[arm] + width * (1 - 0.5 / counts[arm])
        set_tangent(tangents, arm, means[arm], counts[arm], q)
        level, rival = rate(total, constants), max(rival, means[arm])
        if not means[leader] > rival:
            leader, rival = _best_two(means)
        for a in range(arms):
            upper[a] = tangents[HEIGHT, a] + tangents[SLOPE, a] * level
        upper[leader] = -math.inf
        # These loops are not functions: Numba would count references to arrays in every round.
        top, q, second = 0, upper[0], -math.inf
        for a in range(1, arms):
            second = max(second, min(upper[a], q))
            top = a if upper[a] > q else top
            q = max(upper[a], q)
        q = tangent_minimum(tangents, top, level)
        if not q > second:
            top, q = solve_highest(tangents, upper, means, counts, level)
        state[0], state[1], state[2] = leader, top, leader
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
    """The mean of n rewards on the scale from 0 to 1."""
    low, high = bounds
    return min(max((total / n - low) / (high - low), 0.0), 1.0)


@compiled
def _best_two(means: Array) -> tuple[int, float]:
    """The first arm with the best mean, and the best mean of the others."""
    leader, rival = 0, -math.inf
    for a in range(1, len(means)):
        if means[a] > means[leader]:
            leader, rival = a, means[leader]
        else:
            rival = max(rival, means[a])
    return leader, rival


@compiled
def _separated(mean: float, n: int, other: float, m: int, level: float) -> bool:
    """Whether the lower bound of one arm exceeds the upper bound q of another.

    It does if and only if the mean is above q and N d(mean, q) > β(t).
    """
    q = upper_bound(other, level / m)
    return mean > q and n * bernoulli(mean, q) > level


@compiled
def reset_tangent(tangents: Array, arm: int) -> None:
    """Move the arm's tangent to infinity: its bound must be solved for."""
    tangents[HEIGHT, arm], tangents[SLOPE, arm], tangents[CURVE, arm] = math.inf, 0.0, math.inf


@compiled
def set_tangent(tangents: Array, arm: int, mean: float, n: int, q: float) -> None:
    """Set the arm's tangent to that at q; reset it where q is not in (mean, 1).

    The upper bound u of an arm with N pulls solves N d(mean, u) = β. As d is convex in u, u is
    concave in β, and its tangent at any q in (mean, 1), where β₀ = N d(mean, q), is above it:

        u(β) ≤ q + slope (β − β₀),  slope = q (1 − q)/(N w),  w = q − mean.

    It is not far above. With ℓ = β/N, (u − mean)² has the derivative 2u (1 − u) in ℓ, which changes
    by at most 2|u − q| from q to u. So along a step T = slope (β − β₀) with |T| c ≤ 1/4, where
    c = 2/w + 4/(q (1 − q)), the tangent is above u by at most c T².
    """
    w = q - mean
    if not (w > 0 and q < 1):
        reset_tangent(tangents, arm)
        return
    divergence = (1 - mean) * math.log((1 - mean) / (1 - q))
    if mean > 0:
        divergence += mean * math.log(mean / q)
    spread = q * (1 - q)
    slope, start = spread / (n * w), n * divergence
    tangents[SLOPE, arm], tangents[START, arm] = slope, start
    tangents[CURVE, arm] = 2 / w + 4 / spread
    tangents[ROUNDING, arm] = _ROUNDING * (1 + spread / w)
    tangents[HEIGHT, arm] = q - slope * start + tangents[ROUNDING, arm]


@compiled
def tangent_minimum(tangents: Array, arm: int, level: float) -> float:
    """What the arm's bound at β is at least, by its tangent; −∞ where that is too far away."""
    step = tangents[SLOPE, arm] * (level - tangents[START, arm])
    if not abs(step) * tangents[CURVE, arm] <= _QUARTER:
        return -math.inf
    height = tangents[HEIGHT, arm] + tangents[SLOPE, arm] * level
    return float(height - 2 * tangents[ROUNDING, arm] - tangents[CURVE, arm] * step * step)


@compiled
def solve_highest(
    tangents: Array, upper: Array, means: Array, counts: Indices, level: float
) -> tuple[int, float]:
    """The first arm with the highest bound at β, and that bound.

    `upper` has what bounds are at most, −∞ for an arm that does not count. Where that is as high as
    the highest bound so far, the equation is solved, and the arm's tangent is set there.
    """
    best, highest = -1, -math.inf
    while True:
        arm = 0
        for a in range(1, len(upper)):
            if upper[a] > upper[arm]:
                arm = a
        if upper[arm] < highest or upper[arm] == -math.inf:
            return best, highest
        upper[arm] = -math.inf
        q = upper_bound(means[arm], level / counts[arm])
        set_tangent(tangents, arm, means[arm], counts[arm], q)
        if q > highest or (q == highest and arm < best):
            best, highest = arm, q
