"""The default forecaster: a blend of averages, an autoregression, seasons and covariates.

The level of draw t is u = r − (x − x̄)·θ̂ − g₂·c: its reward less the effect of its arm, and less
what the covariates explain. The forecast is

    f = L + g₁·a + g₂·c

with L a blend of averages of u of several speeds; a a regression of u − L on the last values of u,
on the averages, on cycles found in the series, and on the harmonics of day and week; c one on the
covariates; and gates g in (0, 1). Blend and gates weigh by the losses of forecasts *as made at the
draw*, so that outcomes that come late favour nothing that predicts one step only. Given out is the
mean of u plus a share of f less that mean: the share that outcomes were seen to follow. All numbers
scale with the rewards. One compiled call makes a forecast, and one learns from an outcome.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.compiling import tiered
from bestarm.errors import InvalidInputError
from bestarm.forecasting.forecaster import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import dot

__all__ = ["Mixture"]

State = tuple[Any, ...]  # series, record, cycles; regressions on time, covariates and features
Draws = tuple[Any, ...]  # moments, empty if there are none; covariates, features, rewards

SPEEDS = np.array([0.0, 0.003, 0.015, 0.06, 0.25])  # least gains of the averages; 0: the mean
AVERAGES = len(SPEEDS) + 1  # the last is the mean since the last jump
LAGS = 20
CYCLES = 2  # found in the series
DAILY, WEEKLY = 3, 2  # harmonics of day and week
RECORD = 4096  # draws among which cycles are searched
FULL = 64  # the largest dimension for which regressions keep a whole matrix
# Variances of slopes before any data, in variances of the noise; that of covariates in all.
TIME_PRIOR, CYCLE_PRIOR, COVARIATE_PRIOR, EFFECT_PRIOR = 0.03, 1.0, 2.0, 1.0

_MEAN_PRIOR, _RECENT_PRIOR = 2.0, 2.0  # log prior odds of the two means against each other average
_GATE_PRIOR = 2.0  # log prior odds of none against a regression
_FORGET_LOSS = 1.0 - 1.0 / 1000  # per outcome, of blends and gates
_MOST_LOG_ODDS = 12.0  # log odds are kept within ±: what was bad recovers this quickly
_FORGET_SCALE = 1.0 / 500  # least gain of variances
_FORGET_COVARIATE = 1.0 / 1000  # least gain of the means and variances of covariates
_FORGET_DATA = 1.0 / 10_000  # share of old data that regressions forget per outcome
_PAGE_DRIFT, _PAGE_LIMIT = 0.75, 8.0  # of the test for jumps: deviations forgiven, and its limit
_SHORTEST, _BATCH = 10.0, 0.1  # outcomes in a window: at least, and as a share of all
_FORGET_WINDOW = 0.97  # per window
FIRST_SHARE, _EVIDENCE = 0.8, 10.0  # of movements: believed at first, and for how many variances
_TINY = 1e-250  # variances below are as 0: their reciprocals overflow
_OUTLIER = 8.0  # deviations at which surprises are cut where they would do harm

# The series is one array: outcomes counted, the count at which cycles are searched next, draws
# with covariates counted, regressors of time in use, errors counted, the variances of the errors of
# f and of L, the size of features; log odds of the two gates and of the averages, averages, and
# past levels; the test for jumps: outcomes since the last, then the sum of surprises, levels and
# their sum each way; the window of `_update_share`.
COUNT, NEXT_SEARCH, _KNOWN_DRAWS, ACTIVE, _ERRORS, _VARIANCE, _VARIANCE_OF_LEVEL, _SIZE = range(8)
_GATES, _ODDS = 8, 10
_AVERAGES = _ODDS + AVERAGES
_PAST = _AVERAGES + AVERAGES
_SINCE = _PAST + LAGS
_UP, _DOWN = _SINCE + 1, _SINCE + 4
_WINDOW = _DOWN + 3
SHARE = _WINDOW + 7
SERIES = SHARE + 1

# A regression is one matrix; its first rows are these, and its covariance follows: a matrix, or
# only the diagonal as one row.
_SLOPES, _GAIN, _GROWTH, _CENTER, _SQUARE, _SPREAD = range(6)

# A row is what is kept of a draw until its outcome comes: its number, outcomes counted before it,
# the deviation, L, then a and c, their gates, the averages, and all regressors; covariates last.
_NUMBER, _KNOWN, _SCALE, _FORECAST, _LEVEL, _PART, _GATE, _AVERAGE = 0, 1, 2, 3, 4, 5, 7, 9
_LAG = _AVERAGE + AVERAGES
_CYCLE = _LAG + LAGS + AVERAGES
_WAVE = _CYCLE + 2 * CYCLES
ROW = _WAVE + 2 * (DAILY + WEEKLY)
LAGGED, CYCLIC, TIMED = _CYCLE - _LAG, _WAVE - _LAG, ROW - _LAG  # regressors of time in use

_OUTSTANDING = 100_000  # draws without an outcome that are remembered
_FIRST_SEARCH = 128  # outcomes after which cycles are searched first
_COVARIATES, _EFFECTS = 4, 5  # places in the state

_SLOWEST = 8  # periods in the series; slower ones are tracked by averages
_BESIDE, _NEAR = 3, 30  # a line is compared with the lines more than 3 and at most 30 from it
_STANDS_OUT = 14.0  # × their mean power; by chance about once in 100,000 lines of white noise


class Mixture(Forecaster):
    """The default forecaster; it has no settings.

    It learns the level of rewards by averages of several speeds and a mean that restarts at jumps,
    an autoregression, cycles that it finds in the series, the harmonics of day and week where
    moments are given, and the covariates. Each part counts as much as it has predicted so far. The
    effects of arms are taken off by a regression on their features; above 64 features, and above 64
    covariates, regressions ignore how they go together.
    """

    def __init__(self) -> None:
        series = np.zeros(SERIES)
        series[NEXT_SEARCH], series[ACTIVE] = _FIRST_SEARCH, LAGGED
        series[SHARE] = FIRST_SHARE
        self._state = [
            series,
            np.full((2, RECORD), -math.inf),
            np.zeros((CYCLES, 3)),
            regression(TIMED, TIME_PRIOR),
            regression(0, COVARIATE_PRIOR),
            regression(0, EFFECT_PRIOR),
        ]
        self._rows: dict[int, Array] = {}

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        """The baseline expected in a draw. See `Forecaster`."""
        known = self._covariates(covariates)
        row = self._rows[number] = np.empty(ROW + len(known))
        if len(self._rows) > _OUTSTANDING:
            del self._rows[next(iter(self._rows))]
        time = math.nan if moment is None else moment
        return predict(tuple(self._state), float(number), time, known, row)

    def learn(self, number: int, features: Array, reward: float) -> None:
        """Take the outcome of a draw. See `Forecaster`."""
        row = self._rows.pop(number, None)
        if row is not None:
            self._fit(_EFFECTS, len(features), "features")
            update(tuple(self._state), row, _writeable(features), reward)
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
        row, state = np.empty(ROW + len(known)), tuple(self._state)
        times = np.empty(0) if moments is None else moments
        draws = tuple(map(_writeable, (times, covariates, features, rewards)))
        while made < len(rewards):
            rest = tuple(each[made:] for each in draws)
            made += run_draws(state, rest, first + made, row, out[made:])
            self._search()
        return out

    def _search(self) -> None:
        """Search for cycles, at counts of outcomes that double, then once per record."""
        series, record, cycles = self._state[:3]
        count = series[COUNT]
        if count < series[NEXT_SEARCH]:
            return
        series[NEXT_SEARCH] = count + min(count, RECORD)
        numbers, levels = record
        last, length = numbers.max(), int(min(count, RECORD))
        recent = numbers > last - length
        steps = np.zeros(length)
        # Draws without an outcome are as the average of the others.
        places = (numbers[recent] - last).astype(int) + length - 1
        steps[places] = levels[recent] - levels[recent].mean()
        found = find_cycles(steps, CYCLES)
        # Each cycle in use keeps its place if it is found again.
        for place in range(CYCLES):
            near = np.abs(found - cycles[place, 0]) * length < math.pi
            speed = float(found[near][0]) if near.any() else 0.0
            found = found[~near]
            set_cycle(tuple(self._state), place, speed, float(last))
        free = np.flatnonzero(cycles[:, 0] == 0.0).tolist()
        for place, speed in zip(free, found.tolist(), strict=False):
            set_cycle(tuple(self._state), place, speed, float(last))

    def _covariates(self, covariates: Array | None) -> Array:
        if covariates is None:
            return np.zeros(self._state[_COVARIATES].shape[1])
        self._fit(_COVARIATES, len(covariates), "covariates")
        return _writeable(covariates)

    def _fit(self, place: int, width: int, field: str) -> None:
        """Begin a regression when its width is known; raise if it changes later.

        Features may become more, as options are added: those before had 0 there.
        """
        now = self._state[place].shape[1]
        if now == 0 < width:
            prior = COVARIATE_PRIOR / width if place == _COVARIATES else EFFECT_PRIOR
            self._state[place] = regression(width, prior)
        elif place == _EFFECTS and now < width:
            size = self._state[0][_SIZE] or 1.0
            self._state[place] = _widened(
                self._state[place], regression(width, EFFECT_PRIOR / size)
            )
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


def regression(size: int, prior: float) -> Array:
    """A regression before any data."""
    spread = prior * np.eye(size) if size <= FULL else np.full((1, size), prior)
    return np.concatenate([np.zeros((_SPREAD, size)), spread])


def _widened(fit: Array, new: Array) -> Array:
    """A regression that goes on with more regressors, which were 0 so far."""
    now = fit.shape[1]
    new[:_SPREAD, :now] = fit[:_SPREAD]
    spread = fit[_SPREAD:]
    if len(new) == _SPREAD + 1 < len(fit):  # from now on only the diagonal is kept
        spread = np.diag(spread)[None]
    new[_SPREAD : _SPREAD + len(spread), :now] = spread
    return new


@tiered
def clip(value: float, most: float) -> float:
    return min(max(value, -most), most)


@tiered
def _regress(fit: Array, x: Array, target: float, most: float, prior: float) -> None:
    """One step of recursive least squares; errors count as at most `most`.

    Old data fade only for slopes of which much is known: else those of regressors that do not move
    would be forgotten altogether, and the next small movement would be magnified.
    """
    size = len(x)
    slopes, gain, growth = fit[_SLOPES, :size], fit[_GAIN, :size], fit[_GROWTH, :size]
    full = len(fit) > _SPREAD + 1 or size == 1
    spread = fit[_SPREAD : _SPREAD + size if full else _SPREAD + 1]
    gain[:] = 0.0
    for j in range(len(spread)):
        for i in range(size):
            gain[i] += spread[j, i] * (x[j] if full else x[i])
    room = 1.0 + dot(x, gain)
    if not 1.0 <= room < np.inf:  # rounding has spoilt it
        spread[:] = 0.0
        for i in range(size):
            spread[i if full else 0, i] = prior
        return
    error = clip(target - dot(slopes, x), most) / room
    inverse = 1.0 / room
    for i in range(size):
        slopes[i] += gain[i] * error
        known = spread[i if full else 0, i] < 0.5 * prior
        growth[i] = 1.0 + 0.5 * _FORGET_DATA if known else 1.0
    for j in range(len(spread)):
        for i in range(size):
            k = j if full else i
            step = (gain[i] * gain[k]) * inverse  # in this order: symmetric to the last bit
            spread[j, i] = (spread[j, i] - step) * (growth[i] * growth[k])


@tiered
def _blend(averages: Array, odds: Array) -> float:
    """The averages, weighted by exp(odds), of which the largest is 0."""
    first: float = averages[0]
    mass, total = math.exp(_MEAN_PRIOR + odds[0]), 0.0
    for k in range(1, AVERAGES):
        weight = math.exp(odds[k] + (_RECENT_PRIOR if k == AVERAGES - 1 else 0.0))
        mass += weight
        total += weight * (averages[k] - first)
    return first + total / mass


@tiered
def _standardize(fit: Array, covariates: Array, seen: float, out: Array) -> None:
    """The covariates in deviations from their running means; an outlier moves neither much."""
    center, square = fit[_CENTER], fit[_SQUARE]
    gain = max(1.0 / seen, _FORGET_COVARIATE)
    for i in range(len(covariates)):
        most = _OUTLIER * math.sqrt(square[i]) if square[i] > 0.0 else np.inf
        apart = clip(covariates[i] - center[i], most)
        center[i] += gain * apart
        square[i] += gain * ((1.0 - gain) * apart * apart - square[i])
        apart = covariates[i] - center[i]
        out[i] = clip(apart / math.sqrt(square[i]), _OUTLIER) if square[i] > 0.0 else 0.0


@tiered
def _fill_harmonics(series: Array, cycles: Array, moment: float, row: Array) -> None:
    """The sines and cosines of the cycles found, and of day and week where there is a moment."""
    row[_CYCLE:ROW] = 0.0
    for k in range(CYCLES):
        speed, phase, since = cycles[k]
        if speed > 0.0:
            angle = phase + speed * (row[_NUMBER] - since)
            row[_CYCLE + 2 * k], row[_CYCLE + 2 * k + 1] = math.sin(angle), math.cos(angle)
    if math.isnan(moment):
        return
    series[ACTIVE] = TIMED
    day = 2.0 * math.pi * ((moment / 86400.0) % 1.0)
    week = 2.0 * math.pi * ((moment / 604800.0) % 1.0)
    for k in range(DAILY + WEEKLY):
        angle = (k + 1) * day if k < DAILY else (k + 1 - DAILY) * week
        row[_WAVE + 2 * k], row[_WAVE + 2 * k + 1] = math.sin(angle), math.cos(angle)


@tiered
def set_cycle(state: State, place: int, speed: float, now: float) -> None:
    """Replace a cycle by one of another speed, which is 0 for none; close ones keep their fit."""
    series, _, cycles, time, _, _ = state
    old, phase, since = cycles[place]
    cycles[place, 0], cycles[place, 1] = speed, phase + old * (now - since)
    cycles[place, 2] = now
    if speed > 0.0:
        series[ACTIVE] = max(series[ACTIVE], CYCLIC)
    if abs(speed - old) * min(series[COUNT], RECORD) > math.pi:
        for i in range(LAGGED + 2 * place, LAGGED + 2 * place + 2):
            time[_SLOPES, i] = 0.0
            time[_SPREAD:, i] = 0.0
            time[_SPREAD + i] = 0.0
            time[_SPREAD + i, i] = CYCLE_PRIOR


@tiered
def predict(state: State, number: float, moment: float, covariates: Array, row: Array) -> float:
    """The forecast of a draw; `row` gets what is needed when its outcome comes."""
    series, _, cycles, time, covariate_fit, _ = state
    averages, past = series[_AVERAGES:_PAST], series[_PAST:_SINCE]
    known, scale = series[COUNT], math.sqrt(series[_VARIANCE])
    level = _blend(averages, series[_ODDS:_AVERAGES])
    row[_NUMBER], row[_KNOWN], row[_SCALE], row[_LEVEL] = number, known, scale, level
    x = row[_LAG:_CYCLE]
    x[:] = 0.0
    if scale > 0.0:
        for j in range(min(LAGS, int(known))):
            x[j] = clip((past[j] - level) / scale, _OUTLIER)
        for k in range(AVERAGES):
            x[LAGS + k] = clip((averages[k] - level) / scale, _OUTLIER)
    for k in range(AVERAGES):
        row[_AVERAGE + k] = averages[k]
    _fill_harmonics(series, cycles, moment, row)
    row[_PART] = scale * dot(row[_LAG : _LAG + int(series[ACTIVE])], time[_SLOPES])
    row[_PART + 1] = 0.0
    standardized = row[ROW:]
    if len(standardized):
        series[_KNOWN_DRAWS] += 1.0
        _standardize(covariate_fit, covariates, series[_KNOWN_DRAWS], standardized)
        row[_PART + 1] = dot(standardized, covariate_fit[_SLOPES])
    forecast = level
    for k in range(2):
        row[_GATE + k] = 1.0 / (1.0 + math.exp(_GATE_PRIOR - series[_GATES + k]))
        forecast += row[_GATE + k] * row[_PART + k]
    row[_FORECAST] = forecast
    mean: float = averages[0]
    share: float = series[SHARE]
    return mean + share * (forecast - mean)


@tiered
def _update_share(series: Array, forecast: float, outcome: float) -> None:
    """Update the share of the forecast's movements within a batch that outcomes follow.

    What moves from batch to batch needs no forecast: policies compare rewards within batches. So
    the share is the slope of outcomes on forecasts within windows as long as batches are.
    """
    window = series[_WINDOW:]  # its length, two means, two sums of products; both in all; the share
    window[0] += 1.0
    apart = forecast - window[1]
    window[1] += apart / window[0]
    window[2] += (outcome - window[2]) / window[0]
    window[3] += apart * (forecast - window[1])
    window[4] += apart * (outcome - window[2])
    if window[0] >= max(_SHORTEST, _BATCH * series[COUNT]):
        window[5] = _FORGET_WINDOW * window[5] + window[3]
        window[6] = _FORGET_WINDOW * window[6] + window[4]
        if not math.isfinite(window[5] + window[6]):
            window[5] = window[6] = 0.0
        prior = _EVIDENCE * series[_VARIANCE]
        if window[5] + prior > _TINY:
            share = (window[6] + FIRST_SHARE * prior) / (window[5] + prior)
            window[7] = min(max(share, 0.0), 1.0)
        window[:5] = 0.0


@tiered
def _update_odds(series: Array, row: Array, error: float, apart: float) -> None:
    """Update variances, odds and gates by f's error and u − L, as they were at the draw."""
    series[_ERRORS] += 1.0
    gain = max(_FORGET_SCALE, 1.0 / series[_ERRORS])
    for k, now in ((_VARIANCE, error), (_VARIANCE_OF_LEVEL, apart)):
        most = _OUTLIER * _OUTLIER * series[k]
        square = min(now * now, most) if most > 0.0 else now * now
        series[k] += gain * (square - series[k])
    if min(series[_VARIANCE], series[_VARIANCE_OF_LEVEL]) < _TINY:
        return
    odds = series[_ODDS:_AVERAGES]
    half = 0.5 / series[_VARIANCE_OF_LEVEL]
    most, top = 0.5 * _OUTLIER * _OUTLIER, -np.inf
    for k in range(AVERAGES):
        now = apart + row[_LEVEL] - row[_AVERAGE + k]
        odds[k] = _FORGET_LOSS * odds[k] - min(half * now * now, most)
        top = max(top, odds[k])
    for k in range(AVERAGES):
        odds[k] = max(odds[k] - top, -_MOST_LOG_ODDS)
    half = 0.5 / series[_VARIANCE]
    for k in range(2):
        without = error + row[_GATE + k] * row[_PART + k]
        with_it = without - row[_PART + k]
        better = min(half * without * without, most) - min(half * with_it * with_it, most)
        series[_GATES + k] = clip(_FORGET_LOSS * series[_GATES + k] + better, _MOST_LOG_ODDS)


