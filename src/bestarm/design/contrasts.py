"""Sets of contrasts, listed or implied, over which a design is judged.

The solver only ever asks a set for the contrasts whose value exceeds a level, so all H² pairwise
differences of H targets are never formed: the worst is a diameter, found by matrix products.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import TIE, Array, farthest, ranked

Codes = NDArray[np.int64]

_FEW = 256  # points up to which all distances are computed one by one


class ContrastSet(Protocol):
    """A finite set of vectors y, each with a whole number as its code."""

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """The largest ‖y‖² := |factorᵀ y|² in the set, and the contrasts that exceed `level`.

        Up to `most` codes of contrasts clearly above `level` are returned, the worst first and
        ties by code. The largest value is exact if it exceeds `level`; otherwise it is `level`.
        """
        ...

    def rows(self, codes: Codes) -> Array:
        """The contrasts with these codes, one per row."""
        ...


class ListedContrasts:
    """The rows of a table."""

    def __init__(self, vectors: Array) -> None:
        self._vectors = vectors

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """See `ContrastSet.violators`."""
        whitened = self._vectors @ factor
        values = np.einsum("ij,ij->i", whitened, whitened)
        above = np.flatnonzero(values > level * (1 + TIE))
        order = above[ranked(values[above])[:most]]
        return max(level, float(values.max())), order.astype(np.int64)

    def rows(self, codes: Codes) -> Array:
        """See `ContrastSet.rows`."""
        return np.asarray(self._vectors[codes])


class PairwiseContrasts:
    """All differences of two rows of a table of H points; the pair (i, j) has code i·H + j."""

    def __init__(self, points: Array) -> None:
        self._points = points - points.mean(axis=0)

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """See `ContrastSet.violators`."""
        whitened = self._points @ factor
        if len(whitened) <= _FEW:
            from bestarm.design.pairs import worst_pairs  # noqa: PLC0415 - compiles

            return worst_pairs(whitened, level, most)
        norms = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        # ‖u − v‖ ≤ ‖u‖ + ‖v‖: a point this short cannot be an end of a pair above the level.
        near = np.flatnonzero(norms + norms.max() >= np.sqrt(level) * (1 - 1e-12))
        index, distance = farthest(whitened[near])
        above = np.flatnonzero(distance > level * (1 + TIE))
        order = above[ranked(distance[above])]
        first, second = near[order], near[index[order]]
        codes = np.minimum(first, second) * len(norms) + np.maximum(first, second)
        _, kept = np.unique(codes, return_index=True)  # both ends may name the same pair
        codes = codes[np.sort(kept)[:most]].astype(np.int64)
        return max(level, float(distance.max(initial=0.0))), codes

    def rows(self, codes: Codes) -> Array:
        """See `ContrastSet.rows`."""
        first, second = np.divmod(codes, len(self._points))
        return np.asarray(self._points[first] - self._points[second])
