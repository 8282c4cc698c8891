"""Weights that read a contrast off one pull: of the least variance, and for a small baseline.

With a baseline that may be anything they sum to 0 under the policy (Lemma 1). With a small one they
may sum to s ≠ 0, at a charge (Lemma 5). The first axis of every array is the run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bestarm.design.bounded import best_sums
from bestarm.numerics.geometry import Array

# Of the pulls that a sum of weights of 0 takes: what another must save. The level is estimated, and
# of sums that save little, those would be taken whose signal looks best.
_WORTH = 0.8
_SURE = 3.0  # errors by which a signal may be larger than it looks

Flags = NDArray[np.bool_]


class Runs:
    """A frozen dataclass of arrays whose first axis is the run."""

    def select(self, chosen: Any) -> Self:
        """The same of some runs alone: a mask, or their places."""
        return self._map(lambda part: part[chosen])

    def _map(self, change: Any) -> Self:
        parts = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: _changed(part, change) for name, part in parts.items()})

    @classmethod
    def stacked(cls, those: list[Self]) -> Self:
        """The runs of all, one after the other; what is not an array is that of the first."""
        names = [each.name for each in fields(those[0])]  # type: ignore[arg-type]
        return cls(**{name: _joined([getattr(one, name) for one in those]) for name in names})


def _changed(part: Any, change: Any) -> Any:
    if isinstance(part, Runs):
        return part._map(change)
    return change(part) if isinstance(part, np.ndarray) else part


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], Runs):
        return type(parts[0]).stacked(parts)
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]


@dataclass(frozen=True, eq=False)
class Belief(Runs):
    """What the sums of weights are chosen by, where a bound on the baseline is used.

    Attributes:
        slope: θ̂; (runs, rank).
        level: ν̂; (runs,).
        information: that on θ for a known level; (runs, rank, rank).
        pulls: those that it rests on; 0 while nothing is known; (runs,).
        bound: R.
    """

    slope: Array
    level: Array
    information: Array
    pulls: Array
    bound: float

    def gaps(self, contrasts: Array, margin: float, sure: float) -> tuple[Array, Array]:
        """y·θ̂ of each contrast, not nearer to 0 than `sure` times its error; and that error.

        So designs explore what is not known yet. The error is the standard error of y·θ̂ at a known
        level, which is that of the best-known combination of y·θ and ν: its own error, which the
        level keeps large, says nothing of these.
        """
        gaps, errors = self.estimates(contrasts, margin), np.zeros(contrasts.shape[:2])
        if (known := self.pulls > 0).any():
            covariance = np.asarray(np.linalg.inv(self.information[known]), dtype=float)
            errors[known] = standard_errors(contrasts[known], covariance)
        least = sure * errors
        return np.where(gaps >= 0, np.maximum(gaps, least), np.minimum(gaps, -least)), errors

    def estimates(self, contrasts: Array, margin: float) -> Array:
        """y·θ̂ and the margin."""
        return np.asarray(np.matmul(contrasts, self.slope[..., None])[..., 0] + margin)


def standard_errors(contrasts: Array, covariance: Array) -> Array:
    """√(yᵀCy) of each contrast; (runs, contrasts)."""
    squares = np.sum((contrasts @ covariance) * contrasts, axis=2)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


@dataclass(frozen=True, eq=False)
class Reader(Runs):
    """How contrasts are read off a pull: w(a) of a contrast y is y @ `contrasts`.

    Attributes:
        contrasts: (runs, rank, arms).
        level: the weights that read the level of rewards, 0 without a baseline; (runs, arms).
        inverse: M⁻¹ of φ = (1, x), where there is a baseline: the variance of a pull's reading of
            (s, y) is its norm; (runs, 1 + rank, 1 + rank).
    """

    contrasts: Array
    level: Array
    inverse: Array


def read(coordinates: Array, weights: Array, spread: Array, *, intercept: bool = True) -> Reader:
    """Of all weights that read y off a pull, those of the least variance.

    With M = Σ p φφᵀ/s² on φ = (1, x), w(a) = φ_aᵀ M⁻¹ (0, y) / s_a²; without a baseline, φ = x.

    Args:
        coordinates: all source arms, in coordinates of their span; (arms, rank).
        weights: the policy p; (runs, arms).
        spread: the expected (r − c(a))², up to a common factor; (runs, arms).
        intercept: whether there is a baseline. If not, weights need only Σ p w x = y.
    """
    precision = np.where(weights > 0, 1 / spread, 0.0)
    mass = weights * precision
    if not intercept:
        moment = coordinates.T @ (mass[..., None] * coordinates)
        inverse = np.asarray(np.linalg.inv(moment), dtype=float)
        rows = inverse @ (precision[..., None] * coordinates).swapaxes(1, 2)
        return Reader(rows, np.zeros_like(weights), inverse)
    # M is block-diagonal in (1, x − m), m being the mean under p/s², and (1, 0) is (1, −m) there.
    whole = mass.sum(axis=1)
    mean = (mass @ coordinates) / whole[:, None]
    points = coordinates - mean[:, None]
    within = np.linalg.inv(points.swapaxes(1, 2) @ (mass[..., None] * points))
    rows = within @ (precision[..., None] * points).swapaxes(1, 2)
    shared = np.matmul(within, mean[..., None])[..., 0]
    level = precision / whole[:, None] - np.matmul(mean[:, None], rows)[:, 0]
    size = 1 + coordinates.shape[1]
    inverse = np.empty((len(weights), size, size))
    inverse[:, 0, 0] = 1 / whole + (mean * shared).sum(axis=1)
    inverse[:, 0, 1:] = inverse[:, 1:, 0] = -shared
    inverse[:, 1:, 1:] = within
    return Reader(rows, level, inverse)


# --- Lemma 5: a small baseline -------------------------------------------------------------------


def may_tilt(contrasts: Array, margin: float, reader: Reader, belief: Belief) -> Flags:
    """In which runs a sum other than 0 may be best for some contrast; (runs,).

    For a signal y·θ and a variance c of its reading, with covariance b to that of the level, some
    s ≠ 0 has a better ratio only if |b| y·θ > c (R − |ν|). Signals are taken to be a few of their
    errors larger than they look.
    """
    within, across = reader.inverse[:, 1:, 1:], reader.inverse[:, 1:, :1]
    variance = np.sum((contrasts @ within) * contrasts, axis=2)
    shared = np.abs(contrasts @ across)[..., 0]
    error = np.sqrt(variance / np.maximum(belief.pulls, 1.0)[:, None])
    signal = np.abs(belief.estimates(contrasts, margin)) + _SURE * error
    room = np.maximum(belief.bound - np.abs(belief.level), 0.0)[:, None]
    return np.asarray((shared * signal > variance * room).any(axis=1) & (belief.pulls > 0))


def sums_of_weights(
    contrasts: Array,
    margin: float,
    reader: Reader,
    belief: Belief,
    explores: float | None = None,
) -> Array:
    """The sum Σ p w that is best for each contrast, for what is known of θ and of the level.

    Args:
        contrasts: in coordinates; (runs, contrasts, rank).
        margin: what is added to each contrast.
        reader: how contrasts are read off a pull.
        belief: what is known.
        explores: of designs: the errors that gaps are at least taken to be. Bets are cautious
            instead: charges for gaps that are not there lose wealth for good.
    """
    sums = np.zeros(contrasts.shape[:2])
    if not (some := may_tilt(contrasts, margin, reader, belief)).any():
        return sums
    rows, reader, belief = contrasts[some], reader.select(some), belief.select(some)
    gaps, errors = belief.gaps(rows, margin, 1.0 if explores is None else explores)
    found = tilts(rows, gaps, reader, belief)
    if explores is None:
        size = np.abs(gaps)
        safe = np.where(size > 0, size, 1.0)
        less = np.minimum(2 * np.abs(found) * belief.bound / safe, 1.0) * errors
        found = tilts(rows, gaps * np.maximum(size - less, 0.0) / safe, reader, belief)
    sums[some] = found
    return sums


def tilts(contrasts: Array, gaps: Array, reader: Reader, belief: Belief) -> Array:
    """The sums that are best if y·θ is as in `gaps`; 0 where that is 0."""
    sign, size = np.where(gaps < 0, -1.0, 1.0), np.abs(gaps)
    known = size > 0
    rows, size = sign[..., None] * contrasts, np.where(known, size, 1.0)
    found, _ = best_sums(reader.inverse, rows, size, belief.bound, level=belief.level, worth=_WORTH)
    return np.asarray(np.where(known, sign * found, 0.0))
