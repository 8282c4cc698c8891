"""Track-and-Stop: pull as the lower bound would, and stop by a generalized likelihood ratio."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from bestarm.checks import choice
from bestarm.field.divergences import bernoulli, transport
from bestarm.field.kernels import compiled, reward_at
from bestarm.field.means_rule import MeansRule, best_mean, rate
from bestarm.field.pull_by_pull import Rewards
from bestarm.field.thresholds import chernoff_rate, gaussian_rate, tuned_rate
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.stepwise import NO_DRIFT, sub_gaussian_assumptions
from bestarm.problem import Problem

_STEPS = 100  # Newton's steps at most; one to four are made
_NEAR = 1e-9  # how near to 1 the sum of Theorem 5 must be
_SQUARE_ROOT = 1e-5
_CLOSE = 1e-7  # relative; nearer means are told apart by too few digits of d
_LARGEST = 1e6  # of x, which is about 1 for the second best arm and smaller for others


class TrackAndStop(MeansRule):
    """Pull the arm that is farthest behind the best proportions for the means as they seem.

    D-tracking: an arm with fewer than √t − K/2 pulls is pulled first; otherwise the arm with the
    largest t w_a − N_a, where w are the proportions of the lower bound for the arm means so far.
    They are solved for anew at every pull, by few Newton steps from the last solution (the
    authors' code does it by nested bisection). It stops once the generalized likelihood ratio of
    the leader and each other arm exceeds β(t, δ), Chernoff's rule.

    The divergence is (a − b)²/(2σ²), or with `bounds` that of Bernoulli laws. `"published"` is
    log(2t(K − 1)/δ), proven for rewards that are one of two values, so with `bounds` only;
    `"certified"` is proven for rewards that are σ-sub-Gaussian around fixed arm means, given the
    past, so without `bounds` only; `"experiments"` is log((log t + 1)/δ), with which the paper's
    table was made, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"`, `"certified"` or `"experiments"`: see above.
        bounds: if given, between which all rewards lie; others are refused, and σ is not used.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import TrackAndStop
        >>> TrackAndStop(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Garivier and Kaufmann (2016), sections 3 and 4, Theorems 5 and 10; Kaufmann and
    Koolen (2021) for the certified threshold; EmilieKaufmann/BAI_epsBAI_code, the authors' code.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "certified", "experiments"] = "published",
        bounds: tuple[float, float] | None = None,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, bounds=bounds, max_pulls=max_pulls)
        choice(threshold, ("published", "certified", "experiments"), "threshold")
        delta, arms = problem.delta, problem.arms
        self._threshold = threshold
        self._rate = tuned_rate(delta)
        if threshold == "published":
            self._rate = chernoff_rate(delta, arms=arms)
        elif threshold == "certified":
            self._rate = gaussian_rate(delta, arms=arms)
        self._model = 2 * self._sigma**2, 0.0, 1.0
        if self._bounds is not None:
            self._model = 0.0, *self._bounds
        self._warm = np.ones(arms)  # the last solution for the proportions

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, arm, leader, stopped = advance(
            rewards,
            self._next_arm,
            self._counts,
            self._sums,
            self._warm,
            self._model,
            tuple(self._rate),
            most,
        )
        if pulls < 0:
            raise self._outside_bounds()
        self._next_arm, self._leader = arm, leader
        return pulls, stopped

    def _assumptions(self) -> tuple[str, ...]:
        if self._threshold == "certified" and self._bounds is None:
            return sub_gaussian_assumptions(self._sigma)
        if self._threshold == "published" and self._bounds is not None:
            low, high = self._bounds
            return f"Every reward is either {low:g} or {high:g}.", NO_DRIFT
        return ()


@compiled
def advance(
    rewards: Rewards,
    arm: int,
    counts: Indices,
    sums: Array,
    warm: Array,
    model: tuple[float, float, float],
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, int, int, bool]:
    """Pull until `most` pulls are made or the leader is shown to be the best (D-tracking).

    `model` is (2σ², 0, 0) for Gaussian arms, (0, low, high) for rewards between two bounds. Returns
    the pulls made, −1 − i if the reward of pull i is outside the bounds, the arm to pull next, the
    leader, and whether it stopped.
    """
    arms = len(counts)
    scale, low, high = model
    means, weights = np.zeros(arms), np.zeros(arms)
    for a in range(arms):
        means[a] = _mean(sums[a] / counts[a], model)
    leader, rival, total, proven = 0, 0, counts.sum(), 0.0
    for i in range(most):
        reward = reward_at(rewards, i, arm)
        if scale == 0 and not low <= reward <= high:
            return -1 - i, arm, leader, False
        sums[arm] += reward
        counts[arm] += 1
        total += 1
        means[arm] = _mean(sums[arm] / counts[arm], model)
        leader = best_mean(means)
        # The evidence must exceed β for all others: first for that which was least before. β at an
        # earlier time is smaller.
        if rival == leader or _evidence(means, counts, leader, rival, scale) > proven:
            rival = _closest(means, counts, leader, scale)
            evidence = _evidence(means, counts, leader, rival, scale)
            if evidence > proven:
                proven = rate(total, constants)
                if evidence > proven:
                    return i + 1, arm, leader, True
        arm = _next(means, counts, leader, warm, weights, scale)
    return most, arm, leader, False


@compiled
def _mean(mean: float, model: tuple[float, float, float]) -> float:
    """The mean that the divergence compares: for rewards between bounds, from 0 to 1."""
    scale, low, high = model
    return mean if scale > 0 else min(max((mean - low) / (high - low), 0.0), 1.0)


@compiled
def _next(
    means: Array, counts: Indices, leader: int, warm: Array, weights: Array, scale: float
) -> int:
    """D-tracking: the arm to pull next."""
    arms, total, rarest = len(counts), counts.sum(), 0
    for a in range(1, arms):
        if counts[a] < counts[rarest]:
            rarest = a
    if counts[rarest] < math.sqrt(total) - arms / 2:  # forced exploration
        return rarest
    if not _tied(means, leader, weights):
        if scale > 0:
            gaussian_weights(means, leader, warm, weights)
        else:
            bernoulli_weights(means, leader, warm, weights)
    share, arm = total / weights.sum(), 0
    for a in range(1, arms):  # the largest t w_a − N_a
        if share * weights[a] - counts[a] > share * weights[arm] - counts[arm]:
            arm = a
    return arm


@compiled
def _tied(means: Array, leader: int, weights: Array) -> bool:
    """Whether several arms have the best mean; if so, weights are equal for them, and 0 else."""
    tied = 0
    for a in range(len(means)):
        weights[a] = 1.0 if means[a] == means[leader] else 0.0
        tied += means[a] == means[leader]
    return tied > 1


@compiled
def _evidence(means: Array, counts: Indices, leader: int, arm: int, scale: float) -> float:
    """The generalized log-likelihood ratio of the leader and another arm, Z(t)."""
    n, m = float(counts[leader]), float(counts[arm])
    if scale > 0:
        gap = float(means[leader] - means[arm])
        return gap * gap * (n * m / (n + m)) / scale
    return transport(means[leader], means[arm], n, m)


@compiled
def _closest(means: Array, counts: Indices, leader: int, scale: float) -> int:
    """The arm against which there is least evidence."""
    closest, least = -1, math.inf
    for a in range(len(means)):
        if a != leader:
            evidence = _evidence(means, counts, leader, a, scale)
            if evidence < least or closest < 0:
                closest, least = a, evidence
    return closest


@compiled
def gaussian_weights(means: Array, leader: int, warm: Array, weights: Array) -> None:
    """w*(μ) for Gaussian arms of equal variance (Theorem 5), where one arm is the best.

    With D_a = (μ_1 − μ_a)² and x_a(y) = y/(D_a − y), the y with Σ x_a(y)² = 1 gives w ∝ (1, x). In
    r = 1/y, (Σ x_a²)^−½ is concave and increasing, and linear where all gaps are equal: Newton's
    steps from the left stay there. `warm[0]` is r of the last call; `weights` become (1, x).
    """
    arms, nearest = len(means), math.inf
    for a in range(arms):
        weights[a] = (means[leader] - means[a]) ** 2
        if a != leader:
            nearest = min(nearest, weights[a])
    # Between all other arms at the smallest gap and only one of them.
    r = min(max(warm[0], 2.0 / nearest), (1.0 + math.sqrt(arms - 1.0)) / nearest)
    for _ in range(_STEPS):
        squares = slope = 0.0
        for a in range(arms):
            if a != leader:
                x = 1.0 / (weights[a] * r - 1.0)
                squares += x * x
                slope += weights[a] * x * x * x
        r = max(r - (squares - squares * math.sqrt(squares)) / slope, 2.0 / nearest)
        if abs(squares - 1.0) <= _SQUARE_ROOT:  # the step squares the error
            break
    for a in range(arms):
        weights[a] = 1.0 / (weights[a] * r - 1.0)
    warm[0] = r
    weights[leader] = 1.0


@compiled
def _ratio(best: float, mean: float, x: float) -> tuple[float, float, float]:
    """A = d(μ_1, m), B = d(μ_a, m) and the derivative of A/B, with m = (μ_1 + x μ_a)/(1 + x).

    g(x) = A + x B is what the two arms tell in 1 + x pulls, and g′(x) = B.
    """
    middle = (best + x * mean) / (1.0 + x)
    a, b = bernoulli(best, middle), bernoulli(mean, middle)
    rise = (mean - middle) / ((1.0 + x) * middle * (1.0 - middle))
    return a, b, rise * ((middle - best) * b - (middle - mean) * a) / (b * b)


@compiled
def bernoulli_weights(means: Array, leader: int, warm: Array, weights: Array) -> None:
    """w*(μ) for Bernoulli arms (Theorem 5), where one arm is the best.

    The y and x with g_a(x_a) = y for every other arm and Σ_a d(μ_1, m_a)/d(μ_a, m_a) = 1, by
    Newton's steps for all of them at once. `warm` has x of the last call; where that is too far
    away, the steps begin again at the solution for equal arms, and x is solved for each y.
    `weights` become (1, x). Where the best two means are so close that d between them is mostly
    rounding, they are those for Gaussian arms, which d tends to.
    """
    gap = side = 1.0
    for a in range(len(means)):
        if a != leader and means[leader] - means[a] < gap:
            gap, side = means[leader] - means[a], min(means[leader], 1.0 - means[a])
    if gap < max(_CLOSE * side, 1e-15):
        gaussian_weights(means, leader, np.ones(1), weights)
        return
    if not _newton(means, leader, warm):
        _nested(means, leader, warm)
    for a in range(len(means)):
        weights[a] = warm[a]
    weights[leader] = 1.0


@compiled
def _newton(means: Array, leader: int, x: Array) -> bool:
    """Newton's steps in (y, x); whether they ended at the solution."""
    arms = len(means)
    parts = np.empty((arms, 2))
    for _ in range(8):
        total = change = shift = y = error = 0.0
        for a in range(arms):
            if a != leader:
                first, second, slope = _ratio(means[leader], means[a], x[a])
                g = first + x[a] * second
                parts[a, 0], parts[a, 1] = g, second
                y = g if y == 0 else y  # of one arm: the others are moved to it
                total += first / second
                change += slope / second
                shift += slope * (y - g) / second
                error = max(error, abs(g - y) / y)
        if abs(total - 1.0) <= _NEAR and error <= _NEAR:
            return True
        y += (1.0 - total - shift) / change
        for a in range(arms):
            if a != leader:
                x[a] += (y - parts[a, 0]) / parts[a, 1]
                if not 0 < x[a] < _LARGEST:
                    return False
    return False


@compiled
def _nested(means: Array, leader: int, x: Array) -> None:
    """The same by Newton's steps for 1/x of the second best arm, inside of which x is solved for.

    The power −½ of the sum is linear in 1/x where all other arms are alike.
    """
    arms, second = len(means), -1
    for a in range(arms):
        if a != leader and (second < 0 or means[a] > means[second]):
            second = a
    best, inverse = means[leader], math.sqrt(arms - 1.0)
    for _ in range(_STEPS):
        x[second] = 1.0 / inverse
        first, slope_y, slope = _ratio(best, means[second], x[second])
        y, total, change = first + x[second] * slope_y, first / slope_y, slope / slope_y
        for a in range(arms):
            if a not in (leader, second):
                x[a] = _solve(best, means[a], y, x[second])
                first, part, slope = _ratio(best, means[a], x[a])
                total += first / part
                change += slope / part
        if abs(total - 1.0) <= _NEAR:
            return
        step = (total - total * math.sqrt(total)) / (0.5 * change * slope_y * x[second] ** 2)
        inverse = min(max(inverse - step, inverse / 3), 3 * inverse)


@compiled
def _solve(best: float, mean: float, y: float, x: float) -> float:
    """The x with g(x) = y. g is concave: Newton's steps from the left stay there."""
    for _ in range(_STEPS):
        first, slope, _ = _ratio(best, mean, x)
        step = (y - first - x * slope) / slope
        x = x + step if x + step > 0 else x / 2
        if abs(step) <= _NEAR * x:
            break
    return x
