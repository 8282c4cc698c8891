"""The columns of the leaderboard: instances, each under several drifts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice

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

_DRAWS = 5
_NEAR_TIE = 0.1
_DECLARED = 1.0  # every drift stays within ±1, and methods that ask are told so


@dataclass(frozen=True)
class Instance:
    """An instance of the leaderboard.

    Attributes:
        name: its name on the command line.
        words: what it is, in a phrase.
        make: makes it under a baseline, with the bound on the baseline that policies are told.
        mean_bound: what no |x·θ| exceeds; methods that ask are told.
        max_pulls: where a run is cut.
        budget: the pulls of methods with a fixed budget.
        transductive: whether the targets are other than the arms.
    """

    name: str
    words: str
    make: Callable[[Baseline, float], Environment]
    mean_bound: float
    max_pulls: int
    budget: int
    transductive: bool = False


def _soare(baseline: Baseline, declared: float) -> Environment:
    return soare(5, 0.3, baseline=baseline, declared_baseline=declared)


def _means(baseline: Baseline, declared: float) -> Environment:
    return Semiparametric(
        np.eye(6),
        [1.0, 0.7, 0.6, 0.4, 0.2, 0.0],
        baseline=baseline,
        declared_baseline=declared,
        name="six-means",
    )


def _sphere(baseline: Baseline, declared: float) -> Environment:
    return _few(tao(8, 4, baseline=baseline, declared_baseline=declared))


def _fan(baseline: Baseline, declared: float) -> Environment:
    return _few(many_arms(8, baseline=baseline, declared_baseline=declared))


def _few(drawn: DrawnArms) -> InTurn:
    """The same few draws for all methods, in turn, without near ties; designs are solved once."""
    worlds = (drawn.instance(np.random.default_rng(number)) for number in count())
    return InTurn(list(islice((w for w in worlds if w.gap > _NEAR_TIE), _DRAWS)), drawn.name)


def _transductive(baseline: Baseline, declared: float) -> Environment:
    return transductive(6, 0.4, baseline=baseline, declared_baseline=declared)


INSTANCES = {
    each.name: each
    for each in (
        Instance("soare", "Soare's instance, d = 5, angle 0.3", _soare, 2.0, 20_000, 2_000),
        Instance("six-means", "six arms without features, gap 0.3", _means, 1.0, 20_000, 500),
        Instance(
            "tao",
            "eight unit vectors in dimension 4, five draws",
            _sphere,
            1.0,
            20_000,
            500,
        ),
        Instance("many-arms", "eight arms in the plane, five draws", _fan, 1.0, 20_000, 500),
        Instance(
            "transductive",
            "six targets of which three cannot be pulled, d = 6",
            _transductive,
            1.0,
            20_000,
            2_000,
            transductive=True,
        ),
    )
}

DRIFTS: dict[str, Baseline] = {
    "none": baselines.none(),
    "sine": baselines.sinusoid(1.0, offset=0.0, frequency=0.01),
    "walk": baselines.random_walk(0.05),
    "jumps": baselines.switches(period=200),
    "adversary": baselines.adversary(),
}


@dataclass(frozen=True)
class Column:
    """An instance under a drift.

    Attributes:
        instance: the instance.
        drift: the name of the drift.
        environment: the two together.
    """

    instance: Instance
    drift: str
    environment: Environment

    @property
    def key(self) -> str:
        """Its name in files."""
        return f"{self.instance.name}.{self.drift}"


def columns(instances: Sequence[str] = (), drifts: Sequence[str] = ()) -> tuple[Column, ...]:
    """The columns of these instances and drifts, in the order of the tables; all if left out.

    Raises:
        InvalidInputError: a name is not known.
    """
    for names, known, field in ((instances, INSTANCES, "instance"), (drifts, DRIFTS, "drift")):
        for name in names:
            choice(name, tuple(known), field)
    return tuple(
        Column(instance, drift, instance.make(baseline, _DECLARED))
        for name, instance in INSTANCES.items()
        if not instances or name in instances
        for drift, baseline in DRIFTS.items()
        if not drifts or drift in drifts
    )
