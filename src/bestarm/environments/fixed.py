"""The base of worlds whose instance is the same in every run."""

from __future__ import annotations

from typing import Self

import numpy as np

from bestarm.problem import Problem

__all__ = ["FixedWorld"]


class FixedWorld:
    """An environment that is its own world: subclasses set the fields and define `begin`."""

    _name: str
    _best: int
    _gap: float
    _template: Problem  # the problem that policies are told, at any delta
    _problems: dict[float, Problem]  # one per delta, so that designs are cached once

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
