"""Runs in which each pull's forecast is subtracted from its reward."""

from __future__ import annotations

import numpy as np

from bestarm.environments.environment import ForeseeableStream, Pulls, Stream
from bestarm.errors import InvalidInputError
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Summary


class ForecastStream:
    """A run whose rewards are told less their forecasts. What comes ahead is not known then.

    Forecasts are of a forecaster of its own, from the features of source arms (one row per arm),
    and lie in an interval, unless a plan says which.
    """

    def __init__(
        self, stream: Stream, forecaster: Forecaster, features: Array, interval: tuple[float, float]
    ) -> None:
        if not isinstance(stream, ForeseeableStream):
            raise InvalidInputError(
                "This environment does not tell its single pulls, which forecasts need.",
                field="forecaster",
                remedy="Give its streams a method `pull_less(plan, foresee)`, or leave it out.",
            )
        self._stream, self._forecaster = stream, forecaster
        self._features, self._interval = features, interval
        self._pulls = 0

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, less the forecaster's forecasts."""
        return self._stream.pull_less(plan, self._foresee)

    def _foresee(self, pulls: Pulls, plan: Plan) -> Array:
        low, high = plan.forecasts or self._interval
        features, about = self._features[pulls.arms], (pulls.moments, pulls.covariates)
        forecasts = self._forecaster.follow(self._pulls, *about, features, pulls.rewards)
        self._pulls += len(forecasts)
        return np.minimum(np.maximum(forecasts, low), high)
