"""Totals of numbers that belong to cells: to the arms of a plan, or of many runs side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array

__all__ = ["Grouped", "group"]


class Grouped(NamedTuple):
    """Counts, Σx, Σx², Σx³, the least and the largest x per cell; +∞ and −∞ where it has none."""

    counts: NDArray[np.int64]
    sums: Array
    squares: Array
    cubes: Array
    least: Array
    largest: Array


def group(cells: NDArray[np.int64], x: Array, room: int) -> Grouped:
    """The totals of numbers x, each in one of so many cells."""
    # Sorting 16 bits takes a quarter of the time of sorting 64.
    order = np.argsort(cells.astype(np.uint16) if room < 2**16 else cells, kind="stable")
    counts = np.bincount(cells, minlength=room)
    some = np.flatnonzero(counts)
    heads = (np.cumsum(counts) - counts)[some]
    sums, squares, cubes = np.zeros((3, room))
    least, largest = np.full(room, np.inf), np.full(room, -np.inf)
    if len(some):
        x = x[order]
        power = x.copy()
        for total in (sums, squares, cubes):
            total[some] = np.add.reduceat(power, heads)
            power *= x
        least[some], largest[some] = np.minimum.reduceat(x, heads), np.maximum.reduceat(x, heads)
    return Grouped(counts, sums, squares, cubes, least, largest)
