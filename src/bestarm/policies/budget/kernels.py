"""The pulls of P1 and BayesGap, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.ahead.paying import pay
from bestarm.compiling import compiled
from bestarm.geometry import Array

Parts = tuple[Any, ...]  # of an `Ahead`, or of what a rule keeps

_WIDE = 3.0  # standard deviations of the bounds on gaps


@compiled
def rank_and_draw(
    ahead: Parts,
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
        reward = pay(ahead, i, due)
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
    ahead: Parts,
    names: tuple[int, int],
    totals: Parts,
    posterior: Parts,
    features: Array,
    scales: tuple[float, float],
    most: int,
) -> tuple[int, int]:
    """BayesGap for `most` pulls; everything is updated in place.

    Returns the arm of the next pull, and the arm that it would name.
    """
    due, leader = names
    counts, sums = totals
    covariance, means, variances, least = posterior
    noise, precision = scales
    dimension, arms = features.shape  # one column per arm: the inner loops run along rows
    gain, lean, deviations = np.empty(dimension), np.empty(arms), np.empty(arms)
    left = 0  # arms without a pull
    for a in range(arms):
        left += counts[a] == 0
    for i in range(most):
        reward = pay(ahead, i, due)
        left -= counts[due] == 0
        counts[due] += 1
        sums[due] += reward
        # Of θ ~ N(θ̂, Σ) given r = x·θ + noise: θ̂ += Σx (r − x·θ̂)/v, Σ −= Σx xᵀΣ/v, v = σ² + xᵀΣx.
        scale = 1.0 / (noise + variances[due])
        gain[:] = 0.0
        for j in range(dimension):
            for k in range(dimension):
                gain[k] += covariance[j, k] * features[j, due]
        lean[:] = 0.0
        for j in range(dimension):
            for a in range(arms):
                lean[a] += features[j, a] * gain[j]
            step = gain[j] * scale
            for k in range(dimension):
                covariance[j, k] -= step * gain[k]
        step = (reward - means[due]) * scale
        for a in range(arms):
            means[a] += lean[a] * step
            variances[a] = max(variances[a] - lean[a] * lean[a] * scale, 0.0)
            deviations[a] = math.sqrt(variances[a])
        if left:
            due = 0
            while counts[due]:
                due += 1
            continue
        due, best, bound = _rivals(means, deviations, precision)
        if bound < least[0]:
            least[0], leader = bound, best
    return due, leader


@compiled
def _rivals(means: Array, deviations: Array, precision: float) -> tuple[int, int, float]:
    """The arm to pull, J and B_J of a posterior; `precision` is β²H."""
    first, second = _two_largest(means, deviations, _WIDE)
    difficulty = 0.0
    for a in range(len(means)):
        rival = second if a == first else first
        upper = means[rival] + _WIDE * deviations[rival]
        gap = upper - (means[a] - _WIDE * deviations[a])  # at least Δ_a, but for three deviations
        difficulty += 4.0 / max(gap * gap, 1e-300)
    beta = math.sqrt(precision / difficulty)
    first, second = _two_largest(means, deviations, beta)
    best, bound = -1, np.inf
    for a in range(len(means)):
        rival = second if a == first else first
        shortfall = means[rival] + beta * deviations[rival] - (means[a] - beta * deviations[a])
        if shortfall < bound:
            best, bound = a, shortfall  # J(t) and B_J(t)
    rival = second if best == first else first  # j(t)
    return best if deviations[best] >= deviations[rival] else rival, best, bound


@compiled
def _two_largest(means: Array, deviations: Array, width: float) -> tuple[int, int]:
    """The arms with the two largest means plus so many deviations."""
    first, second = 0, -1
    for a in range(1, len(means)):
        if means[a] + width * deviations[a] > means[first] + width * deviations[first]:
            first, second = a, first
        elif second < 0 or (
            means[a] + width * deviations[a] > means[second] + width * deviations[second]
        ):
            second = a
    return first, second
