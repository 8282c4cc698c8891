"""What is to be planned: a problem, assumptions, policies and the size of the simulation.

Assumptions are scenarios: how the options differ, and how the baseline drifts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bestarm.bounds import sub_gaussian_scale
from bestarm.checks import (
    choice,
    computable,
    duration,
    finite,
    interval,
    positive,
    suggestion,
    vector,
    whole,
)
from bestarm.environments import baselines
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.amounts import read_lead, read_rate
from bestarm.policies import Method
from bestarm.policies.registry import accepted
from bestarm.policies.registry import policies as registered
from bestarm.problem import Problem, as_problem, problem_of
from bestarm.simulation.results import run_count

#: The policies that are planned for if none is named; in blocks, those of them that can.
DEFAULT_POLICIES = ("anytime", "sp-bai")
DRIFTS = ("none", "sine", "walk", "switches", "people")
SHAPES = ("close", "typical")
_PLACES = 1000
_DAY = 86_400.0
_MOST_UNDER_WAY = 10_000_000  # outcomes: a simulated experiment holds all of them

Path = baselines.Constant | baselines.Moving


@dataclass(frozen=True)
class Drift:
    """How the baseline moves.

    Attributes:
        kind: `"none"`; `"sine"`, a slow wave; `"walk"`, a random walk between two walls;
            `"switches"`, jumps between two levels at random times; or `"people"`, a level of its
            own for every round, uniform within the size: some rate all high, others all low.
        size: how far it moves to either side. By default as far from the level as the declared
            baseline allows, and at most half of the way to the bounds of the rewards.
        period: rounds per wave, until a walk has moved by about `size`, or between two jumps. By
            default the rounds per day if these are known, else 1000.
    """

    kind: str = "sine"
    size: float | None = None
    period: float | None = None

    def __post_init__(self) -> None:
        choice(self.kind, DRIFTS, "drift")
        if self.size is not None:
            computable(positive(self.size, "size"), "size")
        if self.period is not None and positive(self.period, "period") < 2:
            what = f"`period` must be at least 2 rounds; got {self.period:g}."
            remedy = "It is how long the baseline takes to come back."
            raise InvalidInputError(what, field="period", value=self.period, remedy=remedy)

    def path(self, *, level: float, size: float, period: float) -> Path:
        """The baseline, moving around a level."""
        if self.kind == "none" or size == 0:
            return baselines.Constant(level)
        if self.kind == "sine":
            return baselines.Sinusoid(size, level, 2 * math.pi / period)
        if self.kind == "switches":
            return baselines.Switches((level - size, level + size), period)
        if self.kind == "people":
            return baselines.Independent(size, level)
        return baselines.RandomWalk(size / math.sqrt(period), size, level)

    def places(self, size: float) -> Array:
        """Its long-run distribution, as equally likely distances from the level."""
        middles = (np.arange(_PLACES) + 0.5) / _PLACES
        if self.kind == "sine":
            return size * np.sin(2 * math.pi * middles)
        if self.kind in ("walk", "people"):
            return size * (2 * middles - 1)
        return np.array([-size, size])


@dataclass(frozen=True)
class Scenario:
    """One set of assumptions under which an experiment is simulated.

    Attributes:
        name: its name in results.
        gap: by how much the best target leads the next one, in units of the reward. Needed unless
            `theta` is a vector.
        theta: `"close"`, the hardest case: all others trail by as little as the features allow, and
            the target that is hardest to prove best is the best; `"typical"`: arm means as of a
            random parameter; or the parameter itself, one number per feature.
        drift: how the baseline moves.
        level: the mean reward about which arms differ; by default 0, or the middle of the bounds.
            It is part of the baseline. Where none is declared, it is part of θ if rewards are
            bounded and features can express it; otherwise, if left out, arms pay x·θ alone.
        base: instead of the level, the mean reward of the next best target: the base rate.
        noise: the standard deviation of Gaussian noise within a round, which does not contain how
            rounds differ: that is the drift. By default that of the problem. Not for bounded
            rewards, which are at one bound or the other.
    """

    name: str
    gap: float | None = None
    theta: str | tuple[float, ...] = "close"
    drift: Drift = Drift()
    level: float | None = None
    base: float | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.theta, str)
        if named:
            choice(self.theta, SHAPES, "theta")
        else:
            numbers = vector(self.theta, "theta")
            computable(max(float(np.abs(numbers).max(initial=0.0)), 1.0), "theta")
            object.__setattr__(self, "theta", tuple(numbers.ravel().tolist()))
        if named == (self.gap is None):
            what = f"Scenario {self.name!r} needs either a gap or a parameter in numbers."
            remedy = "A parameter in numbers has its own gap: leave `gap` out."
            if named:
                remedy = "Give the smallest lead that is worth finding, in units of the reward."
            raise InvalidInputError(what, field="gap", value=self.gap, remedy=remedy)
        for field in ("gap", "level", "base", "noise"):
            value = getattr(self, field)
            if value is not None:
                place = field in ("level", "base")
                number = finite(value, field) if place else positive(value, field)
                computable(max(abs(number), 1.0) if place else number, field)
                object.__setattr__(self, field, number)
        if self.base is not None and self.level is not None:
            what = "`level` and `base` both say where outcomes lie."
            remedy = "Give the base rate, or the middle of all options."
            raise InvalidInputError(what, field="base", value=self.base, remedy=remedy)


def scales(
    bounds: tuple[float, float] | None, noise: float | None, baseline: float | None
) -> tuple[float, float]:
    """The noise and baseline that policies are told: as given, else from the bounds, else 1.

    Bounded rewards have a noise of at most half the distance of the bounds, and a baseline between
    the bounds.
    """
    usual = (1.0, 1.0) if bounds is None else (sub_gaussian_scale(bounds), max(map(abs, bounds)))
    return usual[0] if noise is None else noise, usual[1] if baseline is None else baseline


def as_drift(value: object) -> Drift:
    """A drift from a drift or its kind."""
    return value if isinstance(value, Drift) else Drift(value)  # type: ignore[arg-type]


def as_scenario(document: Mapping[str, Any], *, name: str) -> Scenario:
    """A scenario from a document of a file; its drift is a word or a document.

    Its gap may be "+10 %", its base and level "2 %".

    Raises:
        InvalidInputError: it has unknown keys or invalid values.
    """
    _refuse_unknown(document, {field.name for field in fields(Scenario)}, "scenario")
    drift = document.get("drift", Drift())
    if isinstance(drift, Mapping):
        _refuse_unknown(drift, {field.name for field in fields(Drift)}, "drift")
        drift = Drift(**drift)
    named = str(document.get("name", name))
    stated = {**document, **_amounts(document)}
    return Scenario(**{**stated, "name": named, "drift": as_drift(drift)})


def _amounts(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The gap, the level and the base rate in numbers, of those that are stated."""
    found = {name: read_rate(stated[name], name) for name in ("level", "base") if name in stated}
    if "gap" in stated:
        found["gap"] = read_lead(stated["gap"], found.get("base"))
    return found


