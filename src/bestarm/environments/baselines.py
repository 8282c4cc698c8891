"""Baselines: how ν_t, the part of the reward that all arms share, moves from round to round.

Rounds are numbered 1, 2, … over a whole run, across plans. Your own baseline is an array, a
function of the round, or a subclass of `Moving`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.checks import finite, positive, vector
from bestarm.environments.paths import (
    Adversary,
    Baseline,
    Constant,
    Function,
    Moving,
    RandomWalk,
    Recorded,
    Sinusoid,
    Switches,
)
from bestarm.errors import InvalidInputError

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
            "`levels` must hold at least two different numbers.", field="levels", value=levels
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
    drawn. A function takes a float array of round numbers and returns one value per round. It must
    be a pure function, because its values are cached for the next run, and it may be called for up
    to 100 000 rounds beyond those pulled. `bound` is the largest |ν_t|; an array needs none.
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
