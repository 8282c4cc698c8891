"""The base of both: constant shares within a period, and means that weight periods alike."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import StepwisePolicy, require_pullable_targets
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_FIRST = 100  # pulls per arm in the first period
_GROWTH = 0.1  # the length of a period, relative to all pulls before it


class PeriodRule(StepwisePolicy):
    """A policy that keeps the shares of the arms through a period, and then changes them.

    The mean of an arm is Σ_k n_k r̄_k / Σ_k n_k, with n_k all pulls of period k and r̄_k its mean
    reward there. Every arm has the same weights, so what a period adds to all rewards cancels in
    differences. A period in which an arm has fewer than two pulls does not count for this arm.

    Args:
        problem: the problem; its targets must be its source arms.
        max_pulls: stop at this many pulls; such a stop is never final.
    """

    def __init__(self, problem: Problem, *, max_pulls: int | None = None) -> None:
        require_pullable_targets(problem, type(self).__name__)
        super().__init__(problem, max_pulls=max_pulls)
        self._shares = np.full(problem.arms, 1 / problem.arms)
        self._weights, self._sums, self._squares = np.zeros((3, problem.arms))

    @property
    def traits(self) -> Traits:
        """It has no version."""
        return Traits(max_pulls=self._max_pulls)

    @property
    def _means(self) -> Array:
        """The weighted mean of each arm; NaN without pulls."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums / self._weights)

    @property
    def _variances(self) -> Array:
        """The squared standard error of each mean; infinite without pulls."""
        with np.errstate(invalid="ignore"):
            return np.where(self._weights > 0, self._squares / self._weights**2, np.inf)

    def _make_plan(self) -> Plan:
        length = max(_FIRST * int(np.count_nonzero(self._shares)), int(_GROWTH * self._pulls))
        left = self._left()
        length = length if left is None else min(length, left)
        return Plan.randomised(self._shares, length, phase=self._plans + 1)

    def _take(self, plan: Plan, summary: Summary) -> str | None:
        counts = summary.counts
        known = counts > 1
        n = np.where(known, counts, 2)
        means = summary.sums / n
        within = np.maximum(summary.squares - n * means**2, 0.0) / (n - 1)
        self._weights = self._weights + np.where(known, plan.pulls, 0)
        self._sums = self._sums + np.where(known, plan.pulls * (means + summary.center), 0.0)
        self._squares = self._squares + np.where(known, plan.pulls**2 * within / n, 0.0)
        pulled = self._active[self._weights[self._active] > 0]
        if len(pulled):
            self._leader = int(pulled[first_largest(self._means[pulled])])
            if self._decide():
                return "identified"
        left = self._left()
        return None if left is None or left > plan.pulls else "max_pulls"

    @abstractmethod
    def _decide(self) -> bool:
        """Set the shares of the next period; whether the leader is shown to be the best."""
