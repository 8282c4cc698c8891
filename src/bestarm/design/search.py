"""Branch and bound for blocks that lie far apart, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array


@compiled
def search(
    distances: Array, norms: Array, tops: Array, enough: float, found: NDArray[np.int64], most: int
) -> tuple[float, int]:
    """A bound on the sum of distances over the pairs of a block, and blocks above `enough`.

    Points are added in order of index. With S chosen, m points J to come, and T_j the distances
    from j to S, the pairs of S and J sum to Σ_J T_j, and those of J to at most

        m Σ_J ‖v_j‖²   and to at most   ½ Σ_J (the m − 1 largest distances from j),

    so the m largest of T_j plus either bound what the block can still gain. A branch is left if it
    cannot exceed `enough`, and after `most` branches in any case.

    Args:
        distances: squared distances of all pairs.
        norms: ‖v_j‖² with any origin; the points are sorted by them, the largest first.
        tops: in row m, the sum of the m largest distances from each point.
        enough: what the sums should not exceed.
        found: one row of at least 3 columns per block to find; filled from the top.
        most: how many branches to follow.

    Returns:
        The bound, +∞ if all rows are filled; and how many rows are.
    """
    count, (room, size) = len(distances), found.shape
    reach = np.zeros((size, count))  # T_j after 0, 1, … points
    within = np.zeros(size)
    chosen = np.full(size, -1)
    high = np.empty((2, size))
    bound, filled, depth, branches = 0.0, 0, 0, 0
    while depth >= 0:
        chosen[depth] += 1
        new = chosen[depth]
        left = size - depth - 1
        if new > count - 1 - left:
            depth -= 1
            continue
        total = within[depth] + reach[depth, new]
        high[:, :left] = -1.0
        last = -1
        for j in range(new + 1, count):  # only these are read: the points to come
            here = reach[depth, j] + distances[new, j]
            reach[depth + 1, j] = here
            if here + left * norms[j] > high[0, left - 1]:
                _insert(high[0], left, here + left * norms[j])
            if here + tops[left - 1, j] / 2 > high[1, left - 1]:
                last = j
                _insert(high[1], left, here + tops[left - 1, j] / 2)
        if left == 1:
            bound = max(bound, total + high[1, 0])  # it is exact: no pair is left to bound
            if total + high[1, 0] > enough:
                if filled == room:
                    return np.inf, filled
                for k in range(size - 1):  # slices of arrays take seconds longer to compile
                    found[filled, k] = chosen[k]
                found[filled, -1] = last
                filled += 1
            continue
        by_norms, by_distances = 0.0, 0.0
        for k in range(left):
            by_norms += high[0, k]
            by_distances += high[1, k]
        limit = total + min(by_norms, by_distances)
        if limit <= enough or branches >= most:
            bound = max(bound, limit)
            continue
        branches += 1
        depth += 1
        within[depth] = total
        chosen[depth] = new
    return bound, filled


@compiled
def _insert(high: Array, length: int, value: float) -> None:
    """Put a value into a falling list, whose last it exceeds."""
    place = length - 1
    while place > 0 and high[place - 1] < value:
        high[place] = high[place - 1]
        place -= 1
    high[place] = value
