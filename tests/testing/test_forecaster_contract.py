"""The contract passes a correct forecaster, and fails a copy broken in any one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.testing import check_forecaster


class Recent(Forecaster):
    """A correct forecaster: the average of rewards, and the covariates of the last outcome."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0
        self.drawn: dict[int, Array | None] = {}
        self.last: Array | None = None

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        self.drawn[number] = None if covariates is None else covariates.copy()
        same = covariates is not None and self.last is not None
        nearness = float(covariates @ self.last) if same else 0.0  # type: ignore[operator]
        return self.total / max(1, self.count) + 0.1 * nearness

    def learn(self, number: int, features: Array, reward: float) -> None:
        self.last = self.drawn.pop(number)
        self.count += 1
        self.total += reward


class NotANumber(Recent):
    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        usual = super().forecast(number, moment, covariates)
        return math.nan if number == 200 else usual


class Whole(Recent):
    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        return round(super().forecast(number, moment, covariates))


class Random(Recent):
    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        return super().forecast(number, moment, covariates) + float(np.random.random())  # noqa: NPY002


class KeepsTheArray(Recent):
    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        usual = super().forecast(number, moment, covariates)
        self.drawn[number] = covariates
        return usual


class Shared(Recent):
    def __deepcopy__(self, memo: object) -> Shared:
        return self


class InOrder(Recent):
    def learn(self, number: int, features: Array, reward: float) -> None:
        if number != min(self.drawn):
            raise LookupError(number)
        super().learn(number, features, reward)


class Approximate(Recent):
    def follow(self, *args: Any, **kwargs: Any) -> Array:
        return 0.999 * super().follow(*args, **kwargs)


class Peeks(Recent):
    """It uses the reward of the draw itself; single calls cannot."""

    def follow(self, *args: Any, **kwargs: Any) -> Array:
        *_, rewards = args
        return super().follow(*args, **kwargs) + 1e-12 * float(rewards.sum())


def test_a_correct_forecaster_passes() -> None:
    check_forecaster(Recent)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (NotANumber, "draw 200 is nan, which is not a finite number"),
        (Whole, "draw 0 is 0, which is not a finite number"),
        (Random, "two that were told the same forecast differently"),
        (KeepsTheArray, "`follow` forecasts differently than single calls"),
        (Shared, "depend on what a copy of it was told"),
        (Approximate, "`follow` forecasts differently than single calls"),
        (Peeks, "`follow` uses outcomes that come after the draw"),
    ],
)
def test_a_broken_one_is_caught(make: Callable[[], Forecaster], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_forecaster(make)


def test_one_that_needs_outcomes_in_order_is_caught() -> None:
    with pytest.raises(LookupError):
        check_forecaster(InOrder)
