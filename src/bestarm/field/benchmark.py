"""The methods of the leaderboard, and where they compete: instances, each under several drifts.

The methods are all of the registry that can run without being told more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count, islice
from typing import Any, Literal, NamedTuple

import numpy as np

from bestarm.checks import choice
from bestarm.environments import (
    Baseline,
    DrawnArms,
    Environment,
    InTurn,
    Semiparametric,
    baselines,
    many_arms,
    soare,
    tao,
    transductive,
)
from bestarm.policies.catalog import Model, PolicyInfo
from bestarm.policies.policy import Method, Policy
from bestarm.policies.registry import accepted, options_of, policies
from bestarm.problem import Problem
from bestarm.simulation import Oracle

Goal = Literal["confidence", "budget"]

NO_BASELINE = "anytime, no baseline"
_HOUSE_RULE = "anytime"
_LONGEST = 80  # letters of a name in the names of files
_DRAWS = 5
_NEAR_TIE = 0.1


@dataclass(frozen=True)
class BenchmarkInstance:
    """An instance of the leaderboard.

    Attributes:
        name: its name on the command line.
        description: what it is, in a phrase.
        make: makes it, given the `baseline` and the `declared_baseline` that policies are told.
        mean_bound: what no |x·θ| exceeds; methods that ask are told.
        max_pulls: where a run is cut.
        budget: the pulls of methods with a fixed budget.
        transductive: whether the targets are other than the arms.
    """

    name: str
    description: str
    make: Callable[..., Environment]
    mean_bound: float = 1.0
    max_pulls: int = 20_000
    budget: int = 500
    transductive: bool = False


def _few(draw: Callable[..., DrawnArms], *options: int, **scales: Any) -> InTurn:
    """The same few draws for all methods, in turn, without near ties; designs are solved once."""
    drawn = draw(*options, **scales)
    worlds = (drawn.instance(np.random.default_rng(number)) for number in count())
    return InTurn(list(islice((w for w in worlds if w.gap > _NEAR_TIE), _DRAWS)), drawn.name)


_SIX_MEANS = [1.0, 0.7, 0.6, 0.4, 0.2, 0.0]
INSTANCES = {
    each.name: each
    for each in (
        BenchmarkInstance(
            "soare",
            "Soare's instance, d = 5, angle 0.3",
            partial(soare, 5, 0.3),
            mean_bound=2.0,
            budget=2_000,
        ),
        BenchmarkInstance(
            "six-means",
            "six arms without features, gap 0.3",
            partial(Semiparametric, np.eye(6), _SIX_MEANS, name="six-means"),
        ),
        BenchmarkInstance(
            "tao", "eight unit vectors in dimension 4, five draws", partial(_few, tao, 8, 4)
        ),
        BenchmarkInstance(
            "many-arms", "eight arms in the plane, five draws", partial(_few, many_arms, 8)
        ),
        BenchmarkInstance(
            "transductive",
            "six targets of which three cannot be pulled, d = 6",
            partial(transductive, 6, 0.4),
            budget=2_000,
            transductive=True,
        ),
    )
}


class Drift(NamedTuple):
    """A baseline, and the bound on it that methods that ask are told."""

    baseline: Baseline
    declared: float = 1.0


def _sine(size: float) -> Baseline:
    return baselines.sinusoid(size, offset=0.0, frequency=0.01)


DRIFTS = {
    "none": Drift(baselines.none()),
    "sine": Drift(_sine(1.0)),
    "walk": Drift(baselines.random_walk(0.05)),
    "jumps": Drift(baselines.switches(period=200)),
    "adversary": Drift(baselines.adversary()),
    "within-0.1": Drift(_sine(0.1), 0.1),
    "within-0.05": Drift(_sine(0.05), 0.05),
}


@dataclass(frozen=True)
class Condition:
    """An instance under a drift, by the name of that; `environment` is the two together."""

    instance: BenchmarkInstance
    drift: str
    environment: Environment

    @property
    def key(self) -> str:
        """Its name in files."""
        return f"{self.instance.name}.{self.drift}"


def conditions(instances: Sequence[str] = (), drifts: Sequence[str] = ()) -> tuple[Condition, ...]:
    """The conditions of these instances and drifts, in the order of the tables; all if left out.

    Raises:
        InvalidInputError: a name is not known.
    """
    for names, known, option in ((instances, INSTANCES, "instance"), (drifts, DRIFTS, "drift")):
        for name in names:
            choice(name, tuple(known), option)
    return tuple(
        Condition(instance, name, instance.make(baseline=drift[0], declared_baseline=drift[1]))
        for instance in INSTANCES.values()
        if not instances or instance.name in instances
        for name, drift in DRIFTS.items()
        if not drifts or name in drifts
    )


@dataclass(frozen=True)
class Competitor:
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

    @property
    def key(self) -> str:
        """Its name in files; different names have different ones, on every system."""
        plain = "".join(letter if letter.isalnum() else "-" for letter in self.name)
        if self.name in (plain.lower(), NO_BASELINE):
            return plain
        return f"{plain[:_LONGEST]}-{sha256(self.name.encode()).hexdigest()[:8]}"

    def can_run(self, instance: BenchmarkInstance) -> bool:
        """Whether it can choose among the targets of an instance."""
        return self.transductive or not instance.transductive

    def same_method(self, other: Competitor) -> bool:
        """Whether another makes the same policies, whatever its name is."""
        return _identity(self) == _identity(other)

    def method(self, instance: BenchmarkInstance) -> Any:
        """What `simulate` takes, with the caps and bounds of an instance."""
        options = accepted(
            self.factory,
            max_pulls=instance.max_pulls if self.goal == "confidence" else None,
            budget=instance.budget if self.goal == "budget" else None,
            mean_bound=instance.mean_bound,
        )
        made = partial(self.factory, **options)
        return Oracle(made, **self.truths) if self.truths else made

    @classmethod
    def of(cls, info: PolicyInfo) -> Competitor:
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
    def own(cls, name: str, method: Method | Oracle) -> Competitor:
        """A method of one's own.

        If it has an option `budget`, it is one with a fixed budget: the instance's, unless another
        is bound to it.
        """
        oracle = method if isinstance(method, Oracle) else Oracle(method)
        factory, truths = oracle.method, oracle.truths
        goal: Goal = "budget" if "budget" in options_of(factory) else "confidence"
        return cls(name, factory, truths, goal)


def _identity(competitor: Competitor) -> tuple[object, ...]:
    """What makes the policies, what is bound to it, and the truths it is told."""
    factory, truths = competitor.factory, dict(competitor.truths)
    if not isinstance(factory, partial):
        return factory, "()", {}, truths
    bound = {key: repr(value) for key, value in factory.keywords.items()}
    return factory.func, repr(factory.args), bound, truths


def competitors() -> tuple[Competitor, ...]:
    """Every method of the registry that needs no more than a budget, and a quiet anytime rule.

    Methods that are measured by their regret are left out.
    """
    found = [
        Competitor.of(info)
        for info in policies().values()
        if set(info.required) <= {"budget"} and not info.seeks_reward
    ]
    place = [each.name for each in found].index(_HOUSE_RULE) + 1
    found.insert(place, Competitor(NO_BASELINE, without_baseline, model="linear"))
    return tuple(found)


def without_baseline(
    problem: Problem,
    *,
    seed: int,
    max_pulls: int | None = None,
    mean_bound: float | None = None,
) -> Policy:
    """The anytime rule, told that there is no baseline."""
    rule = policies()[_HOUSE_RULE].method
    policy: Policy = rule(
        problem.with_baseline(0.0), seed=seed, max_pulls=max_pulls, mean_bound=mean_bound
    )
    return policy
