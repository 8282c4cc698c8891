"""Weights that read a contrast off one pull: of the least variance, and for a small baseline.

With a baseline that may be anything they sum to 0 under the policy (Lemma 1). With a small one they
may sum to s ≠ 0, at a charge (Lemma 5).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.design.bounded import best_sum
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import add_gram, cholesky, cholesky_solve, dot, forward_solve

Indices = NDArray[np.int64]
Parts = tuple[Any, ...]  # of a value; kernels take plain tuples: see `compiling`

# Of the pulls that a sum of weights of 0 takes: what another must save. The level is estimated, and
# of sums that save little, those would be taken whose signal looks best.
_WORTH = 0.8


@tiered
def total(values: Array) -> float:
    """The sum; NumPy's takes long to compile."""
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


@tiered
def least_variance_readout(
    coordinates: Array, probabilities: Array, spread: Array, intercept: bool
) -> Parts:
    """The arms that can be drawn, and the parts of a `Sampling`: see there.

    Of all weights that read y off a pull, these have the least variance: with M = Σ p φφᵀ/s² on
    φ = (1, x), w(a) = φ_aᵀ M⁻¹ (0, y) / s_a²; without a baseline, φ = x.

    Returns:
        The arms, their probabilities, centered coordinates, Σ_cov,p, the read-out, and whether they
        inform about all contrasts. With a baseline the read-out has one row more: the weights that
        read its level off a pull, those of (1, 0).
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
    # M is block-diagonal in (1, x − m), m being the mean under p/s², and (1, 0) is (1, −m) there.
    readout = np.empty((rank + 1 if intercept else rank, count))
    for i in range(count):
        readout[len(readout) - 1, i] = 1 / (whole * spread[arms[i]])
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
        column = readout[:rank, i].copy()
        cholesky_solve(upper, column)
        for j in range(rank):  # assigning the whole column takes seconds to compile
            readout[j, i] = column[j]
            level_row = (mean[j] + level[j] / whole) * column[j]
            readout[len(readout) - 1, i] -= level_row if intercept else 0.0
    return arms, weights, centered, covariance, readout, regular


class Sampling:
    """How arms are drawn, and how contrasts are read off a pull; kept from batch to batch.

    Attributes:
        probabilities: the policy p over all source arms.

    Args:
        coordinates: all source arms, in coordinates of their span.
        probabilities: p.
        spread: the expected (r − c(a))² for all of them, up to a common factor.
        intercept: whether there is a baseline. If not, weights need only Σ p w x = y, and nothing
            is centered.
    """

    def __init__(
        self, coordinates: Array, probabilities: Array, spread: Array, *, intercept: bool = True
    ) -> None:
        self.probabilities = probabilities
        self._made_from = np.ascontiguousarray(coordinates), probabilities, spread.copy(), intercept

    @classmethod
    def of(cls, parts: Parts) -> Sampling:
        """From the first parts of a compiled run's stage."""
        made = cls.__new__(cls)
        made.probabilities, made.parts = parts[0], parts[:6]
        return made

    @cached_property
    def parts(self) -> Parts:
        """All attributes in order; computed when the first batch is in: plans do not need them."""
        coordinates, probabilities, spread, intercept = self._made_from
        # A copy: for arrays that cannot be changed it would be compiled once more.
        *parts, regular = least_variance_readout(
            coordinates, probabilities.copy(), spread, intercept
        )
        if not regular:
            raise np.linalg.LinAlgError
        return self.probabilities, *parts

    @property
    def arms(self) -> Indices:
        """The source arms that can be drawn."""
        return np.asarray(self.parts[1])

    @property
    def weights(self) -> Array:
        """Their probabilities."""
        return np.asarray(self.parts[2])

    @property
    def centered(self) -> Array:
        """Their coordinates, less the mean under the policy."""
        return np.asarray(self.parts[3])

    @property
    def covariance(self) -> Array:
        """Σ_cov,p in these coordinates."""
        return np.asarray(self.parts[4])

    @property
    def readout(self) -> Array:
        """w(a) of a contrast y (a row) is y @ readout, or (y, s) @ readout with Σ p w = s."""
        return np.asarray(self.parts[5])


