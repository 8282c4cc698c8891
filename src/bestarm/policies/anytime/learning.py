"""Learn from a batch, compiled: regression, levels and spread in one call.

Imported when the first batch is in: compiling takes a few seconds, once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.guesses import AT
from bestarm.policies.anytime.kernels import total

Indices = NDArray[np.int64]
Parts = tuple[Any, ...]  # of a `Memory`, or of what its docstring says; see `compiling`

_RIDGE = 1.0  # pulls of the first batch's design, with reward zero
_MEMORY = 0.96  # what a batch before counts towards the spread to come
_SHRINKAGE = 15.0  # times the noise of an arm's spread: pulls that all arms' spread counts for
_LEAST_SPREAD = 1e-6  # of an arm, relative to that of all arms together
_FORGETTING = 0.91  # what a batch before counts in judging how to foresee levels
_INERTIA = 0.98  # what a batch before counts towards how fast levels move
_CLEAR = 3.0  # standard errors from which on a level counts as having moved

_PULLS, _REWARD, _MISSES, _MOVED, _WEIGHED, _BATCHES, _WHENS, _MEANS, _SPREAD = AT


@tiered
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@tiered
def _add(matrix: Array, factor: float, other: Array) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] += factor * other[i, j]


@tiered
def levels(memory: Parts, known: Parts, when: float) -> tuple[float, float, float]:
    """Rewards less x·θ̂ around some pull, foreseen by: the mean so far, the last, the trend."""
    numbers, slope, _, _, _, total_arm, mean_arms, _, _, _, _ = memory
    low, high, center, _, intercept = known
    if not intercept:
        return -center, -center, -center
    if numbers[_BATCHES] == 0:
        middle = (low + high) / 2
        return middle, middle, middle
    last = numbers[_MEANS + 1] - _dot(mean_arms[1], slope)
    if numbers[_BATCHES] == 1:
        return last, last, last  # to the bit: rounding must not choose among them
    before = numbers[_MEANS] - _dot(mean_arms[0], slope)
    average = (numbers[_REWARD] - _dot(total_arm, slope)) / numbers[_PULLS]
    trend = (last - before) / (numbers[_WHENS + 1] - numbers[_WHENS])
    return average, last, last + trend * (when - numbers[_WHENS + 1])


@tiered
def expect(memory: Parts, arms: Array, known: Parts, when: float, expected: Array) -> None:
    """c(a) of every arm around some pull, within the range of rewards; output."""
    numbers, slope, _, _, _, _, _, _, _, _, _ = memory
    low, high, _, _, _ = known
    foreseen = levels(memory, known, when)
    best = 0
    for i in range(1, 3):
        if numbers[_MISSES + i] < numbers[_MISSES + best]:
            best = i
    level = foreseen[best]
    for a in range(len(arms)):
        expected[a] = min(max(level + _dot(arms[a], slope), low), high)


@tiered
def _solve(gram: Array, moment: Array, slope: Array) -> None:
    """gram⁻¹ moment by Cholesky: LAPACK's takes many times as long to compile as this to run."""
    rank = len(moment)
    lower = np.zeros((rank, rank))
    for i in range(rank):
        for j in range(i + 1):
            rest = gram[i, j] - _dot(lower[i, :j], lower[j, :j])
            lower[i, j] = np.sqrt(rest) if i == j else rest / lower[j, j]
    for i in range(rank):
        slope[i] = (moment[i] - _dot(lower[i, :i], slope[:i])) / lower[i, i]
    for i in range(rank - 1, -1, -1):
        for j in range(i + 1, rank):
            slope[i] -= lower[j, i] * slope[j]
        slope[i] /= lower[i, i]


@tiered
def _add_squares(gram: Array, counts: Array, rows: Array) -> None:
    """Add Σ n x xᵀ over the rows x."""
    rank = len(gram)
    for a in range(len(counts)):
        for i in range(rank):
            weighed = counts[a] * rows[a, i]
            for j in range(rank):
                gram[i, j] += weighed * rows[a, j]


@tiered
def _regress(
    memory: Parts, centered: Array, covariance: Array, counts: Array, first: Array
) -> None:
    """Orthogonalized regression on all batches, each less the level foreseen for it."""
    _, slope, information, gram, moment, _, _, _, _, _, _ = memory
    _add(information, total(counts), covariance)
    for a in range(len(counts)):
        level = first[a] + counts[a] * _dot(centered[a], slope)
        for i in range(len(slope)):
            moment[i] += centered[a, i] * level
    _add_squares(gram, counts, centered)
    _solve(gram, moment, slope)


@tiered
def _move(memory: Parts, reward: float, arm: Array, pulls: float, when: float) -> None:
    """Note the mean of a batch, and how fast levels have moved since the one before it."""
    numbers, slope, _, _, _, _, mean_arms, _, _, _, _ = memory
    if numbers[_BATCHES] > 0:
        gap = when - numbers[_WHENS + 1]
        moved = reward - numbers[_MEANS + 1] - (_dot(arm, slope) - _dot(mean_arms[1], slope))
        error = numbers[_SPREAD] * (1 / pulls + 1 / max(2 * gap - pulls, 1.0))
        rate = moved / gap if moved * moved > _CLEAR * _CLEAR * error else 0.0
        numbers[_MOVED] = _INERTIA * numbers[_MOVED] + pulls * rate * rate
        numbers[_WEIGHED] = _INERTIA * numbers[_WEIGHED] + pulls
    numbers[_WHENS], numbers[_WHENS + 1] = numbers[_WHENS + 1], when
    numbers[_MEANS], numbers[_MEANS + 1] = numbers[_MEANS + 1], reward
    for i in range(len(arm)):
        mean_arms[0, i], mean_arms[1, i] = mean_arms[1, i], arm[i]
    numbers[_BATCHES] = min(numbers[_BATCHES] + 1, 2)


