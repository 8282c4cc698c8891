"""Guesses from the past: θ, the baseline to come, how noisy rewards are.

The anytime rule is valid whatever they are; good ones save pulls.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Scale

_RIDGE = 1.0  # pulls of the first batch's design, with reward zero
_MEMORY = 0.9  # what a batch before counts towards the spread to come
_SHRINKAGE = 30.0  # pulls that an arm's own spread must weigh against all arms' together
_FORGETTING = 0.8  # what a batch before counts in judging how to foresee levels
_INERTIA = 0.95  # what a batch before counts towards how fast levels move
_CLEAR = 3.0  # standard errors from which on a level counts as having moved
_DRIFT = 0.7  # noise deviations that the level may move within a batch: 4 % of the variance


class Guesses:
    """Estimates from the batches so far.

    Attributes:
        pulls: the number of pulls learned from.
        slope: θ̂ in coordinates of the affine span.
        information: Σ n Σ_cov over the batches.
        spread: the expected (r − c(a))² of every source arm, shrunk towards that of all together.

    Args:
        coordinates: the source arms, in coordinates of the affine span.
        scale: where rewards lie.
    """

    def __init__(self, coordinates: Array, scale: Scale) -> None:
        arms, rank = coordinates.shape
        self._arms, self._scale = coordinates, scale
        self.pulls = 0
        self.slope: Array = np.zeros(rank)
        self.information: Array = np.zeros((rank, rank))
        self._gram: Array = np.zeros((rank, rank))
        self._moment: Array = np.zeros(rank)
        self._centers: list[float] = []  # of the last two batches: when their middle pull was, …
        self._means: list[tuple[float, Array]] = []  # … their mean reward and mean arm
        self._total = 0.0, np.zeros(rank)  # sum of all rewards, of all arms pulled
        self._misses = [0.0] * 3  # of the three ways to foresee a level
        self._moves = 0.0, 0.0  # Σ n (dν/dt)² and Σ n, recent batches counting most
        self._second: Array = np.zeros(arms)  # (r − c)² an arm, recent batches counting most
        self._counts: Array = np.zeros(arms)
        half = (scale.high - scale.low) / 2
        self._least = scale.noise**2 or half**2
        self.spread: Array = np.full(arms, half**2 + scale.noise**2)

    def rewards(self, size: int) -> Array:
        """c(a): what every source arm may be expected to pay in the next batch of `size` pulls."""
        levels = self._levels(self.pulls + size / 2)
        expected = levels[self._misses.index(min(self._misses))] + self._arms @ self.slope
        return np.minimum(np.maximum(expected, self._scale.low), self._scale.high)

    def longest(self) -> float:
        """The longest batch within which the level should stay put, if it moves as it did."""
        moved, pulls = self._moves
        if not moved:
            return math.inf
        return _DRIFT * math.sqrt(float(self.spread.mean()) * pulls / moved)

    def _spread(self) -> Array:
        # Rewards that did not vary at all say no more than that they vary less than once in n.
        pooled = max(self._second.sum() / self._counts.sum(), self._least / self.pulls)
        return np.asarray((self._second + _SHRINKAGE * pooled) / (self._counts + _SHRINKAGE))

    def _levels(self, when: float) -> tuple[float, float, float]:
        """Rewards less x·θ̂ around some pull, foreseen by: the mean so far, the last, the trend."""
        if not self._means:
            return (self._scale.middle,) * 3
        *before, last = (reward - float(arm @ self.slope) for reward, arm in self._means)
        if not before:
            return last, last, last  # to the bit: rounding must not choose among them
        rewards, arms = self._total
        average = (rewards - float(arms @ self.slope)) / self.pulls
        trend = (last - before[0]) / (self._centers[1] - self._centers[0])
        return average, last, last + trend * (when - self._centers[1])

    def learn(self, batch: BatchOutcome, *, late: bool = False) -> None:
        """Take in a batch's outcome.

        Args:
            batch: what came of it.
            late: that these are outcomes of an earlier batch, which say nothing of levels to come.
        """
        summary, arms = batch.summary, batch.frame.sampling.arms
        pulls = summary.pulls
        if not pulls:
            return
        guess, first, second = batch.frame.guess, batch.first, batch.second
        reward = float(first.sum() + guess @ batch.counts) / pulls
        arm = summary.counts @ self._arms / pulls
        when = self.pulls + pulls / 2
        if self.pulls:
            if not late:
                seen = reward - float(arm @ self.slope)
                self._misses = [
                    _FORGETTING * before + pulls * (level - seen) ** 2
                    for before, level in zip(self._misses, self._levels(when), strict=True)
                ]
            self._regress(batch, first)
        else:
            # Nothing was foreseen of the first batch; its own level does as well.
            self._gram = _RIDGE * batch.frame.sampling.covariance
            self._regress(batch, first + (guess - reward) * batch.counts)
            beyond = guess - reward - (self._arms[arms] - arm) @ self.slope
            second = second + beyond * (2 * first + beyond * batch.counts)
        self.pulls += pulls
        if not late:
            self._second, self._counts = _MEMORY * self._second, _MEMORY * self._counts
        self._second[arms] += np.maximum(second, 0.0)
        self._counts[arms] += batch.counts
        self.spread = self._spread()
        self._total = self._total[0] + pulls * reward, self._total[1] + pulls * arm
        if late and self._means:
            return
        if self._means:
            before, gap = self._means[-1], when - self._centers[-1]
            moved = reward - before[0] - float((arm - before[1]) @ self.slope)
            error = float(self.spread.mean()) * (1 / pulls + 1 / max(2 * gap - pulls, 1.0))
            rate = moved / gap if moved * moved > _CLEAR**2 * error else 0.0
            self._moves = (
                _INERTIA * self._moves[0] + pulls * rate * rate,
                _INERTIA * self._moves[1] + pulls,
            )
        self._centers, self._means = [*self._centers, when][-2:], [*self._means, (reward, arm)][-2:]

    def _regress(self, batch: BatchOutcome, first: Array) -> None:
        """Orthogonalized regression on all batches, each less the level foreseen for it."""
        sampling, counts = batch.frame.sampling, batch.counts
        x = sampling.centered
        self.information = self.information + counts.sum() * sampling.covariance
        gram = x.T @ (counts[:, None] * x)
        self._moment = self._moment + x.T @ first + gram @ self.slope
        self._gram = self._gram + gram
        self.slope = np.asarray(np.linalg.solve(self._gram, self._moment), dtype=float)
