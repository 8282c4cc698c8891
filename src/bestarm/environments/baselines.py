"""Baselines: how ν_t, the part of the reward that all arms share, moves from round to round.

Rounds are numbered 1, 2, … over a whole run, across plans. Your own baseline is an array, a
function of the round, or a subclass of `Moving`. A baseline is a frozen description; the state of a
run is in its stream, further below.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

import numpy as np

from bestarm.checks import finite, positive, vector
from bestarm.environments.environment import Pulls, Stream
from bestarm.environments.streams import Arms, BaseStream, BlockStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import AdversaryPast, PresampledRewards
from bestarm.records import Plan, Summary

__all__ = [
    "Baseline",
    "Moving",
    "adversary",
    "as_baseline",
    "constant",
    "custom",
    "none",
    "random_walk",
    "sinusoid",
    "switches",
]

_FIRST_CHUNK, _LONGEST_CHUNK = 2**10, 2**14  # rounds computed at a time: few for short runs
_CACHED = 2**22  # rounds of a deterministic baseline kept in a process: 32 MiB
_UNUSED = np.random.default_rng(0)  # what a baseline is given that does not draw


class Baseline(ABC):
    """How ν_t moves."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest possible |ν_t|; infinite if it is not known."""

    @abstractmethod
    def begin(self, means: Array, *, noise: float, rng: np.random.Generator) -> Stream:
        """Start a run with these arm means x_a·θ and this standard deviation of the noise."""


class Moving(Baseline):
    """A baseline that may be random but does not react to the pulls."""

    is_random: ClassVar[bool] = True  # whether `chunks` draws; else no run makes a generator for it

    @abstractmethod
    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:
        """Values for rounds 1, 2, … as arrays whose lengths do not depend on the pulls."""

    @property
    def horizon(self) -> float:
        """The number of rounds it is known for."""
        return math.inf

    def begin(self, means: Array, *, noise: float, rng: np.random.Generator) -> Stream:
        """Start a run. The path has its own generator, so it does not depend on the pulls."""
        return MovingStream(means, self, noise=noise, rng=rng)


@dataclass(frozen=True)
class Constant(Baseline):
    """ν_t = level."""

    level: float

    @property
    def bound(self) -> float:
        """|level|."""
        return abs(self.level)

    def begin(self, means: Array, *, noise: float, rng: np.random.Generator) -> Stream:
        """Start a run."""
        return ConstantStream(means + self.level, noise=noise, rng=rng)


@dataclass(frozen=True)
class Adversary(Baseline):
    """ν_t = ±size, chosen against the current leader."""

    size: float

    @property
    def bound(self) -> float:
        """The size of every ν_t."""
        return self.size

    def begin(self, means: Array, *, noise: float, rng: np.random.Generator) -> Stream:
        """Start a run."""
        return AdversaryStream(means, bound=self.size, noise=noise, rng=rng)


class _Computed(Moving):
    """A path that is the same in every run; its first rounds are computed once per process."""

    is_random: ClassVar[bool] = False

    @cached_property
    def _cache(self) -> dict[int, Array]:
        return {}

    @abstractmethod
    def _evaluate(self, start: int, size: int) -> Array:
        """Values for rounds start + 1, …, start + size."""

    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:  # noqa: ARG002 - nothing is drawn
        """Its values."""
        for start, size in _chunk_ranges():
            values = self._cache.get(start)
            if values is None:
                values = self._evaluate(start, size)
                values.flags.writeable = False
                if start + size <= _CACHED:
                    self._cache[start] = values
            yield values

    def __getstate__(self) -> dict[str, object]:
        # Sending the cache would take longer than computing it.
        return {name: part for name, part in self.__dict__.items() if not name.startswith("_")}


