"""Independent draws with given probabilities."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array

__all__ = ["Categorical", "round_probabilities"]

_DIGITS = 12


def round_probabilities(probabilities: Array) -> Array:
    """Probabilities without their last digits, in which processors differ.

    A draw may depend on them: to draw from a binomial law NumPy draws the rarer of success and
    failure, and so something else where one half becomes a little more than that.
    """
    mantissas, exponents = np.frexp(probabilities)
    return np.asarray(np.ldexp(np.round(mantissas, _DIGITS), exponents))


class Categorical:
    """Draws of outcomes 0, 1, … with these probabilities; one of probability 0 is never drawn.

    A draw is some random bits, the number of a cell. As many whole cells as fit into its
    probability belong to each outcome; the few that are left are shared out by another draw.

    Attributes:
        outcomes: the outcomes of positive probability.
        probabilities: theirs. Only these are drawn: an outcome of probability 0 must not receive
            what rounding leaves.
    """

    def __init__(self, weights: Array) -> None:
        self.outcomes: NDArray[np.int64] = np.flatnonzero(weights)
        rounded = round_probabilities(weights[self.outcomes])
        self.probabilities: Array = rounded / math.fsum(rounded)
        # Totals per cell stay in the nearest cache, unless cells to share out were too many.
        self._cells = 2**12 if len(rounded) < 2**6 else 2**16

    @cached_property
    def _whole(self) -> NDArray[np.int64]:
        """The number of whole cells of each outcome."""
        return np.asarray((self.probabilities * self._cells).astype(np.int64))

    @cached_property
    def _shares(self) -> Array:
        """P(outcome ≤ k) within the cells that are left, for all but the last."""
        left = self.probabilities * self._cells - self._whole
        return np.asarray(np.cumsum(left)[:-1] / max(left.sum(), np.finfo(float).tiny))

    @cached_property
    def outcome_of(self) -> NDArray[np.int64]:
        """The outcome of each cell; after the whole ones, one cell for what is shared out."""
        return np.concatenate([np.repeat(self.outcomes, self._whole), self.outcomes])

    def draw_cells(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """So many draws, as cells: `outcome_of` has their outcomes."""
        words: NDArray[np.uint64] = rng.bit_generator.random_raw(-(-size // 4))
        cells = (words.view(np.uint16)[:size] & np.uint16(self._cells - 1)).astype(np.int64)
        whole = len(self.outcome_of) - len(self.outcomes)
        left = np.flatnonzero(cells >= whole)
        cells[left] = whole + np.searchsorted(self._shares, rng.random(len(left)), side="right")
        return cells

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """So many draws."""
        return self.outcome_of[self.draw_cells(rng, size)]
