"""What simulated worlds have in common: their protocols, and the base of those that are fixed.

An `Environment` provides a `World` per run: always the same one if the instance is fixed, a new one
if it is drawn. A `World` knows the truth. A `Stream` is one run in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import not_negative
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

ROUNDING = 8 * float(np.finfo(float).eps)  # of an inner product, relative to the sum of its sizes


class Pulls(NamedTuple):
    """Single pulls in the order of their draws.

    Attributes:
        arms: their arms.
        rewards: their rewards.
        covariates: what was known before each draw, one row per pull, or None.
    """

    arms: NDArray[np.int64]
    rewards: Array
    covariates: Array | None = None


ForecastFunction = Callable[[Pulls, Plan], Array]  # forecasts of pulls, each from those before it


class Stream(Protocol):
    """One run: rounds are numbered 1, 2, … across all plans pulled on it.

    A stream whose rewards can be drawn before the arms are chosen may have two more methods, which
    let a policy that has `run_presampled` be simulated without a plan for each of its rounds:

        presample(rounds: int) -> PresampledRewards | None
            The rewards of the next `rounds` rounds, or of those that are left; None if none is left
            or they cannot be known. The current round does not change. The caller may use only
            rounds that it then skips, because the noise of the others is drawn again.
        skip(rounds: int) -> None
            Advance by this many of the rounds that `presample` returned.
    """

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals, with their exact joint distribution."""
        ...


@runtime_checkable
class AdjustableStream(Stream, Protocol):
    """A run that shows its single pulls, in the order of their draws, to a forecaster."""

    def pull_adjusted(self, plan: Plan, forecast: ForecastFunction) -> Summary:
        """Carry out a plan and return the totals of rewards minus their forecasts."""
        ...


class World(Protocol):
    """One instance, with its truth.

    A world may have one more attribute, `mean_bound`, a bound on |x·θ|: a simulation tells it
    methods that have an option of this name, where it is beyond the scale of the problem, which
    they assume otherwise.
    """

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
        means: what arms pay on average, without the baseline.
        mean_bound: the bound on |x·θ| that policies are told if they ask; by default the scale of
            the problem, unless one of the means is larger.
        rounding: the largest gap that rounding explains.
        field: the argument that the values come from.

    Attributes:
        name: its name in results and tables.
        best: the index of the truly best target.
        gap: how much better it is than the second.
        mean_bound: the bound on |x·θ| that policies are told if they ask.

    Raises:
        InvalidInputError: two targets are equally good.
    """

    def __init__(
        self,
        name: str,
        template: Problem,
        values: Array,
        *,
        means: Array,
        mean_bound: float | None = None,
        rounding: float,
        field: str,
    ) -> None:
        self.name: Final = str(name)
        if mean_bound is None:
            mean_bound = max(template.scale, float(np.abs(means).max()))
        self.mean_bound: Final = not_negative(mean_bound, "declared_mean_bound")
        self._template = template
        self._problems: dict[float, Problem] = {}  # one per delta, so that designs are cached once
        second, best = (int(i) for i in np.argsort(values, kind="stable")[-2:])
        self.best: Final = best
        self.gap: Final = float(values[best] - values[second])
        if self.gap <= rounding:
            names = tuple(template.target_labels[i] for i in sorted((best, second)))
            raise InvalidInputError(
                f"{names[0]!r} and {names[1]!r} are equally good, so there is no best one to find.",
                field=field,
                value=names,
                remedy=f"Drop one of them, or change `{field}`.",
            )

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
