"""Worlds in which the means of the arms themselves move: the best arm is the best on average."""

from __future__ import annotations

import numpy as np

from bestarm.checks import not_negative
from bestarm.environments.environment import Stream
from bestarm.environments.fixed import FixedWorld
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_features

_ROUNDING = 8 * float(np.finfo(float).eps)


class MovingMeans(FixedWorld):
    """A fixed instance: pulling arm a at round t pays means[t, a] + N(0, noise²).

    Nothing is common to the arms, so no method can take the movement off. The best arm has the
    best average over all rounds, and a run ends with the last of them.

    Args:
        source: features of the arms, one row per arm.
        means: the mean reward of each arm at each round, one row per round.
        noise: the standard deviation of the noise.
        name: its name in results and tables.

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
        self._noise = not_negative(noise, "noise", remedy="It is a standard deviation.")
        self._table = as_features(means, "means", unit="round", entry="mean")
        template = Problem(source, noise=self._noise)
        if self._table.shape[1] != template.arms:
            raise InvalidInputError(
                f"`means` has {self._table.shape[1]} columns; there are {template.arms} arms.",
                field="means",
                value=self._table.shape,
                remedy="Give one row per round, with the mean reward of each arm.",
            )
        values = self._table.mean(axis=0)
        rounding = _ROUNDING * float(np.max(np.abs(self._table)))
        super().__init__(name, template, values, rounding=rounding, field="means")

    @property
    def means(self) -> Array:
        """The mean reward of each arm at each round, read-only."""
        return self._table

    @property
    def rounds(self) -> int:
        """The rounds that a run has at most."""
        return len(self._table)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise."""
        return self._noise

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at round 1."""
        from bestarm.environments.moving_streams import (  # noqa: PLC0415 - compiles kernels
            MovingMeansStream,
        )

        return MovingMeansStream(self._table, noise=self._noise, rng=rng)

    def __repr__(self) -> str:
        return (
            f"MovingMeans({self._name!r}, {self._template.arms} arms, {self.rounds} rounds, "
            f"best={self._best}, gap={self._gap:g}, noise={self._noise:g})"
        )
