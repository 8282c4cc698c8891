"""What is to be planned: a problem, assumptions, policies and the size of the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bestarm.checks import choice, computable, interval, positive, whole
from bestarm.errors import InvalidInputError
from bestarm.planning.assumptions import Drift, Scenario, as_drift, as_scenario, scales
from bestarm.policies import Method
from bestarm.policies.registry import accepted
from bestarm.policies.registry import policies as registered
from bestarm.problem import Problem, as_problem, features_of
from bestarm.simulation.results import run_count

#: The policies that are planned for if none is named; in blocks, those of them that can.
DEFAULT_POLICIES = ("anytime", "sp-bai-sharp", "sp-bai")


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """What `plan_experiment` is to simulate.

    Attributes:
        problem: the experiment's problem, with the scales that policies are told.
        gap: the smallest lead worth finding, in units of the reward. The hardest case is simulated:
            all others trail the best target by as little as the features allow.
        scenarios: assumptions in detail, instead of `gap`, `drift` and `level`.
        drift: how the baseline moves from round to round, or several ways: `"none"`, `"sine"`,
            `"walk"`, `"switches"`, `"people"`. By default `"sine"`; with blocks `"people"`.
        bounds: the lowest and the highest reward, for bounded rewards. Simulated rewards are then
            one or the other, like yes and no, and policies that use bounds are told them.
        level: the reward about which the baseline moves: 0, or the middle of the bounds. A rate of
            5 % is `bounds=(0, 1), level=0.05`.
        policies: names, or a table from names to methods.
        block: how many options a round has, all under one baseline: a person who rates 2. Policies
            are then simulated with blocks of this size, and for comparison with one option per
            round.
        per_day: rounds per day, which are outcomes unless there are blocks; converts them to days,
            and is the period of the drift.
        runs: simulated experiments of each policy in each scenario.
        seed: the results depend only on it and on the other fields.
        max_pulls: the pulls at which a simulated experiment is cut; by default 100 times the lower
            bound, and at least a million. Without it, a plan whose lower bounds add up to more than
            10¹¹ pulls is refused.

    Raises:
        InvalidInputError: a field is invalid.
    """

    problem: Problem
    gap: float | None = None
    scenarios: Sequence[Scenario] = ()
    drift: str | Drift | Sequence[str | Drift] | None = None
    bounds: tuple[float, float] | None = None
    level: float | None = None
    policies: Sequence[str] | Mapping[str, Method] | None = None
    block: int = 1
    per_day: float | None = None
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
            raise InvalidInputError(
                "There must be at least one policy.", field="policies", value=()
            )
        for name, method in chosen.items():
            if self.block > 1 and not accepted(method, block=self.block):
                raise InvalidInputError(
                    f"{name} does not take `block`: it cannot be planned in blocks.",
                    field="policies",
                    value=name,
                    remedy=f"Those that can: {', '.join(able)}. Or leave `block` out.",
                )
        return chosen

    def wanted_scenarios(self) -> list[Scenario]:
        """The scenarios, or those that the gap and the drifts stand for."""
        if (self.gap is None) == (not self.scenarios):
            raise InvalidInputError(
                "A plan needs either a gap or scenarios.",
                field="gap",
                value=self.gap,
                remedy="The gap is the smallest lead worth finding, in units of the reward.",
            )
        wanted = list(self.scenarios)
        if self.gap is not None:
            usual = "sine" if self.block == 1 else "people"
            drift = usual if self.drift is None else self.drift
            drifts = [drift] if isinstance(drift, (str, Drift)) else drift
            kinds = [as_drift(each) for each in drifts]
            wanted = [
                Scenario(each.kind, gap=self.gap, drift=each, level=self.level) for each in kinds
            ]
        names = [each.name for each in wanted]
        if not names or len(set(names)) < len(names):
            raise InvalidInputError(
                "Every scenario needs a different name.", field="scenarios", value=names
            )
        return wanted


def read_request(document: Mapping[str, Any]) -> PlanRequest:
    """The request of a document: fields of a `PlanRequest` and of its `Problem`.

    Scenarios are documents too. What is None or empty is left out.

    Raises:
        InvalidInputError: a field is invalid.
    """
    given = {key: value for key, value in document.items() if value not in (None, [])}
    if "scenarios" in given and ("level" in given or "drift" in given):
        raise InvalidInputError(
            "`level` and `drift` go with `gap`; scenarios have their own.",
            field="scenarios",
            remedy="Leave them out.",
        )
    bounds = None if "bounds" not in given else interval(tuple(given.pop("bounds")), "bounds")
    noise, baseline = scales(bounds, given.get("noise"), given.get("baseline"))
    problem = Problem(
        features_of(given.get("source"), given.get("source_labels")),
        given.get("target"),
        delta=given["delta"],
        noise=noise,
        baseline=baseline,
        source_labels=given.get("source_labels"),
        target_labels=given.get("target_labels"),
    )
    scenarios = [
        as_scenario({key: value for key, value in each.items() if value is not None}, name=str(i))
        for i, each in enumerate(given.pop("scenarios", ()), start=1)
    ]
    known = {each.name for each in fields(PlanRequest)}
    chosen = {key: value for key, value in given.items() if key in known}
    return PlanRequest(problem, bounds=bounds, scenarios=scenarios, **chosen)
