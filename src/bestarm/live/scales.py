"""Do rewards fit the scales that were declared? From totals alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Summary

__all__ = ["Scales"]

_CHANCES = {"alarm": 1e-6, "warning": 1e-3}  # what true scales show with less probability
_ROUNDING = 1e-9


class Scales:
    """Rewards beside a noise α, a baseline within ±R and means within ±M.

    An arm's mean over n pulls lies within M + R + α √(2 log(2/p)/n), and two of its means are at
    most 2R apart but for noise, each with probability 1 − p: whatever θ and the baseline are.

    Args:
        problem: declares α and R.
        largest: M.
        cells: how many means will be looked at.
    """

    def __init__(self, problem: Problem, largest: float, *, cells: int) -> None:
        self._noise, self._baseline, self._largest = problem.noise, problem.baseline, largest
        self._cells = cells
        self._high = {level: np.full(problem.arms, -np.inf) for level in _CHANCES}
        self._low = {level: np.full(problem.arms, np.inf) for level in _CHANCES}
        self._spare = 0.0  # squared deviations from the mean of arm and phase
        self._degrees = 0

    @property
    def declared(self) -> str:
        """What is declared, in words."""
        means = f"means within ±{self._largest:g}, " if math.isfinite(self._largest) else ""
        return f"{means}a baseline within ±{self._baseline:g} and noise of scale {self._noise:g}"

    def add(self, summary: Summary) -> None:
        """Add the totals of a phase."""
        use = summary.counts > 0
        counts = summary.counts[use]
        means = summary.sums[use] / counts
        squares = summary.squares[use] - counts * means * means
        self._spare += float(np.maximum(squares, 0.0).sum())
        self._degrees += int((counts - 1).sum())
        for level, chance in _CHANCES.items():
            margin = self._noise * np.sqrt(2 * math.log(2 * self._cells / chance) / counts)
            _keep(self._high[level], use, means - margin, np.maximum)
            _keep(self._low[level], use, means + margin, np.minimum)

    def level_of_reward(self, size: float, count: int) -> str:
        """How odd it is that the largest of `count` rewards has this size."""
        for level, chance in _CHANCES.items():
            margin = self._noise * math.sqrt(2 * math.log(2 * count / chance))
            if size > (self._largest + self._baseline + margin) * (1 + _ROUNDING):
                return level
        return "ok"

    def verdict(self, labels: Sequence[str]) -> tuple[str, str]:
        """A level and a sentence."""
        if not self._degrees and not np.isfinite(self._high["alarm"]).any():
            return "ok", "No phase is answered yet."
        for level in _CHANCES:
            high, low = self._high[level], self._low[level]
            apart = np.where(np.isfinite(high), high - low, -np.inf)
            arm = int(np.argmax(apart))
            if apart[arm] > 2 * self._baseline * (1 + _ROUNDING):
                return level, (
                    f"What arm {labels[arm]!r} pays moves by {apart[arm]:.3g} at least between "
                    f"phases, where the declared baseline of ±{self._baseline:g} allows for "
                    f"{2 * self._baseline:g}."
                )
            off = np.maximum(high, -low)
            arm = int(np.argmax(off))
            if off[arm] > (self._largest + self._baseline) * (1 + _ROUNDING):
                return level, (
                    f"Arm {labels[arm]!r} pays more than {off[arm]:.3g} in size on average over a "
                    f"phase, which does not fit {self.declared}."
                )
        return self._verdict_on_spread()

    def _verdict_on_spread(self) -> tuple[str, str]:
        # The baseline moves within a phase too, by a variance of at most R².
        most = self._noise**2 + self._baseline**2
        if self._degrees >= 100 and self._spare > 2 * most * self._degrees:
            spread = math.sqrt(self._spare / self._degrees)
            level = "alarm" if spread > 2 * math.sqrt(most) else "warning"
            return level, (
                f"Rewards of one arm in one phase vary with a standard deviation of {spread:.3g}, "
                f"where noise and baseline together allow for {math.sqrt(most):.3g}."
            )
        return "ok", f"Means and spread of rewards fit {self.declared}."


def _keep(kept: Array, use: NDArray[np.bool_], values: Array, larger: np.ufunc) -> None:
    kept[use] = larger(kept[use], values)
