"""Evidence on the mean of a finite list, from numbers of it in random order."""

from __future__ import annotations

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import MAX_LOSS, SLACK, StakeGrid
from bestarm.policies.anytime.intervals import invert_wealth

_GRID = StakeGrid.around(0.1)


class MeanEvidence:
    """Bets that the means μ of lists of N numbers within ±C exceed a value, one list per row.

    Numbers are drawn without replacement, every order being equally likely. Before the n numbers of
    a step, after t numbers whose sum is S, let g be a guess and λ a stake with λ(C + g) < 1, fixed
    by the past. The numbers left have the mean m = (Nμ − S)/(N − t), and

        Π (1 + λ(d − g)) · exp(−λ n (m − g))

    is a supermartingale factor: the mean product of n numbers drawn without replacement is at most
    the n-th power of the mean factor (Maclaurin's inequality), which is 1 + λ(m − g). If μ ≤ v, v
    in the place of μ makes it no larger. Its log is linear in v, so one process serves all v, and
    Ville's inequality gives P(ever e-value ≥ 1/δ) ≤ δ for v ≥ μ. Stakes are mixed as in the
    anytime rule.

    Attributes:
        seen: how many numbers of each list were drawn.
        sums: their sums.

    Args:
        rows: the number of lists.
        items: N.
        reach: C.

    Reference: Waudby-Smith and Ramdas (2020), "Confidence sequences for sampling without
    replacement"; Maclaurin's inequality as in Hoeffding (1963), section 6.
    """

    def __init__(self, rows: int, *, items: int, reach: float) -> None:
        self._items, self._reach = items, reach
        self.seen, self.sums, self._squares = np.zeros((3, rows))
        self._wealth, self._exposure = np.zeros((2, rows, len(_GRID)))

    def add(self, values: Array, counts: Array) -> None:
        """Take one step: how often each value was drawn of each list; both are (rows, values)."""
        drawn, left = counts.sum(axis=1), np.maximum(self._items - self.seen, 1.0)
        guess = self.sums / (self.seen + 1.0)  # g: within ±C, and towards 0 at first
        spread = self._squares - self.sums**2 / np.maximum(self.seen, 1.0) + self._reach**2 / 4
        deviation = np.sqrt(np.maximum(spread, 0.0) / (self.seen + 1.0))[:, None]
        most = (MAX_LOSS / (self._reach + guess))[:, None]
        stakes = np.minimum(_GRID.signals / np.maximum(deviation, 1e-300), most)
        z = (values - guess[:, None])[:, None, :]
        growth = (counts[:, None, :] * np.log1p(stakes[:, :, None] * z)).sum(axis=2)
        offset = drawn * (guess + self.sums / left)
        self._wealth += growth + stakes * offset[:, None]
        self._exposure += stakes * (drawn * self._items / left)[:, None]
        self.seen += drawn
        self.sums += (counts * values).sum(axis=1)
        self._squares += (counts * values**2).sum(axis=1)

    def shows(self, value: float, *, share: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each mean is shown to exceed the value, wrongly with probability at most `share`.

        A value that the numbers left cannot bring the mean down to is exceeded for certain.
        """
        log_value = _GRID.log_value(self._wealth - value * self._exposure)
        return np.asarray((log_value >= SLACK - np.log(share)) | (self._least > value + self._tie))

    def lower(self, *, share: float) -> Array:
        """The largest value that each mean is shown to exceed."""
        ends = self._least.copy()
        bet = self._exposure.any(axis=1)
        if bet.any():
            parts = self._wealth[bet], self._exposure[bet], np.zeros_like(self._exposure[bet])
            found = invert_wealth(*parts, SLACK - np.log(share), _GRID)
            ends[bet] = np.maximum(ends[bet], found)
        return np.minimum(ends, self._least + 2 * self._reach * (1 - self.seen / self._items))

    @property
    def _least(self) -> Array:
        """The least that each mean can be: all numbers left are −C."""
        return (self.sums - self._reach * (self._items - self.seen)) / self._items

    @property
    def _tie(self) -> float:
        """Within which two means are taken to be equal: what rounding of sums may do."""
        return 1e-12 * self._reach * (1 + float(np.sqrt(self._items)))


def bound_mean(numbers: Array, *, items: int, reach: float, share: float) -> tuple[float, float]:
    """Bounds on the mean of a list of numbers within ±reach, each wrong with probability `share`.

    The numbers are the first of the list, which has so many `items` in random order.
    """
    evidence = MeanEvidence(2, items=items, reach=reach)
    for number in numbers:
        evidence.add(np.array([[number], [-number]]), np.ones((2, 1)))
    low, high = evidence.lower(share=share) * (1, -1)
    return max(float(low), -reach), min(float(high), reach)
