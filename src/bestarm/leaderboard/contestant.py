"""The methods of the leaderboard: all of the registry that can run without being told more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from bestarm.leaderboard.column import Column, Instance
from bestarm.policies.catalog import Model, PolicyInfo
from bestarm.policies.policy import Method, Policy
from bestarm.policies.registry import accepted, options_of, policies
from bestarm.problem import Problem
from bestarm.simulation import Oracle

Goal = Literal["confidence", "budget"]

NO_BASELINE = "anytime, no baseline"
_HOUSE_RULE = "anytime"


@dataclass(frozen=True)
class Contestant:
    """A method of the leaderboard.

    Attributes:
        name: its name in tables.
        factory: makes the policy.
        truths: options that it is told the truth for, with the attribute of the world.
        goal: whether it stops when it is sure, or when its budget is spent.
        model: what it assumes of rewards; None for one's own method.
        transductive: whether targets may be other than the arms.
        reference: where it was published.
    """

    name: str
    factory: Callable[..., Any]
    truths: Mapping[str, str] = field(default_factory=dict, hash=False)
    goal: Goal = "confidence"
    model: Model | None = None
    transductive: bool = True
    reference: str = ""

    def can_run(self, instance: Instance) -> bool:
        """Whether it can choose among the targets of an instance."""
        return self.transductive or not instance.transductive

    def same_method(self, other: Contestant) -> bool:
        """Whether another makes the same policies, whatever its name is."""
        return _parts(self) == _parts(other)

    def method(self, column: Column) -> Any:
        """What `simulate` takes, with the caps and bounds of a column."""
        where = column.instance
        cap = where.max_pulls if self.goal == "confidence" else None
        budget = where.budget if self.goal == "budget" else None
        options = accepted(self.factory, max_pulls=cap, budget=budget, mean_bound=where.mean_bound)
        made = partial(self.factory, **options)
        return Oracle(made, **self.truths) if self.truths else made

    @classmethod
    def of(cls, info: PolicyInfo) -> Contestant:
        """A policy of the registry."""
        return cls(
            info.name,
            info.method,
            info.truths,
            "budget" if info.budgeted else "confidence",
            info.model,
            info.transductive,
            info.reference,
        )

    @classmethod
    def own(cls, name: str, method: Method | Oracle) -> Contestant:
        """A method of one's own.

        If it has an option `budget`, it is one with a fixed budget: the column's, unless another is
        bound to it.
        """
        if isinstance(method, Oracle):
            factory, truths = method.method, method.truths
        else:
            factory, truths = method, {}
        goal: Goal = "budget" if "budget" in options_of(factory) else "confidence"
        return cls(name, factory, truths, goal)


def _parts(contestant: Contestant) -> tuple[object, ...]:
    """What makes the policies, what is bound to it, and the truths it is told."""
    factory, truths = contestant.factory, dict(contestant.truths)
    if not isinstance(factory, partial):
        return factory, "()", {}, truths
    bound = {key: repr(value) for key, value in factory.keywords.items()}
    return factory.func, repr(factory.args), bound, truths


def contestants() -> tuple[Contestant, ...]:
    """Every method of the registry that needs no more than a budget, and a quiet anytime rule.

    Methods that are measured by their regret are left out.
    """
    found = [
        Contestant.of(info)
        for info in policies().values()
        if set(info.required) <= {"budget"} and not info.seeks_reward
    ]
    rule = next(each for each in found if each.name == _HOUSE_RULE)
    quiet = Contestant(NO_BASELINE, without_baseline, model="linear")
    place = found.index(rule) + 1
    return (*found[:place], quiet, *found[place:])


def without_baseline(
    problem: Problem,
    *,
    seed: int,
    max_pulls: int | None = None,
    mean_bound: float | None = None,
) -> Policy:
    """The anytime rule, told that there is no baseline."""
    rule = policies()[_HOUSE_RULE].method
    told: Policy = rule(
        problem.with_baseline(0.0), seed=seed, max_pulls=max_pulls, mean_bound=mean_bound
    )
    return told
