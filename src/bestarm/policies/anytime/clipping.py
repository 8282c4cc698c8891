"""The interval that forecasts are clipped to: near the level of rewards, wider as a run gets on.

The width adds to C, the farthest that z can fall, and so lowers the largest stake. That matters in
short runs in many dimensions, where stakes are large; long runs hardly notice it.
"""

from __future__ import annotations

import math

from bestarm.policies.anytime.bets import Scale

_WIDEST = 6.0  # deviations of a reward that a forecast may lie off the level
_FIRST, _WIDENING = 16.0, 1 / 150  # over the dimension: deviations at first, and per pull
_SURE = 3.0  # standard errors


class ForecastInterval:
    """Follows the level of rewards, and says where forecasts of the next batch may lie.

    The middle stays where it is as long as the level is near: an interval that moved with every
    batch would move the rewards less their forecasts as well.

    Args:
        scale: where rewards lie.
        dimensions: the dimension of the arms' span.
    """

    def __init__(self, scale: Scale, dimensions: int) -> None:
        self._scale, self._dimensions = scale, dimensions
        self._middle, self._reach = scale.middle + scale.center, 0.0

    def learn(self, mean: float, pulls: int, *, drawn: int, variance: float) -> None:
        """Take in a batch.

        Args:
            mean: the mean of its rewards.
            pulls: how many these are.
            drawn: all pulls so far.
            variance: that of a reward less its forecast, as far as is known.
        """
        deviation = math.sqrt(variance)
        reach = min((_FIRST + _WIDENING * drawn) / self._dimensions, _WIDEST)
        self._reach = deviation * reach
        if abs(mean - self._middle) > self._reach / 2 + _SURE * deviation / math.sqrt(pulls):
            self._middle = mean

    @property
    def ends(self) -> tuple[float, float]:
        """Its ends; both are the middle of the range before the first batch."""
        return self._scale.near(self._middle, self._reach)