@tiered
def _update_recent_mean(series: Array, level: float) -> None:
    """Update the mean since the last jump; Page's test, up and down, finds when that was."""
    last = _PAST - 1
    deviation = math.sqrt(series[_VARIANCE_OF_LEVEL])
    surprise = (
        clip((level - series[last]) / deviation, 0.6 * _PAGE_LIMIT) if deviation > 0.0 else 0.0
    )
    series[_SINCE] += 1.0
    series[last] += (level - series[last]) / series[_SINCE]
    for test, sign in ((_UP, 1.0), (_DOWN, -1.0)):
        series[test] += sign * surprise - _PAGE_DRIFT
        series[test + 1] += 1.0
        series[test + 2] += level
        if series[test] > _PAGE_LIMIT:
            series[_SINCE], series[last] = series[test + 1], series[test + 2] / series[test + 1]
            series[_UP:_WINDOW] = 0.0
        if series[test] <= 0.0:
            series[test : test + 3] = 0.0


@tiered
def update(state: State, row: Array, features: Array, reward: float) -> None:
    """Take the outcome of the draw that `row` was kept of."""
    series, record, _, time, covariate_fit, effects = state
    averages, past = series[_AVERAGES:_PAST], series[_PAST:_SINCE]
    series[COUNT] += 1.0
    count = series[COUNT]
    center, x = effects[_CENTER], effects[_SQUARE]
    for i in range(len(features)):
        center[i] += (features[i] - center[i]) / count  # x̄
        x[i] = features[i] - center[i]
    effect = dot(x, effects[_SLOPES])
    explained = row[_GATE + 1] * row[_PART + 1]
    level = reward - effect - explained  # u
    error = level - averages[0] if count > 1.0 else 0.0
    if row[_KNOWN] > 0.0:  # else it was forecast before any outcome came
        apart = level - row[_LEVEL]
        error = apart - row[_GATE] * row[_PART]
        _update_odds(series, row, error, apart)
        _update_share(series, row[_FORECAST], reward - effect)
        scale, most = row[_SCALE], _OUTLIER * math.sqrt(series[_VARIANCE])
        if scale > 0.0:
            regressors = row[_LAG : _LAG + int(series[ACTIVE])]
            _regress(time, regressors, apart / scale, most / scale, TIME_PRIOR)
        if len(row) > ROW:
            prior = COVARIATE_PRIOR / (len(row) - ROW)
            _regress(covariate_fit, row[ROW:], error + explained, most, prior)
    _regress_effects(series, effects, error + effect)
    for k in range(len(SPEEDS)):
        averages[k] += max(SPEEDS[k], 1.0 / count) * (level - averages[k])
    _update_recent_mean(series, level)
    for j in range(LAGS - 1, 0, -1):
        past[j] = past[j - 1]
    past[0] = level
    place = int(row[_NUMBER]) % RECORD
    record[0, place], record[1, place] = row[_NUMBER], level