@tiered
def _shrink(memory: Parts, least: float) -> None:
    """The expected (r − c)² of every arm, from batches of which the last count most.

    An arm's own mean square s² is off by s² √((κ − 1)/n) after n pulls, so where its kurtosis κ is
    large, as that of rare clicks, it must not be believed soon: arms that happened to have few
    clicks would seem to be quiet, and would not be pulled. κ − 1 is at least the square of the
    skewness; it is that for rewards of two values, and two more for Gaussian ones.
    """
    numbers, _, _, _, _, _, _, second, weighed, spread, third = memory
    # Rewards that did not vary at all say no more than that they vary less than once in n.
    pooled = max(total(second) / total(weighed), least / numbers[_PULLS])
    for a in range(len(second)):
        pulls = max(weighed[a], 1.0)
        own = max(second[a] / pulls, _LEAST_SPREAD * pooled)
        skewness = third[a] / pulls / (own * math.sqrt(own))
        # κ − 1, or 2 if it is Gaussian and varies as the others do. The last term grows for an arm
        # that varied far less than they did: it may have had none of its large rewards yet.
        noise = 1.5 + skewness * skewness + 0.5 * max(pooled / own, 1.0)
        shared = _SHRINKAGE * noise
        spread[a] = (second[a] + shared * pooled) / (weighed[a] + shared)
    numbers[_SPREAD] = total(spread) / len(spread)


@tiered
def _learn_spread(memory: Parts, least: float, arms: Indices, outcome: Parts) -> None:
    """Take in the squares of a batch."""
    _, _, _, _, _, _, _, second, weighed, _, third = memory
    counts, _, squares, cubes = outcome
    for a in range(len(second)):
        second[a] *= _MEMORY
        weighed[a] *= _MEMORY
        third[a] *= _MEMORY
    for i in range(len(arms)):
        second[arms[i]] += max(squares[i], 0.0)
        weighed[arms[i]] += counts[i]
        third[arms[i]] += 0.0 if np.isnan(cubes[i]) else cubes[i]
    _shrink(memory, least)


@tiered
def correct(memory: Parts, known: Parts, drawn: Parts, outcome: Parts) -> None:
    """Put outcomes in the place of what was predicted for them when their batch was learned from.

    Args:
        memory: the parts of a `Memory`; changed.
        known: as for `learn`.
        drawn: the arms that could be drawn, and their centered coordinates.
        outcome: Σ(r − c), Σ(r − c)² less what was predicted of it, and Σ(r − c)³, or NaN.
    """
    numbers, slope, _, gram, moment, _, _, second, _, _, third = memory
    arms, centered = drawn
    first, squares, cubes = outcome
    for a in range(len(arms)):
        for i in range(len(slope)):
            moment[i] += centered[a, i] * first[a]
        second[arms[a]] = max(second[arms[a]] + squares[a], 0.0)
        third[arms[a]] += 0.0 if np.isnan(cubes[a]) else cubes[a]
    _solve(gram, moment, slope)
    numbers[_REWARD] += total(first)
    _shrink(memory, known[3])


@tiered
def learn(memory: Parts, coordinates: Array, known: Parts, drawn: Parts, outcome: Parts) -> None:
    """Take in a batch's outcome.

    Args:
        memory: the parts of a `Memory`; changed.
        coordinates: all source arms.
        known: the low and the high end of rewards, their center, the least variance to believe in,
            and whether there is a baseline.
        drawn: the arms that could be drawn, their centered coordinates, Σ_cov and c(a).
        outcome: their counts, Σ(r − c), Σ(r − c)² and Σ(r − c)³, which is NaN if it is not known.
    """
    numbers, slope, _, gram, _, total_arm, _, _, _, _, _ = memory
    _, _, center, least, intercept = known
    arms, centered, covariance, guess = drawn
    counts, first, squares, cubes = outcome
    pulls = total(counts)
    if pulls == 0:
        return
    reward = (total(first) + _dot(guess, counts)) / pulls
    arm = np.zeros(len(slope))
    for i in range(len(arms)):
        for j in range(len(slope)):
            arm[j] += counts[i] / pulls * coordinates[arms[i], j]
    when = numbers[_PULLS] + pulls / 2
    if numbers[_PULLS] > 0:
        level = reward - _dot(arm, slope)
        foreseen = levels(memory, known, when)
        for i in range(3):
            miss = foreseen[i] - level
            numbers[_MISSES + i] = _FORGETTING * numbers[_MISSES + i] + pulls * miss * miss
        _regress(memory, centered, covariance, counts, first)
    else:
        # Nothing was foreseen of the first batch; its own level does as well.
        level = reward if intercept else -center
        _add(gram, _RIDGE, covariance)
        shifted = np.empty(len(first))
        for i in range(len(arms)):
            shifted[i] = first[i] + (guess[i] - level) * counts[i]
        _regress(memory, centered, covariance, counts, shifted)
        origin = _dot(arm, slope) if intercept else 0.0
        squares, cubes = squares.copy(), cubes.copy()
        for i in range(len(arms)):
            beyond = guess[i] - level - (_dot(coordinates[arms[i]], slope) - origin)
            cubes[i] += beyond * (3 * squares[i] + beyond * (3 * first[i] + beyond * counts[i]))
            squares[i] += beyond * (2 * first[i] + beyond * counts[i])
    numbers[_PULLS] += pulls
    _learn_spread(memory, least, arms, (counts, first, squares, cubes))
    numbers[_REWARD] += pulls * reward
    for i in range(len(arm)):
        total_arm[i] += pulls * arm[i]
    if intercept:
        _move(memory, reward, arm, pulls, when)
