"""The base of fixed-budget policies in phases: after each, the better part of the targets stays."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from bestarm.design.memo import recall
from bestarm.numerics.geometry import Array, Indices, linear_diameter, ranked
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class Shrinking(StepwisePolicy):
    """A policy whose plans are counted beforehand, each with the number of targets it keeps.

    Subclasses set `_keep`, make plans, estimate the active targets (`_scores`) and say how well a
    plan compares them (`_value`). Where the numbers depend on the estimates they have `_kept` and
    `_over` instead of `_keep`. The answer is the best under the last estimate; it is never final.
    """

    _budgeted = True
    _keep: Sequence[int]  # how many targets are left after each plan; more than there are keeps all

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Estimate, and keep the better part."""
        scores = self._scores(plan, summary)
        order = ranked(scores, size=summary.largest_mean)
        keep = self._kept(self._active[order])
        dropped = np.zeros(len(scores), dtype=bool)
        dropped[order[keep:]] = True
        self._leader = int(self._active[order[0]])
        contrasts = scores[order[0]] - scores
        radius = float(contrasts[dropped].min()) if dropped.any() else math.inf
        self._end_phase(
            plan,
            dropped,
            contrasts=contrasts,
            radii=np.full(len(scores), radius),
            delta=0.0,
            weights=shares(plan),
            value=self._value(plan),
        )
        return "budget" if self._over() else None

    def _kept(self, ranking: Indices) -> int:  # noqa: ARG002 - subclasses use it
        """How many of the active targets stay after the plan, given their ranking."""
        return self._keep[self._plans]

    def _over(self) -> bool:
        """Whether the plan just taken was the last."""
        return len(self._trace) == len(self._keep)

    @abstractmethod
    def _scores(self, plan: Plan, summary: Summary) -> Array:
        """An estimate for each active target; only differences need mean anything."""

    @abstractmethod
    def _value(self, plan: Plan) -> float:
        """The largest variance factor of an active contrast, per pull."""


def shares(plan: Plan) -> Array:
    """The share of each arm in the pulls of a plan; read-only."""
    if plan.weights is not None:
        return plan.weights
    assert plan.counts is not None
    found = np.asarray(plan.counts / plan.pulls)
    found.flags.writeable = False
    return found


def linear_value(problem: Problem, active: Indices, plan: Plan) -> float:
    """The largest variance factor of a contrast of active targets by least squares, per pull."""
    return recall(linear_diameter, problem.source, shares(plan), problem.target[active])


def parts(pulls: int, number: int) -> list[int]:
    """So many parts that differ by one at most, the longer ones last."""
    return [pulls // number + (k >= number - pulls % number) for k in range(number)]
