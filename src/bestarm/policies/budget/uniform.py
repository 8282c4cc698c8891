"""Uniform: every arm in turn, then the best mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bestarm.checks import whole
from bestarm.estimation import arm_means
from bestarm.numerics.geometry import Array
from bestarm.policies.budget.one_shot import OneShot
from bestarm.policies.stepwise import require_pullable_targets
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class Uniform(OneShot):
    """Pull the arms in turn until the budget is spent, and rank them by their mean reward.

    No error probability is claimed. A baseline that drifts slowly hits all arms alike and only adds
    variance; one that keeps time with the rounds, or reacts to the past, can bias every mean, since
    the arm to come is known beforehand.

    Args:
        problem: the problem; its targets must be its source arms.
        budget: the number of pulls, at least one per arm.
        seed: accepted like every policy's; nothing is drawn.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import Uniform
        >>> Uniform(Problem([[1, 0], [0, 1], [1, 1]]), budget=7).plan().counts.tolist()
        [3, 2, 2]
    """

    version: ClassVar[int] = 1
    _blind = True
    _kind = "fixed"

    def __init__(self, problem: Problem, *, budget: int, seed: int = 0) -> None:  # noqa: ARG002
        require_pullable_targets(problem, "Uniform")
        self._budget = whole(budget, "budget", least=problem.arms)
        super().__init__(problem)

    def _make_plan(self) -> Plan:
        pulls, arms = self._budget, self.problem.arms
        return Plan.fixed(pulls // arms + (np.arange(arms) < pulls % arms), phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:  # noqa: ARG002
        return arm_means(summary)