@tiered
def _regress_effects(series: Array, effects: Array, target: float) -> None:
    """Learn what the features x − x̄ add to a reward; the first ones set the scale of the prior."""
    x = effects[_SQUARE]
    if series[_SIZE] == 0.0:
        series[_SIZE] = dot(x, x) / max(1, len(x))
        if series[_SIZE] > 0.0:
            for j in range(_SPREAD, len(effects)):  # a slice would take seconds to compile
                for k in range(effects.shape[1]):
                    effects[j, k] /= series[_SIZE]
    if series[_SIZE] > 0.0:
        variance = series[_VARIANCE]
        most = _OUTLIER * math.sqrt(variance) if variance > 0.0 else np.inf
        _regress(effects, x, target, most, EFFECT_PRIOR / series[_SIZE])


@tiered
def run_draws(state: State, draws: Draws, first: int, row: Array, out: Array) -> int:
    """Forecast and learn draw by draw until cycles are to be searched; return the draws made."""
    series = state[0]
    moments, covariates, features, rewards = draws
    for i in range(len(rewards)):
        moment = moments[i] if len(moments) else np.nan
        out[i] = predict(state, float(first + i), moment, covariates[i], row)
        update(state, row, features[i], rewards[i])
        if series[COUNT] >= series[NEXT_SEARCH]:
            return i + 1
    return len(rewards)


