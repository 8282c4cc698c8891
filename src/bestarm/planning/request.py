"""What is to be planned: a problem, assumptions, policies and the size of the simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bestarm.bounds import sub_gaussian_scale
from bestarm.checks import choice, computable, duration, interval, positive, whole
from bestarm.environments import baselines
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.amounts import read_lead, read_rate
from bestarm.policies import Method
from bestarm.policies.registry import accepted
from bestarm.policies.registry import policies as registered
from bestarm.problem import Problem, as_problem, problem_of
from bestarm.simulation.results import run_count

#: Simulated experiments of each policy, if no number is given.
RUNS = 100
DEFAULT_POLICY = "anytime"
DRIFTS = ("none", "sine", "walk", "switches", "people")
_PLACES = 1000
_DAY = 86_400.0
_MOST_OUTSTANDING = 10_000_000  # outcomes: a simulated experiment holds all of them

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


def scales(
    bounds: tuple[float, float] | None, noise: float | None, baseline: float | None
) -> tuple[float, float]:
    """The noise and baseline that policies are told: as given, else from the bounds, else 1.

    Bounded rewards have a noise of at most half the distance of the bounds, and a baseline between
    the bounds.
    """
    usual = (1.0, 1.0) if bounds is None else (sub_gaussian_scale(bounds), max(map(abs, bounds)))
    return usual[0] if noise is None else noise, usual[1] if baseline is None else baseline


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """What `plan_experiment` or `detectable_lifts` is to simulate.

    Attributes:
        problem: the experiment's problem, with the scales that policies are told.
        gap: the smallest lead worth finding: in units of the reward; or a text, `"+10 %"` of the
            base rate or `"0.2 pp"`. The hardest case is simulated: all others trail the best target
            by as little as the features allow.
        base: the base rate, a number or a text like `"2 %"`: the mean reward of the option next to
            the best, about which the baseline moves. By default the options lie about 0, or about
            the middle of the bounds.
        drift: how the baseline moves from round to round, or several ways, each of which is planned
            for: `"none"`, `"sine"`, `"walk"`, `"switches"`, `"people"`. By default `"sine"`; with
            blocks `"people"`.
        bounds: the lowest and the highest reward, for bounded rewards. Simulated rewards are then
            one or the other, like yes and no, and policies that use bounds are told them.
        policies: names, or a table from names to methods; by default `anytime`.
        block: how many options a round has, all under one baseline: a person who rates 2.
        per_day: rounds per day, which are outcomes unless there are blocks; converts them to days,
            and is the period of the drift.
        window: how long after its assignment an outcome counts, in seconds or as a text like "7d",
            as in `Experiment(..., window="7d")`. Needs `per_day`. The delay is simulated: days
            include it.
        runs: simulated experiments of each policy under each drift.
        seed: the results depend only on it and on the other fields, unless they are partial.
        max_pulls: the pulls at which a simulated experiment is cut; by default 100 times the lower
            bound and `delay` together, and at least a million. Without it, a plan is refused whose
            lower bounds add up to more than 10¹¹ pulls.

    Raises:
        InvalidInputError: a field is invalid.
    """

    problem: Problem
    gap: float | str | None = None
    base: float | str | None = None
    drift: str | Drift | Sequence[str | Drift] | None = None
    bounds: tuple[float, float] | None = None
    policies: Sequence[str] | Mapping[str, Method] | None = None
    block: int = 1
    per_day: float | None = None
    window: float | str | None = None
    runs: int = RUNS
    seed: int = 0
    max_pulls: int | None = None

    def __post_init__(self) -> None:
        as_problem(self.problem)
        computable(self.problem.noise, "noise")
        computable(max(self.problem.baseline, 1.0), "baseline")
        run_count(self.runs)
        whole(self.seed, "seed", least=0)
        base = None if self.base is None else read_rate(self.base, "base")
        if base is not None:
            computable(max(abs(base), 1.0), "base")
            object.__setattr__(self, "base", base)
        if self.gap is not None:
            gap = read_lead(self.gap, base)
            computable(gap, "gap")
            object.__setattr__(self, "gap", gap)
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
        if self.delay > _MOST_OUTSTANDING:
            what = (
                f"Within this window {self.delay:.2g} outcomes are assigned; at most "
                f"{_MOST_OUTSTANDING:,} can be simulated."
            )
            remedy = "Give a shorter window, or fewer outcomes per day."
            raise InvalidInputError(what, field="window", value=self.window, remedy=remedy)

    @property
    def base_rate(self) -> float | None:
        """The base rate as a number, or None."""
        return None if self.base is None else float(self.base)

    @property
    def delay(self) -> int:
        """The rounds after which an outcome counts; 0 without a window."""
        if self.window is None or self.per_day is None:
            return 0
        return math.ceil(round(float(self.window) * self.per_day / _DAY, 6))

    @property
    def drifts(self) -> list[Drift]:
        """The ways in which the baseline moves.

        Raises:
            InvalidInputError: there are none, or two of the same kind.
        """
        usual = "sine" if self.block == 1 else "people"
        drift = usual if self.drift is None else self.drift
        given = [drift] if isinstance(drift, (str, Drift)) else drift
        found = [each if isinstance(each, Drift) else Drift(each) for each in given]
        kinds = [each.kind for each in found]
        if not kinds or len(set(kinds)) < len(kinds):
            what = f"Every drift is planned for once; got {', '.join(kinds) or 'none at all'}."
            remedy = "Name at least one, each of another kind."
            raise InvalidInputError(what, field="drift", value=kinds, remedy=remedy)
        return found

    def methods(self) -> Mapping[str, Method]:
        """The methods of the policies, by name.

        Raises:
            InvalidInputError: there is none, or one that is not known or cannot be planned.
        """
        known = {name: each for name, each in registered().items() if each.plannable}
        if isinstance(self.policies, Mapping):
            chosen = dict(self.policies)
        else:
            names = [self.policies] if isinstance(self.policies, str) else self.policies
            chosen = {}
            for name in (DEFAULT_POLICY,) if names is None else names:
                choice(name, known, "policies")
                chosen[name] = known[name].method
        if not chosen:
            what = "There must be at least one policy."
            remedy = f"Known are {', '.join(known)}."
            raise InvalidInputError(what, field="policies", value=(), remedy=remedy)
        for name, method in chosen.items():
            if self.block > 1 and not accepted(method, block=self.block):
                able = ", ".join(each.name for each in known.values() if each.blocks)
                what = f"{name} does not take `block`: it cannot be planned in blocks."
                remedy = f"Those that can: {able}. Or leave `block` out."
                raise InvalidInputError(what, field="policies", value=name, remedy=remedy)
        return chosen


def read_request(document: Mapping[str, Any]) -> PlanRequest:
    """The request of a document: fields of a `PlanRequest` and of its `Problem`.

    What is None or empty is left out. A base rate without bounds or noise is one of yes and no: the
    bounds are 0 and 1.

    Raises:
        InvalidInputError: a field is invalid.
    """
    given = {key: value for key, value in document.items() if value not in (None, [])}
    if "base" in given and "noise" not in given:
        given.setdefault("bounds", (0.0, 1.0))
    bounds = None if "bounds" not in given else interval(tuple(given.pop("bounds")), "bounds")
    noise, baseline = scales(bounds, given.get("noise"), given.get("baseline"))
    problem = problem_of(
        given.get("options"),
        given.get("source"),
        target=given.get("target"),
        target_labels=given.get("target_labels"),
        delta=given["delta"],
        noise=noise,
        baseline=baseline,
    )
    known = {each.name for each in fields(PlanRequest)}
    chosen = {key: value for key, value in given.items() if key in known}
    return PlanRequest(problem, bounds=bounds, **chosen)
