"""Guesses from the past: θ, the baseline to come, how noisy rewards are.

The anytime rule is valid whatever they are; good ones save pulls.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Scale
from bestarm.records import Counts

DRIFT = 0.7  # noise deviations that the level may move within a batch: 4 % of the variance


class Numbers(NamedTuple):
    """Where the numbers of a `Memory` stand in its array.

    Attributes:
        pulls: the number of pulls learned from.
        reward: the sum of their rewards.
        misses: of the three ways to foresee a level: squared errors, recent batches counting most.
        moved: Σ n (dν/dt)², recent batches counting most.
        weighed: Σ n, likewise.
        batches: how many batches are noted below: 0, 1 or 2.
        whens: the middle pulls of the batch before and of the last one.
        means: their mean rewards.
        spread: the mean of the arms' spread.
    """

    pulls: int = 0
    reward: int = 1
    misses: int = 2
    moved: int = 5
    weighed: int = 6
    batches: int = 7
    whens: int = 8
    means: int = 10
    spread: int = 12


AT = Numbers()


class Memory(NamedTuple):
    """What is kept of all batches, in arrays that the kernels change.

    Attributes:
        numbers: see `Numbers`.
        slope: θ̂ in coordinates of the span.
        information: Σ n Σ_cov over the batches.
        gram: of the regression.
        moment: of the regression.
        total_arm: the sum of all arms pulled.
        mean_arms: the mean arms of the batch before and of the last one.
        second: (r − c)² per arm, recent batches counting most.
        counts: pulls per arm, likewise.
        spread: the expected (r − c)² per arm, shrunk towards that of all arms together.
        third: (r − c)³ per arm, recent batches counting most.
    """

    numbers: Array
    slope: Array
    information: Array
    gram: Array
    moment: Array
    total_arm: Array
    mean_arms: Array
    second: Array
    counts: Array
    spread: Array
    third: Array


class Guesses:
    """Estimates from the batches so far.

    Attributes:
        coordinates: the source arms, in coordinates of their span.
        known: where rewards lie, for kernels: see `learning.learn`.
        memory: what is kept of the batches.

    Args:
        coordinates: the source arms, in coordinates of their span.
        scale: where rewards lie.
        intercept: whether there is a baseline. If not, its level is known to be zero.
    """

    def __init__(self, coordinates: Array, scale: Scale, *, intercept: bool = True) -> None:
        arms, rank = coordinates.shape
        self.coordinates = np.ascontiguousarray(coordinates)
        half = (scale.high - scale.low) / 2
        least = scale.noise**2 or half**2
        self.known = scale.low, scale.high, scale.center, least, intercept
        self.memory = Memory(
            np.zeros(13),
            *(np.zeros(rank), np.zeros((rank, rank)), np.zeros((rank, rank)), np.zeros(rank)),
            *(np.zeros(rank), np.zeros((2, rank))),
            *(np.zeros(arms), np.zeros(arms), np.full(arms, half**2 + scale.noise**2)),
            np.zeros(arms),
        )

    @property
    def pulls(self) -> int:
        """The number of pulls learned from."""
        return int(self.memory.numbers[AT.pulls])

    @property
    def slope(self) -> Array:
        """θ̂ in coordinates of the span."""
        return self.memory.slope

    @property
    def information(self) -> Array:
        """Σ n Σ_cov over the batches."""
        return self.memory.information

    @property
    def spread(self) -> Array:
        """The expected (r − c(a))² of every source arm, shrunk towards that of all together."""
        return self.memory.spread

    def rewards(self, size: int) -> Array:
        """c(a): what every source arm may be expected to pay in the next batch of `size` pulls."""
        if not self.pulls:  # nothing is known, and nothing need be compiled yet
            low, high, center, _, intercept = self.known
            level = low / 2 + high / 2 if intercept else min(max(-center, low), high)
            return np.full(len(self.coordinates), level)
        from bestarm.policies.anytime.learning import expect  # noqa: PLC0415 - compiles

        expected = np.empty(len(self.coordinates))
        expect(tuple(self.memory), self.coordinates, self.known, self.pulls + size / 2, expected)
        return expected

    def longest(self) -> float:
        """The longest batch within which the level should stay put, if it moves as it did."""
        moved = float(self.memory.numbers[AT.moved])
        if not moved:
            return math.inf
        weighed = float(self.memory.numbers[AT.weighed])
        return DRIFT * math.sqrt(float(self.memory.numbers[AT.spread]) * weighed / moved)

    def learn(self, batch: BatchOutcome, pending: Counts | None = None) -> None:
        """Take in a batch's outcome.

        Args:
            batch: what came of it.
            pending: outstanding outcomes of each arm that can be drawn, if there are any. For r
                counts what is predicted, c, and for (r − c)² the largest that it can be.
        """
        from bestarm.policies.anytime.learning import learn  # noqa: PLC0415 - compiles

        sampling = batch.frame.sampling
        drawn = sampling.arms, sampling.centered, sampling.covariance, batch.frame.guess
        totals = batch.totals
        counts, second = totals.counts, totals.second
        if pending is not None:
            counts, second = counts + pending, second + pending * self._largest_square(batch)
        outcome = counts, totals.first, second, totals.third
        learn(tuple(self.memory), self.coordinates, self.known, drawn, outcome)

    @staticmethod
    def _largest_square(batch: BatchOutcome) -> Array:
        scale, guess = batch.frame.scale, batch.frame.guess
        farthest = np.maximum(scale.high - guess, guess - scale.low)
        return np.asarray(farthest * farthest)

    def correct(self, late: BatchOutcome) -> None:
        """Take in outcomes alone that were outstanding when their batch was learned from."""
        from bestarm.policies.anytime.learning import correct  # noqa: PLC0415 - compiles

        sampling, totals = late.frame.sampling, late.totals
        second = totals.second - totals.counts * self._largest_square(late)
        outcome = totals.first, second, totals.third
        correct(tuple(self.memory), self.known, (sampling.arms, sampling.centered), outcome)
