"""Worlds in which the means of the arms themselves move: the best arm is the best on average."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from bestarm.checks import not_negative
from bestarm.environments.environment import ROUNDING, FixedWorld, Pulls, Stream
from bestarm.environments.streams import Arms, BaseStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_features
from bestarm.records import Plan, Summary


class MovingMeans(FixedWorld):
    """A fixed instance: pulling arm a at round t pays means[t, a] + N(0, noise²).

    Nothing is common to the arms, so no method can take the movement off. The best arm has the
    best average over all rounds, and a run ends with the last of them.

    Args:
        source: features of the arms, one row per arm.
        means: the mean reward of each arm at each round, one row per round.
        noise: the standard deviation of the noise.
        name: its name in results and tables.

    Attributes:
        means: the mean reward of each arm at each round, read-only.
        rounds: the rounds that a run has at most.
        noise: the standard deviation of the noise.

    Raises:
        InvalidInputError: an argument is invalid, or two arms are equally good on average.

    Example:
        >>> from bestarm.environments import MovingMeans
        >>> world = MovingMeans([[1, 0], [0, 1]], [[0, 1], [3, 1]])
        >>> world.best, world.gap, world.rounds
        (0, 0.5, 2)
    """

    def __init__(
        self, source: object, means: object, *, noise: float = 1.0, name: str = "moving-means"
    ) -> None:
        self.noise: Final = not_negative(noise, "noise", remedy="It is a standard deviation.")
        self.means: Final = as_features(means, "means", unit="round", entry="mean")
        self.rounds: Final = len(self.means)
        template = Problem(source, noise=self.noise)
        if self.means.shape[1] != template.arms:
            raise InvalidInputError(
                f"`means` has {self.means.shape[1]} columns; there are {template.arms} arms.",
                field="means",
                value=self.means.shape,
                remedy="Give one row per round, with the mean reward of each arm.",
            )
        values = self.means.mean(axis=0)
        rounding = ROUNDING * float(np.max(np.abs(self.means)))
        super().__init__(name, template, values, means=self.means, rounding=rounding, field="means")

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at round 1."""
        return MovingMeansStream(self.means, noise=self.noise, rng=rng)

    def __repr__(self) -> str:
        return (
            f"MovingMeans({self.name!r}, {self._template.arms} arms, {self.rounds} rounds, "
            f"best={self.best}, gap={self.gap:g}, noise={self.noise:g})"
        )


class MovingMeansStream(BaseStream):
    """A run over a table of means, one row per round."""

    def __init__(self, table: Array, *, noise: float, rng: np.random.Generator) -> None:
        super().__init__(table[0], noise=noise, rng=rng)
        self._table = table

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, as far as the table goes."""
        end = min(self._rounds + rounds, len(self._table))
        if end <= self._rounds:
            return None
        rows = np.arange(self._rounds, end)
        return PresampledRewards(self._table, rows, self._add_noise(np.zeros(len(rows))))

    def _total(self, plan: Plan) -> Summary:
        counts = np.zeros(plan.arms, dtype=np.int64)
        first, second = np.zeros((2, plan.arms))
        for arms, means in self._arms_and_means(plan):
            shifted = means - plan.center
            counts += np.bincount(arms, minlength=plan.arms)
            first += np.bincount(arms, shifted, minlength=plan.arms)
            second += np.bincount(arms, shifted**2, minlength=plan.arms)
        level = np.full(plan.arms, plan.center)
        return self._gaussian_totals(counts, level, first, second, plan.center)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms, means in self._arms_and_means(plan):
            yield Pulls(arms, self._add_noise(means))

    def _arms_and_means(self, plan: Plan) -> Iterator[tuple[Arms, Array]]:
        """The arms of a plan's pulls and their means, in chunks."""
        if self._rounds + plan.pulls > len(self._table):
            raise InvalidInputError(
                f"The world has {len(self._table)} rounds, and the plan would reach round "
                f"{self._rounds + plan.pulls}.",
                field="means",
                value=len(self._table),
                remedy="Give the policy a budget or a cap of so many pulls, or the world more "
                "rounds.",
            )
        start = self._rounds
        for arms in self._arms_in_order(plan):
            yield arms, self._table[start + np.arange(len(arms)), arms]
            start += len(arms)
