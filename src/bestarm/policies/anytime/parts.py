"""The parts of the anytime rule: who is shown to be better, and how arms are drawn."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bestarm import bounds as thresholds
from bestarm.numerics.geometry import Array, lift, linear_span
from bestarm.policies.anytime.block_drawing import InBlocks
from bestarm.policies.anytime.contests import BestOf, Contest, Stakes, TopOf
from bestarm.policies.anytime.drawing import Drawing, Setting, Singles
from bestarm.problem import Problem
from bestarm.records import Plan

SLACK = 1e-9  # nats: what adding up the logs of many batches may round


class OpenPlan(NamedTuple):
    """A plan given out, with what was fixed before it was drawn."""

    plan: Plan
    frame: Any  # it and the stage are of the way of drawing
    stakes: Stakes
    stage: Any


def drop_level(problem: Problem, delta: float, *, top: int, tolerance: float) -> float:
    """The log of the e-value that drops a target, where `delta` is spent on the decision."""
    if top == 1 and not tolerance:
        return -math.log(delta)
    return -math.log(thresholds.set_delta(delta, targets=problem.targets, top=top))


@lru_cache(maxsize=128)
def coordinates(problem: Problem) -> tuple[Array, Array, Array]:
    """In coordinates of the span of the arms: these, their φ, and the targets up to a shift."""
    span = problem.span if problem.drifts else linear_span(problem.source)
    arms = np.ascontiguousarray(span.coordinates(problem.source))
    features = np.ascontiguousarray(lift(arms)) if problem.drifts else arms
    targets = span.contrast_coordinates(problem.target - problem.target[0])
    return arms, features, np.ascontiguousarray(targets)


@lru_cache(maxsize=128)
def target_coordinates(problem: Problem) -> Array:
    """The targets in the coordinates of `coordinates`, not shifted."""
    span = problem.span if problem.drifts else linear_span(problem.source)
    return np.ascontiguousarray(span.coordinates(problem.target))


def make_parts(
    setting: Setting,
    *,
    top: int,
    level: float,
    control: int | None,
    block: int,
    items: int | None,
    forecasts: bool,
) -> tuple[Contest, Drawing]:
    """The contest of a rule, and its way of drawing.

    Args:
        setting: what they are made from.
        top: how many targets it names.
        level: the log of the e-value that drops a target.
        control: the target that effects are measured against, or None.
        block: the number of arms that a round pulls.
        items: the number of items there are, or None.
        forecasts: whether a forecast is subtracted from every reward.
    """
    best = top == 1 and not setting.margin
    contest: Contest = (
        BestOf(setting.targets, level=level, grid=setting.grid)
        if best
        else TopOf(
            setting.targets,
            level=level,
            top=top,
            tolerance=setting.margin,
            grid=setting.grid,
            control=control,
        )
    )
    if block == 1:
        return contest, Singles(setting, forecasts=forecasts)
    return contest, InBlocks(setting, block=block, control=control, drops=best, items=items)
