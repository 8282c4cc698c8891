"""The default forecaster: a blend of averages, an autoregression, seasons and covariates."""

from __future__ import annotations

import math

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.forecasting import kernels
from bestarm.forecasting.forecaster import Forecaster
from bestarm.forecasting.rhythms import find_rhythms
from bestarm.numerics.geometry import Array

__all__ = ["Mixture"]

_OUTSTANDING = 100_000  # draws without an outcome that are remembered
_SEARCH = 128  # outcomes after which rhythms are searched first
_PEOPLE, _EFFECTS = 4, 5  # places in the state


class Mixture(Forecaster):
    """The default forecaster; it has no settings.

    It learns the level of rewards by averages of several speeds and a mean that restarts at jumps,
    an autoregression, rhythms that it finds in the series, the harmonics of day and week where
    moments are given, and the covariates. Each part counts as much as it has foreseen so far. The
    effects of arms are taken off by a regression on their features; above 64 features, and above 64
    covariates, regressions ignore how they go together.
    """

    def __init__(self) -> None:
        series = np.zeros(kernels.SERIES)
        series[kernels.DUE], series[kernels.ACTIVE] = _SEARCH, kernels.LAGGED
        series[kernels.SHARE] = kernels.FIRST_SHARE
        self._state = [
            series,
            np.full((2, kernels.RECORD), -math.inf),
            np.zeros((kernels.RHYTHMS, 3)),
            kernels.regression(kernels.TIMED, kernels.TIME_PRIOR),
            kernels.regression(0, kernels.PEOPLE_PRIOR),
            kernels.regression(0, kernels.EFFECT_PRIOR),
        ]
        self._rows: dict[int, Array] = {}

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        """The baseline expected in a draw. See `Forecaster`."""
        known = self._covariates(covariates)
        row = self._rows[number] = np.empty(kernels.ROW + len(known))
        if len(self._rows) > _OUTSTANDING:
            del self._rows[next(iter(self._rows))]
        time = math.nan if moment is None else moment
        return kernels.foresee(tuple(self._state), float(number), time, known, row)

    def learn(self, number: int, features: Array, reward: float) -> None:
        """Take the outcome of a draw. See `Forecaster`."""
        row = self._rows.pop(number, None)
        if row is not None:
            self._fit(_EFFECTS, len(features), "features")
            kernels.learn(tuple(self._state), row, _writeable(features), reward)
            self._search()

    def follow(
        self,
        first: int,
        moments: Array | None,
        covariates: Array | None,
        features: Array,
        rewards: Array,
    ) -> Array:
        """The forecasts of many draws whose outcomes come at once. See `Forecaster`."""
        out, made = np.empty(len(rewards)), 0
        if not len(rewards):
            return out
        known = self._covariates(None if covariates is None else covariates[0])
        if covariates is None:
            covariates = np.zeros((len(rewards), len(known)))
        self._fit(_EFFECTS, features.shape[1], "features")
        row, state = np.empty(kernels.ROW + len(known)), tuple(self._state)
        times = np.empty(0) if moments is None else moments
        draws = tuple(map(_writeable, (times, covariates, features, rewards)))
        while made < len(rewards):
            rest = tuple(each[made:] for each in draws)
            made += kernels.follow(state, rest, first + made, row, out[made:])
            self._search()
        return out

    def _search(self) -> None:
        """Search for rhythms, at counts of outcomes that double, then once per record."""
        series, record, rhythms = self._state[:3]
        count = series[kernels.COUNT]
        if count < series[kernels.DUE]:
            return
        series[kernels.DUE] = count + min(count, kernels.RECORD)
        numbers, levels = record
        last, length = numbers.max(), int(min(count, kernels.RECORD))
        recent = numbers > last - length
        steps = np.zeros(length)
        # Draws without an outcome are as the average of the others.
        places = (numbers[recent] - last).astype(int) + length - 1
        steps[places] = levels[recent] - levels[recent].mean()
        found = find_rhythms(steps, kernels.RHYTHMS)
        # Each rhythm in use keeps its place if it is found again.
        for place in range(kernels.RHYTHMS):
            near = np.abs(found - rhythms[place, 0]) * length < math.pi
            speed = float(found[near][0]) if near.any() else 0.0
            found = found[~near]
            kernels.change_rhythm(tuple(self._state), place, speed, float(last))
        free = np.flatnonzero(rhythms[:, 0] == 0.0).tolist()
        for place, speed in zip(free, found.tolist(), strict=False):
            kernels.change_rhythm(tuple(self._state), place, speed, float(last))

    def _covariates(self, covariates: Array | None) -> Array:
        if covariates is None:
            return np.zeros(self._state[_PEOPLE].shape[1])
        self._fit(_PEOPLE, len(covariates), "covariates")
        return _writeable(covariates)

    def _fit(self, place: int, width: int, field: str) -> None:
        """Begin a regression when its width is known; raise if it changes later."""
        now = self._state[place].shape[1]
        if now == 0 < width:
            prior = kernels.PEOPLE_PRIOR / width if place == _PEOPLE else kernels.EFFECT_PRIOR
            self._state[place] = kernels.regression(width, prior)
        elif now != width:
            raise InvalidInputError(
                f"`{field}` has {width} numbers; those of earlier draws had {now}.",
                field=field,
                value=width,
                remedy=f"Give {now} numbers each time.",
            )


def _writeable(array: Array) -> Array:
    """A copy: read-only and strided arrays are other types, for which kernels compile again."""
    return np.array(array, dtype=float, order="C")
