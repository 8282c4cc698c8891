"""Rewards less forecasts: what policies and problems they are told to."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bestarm import forecasting
from bestarm.errors import InvalidInputError
from bestarm.forecasting.forecaster import Forecaster
from bestarm.problem import Problem


def find_forecaster(forecaster: object) -> Forecaster | None:
    """The default forecaster for `"default"`; a forecaster of one's own, or None, as it is."""
    if forecaster is None or isinstance(forecaster, Forecaster):
        return forecaster
    if forecaster == "default":
        return forecasting.Mixture()  # loaded here: it is compiled
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


def less_forecasts(method: Callable[..., Any], problem: Problem) -> AdaptedMethod:
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
