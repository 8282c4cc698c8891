"""Blocks of points that lie far apart: the largest Σ_{i in B} ‖v_i − v̄_B‖² over blocks B of size k.

It is 1/k times the sum of squared distances over the pairs of the block. For k = 2 the farthest
pair is found by matrix products. For larger k this is the problem of maximum dispersion, which is
hard in general: good blocks come from growing and swapping, the proof from `search`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import TIE, Array, farthest, ranked

Blocks = NDArray[np.int64]  #: one block per row, its arms in ascending order

_MOST_SWAPS = 50
_ROWS = 512  # blocks whose distances to all points are computed at once
_CENTERINGS = 200
_MOST_BRANCHES = 2_000_000  # of the search, each looking at all points
_MOST_FOUND = 128


class Proof(NamedTuple):
    """A bound on the dispersion of every block, and blocks above what was enough."""

    bound: float
    blocks: Blocks


def dispersion(points: Array, blocks: Blocks) -> Array:
    """Σ_{i in B} ‖v_i − v̄_B‖² for each block B (row)."""
    members = points[blocks]
    members = members - members.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("bij,bij->b", members, members))


def far_apart(points: Array, size: int) -> Blocks:
    """Up to one block per point, of `size` ≥ 2 different points: none is improved by one swap.

    For size 2 each is a point with the one farthest from it, so the farthest pair is among them.
    """
    points = points - points.mean(axis=0)
    index, _ = farthest(points)
    blocks = _distinct(np.column_stack([np.arange(len(points)), index]))
    for _ in range(size - 2):
        blocks = _distinct(np.column_stack([blocks, _farthest_outside(points, blocks)]))
    if size > 2:
        blocks = _swap(points, blocks)
    return blocks


def _distinct(blocks: Blocks) -> Blocks:
    return np.unique(np.sort(blocks, axis=1), axis=0)


def _farthest_outside(points: Array, blocks: Blocks) -> NDArray[np.int64]:
    """For each block the point outside that is farthest from its mean.

    Of several it is the first after the block's first point, else the first of all, so that points
    that are all alike form different blocks.
    """
    norms = np.einsum("ij,ij->i", points, points)
    tie, columns = TIE * float(norms.max()), np.arange(len(points))
    means = points[blocks].mean(axis=1)
    found = np.empty(len(blocks), dtype=np.int64)
    for start in range(0, len(blocks), _ROWS):
        rows = slice(start, start + _ROWS)
        keys = norms - 2 * (means[rows] @ points.T)  # ‖v − mean‖² − ‖mean‖²
        np.put_along_axis(keys, blocks[rows], -np.inf, axis=1)
        tied = keys >= keys.max(axis=1, keepdims=True) - tie
        later = tied & (columns > blocks[rows, :1])
        found[rows] = np.where(later.any(axis=1), later.argmax(axis=1), tied.argmax(axis=1))
    return found


def _swap(points: Array, blocks: Blocks) -> Blocks:
    """Exchange one point of each block for one outside, the best such exchange, while it gains."""
    size = blocks.shape[1]
    done = np.empty((0, size), dtype=np.int64)
    for _ in range(_MOST_SWAPS):
        values = dispersion(points, blocks)
        options = []
        for place in range(size):
            rest = np.delete(blocks, place, axis=1)
            options.append(np.column_stack([rest, _farthest_outside(points, rest)]))
        gains = np.column_stack([dispersion(points, option) for option in options])
        best = (gains >= gains.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
        better = gains.max(axis=1) > values * (1 + TIE)
        done = np.vstack([done, blocks[~better]])
        if not better.any():
            break
        blocks = _distinct(np.stack(options)[best, np.arange(len(blocks))][better])
    else:
        done = np.vstack([done, blocks])
    return _distinct(done)


def prove(points: Array, size: int, enough: float) -> Proof:
    """Show that no block of `size` ≥ 3 points has a dispersion above `enough`, or find some.

    The bound is above `enough` if there are such blocks, and if the search had to be cut short.
    """
    from bestarm.design.search import search  # noqa: PLC0415 - loads a compiler

    shifted = points - _center(points, size)
    norms = np.einsum("ij,ij->i", shifted, shifted)
    order = ranked(norms)
    shifted, norms = shifted[order], norms[order]
    found = np.empty((_MOST_FOUND, size), dtype=np.int64)
    bound = float(norms[:size].sum())  # Σ‖v − v̄‖² ≤ Σ‖v − c‖² for every c
    if bound <= enough:
        return Proof(bound, found[:0])
    distances = np.maximum(norms[:, None] + norms - 2 * (shifted @ shifted.T), 0.0)
    tops = np.vstack([np.zeros(len(norms)), np.cumsum(-np.sort(-distances)[:, :size], axis=1).T])
    total, filled = search(distances, norms, tops, size * enough, found, _MOST_BRANCHES)
    return Proof(total / size * (1 + 1e-12), np.sort(order[found[:filled]], axis=1))


def _center(points: Array, size: int) -> Array:
    """A point c that makes the sum of the `size` largest ‖v − c‖² small.

    The mean of the fractional block, 0 ≤ π ≤ 1 and Σπ = size, of largest dispersion, by the method
    of Frank and Wolfe.
    """
    center = best = points.mean(axis=0)
    least = np.inf
    for step in range(_CENTERINGS):
        squares = np.square(points - center).sum(axis=1)
        far = ranked(squares)[:size]
        if squares[far].sum() < least * (1 - TIE):
            least, best = float(squares[far].sum()), center
        center = center + (points[far].mean(axis=0) - center) / (step + 2)
    return np.asarray(best)
