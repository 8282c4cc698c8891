"""Estimates from the past: θ, the baseline to come, how noisy rewards are.

The anytime rule is valid whatever they are; good ones save pulls. The first axis of every array is
the run.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import Frame, Scale, Totals
from bestarm.policies.anytime.readout import Belief, Flags
from bestarm.records import Counts

_RIDGE = 1.0  # pulls of the first batch's design, with reward zero
_MEMORY = 0.96  # what a batch before counts towards the spread to come
_SHRINKAGE = 15.0  # times the noise of an arm's spread: pulls that all arms' spread counts for
_LEAST_SPREAD = 1e-6  # of an arm, relative to that of all arms together
_FORGETTING = 0.91  # what a batch before counts in judging how to predict levels
_INERTIA = 0.98  # what a batch before counts towards how fast levels move
_CLEAR = 3.0  # standard errors from which on a level counts as having moved
_BATCH_DRIFT = 0.7  # noise deviations that the level may move within a batch: 4 % of the variance


def _dot(matrices: Array, vectors: Array) -> Array:
    return np.asarray(np.matmul(matrices, vectors[..., None])[..., 0])


def _solve(matrices: Array, vectors: Array) -> Array:
    return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0], dtype=float)


class Estimates:
    """Estimates from the batches so far, of runs side by side.

    Attributes:
        pulls: the number of pulls learned from; (runs,).
        slope: θ̂ in coordinates of the span; (runs, rank).
        information: Σ n Σ_cov over the batches; (runs, rank, rank).
        gram: of the regression; likewise.
        moment: of the regression; (runs, rank).
        spread: the expected (r − c(a))² of every source arm, shrunk towards that of all together;
            (runs, arms).

    Args:
        coordinates: the source arms, in coordinates of their span.
        scale: where rewards lie.
        intercept: whether there is a baseline. If not, its level is known to be zero.
        bound: R, if a bound on the baseline is used.
        runs: the number of runs.
    """

    def __init__(
        self,
        coordinates: Array,
        scale: Scale,
        *,
        intercept: bool = True,
        bound: float = math.inf,
        runs: int = 1,
    ) -> None:
        arms, rank = coordinates.shape
        self.coordinates, self._scale = coordinates, scale
        self._intercept, self._bound = intercept, bound
        half = (scale.high - scale.low) / 2
        self._least = scale.noise**2 or half**2
        self.pulls, self._rewards, self._level = np.zeros((3, runs))
        self._arms, self.slope, self.moment = np.zeros((3, runs, rank))  # Σ of all arms pulled
        self.gram, self.information = np.zeros((2, runs, rank, rank))
        # Of the three predictions of a level: squared errors, recent batches counting most.
        self._misses = np.zeros((runs, 3))
        # Σ n (dν/dt)² and Σ n, likewise.
        self._moved, self._weighed = np.zeros((2, runs))
        # The batch before and the last one: their middle pulls, mean rewards and mean arms.
        self._batches = np.zeros(runs, dtype=np.int64)
        self._whens, self._means = np.zeros((2, runs, 2))
        self._mean_arms = np.zeros((runs, 2, rank))
        # Pulls, (r − c)² and (r − c)³ per arm, recent batches counting most.
        self._counts, self._squares, self._cubes = np.zeros((3, runs, arms))
        self.spread: Array = np.full((runs, arms), half**2 + scale.noise**2)

    def select(self, kept: Flags | Counts) -> None:
        """Go on with these runs alone."""
        for name, part in vars(self).items():
            if isinstance(part, np.ndarray) and name != "coordinates":
                setattr(self, name, part[kept])

    def of(self, chosen: Flags | Counts) -> Estimates:
        """The estimates of these runs alone, to read from."""
        part = copy(self)
        part.select(chosen)
        return part

    @property
    def belief(self) -> Belief | None:
        """What the sums of weights are chosen by; None where no bound is used."""
        if self._bound == math.inf:
            return None
        shared = self._arms[:, :, None] * self._arms[:, None]
        information = self.information + shared / np.maximum(self.pulls, 1.0)[:, None, None]
        information /= self.spread.mean(axis=1)[:, None, None]
        return Belief(self.slope, self._level, information, self.pulls, self._bound)

    @property
    def lifted_information(self) -> Array:
        """What is known of (ν, θ): of the batches' regression, the mean of all, and the bound R."""
        rank, pulls = self.slope.shape[1], np.maximum(self.pulls, 1.0)
        lifted = np.empty((len(pulls), rank + 1, rank + 1))
        variance = self.spread.mean(axis=1)
        lifted[:, 0, 0] = pulls + variance / np.maximum(self._bound**2, 1e-200 * variance)
        lifted[:, 0, 1:] = lifted[:, 1:, 0] = self._arms
        shared = self._arms[:, :, None] * self._arms[:, None] / pulls[:, None, None]
        lifted[:, 1:, 1:] = self.information + shared
        return lifted

    def rewards(self, size: Array | Counts) -> Array:
        """c(a): what every source arm may be expected to pay in the next batch; (runs, arms).

        Args:
            size: the pulls of that batch; (runs,).
        """
        scale = self._scale
        if not self._intercept:
            level = np.zeros(len(self.pulls))
        else:
            predicted = self._predicted_levels(self.pulls + size / 2)
            best = self._misses.argmin(axis=1)
            level = predicted[np.arange(len(best)), best]
        expected = level[:, None] + self.slope @ self.coordinates.T
        return np.clip(expected, scale.low, scale.high)

    def _predicted_levels(self, when: Array) -> Array:
        """Rewards less x·θ̂ around some pull, predicted by the mean so far, the last, the trend."""
        if not self._intercept:
            return np.zeros((len(self.pulls), 3))
        last = self._means[:, 1] - (self._mean_arms[:, 1] * self.slope).sum(axis=1)
        before = self._means[:, 0] - (self._mean_arms[:, 0] * self.slope).sum(axis=1)
        trended, known = self._batches > 1, self._batches > 0
        # To the bit the same where there is one batch: rounding must not choose among them.
        average = self._rewards - (self._arms * self.slope).sum(axis=1)
        average = np.where(trended, average / np.maximum(self.pulls, 1.0), last)
        apart = np.where(trended, self._whens[:, 1] - self._whens[:, 0], 1.0)
        trend = np.where(trended, (last - before) / apart * (when - self._whens[:, 1]), 0.0)
        found = np.stack([average, last, last + trend], axis=1)
        return np.where(known[:, None], found, self._scale.middle)

    def batch_size(self, pulls: Array | Counts, growth: float, least: int) -> Counts:
        """The pulls of the next batch: a share of those before, less if the level moves as it did.

        They are at least `least`, and twice as many in the first batch.
        """
        moves = self._moved > 0
        rate = self.spread.mean(axis=1) * self._weighed / np.where(moves, self._moved, 1.0)
        most = np.where(moves, _BATCH_DRIFT * np.sqrt(rate), np.inf)
        size = np.minimum(growth * pulls, most).astype(np.int64)
        return np.asarray(np.maximum(size, np.where(pulls > 0, least, 2 * least)))

    def learn(self, frame: Frame, totals: Totals, pending: Counts | None = None) -> None:
        """Take in a batch's outcome.

        Args:
            frame: what was fixed before.
            totals: what came of it.
            pending: outstanding outcomes of each arm, if there are any. For r counts what is
                predicted, c, and for (r − c)² the largest that it can be.
        """
        counts, first = totals.counts, totals.first
        squares, cubes = totals.second, totals.third
        if pending is not None:
            counts, squares = counts + pending, squares + pending * _largest_square(frame)
        pulls = counts.sum(axis=1)
        if not pulls.any():
            return
        begun, points = self.pulls > 0, self.coordinates
        reward = (first + frame.guess * counts).sum(axis=1) / pulls
        shares = counts / pulls[:, None]
        arm, when = shares @ points, self.pulls + pulls / 2
        miss = self._predicted_levels(when) - (reward - (arm * self.slope).sum(axis=1))[:, None]
        missed = _FORGETTING * self._misses + pulls[:, None] * miss * miss
        self._misses = np.where(begun[:, None], missed, self._misses)

        # Orthogonalized regression on all batches, each less a level of its own: the one that was
        # predicted of the mean arm (some guesses may be clipped to the range). Nothing was
        # predicted of the first batch; its own mean does as well.
        centered = points - (frame.weights @ points)[:, None] if self._intercept else points
        covariance = np.swapaxes(centered, -1, -2) @ (frame.weights[..., None] * centered)
        level = np.zeros(len(pulls))
        if self._intercept:
            predicted = (shares * (frame.guess - _dot(centered, self.slope))).sum(axis=1)
            level = np.where(begun, predicted, reward)
        rewards = first + counts * (frame.guess - level[:, None])
        self.information = self.information + pulls[:, None, None] * covariance
        ridge = np.where(begun, 0.0, _RIDGE)[:, None, None] * covariance
        gram = np.swapaxes(centered, -1, -2) @ (counts[..., None] * centered)
        self.gram = self.gram + gram + ridge
        self.moment = self.moment + _dot(np.swapaxes(centered, -1, -2), rewards)
        self.pulls = self.pulls + pulls
        self._rewards = self._rewards + pulls * reward
        self._arms = self._arms + pulls[:, None] * arm
        self._fit()

        if not begun.all():  # residuals of the first batch are about its own fit
            origin = (arm * self.slope).sum(axis=1) if self._intercept else 0.0
            beyond = frame.guess - (level - origin)[:, None] - self.slope @ points.T
            beyond = np.where(begun[:, None], 0.0, beyond)
            cubes = cubes + beyond * (3 * squares + beyond * (3 * first + beyond * counts))
            squares = squares + beyond * (2 * first + beyond * counts)
        self._squares = _MEMORY * self._squares + np.maximum(squares, 0.0)
        self._counts = _MEMORY * self._counts + counts
        self._cubes = _MEMORY * self._cubes + np.nan_to_num(cubes)
        self._shrink()
        if self._intercept:
            self._move(reward, arm, pulls, when)

    def correct(self, frame: Frame, late: Totals) -> None:
        """Take in outcomes alone that were outstanding when their batch was learned from."""
        points = self.coordinates
        centered = points - (frame.weights @ points)[:, None] if self._intercept else points
        self.moment = self.moment + _dot(np.swapaxes(centered, -1, -2), late.first)
        squares = self._squares + late.second - late.counts * _largest_square(frame)
        self._squares = np.maximum(squares, 0.0)
        self._cubes = self._cubes + np.nan_to_num(late.third)
        self._rewards = self._rewards + late.first.sum(axis=1)
        self._fit()
        self._shrink()

    def _fit(self) -> None:
        """θ̂ by the regression within batches; and by the mean of all rewards, if its level is
        bounded.

        With |ν| ≤ R the mean r̄ of N rewards is X̄·θ up to R and noise: it counts for
        N / (1 + NR²/σ²) pulls of the mean arm X̄, and ν̂ is r̄ − X̄·θ̂, shrunk accordingly.
        """
        if self._bound == math.inf:
            self.slope = _solve(self.gram, self.moment)
            return
        spread = self.spread.mean(axis=1)
        relative = self.pulls * self._bound**2 / np.where(spread > 0, spread, self._least)
        share = 1 / (self.pulls * (1 + relative))
        arms = self._arms
        gram = self.gram + share[:, None, None] * arms[:, :, None] * arms[:, None]
        moment = self.moment + (share * self._rewards)[:, None] * arms
        self.slope = _solve(gram, moment)
        rest = (self._rewards - (arms * self.slope).sum(axis=1)) / self.pulls
        safe = np.where(relative > 0, relative, 1.0)
        self._level = np.where(relative > 0, rest / (1 + 1 / safe), 0.0)

    def _shrink(self) -> None:
        """The expected (r − c)² of every arm, from batches of which the last count most.

        An arm's own mean square s² is off by s² √((κ − 1)/n) after n pulls, so where its kurtosis κ
        is large, as that of rare clicks, it must not be believed soon: arms that happened to have
        few clicks would seem to be quiet, and would not be pulled. κ − 1 is at least the square of
        the skewness; it is that for rewards of two values, and two more for Gaussian ones.
        """
        # Rewards that did not vary at all say no more than that they vary less than once in n.
        pooled = self._squares.sum(axis=1) / self._counts.sum(axis=1)
        pooled = np.maximum(pooled, self._least / self.pulls)[:, None]
        pulls = np.maximum(self._counts, 1.0)
        own = np.maximum(self._squares / pulls, _LEAST_SPREAD * pooled)
        skewness = self._cubes / pulls / (own * np.sqrt(own))
        # κ − 1, or 2 if it is Gaussian and varies as the others do. The last term grows for an arm
        # that varied far less than they did: it may have had none of its large rewards yet.
        noise = 1.5 + skewness * skewness + 0.5 * np.maximum(pooled / own, 1.0)
        shared = _SHRINKAGE * noise
        self.spread = (self._squares + shared * pooled) / (self._counts + shared)

    def _move(self, reward: Array, arm: Array, pulls: Array, when: Array) -> None:
        """Note the mean of a batch, and how fast levels have moved since the one before it."""
        some = self._batches > 0
        gap = np.where(some, when - self._whens[:, 1], 1.0)
        moved = (
            reward - self._means[:, 1] - ((arm - self._mean_arms[:, 1]) * self.slope).sum(axis=1)
        )
        error = self.spread.mean(axis=1) * (1 / pulls + 1 / np.maximum(2 * gap - pulls, 1.0))
        rate = np.where(moved * moved > _CLEAR * _CLEAR * error, moved / gap, 0.0)
        self._moved = np.where(some, _INERTIA * self._moved + pulls * rate * rate, self._moved)
        self._weighed = np.where(some, _INERTIA * self._weighed + pulls, self._weighed)
        self._whens = np.stack([self._whens[:, 1], when], axis=1)
        self._means = np.stack([self._means[:, 1], reward], axis=1)
        self._mean_arms = np.stack([self._mean_arms[:, 1], arm], axis=1)
        self._batches = np.minimum(self._batches + 1, 2)


def _largest_square(frame: Frame) -> Array:
    """The largest that (r − c)² can be."""
    low, high = frame.low[:, None], frame.high[:, None]
    return np.square(np.maximum(high - frame.guess, frame.guess - low))
