"""The default forecaster: one recursive regression on lags, times of day and week, and covariates.

With y the past, z what else is known before a draw and x the features of its arm, rewards are

    r ≈ μ + (y − ȳ)·α + (z − z̄)·β + (x − x̄)·θ,   and forecast by   μ + g (y − ȳ)·α̂ + h (z − z̄)·β̂.

y holds the last levels; z the sines and cosines of day and week and the covariates. A level is a
reward less what z and x explain of it. The fit is a ridge regression on standardised numbers, made
anew from sums of products after every few outcomes. The gates g and h are the slopes of rewards on
their part *as it was at the draw*, between one fit and the next: what moves from batch to batch
needs no forecast, since policies compare rewards within batches. A gate falls to 0 where its part
predicts nothing.

The first axis of every array is the run. A run is the same, to the last bit, beside any others.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError
from bestarm.forecasting.forecaster import Forecaster
from bestarm.numerics.geometry import Array, Indices

__all__ = ["Regression"]

LAGS: Final = 32
DAILY, WEEKLY = 3, 2  # harmonics

# Variances of standardised slopes before any data, in variances of the rewards.
_LAG_PRIOR, _TIME_PRIOR, _OWN_PRIOR = 0.01, 0.1, 1.0
_FEWEST, _SHARE, _MOST = 4, 1 / 8, 64  # outcomes between fits: a share of those so far, within …
_FORGET = 1e-4  # share of old sums that is forgotten per outcome
_EVIDENCE = 10.0  # variances of noise that forecasts have moved when g is half their accuracy
_OUTLIER = 8.0  # deviations from the mean at which numbers are cut
_HUGE = 1e100  # all are cut here: squares would overflow
_ROUNDING = 1e-9  # a deviation, relative to the mean, that is rounding
_OUTSTANDING = 100_000  # draws without an outcome that are remembered

# Columns: the constant, the reward, what is known before a draw, and the features at the end.
_REWARD, _LAG, _TIME = 1, 2, 2 + LAGS
_COVARIATE = _TIME + 2 * (DAILY + WEEKLY)

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


class _Outcomes(NamedTuple):
    """Outcomes; (runs, draws).

    Attributes:
        rewards: less the first one of the run, cut where they are outliers.
        without_arms: less the effects of their arms, too.
        levels: less what times and covariates explain, too.
    """

    rewards: Array
    without_arms: Array
    levels: Array


class Regression(Forecaster):
    """The default forecaster; it has no settings.

    It begins as that of one run. `select` makes several of it, which `follow_runs` takes further.
    """

    def __init__(self) -> None:
        runs = 1
        widths = [_LAG, LAGS, _COVARIATE - _TIME]
        self._prior = np.repeat([1.0, _LAG_PRIOR, _TIME_PRIOR], widths)
        self._features = _COVARIATE  # where they begin
        self._drawn: dict[int, tuple[Array, Array]] = {}  # rows of draws, and their movements
        self._count, self._filled = np.zeros((2, runs), dtype=np.int64)  # outcomes; since the fit
        self._due = np.ones(runs, dtype=np.int64)  # outcomes since the last fit at the next one
        # The first reward, which is taken off all; the gates; Σ movement × reward and Σ movement².
        self._origin, self._gates = np.zeros(runs), np.zeros((runs, 2))
        self._agreement = np.zeros((runs, 2, 2))
        self._levels = np.zeros((runs, LAGS))  # the last ones, the youngest at the end
        # Since the last fit: rows, the movement of each, and its reward without its arm's effect.
        self._rows = np.zeros((runs, _MOST, _COVARIATE))
        self._made = np.zeros((runs, _MOST, 3))
        self._sums = np.zeros((runs, _COVARIATE, _COVARIATE))  # of products of columns
        # Of each column, at the last fit.
        self._mean, self._slopes = np.zeros((2, runs, _COVARIATE))
        self._reach = np.full((runs, _COVARIATE), _HUGE)

    # --- one run ---

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        """The baseline expected in a draw. See `Forecaster`."""
        moments = None if moment is None else np.array([[moment]])
        known = self._known((1, 1), moments, None if covariates is None else covariates[None, None])
        row, movement = self._predict(np.zeros((1, 0)), known)
        self._drawn[number] = row, movement
        if len(self._drawn) > _OUTSTANDING:
            del self._drawn[next(iter(self._drawn))]
        return float((self._middle + self._gated(movement)[:, 0])[0])

    def learn(self, number: int, features: Array, reward: float) -> None:
        """Take the outcome of a draw. See `Forecaster`."""
        if number not in self._drawn:
            return
        row, movement = self._drawn.pop(number)
        self._make_room(len(features), features=True)
        later = self._features - row.shape[2]  # covariates that were not known yet
        row = np.pad(row, ((0, 0), (0, 0), (0, later)))
        x, some = np.array(features, dtype=float)[None, None], np.ones((1, 1), np.bool_)
        row = np.concatenate([row, x], axis=2)
        outcome = self._outcomes(row[..., _TIME:], np.array([[reward]], dtype=float), some)
        self._store(row, movement, outcome, some)

    def follow(
        self,
        first: int,  # noqa: ARG002 - draws follow each other
        moments: Array | None,
        covariates: Array | None,
        features: Array,
        rewards: Array,
    ) -> Array:
        """The forecasts of many draws whose outcomes come at once. See `Forecaster`."""
        sizes = np.array([len(rewards)])
        return self.follow_runs(sizes, features, rewards, moments=moments, covariates=covariates)

    # --- runs side by side ---

    def follow_runs(
        self,
        sizes: Counts,
        features: Array,
        rewards: Array,
        *,
        moments: Array | None = None,
        covariates: Array | None = None,
    ) -> Array:
        """The forecasts of the next draws of every run, whose outcomes come at once.

        Args:
            sizes: how many draws each run has. What follows is of one run after the other.
            features: one row per draw.
            rewards: one per draw.
            moments: one per draw, or None.
            covariates: one row per draw, or None.
        """
        self._make_room(features.shape[1], features=True)
        out, done, heads = np.empty(len(rewards)), np.zeros_like(sizes), np.cumsum(sizes) - sizes
        # All draws until the next fit are made at once.
        while (step := np.minimum(self._due - self._filled, sizes - done)).any():
            place = np.arange(step.max())
            some = place < step[:, None]
            at = np.where(some, (heads + done)[:, None] + place, 0)
            times = None if moments is None else moments[at]
            known = self._known(at.shape, times, None if covariates is None else covariates[at])
            middle, x = self._middle[:, None], features[at]
            outcomes = self._outcomes(np.concatenate([known, x], axis=2), rewards[at], some)
            rows, movement = self._predict(outcomes.levels[:, :-1], known)
            out[at[some]] = (middle + self._gated(movement))[some]
            self._store(np.concatenate([rows, x], axis=2), movement, outcomes, some)
            done += step
        return out

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone. One may be taken several times."""
        for name, value in vars(self).items():
            if name not in {"_prior", "_features", "_drawn"}:
                setattr(self, name, value[kept])

    @property
    def _middle(self) -> Array:
        """The mean reward."""
        return np.asarray(self._origin + self._mean[:, _REWARD])

    def _gated(self, movement: Array) -> Array:
        """How far forecasts lie off the mean."""
        return np.asarray((self._gates[:, None] * movement).sum(axis=2))

    def _known(
        self, shape: tuple[int, ...], moments: Array | None, covariates: Array | None
    ) -> Array:
        """What is known of draws besides the past, cut: times of day and week, and covariates."""
        if covariates is not None:
            self._make_room(covariates.shape[-1], features=False)
        known = np.zeros((*shape, self._features - _TIME))
        if moments is not None:
            day = moments[..., None] / 86_400.0 % 1.0 * np.arange(1, DAILY + 1)
            week = moments[..., None] / 604_800.0 % 1.0 * np.arange(1, WEEKLY + 1)
            angles = 2 * math.pi * np.concatenate([day, week], axis=-1)
            known[..., : 2 * angles.shape[-1]] = np.dstack([np.sin(angles), np.cos(angles)])
        if covariates is not None:
            known[..., _COVARIATE - _TIME :] = covariates
        return self._cut(known, slice(_TIME, self._features))

    def _predict(self, levels: Array, known: Array) -> tuple[Array, Array]:
        """The rows of draws, and what α̂ and β̂ predict for them, less the mean.

        Args:
            levels: of these draws but the last one, as each is known before the next.
            known: see `_known`.
        """
        rows, columns = np.ones((*known.shape[:2], self._features)), slice(_LAG, _TIME)
        past = sliding_window_view(np.hstack([self._levels, levels]), LAGS, axis=1)
        rows[..., columns] = self._cut(past, columns)
        rows[..., _TIME:] = known
        end = self._features
        parts = (rows - self._mean[:, None, :end]) * self._slopes[:, None, :end]
        return rows, np.dstack([parts[..., columns].sum(axis=2), parts[..., _TIME:].sum(axis=2)])

    def _cut(self, numbers: Array, columns: slice) -> Array:
        """Numbers, cut if they are outliers; the mean for those that are not numbers."""
        mean, reach = self._mean[:, None, columns], self._reach[:, None, columns]
        return np.clip(np.where(np.isnan(numbers), mean, numbers), mean - reach, mean + reach)

    def _outcomes(self, columns: Array, rewards: Array, some: Flags) -> _Outcomes:
        """Take off rewards what is explained by times, covariates and features, in `columns`.

        `some` are those that are outcomes.
        """
        rewards = np.clip(rewards, -_HUGE, _HUGE)
        first = (self._count == 0) & some[:, 0]
        self._origin = np.where(first, np.nan_to_num(rewards[:, 0]), self._origin)
        shifted = (rewards - self._origin[:, None])[..., None]
        rewards = self._cut(shifted, slice(_REWARD, _LAG))[..., 0]
        parts = (columns - self._mean[:, None, _TIME:]) * self._slopes[:, None, _TIME:]
        arms = self._features - _TIME
        without_arms = rewards - parts[..., arms:].sum(axis=2)
        return _Outcomes(rewards, without_arms, without_arms - parts[..., :arms].sum(axis=2))

    def _store(self, rows: Array, movement: Array, outcomes: _Outcomes, some: Flags) -> None:
        """Keep outcomes for the next fit, and fit where that is due."""
        rows[..., _REWARD] = outcomes.rewards
        step, (run, place) = some.sum(axis=1), np.nonzero(some)
        to = self._filled[run] + place
        self._rows[run, to] = rows[some]
        self._made[run, to] = np.dstack([movement, outcomes.without_arms])[some]
        levels, last = np.hstack([self._levels, outcomes.levels]), step[:, None] + np.arange(LAGS)
        self._levels = np.take_along_axis(levels, last, axis=1)
        self._count, self._filled = self._count + step, self._filled + step
        if (due := np.flatnonzero(self._filled == self._due)).size:
            self._fit(due)

    def _fit(self, some: Indices) -> None:
        """Fit the regression of some runs anew, with the outcomes since the last fit."""
        rows, keep = self._rows[some], 1.0 - _FORGET * self._filled[some]
        sums = keep[:, None, None] * self._sums[some] + np.matmul(rows.transpose(0, 2, 1), rows)
        total = sums[:, 0, 0]
        mean = sums[:, 0] / total[:, None]
        related = sums / total[:, None, None] - mean[:, :, None] * mean[:, None, :]
        deviation = np.sqrt(np.maximum(np.diagonal(related, axis1=1, axis2=2), 0.0))
        deviation[deviation <= _ROUNDING * np.abs(mean)] = 0.0
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        related *= scale[:, :, None]
        related *= scale[:, None, :]  # correlations now
        known, target = related[:, _LAG:, _LAG:], related[:, _LAG:, _REWARD]
        diagonal = np.arange(known.shape[1])
        known[:, diagonal, diagonal] += 1.0 / (self._prior[_LAG:] * total[:, None])
        slopes = np.linalg.solve(known, target[..., None])[..., 0]
        spread = deviation[:, _REWARD]
        noise = spread**2 * np.maximum(1.0 - (slopes * target).sum(axis=1), 0.0)
        agreement = keep[:, None, None] * self._agreement[some] + self._agreed(some)
        moved = agreement[:, 1] + _EVIDENCE * noise[:, None]
        gates = np.divide(agreement[:, 0], moved, out=np.zeros_like(moved), where=moved > 0)
        reach = np.where(deviation > 0, np.minimum(_OUTLIER * deviation, _HUGE), _HUGE)

        self._sums[some], self._mean[some], self._reach[some] = sums, mean, reach
        self._slopes[some, _LAG:] = slopes * spread[:, None] * scale[:, _LAG:]
        self._agreement[some], self._gates[some] = agreement, np.clip(gates, 0.0, 1.0)
        missing = np.arange(LAGS) < LAGS - self._count[some, None]
        self._levels[some] = np.where(missing, mean[:, _REWARD, None], self._levels[some])
        self._due[some] = np.clip(_SHARE * self._count[some], _FEWEST, _MOST).astype(np.int64)
        self._filled[some], self._rows[some], self._made[some] = 0, 0.0, 0.0

    def _agreed(self, some: Indices) -> Array:
        """Σ movement × reward and Σ movement² of outcomes since the last fit, about their means."""
        made, told = self._made[some], self._rows[some, :, :1]  # 1, and 0 after the last outcome
        apart = (made - made.sum(axis=1, keepdims=True) / told.sum(axis=1, keepdims=True)) * told
        movement, reward = apart[..., :2], apart[..., 2:]
        return np.stack([(movement * reward).sum(axis=1), (movement**2).sum(axis=1)], axis=1)

    def _make_room(self, width: int, *, features: bool) -> None:
        """Make room for covariates, or features; these may become more, as options are added."""
        begin = self._features if features else _COVARIATE
        end = len(self._prior) if features else self._features
        before = end - begin
        if width == before:
            return
        if width < before or (before and not features):
            field = "features" if features else "covariates"
            raise InvalidInputError(
                f"`{field}` has {width} numbers; those of earlier draws had {before}.",
                field=field,
                value=width,
                remedy=f"Give {before} numbers each time.",
            )
        places = [end] * (width - before)
        self._prior = np.insert(self._prior, places, _OWN_PRIOR)
        for name in ("_rows", "_mean", "_slopes", "_sums"):
            setattr(self, name, np.insert(getattr(self, name), places, 0.0, axis=-1))
        self._sums = np.insert(self._sums, places, 0.0, axis=1)
        self._reach = np.insert(self._reach, places, _HUGE, axis=1)
        self._features += 0 if features else width
