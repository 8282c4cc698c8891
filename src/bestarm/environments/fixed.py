"""The base of worlds whose instance is the same in every run."""

from __future__ import annotations

from typing import Self, cast

import numpy as np

from bestarm.environments.environment import World
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem


def fixed_world(environment: object) -> World | None:
    """The environment, if it is the world of every run, so that no generator need be made for it.

    A subclass may draw its instances.
    """
    if not isinstance(environment, FixedWorld):
        return None
    own = getattr(environment.instance, "__func__", None)
    return cast(World, environment) if own is FixedWorld.instance else None


class FixedWorld:
    """An environment that is its own world: subclasses define `begin`.

    Args:
        name: its name in results and tables.
        template: the problem that policies are told, at any delta.
        values: the true value of each target.
        rounding: the largest gap that rounding explains.
        field: the argument that the values come from.

    Raises:
        InvalidInputError: two targets are equally good.
    """

    def __init__(
        self, name: str, template: Problem, values: Array, *, rounding: float, field: str
    ) -> None:
        self._name, self._template = str(name), template
        self._problems: dict[float, Problem] = {}  # one per delta, so that designs are cached once
        second, self._best = (int(i) for i in np.argsort(values, kind="stable")[-2:])
        self._gap = float(values[self._best] - values[second])
        if self._gap <= rounding:
            names = tuple(template.target_labels[i] for i in sorted((self._best, second)))
            raise InvalidInputError(
                f"{names[0]!r} and {names[1]!r} are equally good, so there is no best one to find.",
                field=field,
                value=names,
                remedy=f"Drop one of them, or change `{field}`.",
            )

    @property
    def name(self) -> str:
        """Its name in results and tables."""
        return self._name

    @property
    def best(self) -> int:
        """The index of the truly best target."""
        return self._best

    @property
    def gap(self) -> float:
        """How much better the best target is than the second."""
        return self._gap

    def instance(self, rng: np.random.Generator) -> Self:  # noqa: ARG002 - it is fixed
        """Itself: the instance is the same in every run."""
        return self

    def problem(self, delta: float) -> Problem:
        """The problem that policies are told: features, labels and declared scales."""
        if delta not in self._problems:
            self._problems[delta] = self._template.with_delta(delta)
        return self._problems[delta]

    def __getstate__(self) -> dict[str, object]:
        # Problems may carry designs cached by policies of this process, which need not be sent.
        return self.__dict__ | {"_problems": {}}
