"""The protocol of forecasters: a number for the baseline of a draw, fixed before its arm is drawn.

A reward is x·θ + ν + noise. Whatever is taken off it before the arm is drawn changes only the
baseline ν, so that every policy stays valid, and a forecast close to ν makes the rest less noisy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bestarm.numerics.geometry import Array

__all__ = ["Forecaster"]


class Forecaster(ABC):
    """Forecasts of the baseline: a class with two methods. See `check_forecaster`.

    It must be possible to copy it with `copy.deepcopy`: every simulated run has its own.
    """

    @abstractmethod
    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        """The baseline expected in a draw, before its arm is drawn.

        Args:
            number: identifies the draw; `learn` is called with the same number. Numbers increase.
            moment: seconds since 1970 UTC, or None in simulations.
            covariates: what is known of this draw as numbers, always as many; None if nothing is.
        """

    @abstractmethod
    def learn(self, number: int, features: Array, reward: float) -> None:
        """Take the outcome of a draw, which may come late, out of order, or never.

        Args:
            number: the number of the draw.
            features: the features of the arm that was drawn.
            reward: the reward as observed; nothing is taken off.
        """

    def follow(
        self,
        first: int,
        moments: Array | None,
        covariates: Array | None,
        features: Array,
        rewards: Array,
    ) -> Array:
        """The forecasts of many draws, each of whose outcomes comes before the next draw.

        The default calls `forecast` and `learn` in turn. A faster one must have the same results.

        Args:
            first: the number of the first draw; those after it are numbered consecutively.
            moments: one per draw, or None.
            covariates: one row per draw, or None.
            features: one row per draw.
            rewards: one per draw.
        """
        forecasts = np.empty(len(rewards))
        for i, reward in enumerate(rewards.tolist()):
            moment = None if moments is None else float(moments[i])
            known = None if covariates is None else covariates[i]
            forecasts[i] = self.forecast(first + i, moment, known)
            self.learn(first + i, features[i], reward)
        return forecasts