def find_cycles(series: Array, most: int) -> Array:
    """The angular frequencies per step of the clearest cycles, at most `most`, clearest first.

    >>> noise = np.random.default_rng(0).standard_normal(512)
    >>> find_cycles(np.sin(2 * np.arange(512)) + noise, 3).round(2)
    array([2.])
    """
    window = np.hanning(len(series) + 1)[:-1]
    power = np.abs(np.fft.rfft(window * (series - series.mean()))) ** 2
    kernel = np.ones(2 * _NEAR + 1)
    kernel[_NEAR - _BESIDE : _NEAR + _BESIDE + 1] = 0.0
    counted = np.convolve(np.ones_like(power), kernel, mode="same")
    around = np.convolve(power, kernel, mode="same") / np.maximum(counted, 1.0)
    clear = np.divide(power, around, out=np.zeros_like(power), where=around > 0)
    clear[:_SLOWEST] = clear[-1:] = 0.0
    found: list[float] = []
    while len(found) < most and (place := int(np.argmax(clear))) and clear[place] > _STANDS_OUT:
        # The logarithm of a Hann window's main lobe is nearly a parabola.
        left, top, right = np.log(np.maximum(power[place - 1 : place + 2], 1e-300))
        bend = left - 2.0 * top + right
        shift = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
        found.append(2.0 * np.pi * (place + shift) / len(series))
        clear[max(0, place - _BESIDE) : place + _BESIDE + 1] = 0.0
    return np.array(found)
