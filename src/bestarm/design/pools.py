"""What a design divides its mass among: single arms, or blocks of them (see `blocks`)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bestarm.design.contrasts import Codes
from bestarm.numerics.geometry import Array, first_largest, ranked

ALL = 256  # up to this many arms, or blocks, the interior-point method takes all of them


class Scores(NamedTuple):
    """The score of each code, and a bound on the score of every arm or block there is."""

    each: Array
    bound: float

    def cut_short(self, enough: float) -> bool:
        """Whether no code scores above `enough`, and yet this could not be shown for all."""
        return float(self.each.max()) <= enough < self.bound


class Pool(Protocol):
    """Arms, or blocks of arms; each has a whole number as its code, and rows of features φ."""

    @property
    def count(self) -> int:
        """How many codes there are so far."""
        ...

    def first(self) -> tuple[Codes, Codes]:
        """The codes to begin with, and those that keep M regular and are never dropped."""
        ...

    def rows(self, codes: Codes) -> Array:
        """The rows φ of these codes, the same number for each."""
        ...

    def scores(self, factor: Array, rows: Array, share: Array, enough: float) -> Scores:
        """The score Σ_φ Σ_y share_y ((φ·factor)·row_y)² of each code, and a bound for all.

        Blocks that score high may get a code. The bound holds for blocks without a code too; it may
        be +∞ if some score is above `enough`.
        """
        ...


class Arms:
    """Single arms: one row of features each."""

    def __init__(self, features: Array) -> None:
        self._features = features

    @property
    def count(self) -> int:
        """See `Pool.count`."""
        return len(self._features)

    def first(self) -> tuple[Codes, Codes]:
        """See `Pool.first`."""
        count, rank = self._features.shape
        if count <= ALL:
            return np.arange(count), np.arange(count)
        # Pivoting picks arms that span well; long features are likely support of the optimum.
        base = pivots(self._features)
        lengths = np.einsum("ij,ij->i", self._features, self._features)
        return np.union1d(base, ranked(lengths)[: 4 * rank]), base

    def rows(self, codes: Codes) -> Array:
        """See `Pool.rows`."""
        return np.asarray(self._features[codes])

    def scores(
        self,
        factor: Array,
        rows: Array,
        share: Array,
        enough: float,  # noqa: ARG002 - all arms have codes
    ) -> Scores:
        """See `Pool.scores`."""
        each = np.square((self._features @ factor) @ rows.T) @ share
        return Scores(each, float(each.max()))


def pivots(features: Array) -> Codes:
    """Arms that span the features: each the farthest from the span of those before it.

    The pivots of LAPACK's QR, except that ties are broken by index and not by rounding.
    """
    left = features.copy()
    chosen: list[int] = []
    for _ in range(features.shape[1]):
        squares = np.einsum("ij,ij->i", left, left)
        squares[chosen] = 0.0
        chosen.append(first_largest(squares))
        direction = left[chosen[-1]] / np.sqrt(squares[chosen[-1]])
        left -= np.outer(left @ direction, direction)
    return np.array(chosen)