def _refuse_unknown(document: Mapping[str, Any], known: set[str], field: str) -> None:
    for key in document:
        if key not in known:
            what = f"Unknown key {key!r} in a {field}."
            remedy = suggestion(key, known) or f"Known are {', '.join(sorted(known))}."
            raise InvalidInputError(what, field=field, value=key, remedy=remedy)


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """What `plan_experiment` is to simulate.

    Attributes:
        problem: the experiment's problem, with the scales that policies are told.
        gap: the smallest lead worth finding: in units of the reward; or a text, `"+10 %"` of the
            base rate or `"0.2 pp"`. The hardest case is simulated: all others trail the best target
            by as little as the features allow.
        scenarios: assumptions in detail, instead of `gap`, `drift`, `level` and `base`.
        drift: how the baseline moves from round to round, or several ways: `"none"`, `"sine"`,
            `"walk"`, `"switches"`, `"people"`. By default `"sine"`; with blocks `"people"`.
        bounds: the lowest and the highest reward, for bounded rewards. Simulated rewards are then
            one or the other, like yes and no, and policies that use bounds are told them.
        level: the reward about which the baseline moves: 0, or the middle of the bounds. A rate of
            5 % is `bounds=(0, 1), level=0.05`, or `level="5 %"`.
        base: the base rate, instead of the level: the mean reward of the option next to the best,
            which has all others below or beside it.
        policies: names, or a table from names to methods.
        block: how many options a round has, all under one baseline: a person who rates 2. Policies
            are then simulated with blocks of this size, and for comparison with one option per
            round.
        per_day: rounds per day, which are outcomes unless there are blocks; converts them to days,
            and is the period of the drift.
        window: how long after its assignment an outcome counts, in seconds or as a text like "7d",
            as in `Experiment(..., window="7d")`. Needs `per_day`. The delay is simulated: days
            include it.
        runs: simulated experiments of each policy in each scenario.
        seed: the results depend only on it and on the other fields.
        max_pulls: the pulls at which a simulated experiment is cut; by default 100 times the lower
            bound and `delay` together, and at least a million. Without it, a plan is refused whose
            lower bounds add up to more than 10¹¹ pulls.

    Raises:
        InvalidInputError: a field is invalid.
    """

    problem: Problem
    gap: float | str | None = None
    scenarios: Sequence[Scenario] = ()
    drift: str | Drift | Sequence[str | Drift] | None = None
    bounds: tuple[float, float] | None = None
    level: float | str | None = None
    base: float | str | None = None
    policies: Sequence[str] | Mapping[str, Method] | None = None
    block: int = 1
    per_day: float | None = None
    window: float | str | None = None
    runs: int = 200
    seed: int = 0
    max_pulls: int | None = None

    def __post_init__(self) -> None:
        as_problem(self.problem)
        computable(self.problem.noise, "noise")
        computable(max(self.problem.baseline, 1.0), "baseline")
        run_count(self.runs)
        whole(self.seed, "seed", least=0)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", interval(self.bounds, "bounds"))
        if self.per_day is not None:
            object.__setattr__(self, "per_day", positive(self.per_day, "per_day"))
        if self.max_pulls is not None:
            whole(self.max_pulls, "max_pulls", least=1)
        whole(self.block, "block", least=1, below=self.problem.arms + 1)
        if self.window is not None:
            object.__setattr__(self, "window", duration(self.window, "window"))
            self._check_window()

    def _check_window(self) -> None:
        if self.per_day is None:
            what = "A window needs `per_day`: how many outcomes are assigned within it."
            raise InvalidInputError(what, field="per_day", remedy="Give the outcomes per day.")
        if self.block > 1:
            what = "A window cannot be planned together with blocks."
            remedy = "Leave `window` or `block` out."
            raise InvalidInputError(what, field="window", value=self.window, remedy=remedy)
        if self.delay > _MOST_UNDER_WAY:
            what = (
                f"Within this window {self.delay:.2g} outcomes are assigned; at most "
                f"{_MOST_UNDER_WAY:,} can be simulated."
            )
            remedy = "Give a shorter window, or fewer outcomes per day."
            raise InvalidInputError(what, field="window", value=self.window, remedy=remedy)

    @property
    def delay(self) -> int:
        """The rounds after which an outcome counts; 0 without a window."""
        if self.window is None or self.per_day is None:
            return 0
        return math.ceil(round(float(self.window) * self.per_day / _DAY, 6))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of options per round that are simulated; the one that was asked for first."""
        return (1,) if self.block == 1 else (self.block, 1)

    def methods(self) -> Mapping[str, Method]:
        """The methods of the policies, by name."""
        known = {name: each for name, each in registered().items() if each.plannable}
        able = [name for name, each in known.items() if self.block == 1 or each.blocks]
        if isinstance(self.policies, Mapping):
            chosen = dict(self.policies)
        else:
            names = [name for name in DEFAULT_POLICIES if name in able]
            if self.policies is not None:
                names = [self.policies] if isinstance(self.policies, str) else list(self.policies)
            for name in names:
                choice(name, known, "policies")
            chosen = {name: known[name].method for name in names}
        if not chosen:
            what = "There must be at least one policy."
            remedy = f"Known are {', '.join(known)}."
            raise InvalidInputError(what, field="policies", value=(), remedy=remedy)
        for name, method in chosen.items():
            if self.block > 1 and not accepted(method, block=self.block):
                what = f"{name} does not take `block`: it cannot be planned in blocks."
                remedy = f"Those that can: {', '.join(able)}. Or leave `block` out."
                raise InvalidInputError(what, field="policies", value=name, remedy=remedy)
        return chosen

    @property
    def drifts(self) -> list[Drift]:
        """The ways in which the baseline moves, where no scenarios say it."""
        usual = "sine" if self.block == 1 else "people"
        drift = usual if self.drift is None else self.drift
        return [as_drift(each) for each in ([drift] if isinstance(drift, (str, Drift)) else drift)]

    def resolved_scenarios(self) -> list[Scenario]:
        """The scenarios, or those that the gap and the drifts stand for."""
        if (self.gap is None) == (not self.scenarios):
            what = "A plan needs either a gap or scenarios."
            remedy = "For example gap=0.002: the smallest lead worth finding, in units of rewards."
            raise InvalidInputError(what, field="gap", value=self.gap, remedy=remedy)
        wanted = list(self.scenarios)
        if self.gap is not None:
            stated = {"gap": self.gap, "level": self.level, "base": self.base}
            amounts = _amounts({name: each for name, each in stated.items() if each is not None})
            wanted = [Scenario(each.kind, drift=each, **amounts) for each in self.drifts]
        names = [each.name for each in wanted]
        if not names or len(set(names)) < len(names):
            what = "Every scenario needs a different name."
            remedy = "Name at least one, each by a name of its own."
            raise InvalidInputError(what, field="scenarios", value=names, remedy=remedy)
        return wanted


def read_request(document: Mapping[str, Any]) -> PlanRequest:
    """The request of a document: fields of a `PlanRequest` and of its `Problem`.

    Scenarios are documents too. What is None or empty is left out. A base rate without bounds or
    noise is one of yes and no: the bounds are 0 and 1.

    Raises:
        InvalidInputError: a field is invalid.
    """
    stated = {key: value for key, value in document.items() if value not in (None, [])}
    if "scenarios" in stated and not {"level", "base", "drift"}.isdisjoint(stated):
        what = "`level`, `base` and `drift` go with `gap`; scenarios have their own."
        raise InvalidInputError(what, field="scenarios", remedy="Leave them out.")
    if "base" in stated and "noise" not in stated:
        stated.setdefault("bounds", (0.0, 1.0))
    bounds = None if "bounds" not in stated else interval(tuple(stated.pop("bounds")), "bounds")
    noise, baseline = scales(bounds, stated.get("noise"), stated.get("baseline"))
    problem = problem_of(
        stated.get("options"),
        stated.get("source"),
        target=stated.get("target"),
        target_labels=stated.get("target_labels"),
        delta=stated["delta"],
        noise=noise,
        baseline=baseline,
    )
    scenarios = [
        as_scenario({key: value for key, value in each.items() if value is not None}, name=str(i))
        for i, each in enumerate(stated.pop("scenarios", ()), start=1)
    ]
    known = {each.name for each in fields(PlanRequest)}
    chosen = {key: value for key, value in stated.items() if key in known}
    return PlanRequest(problem, bounds=bounds, scenarios=scenarios, **chosen)
