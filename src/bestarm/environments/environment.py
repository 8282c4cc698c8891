"""The protocols of simulated worlds.

An `Environment` provides a `World` per run: always the same one if the instance is fixed, a new one
if it is drawn. A `World` knows the truth. A `Stream` is one run in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class Pulls(NamedTuple):
    """Single pulls in the order of their draws.

    Attributes:
        arms: their arms.
        rewards: their rewards.
        covariates: what was known before each draw, one row per pull, or None.
        moments: when each was drawn, in seconds, or None if they have no time.
    """

    arms: NDArray[np.uint32]
    rewards: Array
    covariates: Array | None = None
    moments: Array | None = None


Foresee = Callable[[Pulls, Plan], Array]  # forecasts of pulls, each from those before it


class Stream(Protocol):
    """One run: rounds are numbered 1, 2, … across all plans pulled on it.

    A stream whose rewards can be drawn before the arms are chosen may have two more methods, which
    let a policy that has `follow` be simulated without a plan for each of its rounds:

        presample(rounds: int) -> PresampledRewards | None
            The rewards of at most `rounds` next rounds; None if they cannot be known. The current
            round does not change. The caller may use only rounds that it then skips, because the
            noise of the others is drawn again.
        skip(rounds: int) -> None
            Advance by this many of the rounds that `presample` returned.
    """

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, with their exact joint distribution."""
        ...


@runtime_checkable
class ForeseeableStream(Stream, Protocol):
    """A run whose single pulls can be told to a forecaster, in the order of their draws."""

    def pull_less(self, plan: Plan, foresee: Foresee) -> Summary:
        """Carry out a plan and return the totals of rewards less their forecasts."""
        ...


class World(Protocol):
    """One instance, with its truth."""

    @property
    def best(self) -> int:
        """The index of the truly best target."""
        ...

    def problem(self, delta: float) -> Problem:
        """The problem that policies are told; one object per delta, so that designs are cached."""
        ...

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run whose randomness comes from `rng` alone."""
        ...


@runtime_checkable
class Environment(Protocol):
    """Provides worlds. It must be picklable to be simulated in several processes.

    An environment whose runs have known worlds may have one more method, which a simulation calls
    instead of `instance`:

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
