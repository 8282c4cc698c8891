"""The base of one-shot policies: a single plan, then the target with the best score."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class OneShot(StepwisePolicy):
    """A policy of one plan. Subclasses make it (`_make_plan`) and score targets (`_scores`).

    Args:
        problem: the problem.
        sufficient: how many pulls identify the best target; None for a ranking at whatever budget
            there is, which never calls its answer final.
    """

    def __init__(self, problem: Problem, *, sufficient: int | None = None) -> None:
        super().__init__(problem)
        self._sufficient = sufficient
        self._ranking: Array | None = None

    @property
    def traits(self) -> Traits:
        """One plan; unless told how many pulls suffice, it stops when they are spent."""
        return replace(super().traits, budgeted=self._sufficient is None)

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
