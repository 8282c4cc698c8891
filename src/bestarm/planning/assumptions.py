"""The assumptions of a plan: how the options differ, and how the baseline drifts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bestarm.bounds import sub_gaussian_scale
from bestarm.checks import choice, computable, finite, positive, vector
from bestarm.environments.baselines import (
    Constant,
    Independent,
    Moving,
    RandomWalk,
    Sinusoid,
    Switches,
)
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array

DRIFTS = ("none", "sine", "walk", "switches", "people")
SHAPES = ("close", "typical")
_PLACES = 1000


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
            raise InvalidInputError(
                f"`period` must be at least 2 rounds; got {self.period:g}.",
                field="period",
                value=self.period,
            )

    def path(self, *, level: float, size: float, period: float) -> Constant | Moving:
        """The baseline, moving around a level."""
        if self.kind == "none" or size == 0:
            return Constant(level)
        if self.kind == "sine":
            return Sinusoid(size, level, 2 * math.pi / period)
        if self.kind == "switches":
            return Switches((level - size, level + size), period)
        if self.kind == "people":
            return Independent(size, level)
        return RandomWalk(size / math.sqrt(period), size, level)

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
        noise: the standard deviation of Gaussian noise within a round, which does not contain how
            rounds differ: that is the drift. By default that of the problem. Not for bounded
            rewards, which are at one bound or the other.
    """

    name: str
    gap: float | None = None
    theta: str | tuple[float, ...] = "close"
    drift: Drift = Drift()
    level: float | None = None
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
            raise InvalidInputError(
                f"Scenario {self.name!r} needs either a gap or a parameter in numbers.",
                field="gap",
                value=self.gap,
                remedy="Give the smallest lead that is worth finding, in units of the reward."
                if named
                else "A parameter in numbers has its own gap: leave `gap` out.",
            )
        for field in ("gap", "level", "noise"):
            value = getattr(self, field)
            if value is not None:
                number = finite(value, field) if field == "level" else positive(value, field)
                computable(max(abs(number), 1.0) if field == "level" else number, field)
                object.__setattr__(self, field, number)


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

    Raises:
        InvalidInputError: it has unknown keys or invalid values.
    """
    _refuse_unknown(document, {field.name for field in fields(Scenario)}, "scenario")
    drift = document.get("drift", Drift())
    if isinstance(drift, Mapping):
        _refuse_unknown(drift, {field.name for field in fields(Drift)}, "drift")
        drift = Drift(**drift)
    named = str(document.get("name", name))
    return Scenario(**{**document, "name": named, "drift": as_drift(drift)})


def _refuse_unknown(document: Mapping[str, Any], known: set[str], field: str) -> None:
    for key in document:
        if key not in known:
            raise InvalidInputError(
                f"Unknown key {key!r} in a {field}; known are {', '.join(sorted(known))}.",
                field=field,
                value=key,
            )
