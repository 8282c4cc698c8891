"""A list of worlds, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bestarm.environments.environment import World
from bestarm.errors import InvalidInputError

__all__ = ["InTurn"]


class InTurn:
    """Run i of a simulation happens in world i; after the last world comes the first again.

    For fixed lists of instances, such as those of a published experiment.

    Args:
        worlds: the worlds.
        name: their name in results and tables.

    Example:
        >>> from bestarm import environments, simulate, SPBAI
        >>> worlds = [environments.small_gap(3, angle) for angle in (0.8, 0.4)]
        >>> pulls = simulate(SPBAI, environments.InTurn(worlds, "angles"), runs=4).pulls
        >>> bool(pulls[0] < pulls[1] and pulls[2] < pulls[3])
        True
    """

    def __init__(self, worlds: Sequence[World], name: str) -> None:
        if not worlds:
            raise InvalidInputError("There must be at least one world.", field="worlds", value=())
        self._worlds = tuple(worlds)
        self._name = str(name)

    @property
    def name(self) -> str:
        """Its name in results and tables."""
        return self._name

    @property
    def worlds(self) -> tuple[World, ...]:
        """The worlds, in their order."""
        return self._worlds

    def of_run(self, run: int) -> World:
        """The world of this run of a simulation."""
        return self._worlds[run % len(self._worlds)]

    def instance(self, rng: np.random.Generator) -> World:
        """A random one of the worlds, for callers that do not number runs."""
        return self._worlds[int(rng.integers(len(self._worlds)))]
