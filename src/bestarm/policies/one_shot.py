"""Policies of a single plan, carried out once: their base, uniform allocation, DEO and G-Opt."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive, whole
from bestarm.design import Design, centered_xy, check_tolerance, deo
from bestarm.design.memo import recall
from bestarm.estimation import arm_means, orthogonalized
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class OneShot(StepwisePolicy):
    """A policy of one plan. Subclasses make it (`_make_plan`) and score targets (`_scores`)."""

    _sufficient: int | None = None  # pulls that identify the best target, if that is known
    _ranking: Array | None = None

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Score the targets."""
        self._ranking = self._scores(plan, summary)
        self._leader = first_largest(self._ranking, size=summary.largest_mean)
        if self._sufficient is None or plan.pulls < self._sufficient:
            return "budget"
        self._active = np.array([self._leader])
        return "identified"

    @abstractmethod
    def _scores(self, plan: Plan, summary: Summary) -> Array:
        """An estimate for each target; only differences need mean anything."""


class Uniform(OneShot):
    """Pull the arms in turn until the budget is spent, and rank them by their mean reward.

    No error probability is claimed. A baseline that drifts slowly hits all arms alike and only adds
    variance; one that keeps time with the rounds, or reacts to the past, can bias every mean, since
    the arm to come is known beforehand.

    Args:
        problem: the problem; its targets must be its source arms.
        budget: the number of pulls, at least one per arm.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import Uniform
        >>> Uniform(Problem([[1, 0], [0, 1], [1, 1]]), budget=7).plan().counts.tolist()
        [3, 2, 2]
    """

    version: ClassVar[int] = 1
    _blind = True
    _kind = "fixed"
    _transductive = False

    def __init__(self, problem: Problem, *, budget: int) -> None:
        super().__init__(problem, budget=budget)
        whole(budget, "budget", least=problem.arms)

    def _make_plan(self) -> Plan:
        pulls, arms = self._pulls_left(), self.problem.arms
        return Plan.fixed(pulls // arms + (np.arange(arms) < pulls % arms), phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:  # noqa: ARG002
        return arm_means(summary)


class GOpt(OneShot):
    """One batch from DEO's design, as long as an oracle's smallest gap asks for, then the best.

    An oracle baseline for comparisons: no experiment knows its smallest gap. With the tuned
    constants nothing is proven, and on instances with many near-ties it errs more often than δ. No
    baseline fixed before the draw biases it.

    Args:
        problem: the problem.
        gap: the oracle's smallest gap, in reward units.
        r1: the constant R₁ of the length.
        r2: the constant R₂.
        max_pulls: cut the batch to this; a batch cut short is never final.
        tol: the relative gap to which the design is certified.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> world = environments.small_gap(declared_baseline=1.0)  # as in the paper
        >>> GOpt(world.problem(0.1), gap=world.gap).plan().pulls
        387106

    Reference: Kim, Kim and Oh (2025), one-shot budget.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        gap: float,
        r1: float = 1 / 3,
        r2: float = 1 / 3,
        max_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sufficient = bounds.sbe_phase_length(
            problem.dimension,
            epsilon=positive(gap, "gap") / problem.scale,
            delta=problem.delta,
            r1=positive(r1, "r1"),
            r2=positive(r2, "r2"),
        )
        check_tolerance(tol)
        self._length, self._tol = min(self._sufficient, self._pulls_left()), tol

    def _make_plan(self) -> Plan:
        design = recall(deo, self.problem.source, anchor=0, tol=self._tol)
        return Plan.randomised(design.weights, self._length, phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        return regression_scores(self.problem, plan, summary)


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
        tol: float = 1e-3,
    ) -> None:
        super().__init__(problem, budget=budget)
        choice(design, ("anchored", "centered"), "design")
        check_tolerance(tol)
        self._centered = design == "centered"
        self._anchor = 0
        if not self._centered:
            self._anchor = whole(anchor, "anchor", least=0, below=problem.arms)
        self._tol = tol

    def _make_plan(self) -> Plan:
        problem = self.problem
        design: Design
        if self._centered:
            design = recall(centered_xy, problem.source, problem.target, tol=self._tol)
        else:
            design = recall(deo, problem.source, anchor=self._anchor, tol=self._tol)
        return Plan.randomised(design.weights, self._pulls_left(), phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        return regression_scores(self.problem, plan, summary)


def regression_scores(problem: Problem, plan: Plan, summary: Summary) -> Array:
    """Targets scored by orthogonalized regression, with the ridge of the paper's experiments."""
    assert plan.weights is not None
    ridge = max(1.0, math.log(plan.pulls / problem.delta))
    theta = orthogonalized(problem, summary, plan.weights, ridge=ridge)
    return np.asarray((problem.target - problem.target[0]) @ theta)
