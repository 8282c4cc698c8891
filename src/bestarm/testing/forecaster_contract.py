"""The rules that every forecaster keeps, as a test for any of them.

    from bestarm.testing import check_forecaster

    def test_my_forecaster_keeps_the_contract():
        check_forecaster(MyForecaster)

Simulation and live experiments rely on these rules and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from bestarm.forecasting.forecaster import Forecaster
from bestarm.numerics.geometry import Array

_DRAWS, _LATE = 240, 7
_EXACT = 1e-9  # of the largest reward: by how much results that are the same may differ


@dataclass(frozen=True)
class _History:
    """Draws in order; `moments` and `covariates` may be None."""

    moments: Array | None
    covariates: Array | None
    features: Array
    rewards: Array

    def forecast(self, forecaster: Forecaster, number: int) -> float:
        moment = None if self.moments is None else float(self.moments[number])
        known = None if self.covariates is None else self.covariates[number].copy()
        value = forecaster.forecast(number, moment, known)
        if known is not None:
            known[:] = 1e9  # the caller may use the array for something else
        real = isinstance(value, (float, np.floating)) and math.isfinite(value)
        _require(real, f"the forecast of draw {number} is {value!r}, which is not a finite number")
        return float(value)

    def learn(self, forecaster: Forecaster, number: int) -> None:
        features = self.features[number].copy()
        forecaster.learn(number, features, float(self.rewards[number]))
        features[:] = 1e9

    def run(self, forecaster: Forecaster, start: int = 0, stop: int = _DRAWS) -> Array:
        """The forecasts of draws whose outcomes come at once."""
        forecasts = []
        for number in range(start, stop):
            forecasts.append(self.forecast(forecaster, number))
            self.learn(forecaster, number)
        return np.array(forecasts)

    def follow(self, forecaster: Forecaster, start: int = 0, stop: int = _DRAWS) -> Array:
        """The same by `follow`."""
        some = slice(start, stop)
        moments = None if self.moments is None else self.moments[some]
        known = None if self.covariates is None else self.covariates[some]
        return forecaster.follow(start, moments, known, self.features[some], self.rewards[some])

    def same(self, some: Array, other: Array) -> bool:
        exact = _EXACT * float(np.abs(self.rewards).max())
        return some.shape == other.shape and bool(np.all(np.abs(some - other) <= exact))


def check_forecaster(make: Callable[[], Forecaster], *, covariates: int = 3, seed: int = 0) -> None:
    """Use a forecaster in every way; raise AssertionError at the first rule that it breaks.

    Args:
        make: makes a new forecaster, for example its class.
        covariates: the number of covariates that it is given; it must also work without any.
        seed: seeds the simulated draws.
    """
    rng = np.random.default_rng(seed)
    hours = np.cumsum(rng.exponential(1.0, _DRAWS))
    known = rng.standard_normal((_DRAWS, covariates))
    features = np.eye(3)[rng.integers(3, size=_DRAWS)]
    rewards = np.sin(hours * (2 * math.pi / 24)) + known.sum(axis=1) + features[:, 0]
    rewards += 5.0 + rng.standard_normal(_DRAWS)
    full = _History(1.7e9 + 3600 * hours, known, features, rewards)
    for history in (full, replace(full, moments=None, covariates=None)):
        for array in (history.moments, history.covariates, features, rewards):
            if array is not None:
                array.flags.writeable = False
        for rule in _RULES:
            rule(make, history)


def _the_same_past_has_the_same_forecasts(make: Callable[[], Forecaster], it: _History) -> None:
    same = np.array_equal(it.run(make()), it.run(make()))
    _require(same, "two that were told the same forecast differently")


def _copies_are_independent(make: Callable[[], Forecaster], it: _History) -> None:
    half, forecaster = _DRAWS // 2, make()
    whole = it.run(make())
    it.run(forecaster, 0, half)
    copy = deepcopy(forecaster)
    replace(it, rewards=it.rewards + 100.0).run(copy, half)
    same = np.array_equal(it.run(forecaster, half), whole[half:])
    _require(same, "its forecasts depend on what a copy of it was told")


def _outcomes_may_be_late_or_missing(make: Callable[[], Forecaster], it: _History) -> None:
    forecaster = make()
    for number in range(_DRAWS):
        it.forecast(forecaster, number)
        # Pairs come in the wrong order, and every fifth outcome never.
        late = (number - _LATE) ^ 1
        if late >= 0 and late % 5:
            it.learn(forecaster, late)


def _follow_agrees_with_single_calls(make: Callable[[], Forecaster], it: _History) -> None:
    forecaster, half = make(), _DRAWS // 2
    pieces = np.concatenate([it.follow(forecaster, 0, half), it.follow(forecaster, half)])
    _require(it.same(pieces, it.run(make())), "`follow` forecasts differently than single calls")


def _follow_does_not_look_ahead(make: Callable[[], Forecaster], it: _History) -> None:
    half = _DRAWS // 2
    changed = it.rewards.copy()
    changed[half:] += 100.0
    some, other = it.follow(make()), replace(it, rewards=changed).follow(make())
    same = np.array_equal(some[: half + 1], other[: half + 1])
    _require(same, "`follow` uses outcomes that come after the draw")


_RULES = (
    _the_same_past_has_the_same_forecasts,
    _copies_are_independent,
    _outcomes_may_be_late_or_missing,
    _follow_agrees_with_single_calls,
    _follow_does_not_look_ahead,
)


def _require(condition: bool, otherwise: str) -> None:
    # Not a bare assert: the contract must hold under `python -O` too.
    if not condition:
        raise AssertionError(f"The forecaster breaks its contract: {otherwise}.")