@dataclass(frozen=True)
class Sinusoid(_Computed):
    """ν_t = offset + amplitude · sin(frequency · t)."""

    amplitude: float
    offset: float
    frequency: float

    @property
    def bound(self) -> float:
        """|offset| + |amplitude|."""
        return abs(self.offset) + abs(self.amplitude)

    @cached_property
    def _rotations(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _evaluate(self, start: int, size: int) -> Array:
        # sin(s + x) = cos x sin s + sin x cos s with x from a table: several times faster than sin.
        if size not in self._rotations:
            angle = self.frequency * np.arange(1, size + 1)
            self._rotations[size] = self.amplitude * np.cos(angle), self.amplitude * np.sin(angle)
        cosine, sine = self._rotations[size]
        values = cosine * math.sin(self.frequency * start)
        values += sine * math.cos(self.frequency * start)
        values += self.offset
        return values


@dataclass(frozen=True, eq=False)
class Function(_Computed):
    """ν_t = function(t), evaluated on arrays of round numbers where it takes them."""

    function: Callable[[Any], object]
    limit: float

    @property
    def bound(self) -> float:
        """The declared bound, or infinity."""
        return self.limit

    def _evaluate(self, start: int, size: int) -> Array:
        rounds = np.arange(start + 1, start + size + 1, dtype=float)
        values = vector(self._call(rounds), "baseline", first=int(rounds[0]))
        if values.shape != rounds.shape:
            raise InvalidInputError(
                f"`baseline` must return one number per round; for {len(rounds)} rounds it "
                f"returned values of shape {values.shape}.",
                field="baseline",
                value=values.shape,
                remedy="It is a function of the round's number, or of an array of them.",
            )
        beyond = np.flatnonzero(np.abs(values) > self.limit)
        if beyond.size:
            raise InvalidInputError(
                f"`baseline` is {values[beyond[0]]:g} at round {rounds[beyond[0]]:.0f}, beyond "
                f"its bound of {self.limit:g}.",
                field="bound",
                value=self.limit,
                remedy="Raise the bound, or leave it out.",
            )
        return values

    def _call(self, rounds: Array) -> object:
        """Its values on all rounds at once or, if it takes single rounds only, one by one."""
        try:
            values = self.function(rounds)
            if np.shape(values) == rounds.shape:  # type: ignore[call-overload]
                return values
        except (TypeError, ValueError):  # as `if` and `math.sin` raise for arrays
            pass
        return [self.function(number) for number in rounds.tolist()]


@dataclass(frozen=True, eq=False)
class Recorded(Moving):
    """ν_1, ν_2, … from an array."""

    is_random: ClassVar[bool] = False

    values: Array

    @property
    def bound(self) -> float:
        """max |ν_t| over the array."""
        return float(np.max(np.abs(self.values)))

    @property
    def horizon(self) -> float:
        """The length of the array."""
        return len(self.values)

    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:  # noqa: ARG002 - nothing is drawn
        """The array."""
        return iter([self.values])


@dataclass(frozen=True)
class RandomWalk(Moving):
    """Gaussian steps from a level, reflected at ±limit from it."""

    step: float
    limit: float
    level: float = 0.0

    @property
    def bound(self) -> float:
        """|level| + limit."""
        return abs(self.level) + self.limit

    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:
        """A path of the walk."""
        now, period = 0.0, 4 * self.limit
        for _, size in _chunk_ranges():
            free = now + np.cumsum(self.step * rng.standard_normal(size))
            # Reflected as often as it takes: its steps are symmetric, so that turning round the
            # steps after a reflection changes nothing.
            yield self.level + self.limit - abs((free + self.limit) % period - 2 * self.limit)
            now = float(free[-1] % period)


@dataclass(frozen=True)
class Switches(Moving):
    """A level that jumps to another at random times."""

    levels: tuple[float, ...]
    period: float

    @property
    def bound(self) -> float:
        """The largest |level|."""
        return max(abs(level) for level in self.levels)

    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:
        """A path of switches."""
        levels, number = np.array(self.levels), len(self.levels)
        now = int(rng.integers(number))
        for _, size in _chunk_ranges():
            switched = np.flatnonzero(rng.random(size) < 1.0 / self.period)
            jumps = rng.integers(1, number, size=len(switched))
            index = (now + np.concatenate([[0], np.cumsum(jumps)])) % number
            now = int(index[-1])
            yield np.repeat(levels[index], np.diff(switched, prepend=0, append=size))


@dataclass(frozen=True)
class Independent(Moving):
    """A level of its own for every round, uniform within ±size of a level: people who differ."""

    size: float
    level: float = 0.0

    @property
    def bound(self) -> float:
        """|level| + size."""
        return abs(self.level) + self.size

    def chunks(self, rng: np.random.Generator) -> Iterator[Array]:
        """A level per round."""
        for _, size in _chunk_ranges():
            yield rng.uniform(self.level - self.size, self.level + self.size, size)


def _chunk_ranges() -> Iterator[tuple[int, int]]:
    """(rounds before, rounds) of successive chunks, the same in every run."""
    start = 0
    for doubling in count():
        size = min(_FIRST_CHUNK << min(doubling, 16), _LONGEST_CHUNK)
        yield start, size
        start += size


def none() -> Baseline:
    """ν_t = 0: the ordinary linear model."""
    return Constant(0.0)


def constant(level: float) -> Baseline:
    """ν_t = level."""
    return Constant(finite(level, "level"))


def sinusoid(amplitude: float = 1.0, *, offset: float = 1.0, frequency: float = 2.0) -> Baseline:
    """ν_t = offset + amplitude · sin(frequency · t); 1 + sin(2t) in the paper's experiments."""
    return Sinusoid(
        finite(amplitude, "amplitude"), finite(offset, "offset"), finite(frequency, "frequency")
    )


def random_walk(step: float = 0.01, *, bound: float = 1.0) -> Baseline:
    """A walk from 0 with steps N(0, step²), reflected inside ±bound."""
    return RandomWalk(positive(step, "step"), positive(bound, "bound"))


def switches(levels: Sequence[float] = (-1.0, 1.0), *, period: float = 1000.0) -> Baseline:
    """Abrupt switches: every round, with probability 1/period, a jump to another of the levels.

    It starts at a random level, and jumps to any other with equal probability.
    """
    values = vector(levels, "levels")
    if values.ndim != 1 or len(np.unique(values)) != len(values) or len(values) < 2:
        raise InvalidInputError(
            "`levels` must hold at least two different numbers.",
            field="levels",
            value=levels,
            remedy="For a single level use `constant`.",
        )
    if positive(period, "period") < 1:
        raise InvalidInputError(
            f"`period` must be at least 1; got {period:g}.",
            field="period",
            value=period,
            remedy="It is the mean number of rounds between switches.",
        )
    return Switches(tuple(values.tolist()), float(period))


def custom(values: object, *, bound: float | None = None) -> Baseline:
    """ν_t from an array of values for rounds 1, 2, …, or from a function.

    An array is never repeated: a plan that would run past its end is refused before any of it is
    drawn. A function takes a float array of round numbers and returns one value per round, or takes
    and returns single numbers, which is slower. It must be a pure function, because its values are
    cached for the next run, and it may be called for up to 100 000 rounds beyond those pulled.
    `bound` is the largest |ν_t|; an array needs none.
    """
    limit = math.inf if bound is None else positive(bound, "bound")
    if callable(values):
        return Function(values, limit)
    array = vector(values, "baseline")
    if array.ndim != 1 or array.size == 0 or np.max(np.abs(array)) > limit:
        raise InvalidInputError(
            f"`baseline` must have one value per round, within its bound; got shape {array.shape}.",
            field="baseline",
            value=array.shape,
            remedy="Give a list of numbers, and a bound that none of them exceeds.",
        )
    array.flags.writeable = False
    return Recorded(array)


def adversary(bound: float = 1.0) -> Baseline:
    """An adaptive adversary that knows all past arms and rewards and acts against the leader.

    The leader is the arm with the highest mean reward so far. The next arm is predicted to be the
    one that followed the most recent occurrence of the arm just pulled. ν_t is −bound if the
    prediction is the leader and +bound otherwise, so that against a fixed order, where the
    prediction is right, arm means are worthless; against independent draws it has no effect.
    """
    return Adversary(positive(bound, "bound"))


def as_baseline(value: object) -> Baseline:
    """A baseline from a baseline, a number (constant), an array or a function."""
    if isinstance(value, Baseline):
        return value
    if not callable(value) and np.ndim(value) == 0:  # type: ignore[arg-type]
        return Constant(finite(value, "baseline"))
    return custom(value)


class ConstantStream(BlockStream):
    """A run on a baseline that does not move: counts are multinomial, O(arms) per plan.

    The means contain the baseline.
    """

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds."""
        return self._presample_common(np.zeros(rounds))

    def _total(self, plan: Plan) -> Summary:
        counts, nothing = self._counts(plan), np.zeros(plan.arms)
        return self._gaussian_totals(counts, self._means, nothing, nothing, plan.center)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms in self._arms_in_order(plan):
            yield Pulls(arms, self._add_noise(self._means[arms]))

    def _block_rewards(self, arms: Arms) -> Array:
        return self._add_noise(self._means[arms])


class MovingStream(BlockStream):
    """A run on a baseline that moves but does not react.

    The path has its own generator, so that it depends on the seed and not on the pulls.
    """

    def __init__(
        self, means: Array, baseline: Moving, *, noise: float, rng: np.random.Generator
    ) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._path = baseline.chunks(self._baseline_rng if baseline.is_random else _UNUSED)
        self._horizon = baseline.horizon
        self._values = np.empty(0)  # drawn, for the rounds to come

    def _check_horizon(self, rounds: int) -> None:
        if self._rounds + rounds > self._horizon:
            raise InvalidInputError(
                f"The baseline has values for {self._horizon:g} rounds, and the plan would reach "
                f"round {self._rounds + rounds}.",
                field="baseline",
                value=self._horizon,
                remedy="Give a longer array, a function of the round, or a policy with a cap.",
            )

    def _next_values(self, rounds: int) -> Array:
        """The values of the next rounds."""
        known = [self._values]
        while sum(map(len, known)) < rounds:
            known.append(next(self._path))
        values = known[0] if len(known) == 1 else np.concatenate(known)
        self._values = values[rounds:]
        return values[:rounds]

    def _arms_and_values(self, plan: Plan) -> Iterator[tuple[Arms, Array]]:
        """The arms of a plan's pulls and the baseline at each, in chunks."""
        self._check_horizon(plan.pulls)
        for arms in self._arms_in_order(plan):
            yield arms, self._next_values(len(arms))

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms, values in self._arms_and_values(plan):
            yield Pulls(arms, self._add_noise(self._means[arms] + values))

    def _total(self, plan: Plan) -> Summary:
        self._check_horizon(plan.pulls)
        arm_of, chunks = self._cells_in_order(plan)
        room, shift = len(arm_of), None
        n, first, second = np.zeros((3, room))
        for cells in chunks:
            values = self._next_values(len(cells))
            # Measured from a value on the path, a baseline far from 0 loses no digits in Σv².
            shift = float(values[0]) if shift is None else shift
            moved = values - shift
            n += np.bincount(cells, minlength=room)
            first += np.bincount(cells, moved, room)
            second += np.bincount(cells, moved * moved, room)
        counts = np.bincount(arm_of, n, plan.arms).astype(np.int64)
        first, second = (
            np.bincount(arm_of, part, plan.arms).astype(float) for part in (first, second)
        )
        level = self._means + (shift or 0.0)
        return self._gaussian_totals(counts, level, first, second, plan.center)

    def _block_rewards(self, arms: Arms) -> Array:
        self._check_horizon(len(arms))
        return self._add_noise(self._means[arms] + self._next_values(len(arms))[:, None])

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, as far as the path goes."""
        wanted = int(min(rounds, self._horizon - self._rounds))
        parts, known = [self._values], len(self._values)
        while known < wanted and (values := next(self._path, None)) is not None:
            parts.append(values)
            known += len(values)
        if len(parts) > 1:
            self._values = np.concatenate(parts)
        if min(wanted, known) <= 0:
            return None
        return self._presample_common(self._values[:wanted].copy())

    def skip(self, rounds: int) -> None:
        """Advance by this many rounds, and along the path with them."""
        self._next_values(rounds)
        super().skip(rounds)


class AdversaryStream(BaseStream):
    """A run against the adaptive adversary of `adversary`: one pull at a time."""

    def __init__(
        self, means: Array, *, bound: float, noise: float, rng: np.random.Generator
    ) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._past = AdversaryPast(bound, len(means))

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, but for the adversary's baseline, which is added to them."""
        return self._presample_common(np.zeros(rounds))._replace(past=self._past)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms in self._arms_in_order(plan):
            yield Pulls(arms, self._past.respond(arms, self._add_noise(self._means[arms])))
