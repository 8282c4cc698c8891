"""The protocol of forecasters, and what a policy needs for rewards less forecasts."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bestarm import forecasting
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem

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
            features: the features of the arm that was drawn: always as many, and more once an
                option was added that shares none with the others, which then have 0 there.
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


def find_forecaster(forecaster: object) -> Forecaster | None:
    """The default forecaster for `"default"`; a forecaster of one's own, or None, as it is."""
    if forecaster is None or isinstance(forecaster, Forecaster):
        return forecaster
    if forecaster == "default":
        return forecasting.Regression()  # loaded here: it imports this module
    raise InvalidInputError(
        f"`forecaster` must be 'default', a Forecaster or None; got {forecaster!r}.",
        field="forecaster",
        value=forecaster,
        remedy="Derive a class from bestarm.forecasting.Forecaster.",
    )


class AdaptedMethod(NamedTuple):
    """A method and a problem for rewards less forecasts.

    Attributes:
        method: makes a policy that is told rewards less forecasts.
        problem: the problem to make it from.
        interval: where forecasts must lie, unless a plan says it.
    """

    method: Callable[..., Any]
    problem: Problem
    interval: tuple[float, float]


def subtract_forecasts(method: Callable[..., Any], problem: Problem) -> AdaptedMethod:
    """The same method, for rewards from which forecasts are subtracted.

    A method with an option `forecasts` limits them plan by plan. For any other, with forecasts
    within ±R the baseline less its forecast lies within ±2R; and with rewards and forecasts in
    [a, b], their differences lie in [a − b, b − a].
    """
    bound = method.keywords if isinstance(method, partial) else {}
    interval = bound.get("bounds") or (-problem.baseline, problem.baseline)
    if "forecasts" in inspect.signature(method).parameters:
        return AdaptedMethod(partial(method, forecasts=True), problem, interval)
    if bound.get("bounds") is not None:
        low, high = interval
        method = partial(method, bounds=(low - high, high - low))
    return AdaptedMethod(method, problem.with_baseline(2 * problem.baseline), interval)
