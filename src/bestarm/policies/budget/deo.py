"""DEO: one orthogonalized regression under the anchored G-design, at a given budget."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from bestarm.checks import choice, whole
from bestarm.design import centered_xy, check_tolerance, deo
from bestarm.estimation import orthogonalized
from bestarm.numerics.geometry import Array
from bestarm.policies.budget.one_shot import OneShot
from bestarm.policies.designs import cached_design
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class DEO(OneShot):
    """Rank the targets after `budget` pulls drawn from DEO's design.

    No error probability is claimed: the budget is what it is. No baseline fixed before the draw
    biases the ranking; its movement only adds variance.

    Args:
        problem: the problem.
        budget: the number of pulls.
        design: `"anchored"` is DEO's, `"centered"` the exact centered XY-design, which is made for
            the contrasts that decide and needs no anchor.
        anchor: the arm with half the mass.
        seed: accepted like every policy's; the draws are not the policy's to make.
        tol: the relative gap to which the design is certified.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import DEO
        >>> DEO(Problem([[1, 0], [0, 1], [1, 1]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.25, 0.25]

    Reference: Kim, Kim and Oh (2025); the paper's ranking of jokes.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        design: Literal["anchored", "centered"] = "anchored",
        anchor: int = 0,
        seed: int = 0,  # noqa: ARG002
        tol: float = 1e-3,
    ) -> None:
        super().__init__(problem)
        choice(design, ("anchored", "centered"), "design")
        check_tolerance(tol)
        self._centered = design == "centered"
        self._anchor = 0
        if not self._centered:
            self._anchor = whole(anchor, "anchor", least=0, below=problem.arms)
        self._budget, self._tol = whole(budget, "budget", least=1), tol

    def _make_plan(self) -> Plan:
        if self._centered:
            weights = _centered_weights(self.problem, self._tol)
        else:
            weights = anchored_weights(self.problem, self._anchor, self._tol)
        return Plan.randomised(weights, self._budget, phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        return regression_scores(self.problem, plan, summary)


@lru_cache(maxsize=128)
def anchored_weights(problem: Problem, anchor: int, tol: float) -> Array:
    """DEO's design, computed once for the runs of a simulation; read-only."""
    return _read_only(cached_design(deo, problem.source, anchor=anchor, tol=tol).weights)


@lru_cache(maxsize=128)
def _centered_weights(problem: Problem, tol: float) -> Array:
    return _read_only(cached_design(centered_xy, problem.source, problem.target, tol=tol).weights)


def _read_only(weights: Array) -> Array:
    weights.flags.writeable = False
    return weights


def regression_scores(problem: Problem, plan: Plan, summary: Summary) -> Array:
    """Targets scored by orthogonalized regression, with the ridge of the paper's experiments."""
    assert plan.weights is not None
    ridge = max(1.0, math.log(plan.pulls / problem.delta))
    theta = orthogonalized(problem, summary, plan.weights, ridge=ridge)
    return np.asarray((problem.target - problem.target[0]) @ theta)
