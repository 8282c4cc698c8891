"""Independent draws with given probabilities."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array

__all__ = ["Categorical", "round_probabilities"]

_DIGITS = 12
_LANE = 16  # bits that a draw takes; four draws share a random word


def round_probabilities(probabilities: Array) -> Array:
    """Probabilities without their last digits, in which processors differ.

    A draw may depend on them: to draw from a binomial law NumPy draws the rarer of success and
    failure, and so something else where one half becomes a little more than that.
    """
    mantissas, exponents = np.frexp(probabilities)
    return np.asarray(np.ldexp(np.round(mantissas, _DIGITS), exponents))


class Categorical:
    """Draws of outcomes 0, 1, … with these probabilities; one of probability 0 is never drawn.

    A draw is 16 random bits, the cell of a table that holds the outcome. Where a border between
    outcomes runs through the cell, 53 more bits decide.

    Attributes:
        outcomes: the outcomes of positive probability.
        probabilities: theirs. Only these are drawn: an outcome of probability 0 must not receive
            what rounding leaves.
    """

    def __init__(self, weights: Array) -> None:
        self.outcomes: NDArray[np.int64] = np.flatnonzero(weights)
        rounded = round_probabilities(weights[self.outcomes])
        self.probabilities: Array = rounded / math.fsum(rounded)

    @cached_property
    def _bounds(self) -> Array:
        """P(outcome ≤ k), for all but the last."""
        return np.asarray(np.minimum(np.cumsum(self.probabilities)[:-1], 1.0))

    @cached_property
    def _table(self) -> NDArray[np.uint16] | NDArray[np.uint32]:
        """The outcome of each cell, or the largest number where more bits must decide."""
        cells = 1 << _LANE
        borders = np.minimum((self._bounds * cells).astype(np.int64), cells - 1)
        widths = np.diff(borders, prepend=0, append=cells)
        small = self.outcomes[-1] < np.iinfo(np.uint16).max
        table = np.repeat(self.outcomes.astype(np.uint16 if small else np.uint32), widths)
        table[borders] = np.iinfo(table.dtype).max
        return table

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """So many draws."""
        table = self._table
        words: NDArray[np.uint64] = rng.bit_generator.random_raw(-(-size // 4))
        cells = words.view(np.uint16)[:size]
        drawn = np.take(table, cells, mode="wrap").astype(np.int64)  # "wrap": no test of indices
        undecided = np.flatnonzero(drawn == np.iinfo(table.dtype).max)
        places = (cells[undecided] + rng.random(len(undecided))) / (1 << _LANE)
        drawn[undecided] = self.outcomes[np.searchsorted(self._bounds, places, side="right")]
        return drawn