@tiered
def apply_readout(contrasts: Array, readout: Array) -> Array:
    """w(a), one row per contrast."""
    w = np.zeros((len(contrasts), readout.shape[1]))
    for y in range(len(contrasts)):
        for j in range(contrasts.shape[1]):
            step = contrasts[y, j]
            for a in range(readout.shape[1]):
                w[y, a] += step * readout[j, a]
    return w


# --- Lemma 5: a small baseline -------------------------------------------------------------------


@tiered
def tilts(w: Array, row: Array, varied: Array, gaps: Array, level: float, bound: float) -> Array:
    """The sum Σ p w of each contrast that is best for what is known of θ and of the level.

    Args:
        w: w(a) with Σ p w = 0, one row per contrast.
        row: the weights that read the level off a pull.
        varied: p times the expected (r − c)².
        gaps: y·θ̂.
        level: ν̂.
        bound: R.
    """
    found = np.zeros(len(w))
    for y in range(len(w)):
        m = b = c = 0.0
        for a in range(w.shape[1]):
            m += varied[a] * row[a] * row[a]
            b += varied[a] * row[a] * w[y, a]
            c += varied[a] * w[y, a] * w[y, a]
        if gaps[y] > 0:
            found[y] = best_sum((m, b, c), gaps[y], level, bound, _WORTH)[0]
        elif gaps[y] < 0:
            found[y] = -best_sum((m, -b, c), -gaps[y], level, bound, _WORTH)[0]
    return found


@tiered
def believed_gaps(
    contrasts: Array, margin: float, belief: Parts, sure: float
) -> tuple[Array, Array]:
    """y·θ̂ of each contrast, not nearer to 0 than `sure` times its error; and that error.

    So designs explore what is not known yet. The error is the standard error of y·θ̂ at a known
    level, which is that of the best-known combination of y·θ and ν: its own error, which the level
    keeps large, says nothing of these.
    """
    slope, _, _, upper = belief
    gaps, errors = np.zeros(len(contrasts)), np.zeros(len(contrasts))
    if upper.shape[0] == 0:
        return gaps, errors
    whitened = forward_solve(upper, contrasts)
    for y in range(len(contrasts)):
        error = 0.0
        for j in range(len(slope)):
            error += whitened[j, y] * whitened[j, y]
        error = math.sqrt(error)
        gap = dot(contrasts[y], slope) + margin
        gaps[y] = max(gap, sure * error) if gap >= 0 else min(gap, -sure * error)
        errors[y] = error
    return gaps, errors


@tiered
def level_weights(readout: Array, bound: float) -> tuple[Array, Array]:
    """w(a) that read ν and −ν off a pull, and the charges R against |ν| ≤ R (Lemma 5)."""
    w, charges = np.empty((2, readout.shape[1])), np.empty(2)
    charges[0] = charges[1] = bound
    for a in range(readout.shape[1]):
        w[0, a] = readout[len(readout) - 1, a]
        w[1, a] = -w[0, a]
    return w, charges


@tiered
def tilted_weights(
    contrasts: Array, margin: float, readout: Array, varied: Array, belief: Parts
) -> tuple[Array, Array]:
    """w(a), one row per contrast, and the charge |Σ p w| R of each (Lemma 5).

    Args:
        contrasts: rows in coordinates.
        margin: what is added to each.
        readout: of `least_variance_readout`.
        varied: p times the expected (r − c)².
        belief: θ̂, ν̂, R and U with UᵀU the information on θ at a known level; an infinite R stands
            for any baseline, and for none.
    """
    slope, level, bound, _ = belief
    w, charges = apply_readout(contrasts, readout), np.zeros(len(contrasts))
    if bound == math.inf:
        return w, charges
    (gaps, errors), row = believed_gaps(contrasts, margin, belief, 1.0), readout[len(slope)]
    sums = tilts(w, row, varied, gaps, level, bound)
    for y in range(len(contrasts)):
        # Charges for gaps that are not there lose wealth for good: the larger, the more caution.
        size = abs(gaps[y])
        if size > 0:
            less = min(2 * abs(sums[y]) * bound / size, 1.0) * errors[y]
            gaps[y] *= max(size - less, 0.0) / size
    sums = tilts(w, row, varied, gaps, level, bound)
    for y in range(len(contrasts)):
        charges[y] = abs(sums[y]) * bound
        for a in range(w.shape[1]):
            w[y, a] += sums[y] * row[a]
    return w, charges
