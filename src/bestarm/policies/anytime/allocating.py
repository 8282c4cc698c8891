"""Where to pull next and what is fixed with it, compiled: designs, read-outs and frames.

Imported with the first plan: compiling takes a few seconds, once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.design.kernels import interior_point
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import add_gram, cholesky, cholesky_solve, forward_solve
from bestarm.policies.anytime.allocation import TOL
from bestarm.policies.anytime.kernels import total

Indices = NDArray[np.int64]
Parts = tuple[Any, ...]  # see `compiling`


@tiered
def pose(
    features: Array, spread: Array, rows: Array, needs: Array, known: Parts
) -> tuple[Array, Array]:
    """The design problem: features and contrasts whose largest variance factor is to be minimised.

    Args:
        features: φ of all source arms: x, or (1, x) if there is a baseline.
        spread: the expected (r − c(a))² of each.
        rows: the open contrasts in coordinates.
        needs: how much evidence each wants.
        known: Σ n Σ_cov over the batches, θ̂, what is added to each contrast's estimate, and below
            how many standard errors it is not believed.
    """
    information, slope, margin, sure = known
    (count, rank), lifted = rows.shape, features.shape[1] - rows.shape[1]
    typical = total(spread) / len(spread)
    upper = information.copy()
    cholesky(upper)
    whitened = forward_solve(upper, rows)
    posed = np.zeros((count, rank + lifted))
    size = 0.0
    for y in range(count):
        error = gap = 0.0
        for j in range(rank):
            error += whitened[j, y] * whitened[j, y]
            gap += rows[y, j] * slope[j]
        gap = max(gap + margin, sure * math.sqrt(typical * error))
        for j in range(rank):
            posed[y, lifted + j] = rows[y, j] * (math.sqrt(needs[y]) / gap)
            size = max(size, abs(posed[y, lifted + j]))
    for y in range(count):
        for j in range(rank):
            posed[y, lifted + j] /= size
    scaled = np.empty(features.shape)
    for a in range(len(features)):
        factor = math.sqrt(typical / spread[a])
        for j in range(features.shape[1]):
            scaled[a, j] = features[a, j] * factor
    return scaled, posed


@tiered
def minimised(features: Array, rows: Array) -> tuple[bool, Array]:
    """The design for a posed problem, all of whose arms and contrasts are few, and if it is one."""
    q, _, _, gap = interior_point(features, rows, (np.ones(len(features)), np.ones(len(rows))), TOL)
    scale = total(q)
    for a in range(len(q)):
        q[a] /= scale
    return gap <= TOL, q


@tiered
def mixed(weights: Array, plain: Array, share: float, least: float) -> Array:
    """A design with a share of the G-design, without arms of less than the least probability."""
    found = np.empty(len(weights))
    for a in range(len(weights)):
        found[a] = (1 - share) * weights[a] + share * plain[a]
        if found[a] < least:
            found[a] = 0.0
    whole = total(found)
    for a in range(len(weights)):
        found[a] /= whole
    return found


@tiered
def read_out(coordinates: Array, probabilities: Array, spread: Array, intercept: bool) -> Parts:
    """The arms that can be drawn, and the parts of a `Sampling`: see there.

    Of all weights that read y off a pull, these have the least variance: with M = Σ p φφᵀ/s² on
    φ = (1, x), w(a) = φ_aᵀ M⁻¹ (0, y) / s_a²; without a baseline, φ = x.

    Returns:
        The arms, their probabilities, centered coordinates, Σ_cov,p, the read-out, and whether they
        inform about all contrasts.
    """
    rank, count = coordinates.shape[1], 0
    for a in range(len(probabilities)):
        count += probabilities[a] > 0
    arms, weights = np.empty(count, dtype=np.int64), np.empty(count)
    centered, mean = np.empty((count, rank)), np.zeros(rank)
    count = 0
    for a in range(len(probabilities)):
        if probabilities[a] > 0:
            arms[count], weights[count] = a, probabilities[a]
            for j in range(rank):
                centered[count, j] = coordinates[a, j]
                mean[j] += probabilities[a] * coordinates[a, j]
            count += 1
    mass, level = np.empty(count), np.zeros(rank)
    for i in range(count):
        mass[i] = weights[i] / spread[arms[i]]
        for j in range(rank):
            centered[i, j] -= mean[j] if intercept else 0.0
            level[j] += mass[i] * centered[i, j]
    whole = total(mass)
    spanning, weighed = np.empty((count, rank)), np.empty((count, rank))
    readout = np.empty((rank, count))
    for i in range(count):
        for j in range(rank):
            shifted = centered[i, j] - (level[j] / whole if intercept else 0.0)
            readout[j, i] = shifted / spread[arms[i]]
            spanning[i, j] = math.sqrt(weights[i]) * centered[i, j]
            weighed[i, j] = math.sqrt(mass[i]) * shifted
    covariance, upper = np.zeros((rank, rank)), np.zeros((rank, rank))
    add_gram(spanning, covariance)
    add_gram(weighed, upper)
    for i in range(rank):
        for j in range(i):
            covariance[i, j] = covariance[j, i]
    regular = cholesky(upper)
    for i in range(count):
        column = readout[:, i].copy()
        cholesky_solve(upper, column)
        for j in range(rank):  # assigning the whole column takes seconds to compile
            readout[j, i] = column[j]
    return arms, weights, centered, covariance, readout, regular


@tiered
def weigh(contrasts: Array, readout: Array) -> Array:
    """w(a), one row per contrast."""
    w = np.zeros((len(contrasts), readout.shape[1]))
    for y in range(len(contrasts)):
        for j in range(len(readout)):
            step = contrasts[y, j]
            for a in range(readout.shape[1]):
                w[y, a] += step * readout[j, a]
    return w


@tiered
def fix(drawn: Parts, guesses: Array, spread: Array, range_: Parts, size: float) -> Parts:
    """Quantities per arm that are fixed before a batch is drawn: see `Frame`.

    Args:
        drawn: the arms that can be drawn, and their probabilities.
        guesses: c(a) for all source arms.
        spread: the expected (r − c(a))² for all of them.
        range_: where means lie, and how far beyond noise may reach.
        size: the number of pulls in the batch, as foreseen.

    Returns:
        c(a), p times the spread, how far below and above c(a) a reward may lie, and will likely.
    """
    arms, weights = drawn
    low, high, reach = range_
    count = len(arms)
    guess, varied, likely = np.empty(count), np.empty(count), np.empty(count)
    below, above = np.empty(count), np.empty(count)
    for i in range(count):
        a = arms[i]
        guess[i] = guesses[a]
        varied[i] = weights[i] * spread[a]
        expected = size * weights[i]
        likely[i] = math.sqrt(spread[a] * (min(2 * math.log1p(expected), expected) + 1))
        below[i] = guess[i] - (low - reach)
        above[i] = (high + reach) - guess[i]
    return guess, varied, below, above, likely
