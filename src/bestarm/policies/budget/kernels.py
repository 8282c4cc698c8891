"""The pulls of P1 and BayesGap, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.presampled import reward_at

Parts = tuple[Any, ...]  # of `PresampledRewards`, or of what a rule keeps

_WIDE = 3.0  # standard deviations of the bounds on gaps
_TIED = 1 - 1e-9  # deviations that are equal on paper differ by rounding: J is pulled then
# Rows of `work`, one column per arm: μ, s, μ + 3 s, what the pulled arm shares with each, 4/gap².
# They are rows of one array because Numba counts references to every array at every call. They are
# filled one by one: an assignment of a whole row takes more than a second to compile.
_MEAN, _DEVIATION, _UPPER, _LEAN, _PART = range(5)


@compiled
def rank_and_draw(
    presampled: Parts,
    due: int,
    totals: Parts,
    ranking: Parts,
    chances: Parts,
    draws: Array,
) -> int:
    """P1 for a pull per draw from (0, 1); everything is updated in place.

    Returns the arm of the next pull.
    """
    counts, sums, gains = totals
    order, ranks = ranking
    shares, limits = chances
    for i in range(len(draws)):
        reward = reward_at(presampled, i, due)
        counts[due] += 1
        sums[due] += reward
        rank = ranks[due]
        gains[due] += reward / shares[rank]  # unbiased: it is drawn with this probability
        gain = gains[due]
        while rank > 0 and gains[order[rank - 1]] < gain:
            order[rank] = order[rank - 1]
            ranks[order[rank]] = rank
            rank -= 1
        while rank < len(order) - 1 and gains[order[rank + 1]] > gain:
            order[rank] = order[rank + 1]
            ranks[order[rank]] = rank
            rank += 1
        order[rank], ranks[due] = due, rank
        place = 0
        while draws[i] >= limits[place]:
            place += 1
        due = order[place]
    return due


@compiled
def narrow_gap(
    presampled: Parts,
    names: tuple[int, int],
    totals: Parts,
    posterior: Parts,
    features: Array,
    scales: tuple[float, float],
    most: int,
) -> tuple[int, int]:
    """BayesGap for `most` pulls; everything is updated in place.

    `posterior` has Σ, or without features the covariance of the arms' means, XΣXᵀ. Returns the arm
    of the next pull, and the arm that it would name.
    """
    due, leader = names
    counts, sums = totals
    covariance, means, variances, least = posterior
    noise, precision = scales
    arms = len(means)
    work = np.empty((5, arms))
    left = 0  # arms without a pull
    for a in range(arms):
        work[_MEAN, a] = means[a]
        left += counts[a] == 0
    for i in range(most):
        reward = reward_at(presampled, i, due)
        left -= counts[due] == 0
        counts[due] += 1
        sums[due] += reward
        # Of θ ~ N(θ̂, Σ) given r = x·θ + noise: θ̂ += Σx (r − x·θ̂)/v, Σ −= Σx xᵀΣ/v, v = σ² + xᵀΣx.
        scale = 1.0 / (noise + variances[due])
        if len(features):
            _reduce(covariance, features, due, scale, work)
        else:
            for a in range(arms):
                work[_LEAN, a] = covariance[due, a]
            for a in range(arms):
                step = work[_LEAN, a] * scale
                for b in range(arms):
                    covariance[a, b] -= step * work[_LEAN, b]
        step = (reward - work[_MEAN, due]) * scale
        for a in range(arms):
            lean = work[_LEAN, a]
            work[_MEAN, a] += lean * step
            variances[a] = max(variances[a] - lean * lean * scale, 0.0)
            work[_DEVIATION, a] = math.sqrt(variances[a])
        if left:
            due = 0
            while counts[due]:
                due += 1
            continue
        due, best, bound = _rivals(work, precision)
        if bound < least[0]:
            least[0], leader = bound, best
    for a in range(arms):
        means[a] = work[_MEAN, a]
    return due, leader


@compiled
def _reduce(covariance: Array, features: Array, due: int, scale: float, work: Array) -> None:
    """Σ after a pull, and before it the covariances of the arm with all arms."""
    dimension, arms = features.shape  # one column per arm: the inner loops run along rows
    gain = np.zeros(dimension)
    for j in range(dimension):
        for k in range(dimension):
            gain[k] += covariance[j, k] * features[j, due]
    for a in range(arms):
        work[_LEAN, a] = 0.0
    for j in range(dimension):
        for a in range(arms):
            work[_LEAN, a] += features[j, a] * gain[j]
        step = gain[j] * scale
        for k in range(dimension):
            covariance[j, k] -= step * gain[k]


@compiled
def _rivals(work: Array, precision: float) -> tuple[int, int, float]:
    """The arm to pull, J and B_J of a posterior; `precision` is β²H."""
    arms = work.shape[1]
    high = second = -math.inf  # the two largest upper bounds
    for a in range(arms):
        work[_UPPER, a] = work[_MEAN, a] + _WIDE * work[_DEVIATION, a]
        second = max(second, min(work[_UPPER, a], high))
        high = max(work[_UPPER, a], high)
    for a in range(arms):
        rival = second if work[_UPPER, a] == high else high
        # At least Δ_a, but for three deviations.
        gap = rival - (work[_MEAN, a] - _WIDE * work[_DEVIATION, a])
        work[_PART, a] = 4.0 / max(gap * gap, 1e-300)
    difficulty = 0.0
    for a in range(arms):
        difficulty += work[_PART, a]
    beta = math.sqrt(precision / difficulty)
    top, next_arm, high, second = 0, -1, -math.inf, -math.inf
    for a in range(arms):
        upper = work[_MEAN, a] + beta * work[_DEVIATION, a]
        next_arm = top if upper > high else (a if upper > second else next_arm)
        top = a if upper > high else top
        second = max(second, min(upper, high))
        high = max(upper, high)
    best, bound = -1, math.inf
    for a in range(arms):
        rival = second if a == top else high
        shortfall = rival - (work[_MEAN, a] - beta * work[_DEVIATION, a])
        best = a if shortfall < bound else best
        bound = min(shortfall, bound)  # J(t) and B_J(t)
    rival_arm = next_arm if best == top else top  # j(t)
    surer = work[_DEVIATION, best] < _TIED * work[_DEVIATION, rival_arm]
    return rival_arm if surer else best, best, bound
