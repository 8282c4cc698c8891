"""Instances as they are named on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bestarm.datasets import jester
from bestarm.environments import Baseline, Environment, baselines, small_gap, uniform_sphere
from bestarm.errors import InvalidInputError
from bestarm.policies.registry import nearest

__all__ = ["BASELINES", "INSTANCES", "Instance", "read_instance"]

INSTANCES = ("small-gap", "uniform", "jester")
BASELINES: dict[str, Callable[[], Baseline]] = {
    "sinusoid": baselines.sinusoid,
    "none": baselines.none,
    "random-walk": baselines.random_walk,
    "switches": baselines.switches,
    "adversary": baselines.adversary,
}
_LONGEST = 5_000_000  # fresh arms may tie almost exactly, and no method would ever end


@dataclass(frozen=True)
class Instance:
    """Where methods are compared.

    Attributes:
        environment: the environment.
        description: what it is, in a phrase.
        note: what must be known about its data, in a sentence; empty where it has none.
        max_pulls: where a run is cut if nothing else is said.
    """

    environment: Environment
    description: str
    note: str = ""
    max_pulls: int | None = None


def read_instance(name: str, *, baseline: str | None, data: Path | None) -> Instance:
    """What an instance given on the command line means.

    Raises:
        InvalidInputError: there is none of this name, or an option does not belong to it.
    """
    key = _one_of(name, INSTANCES, "instance")
    if key == "jester":
        if baseline is not None:
            raise InvalidInputError(
                "`--baseline` does not belong to jester, whose ratings are what they are.",
                field="baseline",
                value=baseline,
                remedy="Leave it out.",
            )
        ratings = jester(data)
        return Instance(ratings.environment(), ratings.name, ratings.source)
    if data is not None:
        raise InvalidInputError(
            f"`--data` belongs to jester, not to {key}.",
            field="data",
            value=str(data),
            remedy="Leave it out, or take --instance jester.",
        )
    drift = _one_of(baseline or "sinusoid", tuple(BASELINES), "baseline")
    words = f"{key} with baseline {drift}"
    if key == "small-gap":
        return Instance(small_gap(baseline=BASELINES[drift]()), words)
    return Instance(uniform_sphere(baseline=BASELINES[drift]()), words, max_pulls=_LONGEST)


def _one_of(given: str, known: tuple[str, ...], field: str) -> str:
    name = given.strip().lower().replace("_", "-").replace(" ", "-")
    if name not in known:
        raise InvalidInputError(
            f"There is no {field} {given!r}; there are {', '.join(known)}.",
            field=field,
            value=given,
            remedy=nearest(name, {word: word for word in known}),
        )
    return name
