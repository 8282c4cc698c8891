"""The base of P1-RAGE and P1-Peace: half of the pulls for robustness, half for a quick answer."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace

import numpy as np

from bestarm.checks import whole
from bestarm.design import Design
from bestarm.numerics.geometry import Array, ranked
from bestarm.policies.budget.designs import g_weights, weighted_sum, xy_design
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import Indices, StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class P1Linear(StepwisePolicy):
    """A plan per epoch, half from the G-design, half from the designs of an imagined elimination.

    Nothing is really eliminated. Before each epoch an elimination is played through on the estimate
    so far (`_imagined`), and its designs are mixed with the G-design half and half. θ is estimated
    by inverse probabilities over all pulls. The first epoch is a single pull from the G-design;
    then come ⌈log₂ ρ⌉ epochs of equal length, where ρ is the value of the design for all targets.
    """

    _blind = True

    def __init__(self, problem: Problem, *, budget: int, seed: int = 0) -> None:  # noqa: ARG002
        super().__init__(problem)
        self._budget = whole(budget, "budget", least=1)
        epochs = max(1, math.ceil(math.log2(self._design(self._active).lower_bound)))
        self._length = max(1, self._budget // epochs)
        self._sum = np.zeros(problem.dimension)  # Σ_t θ̂_t

    @property
    def traits(self) -> Traits:
        """It stops when its pulls are spent."""
        return replace(super().traits, budgeted=True)

    @property
    def theta(self) -> Array:
        """The estimated average of θ_t so far, in feature units."""
        return self._sum / max(self._pulls, 1)

    def _make_plan(self) -> Plan:
        weights = g_weights(self.problem, np.arange(self.problem.arms).tobytes())
        if not self._plans:
            return Plan.randomised(weights, 1, phase=1)
        options = self.problem.target
        scores = (options - options[0]) @ self.theta  # offsets would cost digits
        order = ranked(scores)
        designs = self._imagined(order, scores[order[0]] - scores[order])
        mixed = (weights + np.mean(designs, axis=0)) / 2
        pulls = min(self._length, self._budget - self._pulls)
        return Plan.randomised(mixed / mixed.sum(), pulls, phase=self._plans + 1)

    def _take(self, plan: Plan, summary: Summary) -> str | None:
        assert plan.weights is not None
        self._sum = self._sum + weighted_sum(self.problem, plan.weights, summary)
        options = self.problem.target
        scores = (options - options[0]) @ self._sum
        self._leader = int(ranked(scores, size=summary.largest_mean * plan.pulls)[0])
        return "budget" if self._pulls + plan.pulls >= self._budget else None

    def _design(self, targets: Indices) -> Design:
        """The design for differences of these targets."""
        return xy_design(self.problem, np.sort(targets).tobytes())

    @abstractmethod
    def _imagined(self, order: Indices, gaps: Array) -> list[Array]:
        """The designs of an elimination that would go by these gaps to the leader, from 0 up."""
