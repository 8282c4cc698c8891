"""Instances on which methods are compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from bestarm.checks import choice
from bestarm.datasets import jester
from bestarm.environments import Baseline, Environment, baselines, small_gap, uniform_sphere
from bestarm.environments.baselines import Constant, Moving
from bestarm.errors import InvalidInputError

INSTANCES = ("small-gap", "uniform", "jester")
BASELINES: dict[str, Callable[[], Baseline]] = {
    "sinusoid": baselines.sinusoid,
    "none": baselines.none,
    "random-walk": baselines.random_walk,
    "switches": baselines.switches,
    "adversary": baselines.adversary,
}
_MAX_PULLS = 5_000_000  # random arms may tie almost exactly, and then no method would end


@dataclass(frozen=True)
class Instance:
    """An environment to compare methods in, in a phrase; `note` says where its data come from."""

    environment: Environment
    description: str
    note: str = ""
    max_pulls: int | None = None  # where a run is cut by default


def find_instance(name: str, *, baseline: str | None, data: Path | None) -> Instance:
    """The instance of a name.

    Raises:
        InvalidInputError: the name is not known, or an option does not apply to the instance.
    """
    key = _one_of(name, INSTANCES, "instance")
    if key == "jester":
        if baseline is not None:
            raise InvalidInputError(
                "`baseline` does not apply to jester, whose ratings are recorded data.",
                field="baseline",
                value=baseline,
                remedy="Leave it out.",
            )
        ratings = jester(data)
        world = ratings.environment(block=len(ratings.jokes))
        return Instance(world, ratings.name, ratings.source)
    if data is not None:
        raise InvalidInputError(
            f"`data` applies to jester, not to {key}.",
            field="data",
            value=str(data),
            remedy="Leave it out, or choose the instance jester.",
        )
    drift = _one_of(baseline or "sinusoid", BASELINES, "baseline")
    words, moves = f"{key} with baseline {drift}", BASELINES[drift]()
    make, arms = (small_gap, 11) if key == "small-gap" else (uniform_sphere, 100)
    # A round may pull all arms at once, unless the baseline reacts to each pull.
    block = arms if isinstance(moves, (Constant, Moving)) else 1
    cap = None if key == "small-gap" else _MAX_PULLS
    return Instance(make(baseline=moves, block=block), words, max_pulls=cap)


def _one_of(given: str, known: Collection[str], field: str) -> str:
    name = given.strip().lower().replace("_", "-").replace(" ", "-")
    choice(name, known, field)
    return name
