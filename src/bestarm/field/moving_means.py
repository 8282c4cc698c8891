"""Worlds in which the means of the arms themselves move: the best arm is the best on average.

`malicious`, `oscillating` and `multivariate` are the instances of Xiong, Camilleri, Fazel, Jain and
Jamieson (2024), after their public repository: arm x has the mean x·θ_t.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from bestarm.checks import finite, not_negative, positive, whole
from bestarm.environments.environment import ROUNDING, FixedWorld, Pulls, Stream
from bestarm.environments.instances import turned_arms
from bestarm.environments.streams import Arms, BaseStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_features
from bestarm.records import Counts, Plan, Summary

_SEED = 6  # of the published instances
_LEAST_GAP = 1e-5  # of the stationary θ of the multivariate test
_SCALES = tuple(float(scale) for scale in range(10))
_PERIODS = tuple(float(period) for period in range(300, 3001, 300))


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
        >>> from bestarm.field import MovingMeans
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


def malicious(
    dimension: int = 10, angle: float = 0.5, *, rounds: int = 10_000, noise: float = 1.0
) -> MovingMeans:
    """A first third in which every arm but the later best one pays, made to fool eliminations.

    The arms are Soare's. θ is (0, 1, …, 1) for a third of the rounds, 0 for one round, then 2e₁.
    """
    size, length = whole(dimension, "dimension", least=2), whole(rounds, "rounds", least=3)
    thetas = np.zeros((length, size))
    thetas[: length // 3, 1:] = 1.0
    thetas[length // 3 + 1 :, 0] = 2.0
    arms = turned_arms(size, angle)
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="malicious")


def oscillating(
    magnitude: float = 2.5,
    period: float = 900,
    *,
    dimension: int = 10,
    angle: float = 0.5,
    rounds: int = 10_000,
    noise: float = 1.0,
) -> MovingMeans:
    """Soare's arms, of which the last unit vector is the best on average and swings.

    θ_t = 0.3 e₁ + (0.5 − magnitude · sin(2πt/period)) e_d at t = 0, 1, …
    """
    size = whole(dimension, "dimension", least=3)
    times = np.arange(whole(rounds, "rounds", least=1))
    thetas = np.zeros((len(times), size))
    thetas[:, 0] = 0.3
    swing = np.sin(2 * np.pi * times / positive(period, "period"))
    thetas[:, -1] = 0.5 - finite(magnitude, "magnitude") * swing
    arms = turned_arms(size, angle)
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="oscillating")


def multivariate(
    scale: float = 2.0, period: float | None = None, *, rounds: int = 10_000, noise: float = 0.3
) -> MovingMeans:
    """The paper's multivariate test: four yes-no choices, each with its pairs, of moving effects.

    An arm has the features 1, v_i = ±1 and v_i v_j. Each effect swings around its mean with `scale`
    times the largest of them and a random phase, such that the best arm stays the best on average.
    Means and phases are those of the paper's two series of instances: scales 0, 1, …, 9 at a period
    of 900 rounds, which is the series without `period`, and periods 300, 600, …, 3000 at scale 2.
    """
    choices = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    pairs = [choices[:, i] * choices[:, j] for i, j in itertools.combinations(range(4), 2)]
    arms = np.column_stack([np.ones(len(choices)), choices, *pairs])
    series = [(each, 900.0) for each in _SCALES]
    if period is not None:
        series = [(2.0, each) for each in _PERIODS]
    wanted = (float(scale), 900.0 if period is None else float(period))
    if wanted not in series:
        raise InvalidInputError(
            f"The paper has no instance of scale {scale:g} and period {wanted[1]:g}.",
            field="scale" if period is None else "period",
            value=scale if period is None else period,
            remedy="Without `period` the scale is 0, 1, … or 9; with it the scale is 2 and the "
            "period 300, 600, … or 3000.",
        )
    times = np.arange(whole(rounds, "rounds", least=1))
    thetas = _swinging_effects(arms, times, series[: series.index(wanted) + 1])
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="multivariate")


def _swinging_effects(arms: Array, times: Counts, series: list[tuple[float, float]]) -> Array:
    """θ_t of the last instance of a series; those before it use up random numbers."""
    rng = np.random.RandomState(_SEED)  # the paper's instances
    theta = np.zeros(arms.shape[1])
    while np.ptp(np.sort(arms @ theta)[-2:]) < _LEAST_GAP:
        theta = np.asarray(rng.randint(-10, 10, len(theta)) / 100)
        theta[5] /= 2  # the first pair
    best, largest = np.argmax(arms @ theta), np.abs(theta).max()
    for scale, period in series:
        while True:
            phases = np.empty(len(theta))
            for feature in range(len(theta)):
                rng.randint(0, 2)  # the paper's instances draw it and do not use it
                phases[feature] = rng.uniform(0, 2 * np.pi)
            angles = 2 * np.pi * times[:, None] / period + phases
            thetas = theta + scale * largest * np.sin(angles)
            if np.argmax(arms @ thetas.mean(axis=0)) == best:
                break
    return np.asarray(thetas)
