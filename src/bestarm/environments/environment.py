"""The protocols between a simulated world and whatever runs policies in it.

An `Environment` gives a `World` for each run: the same one every time where the instance is fixed,
a fresh one where it is drawn. A `World` knows the truth. A `Stream` is one run in it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from bestarm.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Counts, Plan, Summary

__all__ = ["Ahead", "Environment", "Stream", "World"]


class Ahead(NamedTuple):
    """Rewards of rounds to come: at the i-th of them arm a pays `table[rows[i], a] + common[i]`."""

    table: Array
    rows: Counts
    common: Array


class Stream(Protocol):
    """One run: rounds are numbered 1, 2, … across all plans pulled on it.

    A stream whose rewards do not depend on the arms pulled before may have two more methods, which
    let a policy that has `follow` be simulated without a plan for each of its rounds:

        ahead(rounds: int) -> Ahead | None
            The rewards of the next rounds, at most so many; None if they cannot be known. Nothing
            is used up: the round stays what it is, and whoever asks may look only at rounds that
            it then skips, because the noise of the others is drawn anew.
        skip(rounds: int) -> None
            Go on by so many of the rounds that `ahead` gave.
    """

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and give its totals, with their exact joint law."""
        ...


class World(Protocol):
    """One instance, with its truth."""

    @property
    def best(self) -> int:
        """The index of the truly best target."""
        ...

    def problem(self, delta: float) -> Problem:
        """What a policy is told; the same object for the same delta, so designs are cached once."""
        ...

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run whose randomness comes from `rng` alone."""
        ...


@runtime_checkable
class Environment(Protocol):
    """Gives worlds. Must be picklable if it is to be simulated in several processes.

    One whose runs are in given worlds may have one more method, which a simulation then asks in
    place of `instance`:

        of_run(run: int) -> World
            The world of run number `run`.
    """

    @property
    def name(self) -> str:
        """A short name for tables."""
        ...

    def instance(self, rng: np.random.Generator) -> World:
        """The world of one run: always the same object if the instance is fixed."""
        ...
