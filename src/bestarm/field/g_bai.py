"""G-BAI: arms drawn from one G-optimal design, then the best estimated average."""

from __future__ import annotations

import numpy as np

from bestarm.field.linear_designs import g_weights, weighted_sum
from bestarm.numerics.geometry import Array
from bestarm.policies.one_shot import OneShot
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class GBAI(OneShot):
    """Draw every pull from the G-optimal design, whatever was seen, and name the best on average.

    θ is estimated by inverse probabilities: each pull adds Σ(p)⁻¹ x r. For rewards x·θ_t + noise
    with θ_t fixed beforehand the estimate is unbiased for the average θ, however θ_t moves, and the
    error is at most K exp(−T Δ²/(c d)) in the gap Δ of the averages. A baseline ν_t biases it: the
    arms have no intercept.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import GBAI
        >>> GBAI(Problem([[1, 0], [0, 1], [0.5, 0.5]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.5, 0.0]

    Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024).
    """

    _blind = True

    def __init__(self, problem: Problem, *, budget: int) -> None:
        super().__init__(problem, budget=budget)

    def _make_plan(self) -> Plan:
        weights = g_weights(self.problem.source, np.arange(self.problem.arms))
        return Plan.randomised(weights, self._pulls_left(), phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        assert plan.weights is not None
        theta = weighted_sum(self.problem.source, plan.weights, summary) / plan.pulls
        return np.asarray((self.problem.target - self.problem.target[0]) @ theta)
