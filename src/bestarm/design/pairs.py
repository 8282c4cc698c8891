"""The pairs of few points that lie farthest apart, compiled.

With a hundred points, preparing NumPy's products takes ten times as long as the distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import TIE, Array

_TIE = float(TIE)


@tiered
def worst_pairs(points: Array, level: float, most: int) -> tuple[float, NDArray[np.int64]]:
    """See `contrasts.PairwiseContrasts.violators`, of points that are whitened already.

    Each point names the one farthest from it: of several equally far ones the first after itself,
    else the first of all, so that identical points name each other in turn.
    """
    count = len(points)
    squares = _squared_distances(points)
    partner, distance = np.empty(count, dtype=np.int64), np.empty(count)
    largest = 0.0
    for i in range(count):
        distance[i] = 0.0
        for j in range(count):
            distance[i] = max(distance[i], squares[i, j])
        largest = max(largest, distance[i])
    for i in range(count):
        enough, first, partner[i] = distance[i] - _TIE * largest, -1, -1
        for j in range(count):
            if squares[i, j] >= enough:
                first = j if first < 0 else first
                if j > i:
                    partner[i] = j
                    break
        partner[i] = first if partner[i] < 0 else partner[i]
        distance[i] = squares[i, partner[i]]
    codes, chosen = np.empty(most, dtype=np.int64), 0
    while chosen < most:
        worst = 0.0
        for i in range(count):
            worst = max(worst, distance[i])
        if not worst > level * (1 + _TIE):
            break
        i = 0
        while distance[i] < worst - _TIE * largest or not distance[i] > level * (1 + _TIE):
            i += 1
        j = partner[i]
        codes[chosen] = min(i, j) * count + max(i, j)
        chosen += 1
        distance[i] = 0.0
        if partner[j] == i:
            distance[j] = 0.0  # both ends name this pair
    return max(level, largest), codes[:chosen].copy()


@tiered
def _squared_distances(points: Array) -> Array:
    """Of all pairs of rows, from their differences: products would lose digits."""
    count, rank = points.shape
    columns = points.T.copy()
    squares = np.zeros((count, count))
    for i in range(count):
        row = squares[i]
        for k in range(rank):
            here, column = columns[k, i], columns[k]
            for j in range(count):
                step = here - column[j]
                row[j] += step * step
    return squares
