"""P1-RAGE and P1-Peace: robust to arms whose means move, and quick where they do not."""

from __future__ import annotations

import math

import numpy as np

from bestarm.design import Design, linear_xy
from bestarm.design.memo import recall
from bestarm.field.linear_designs import g_weights, longest_prefix, weighted_sum
from bestarm.numerics.geometry import Array, Indices, ranked
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_PHASES = 15  # most phases of the elimination that P1-RAGE plays through, as the authors ran it


class P1RAGE(StepwisePolicy):
    """The best arm on average when θ_t moves, with RAGE's speed when it does not.

    Half of every epoch is drawn from the G-design. The other half follows RAGE played through on
    the estimate so far: in its phase i, targets within 2^(1−i) of the leader are compared. θ is
    estimated by inverse probabilities over all pulls, so that no target is ever lost. The first
    epoch is one pull from the G-design; the others are ⌈log₂ ρ⌉ of equal length, where ρ is the
    value of the design for all targets.

    For rewards x·θ_t + noise with |x·θ_t| ≤ 1 and θ_t fixed beforehand the error is at most of the
    order K exp(−T Δ²/d) in the gap Δ of the averages, as G-BAI's; without movement it is that of
    RAGE up to logarithms. The proof redesigns after every pull, and no budget is an error
    probability: the answer is never final. A baseline ν_t biases it: the arms have no intercept.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import P1RAGE
        >>> P1RAGE(Problem([[1, 0], [0, 1]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024).
    """

    _blind = True

    def __init__(self, problem: Problem, *, budget: int) -> None:
        super().__init__(problem, budget=budget)
        epochs = max(1, math.ceil(math.log2(self._design(self._active).lower_bound)))
        self._length = max(1, budget // epochs)
        self._sum = np.zeros(problem.dimension)  # Σ_t θ̂_t

    @property
    def theta(self) -> Array:
        """The estimated average of θ_t so far, in feature units."""
        return self._sum / max(self._pulls, 1)

    def _make_plan(self) -> Plan:
        weights = g_weights(self.problem.source, np.arange(self.problem.arms))
        if not self._plans:
            return Plan.randomised(weights, 1, phase=1)
        options = self.problem.target
        scores = (options - options[0]) @ self.theta  # offsets would cost digits
        order = ranked(scores)
        designs = self._simulate_elimination(order, scores[order[0]] - scores[order])
        mixed = (weights + np.mean(designs, axis=0)) / 2
        pulls = min(self._length, self._pulls_left())
        return Plan.randomised(mixed / mixed.sum(), pulls, phase=self._plans + 1)

    def _observe(self, plan: Plan, summary: Summary) -> None:
        assert plan.weights is not None
        self._sum = self._sum + weighted_sum(self.problem.source, plan.weights, summary)
        options = self.problem.target
        scores = (options - options[0]) @ self._sum
        self._leader = int(ranked(scores, size=summary.largest_mean * plan.pulls)[0])

    def _design(self, targets: Indices) -> Design:
        """The design for differences of these targets."""
        return recall(linear_xy, self.problem.source, self.problem.target[np.sort(targets)])

    def _simulate_elimination(self, order: Indices, gaps: Array) -> list[Array]:
        """The designs of an elimination that would go by these gaps to the leader, from 0 up."""
        left, designs = len(order), []
        for phase in range(1, _PHASES + 1):
            designs.append(self._design(order[:left]).weights)
            left = int(np.searchsorted(gaps, 2.0**-phase, side="right"))
            if left == 1:
                break
        return designs


class P1Peace(P1RAGE):
    """P1-RAGE's mixture, with an elimination that needs no scale of the rewards.

    Half of every epoch is drawn from the G-design. The other half follows an elimination played
    through on the estimate so far: each of its phases keeps the most leading targets whose design
    has at most half the value of the design before. (The authors measure difficulty by that value
    ρ here, not by Peace's Gaussian width.) Estimates, epochs and options are those of `P1RAGE`.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import P1Peace
        >>> P1Peace(Problem([[1, 0], [0, 1]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024), experiments; Katz-Samuels, Jain,
    Karnin and Jamieson (2020).
    """

    def _simulate_elimination(self, order: Indices, gaps: Array) -> list[Array]:  # noqa: ARG002
        left, designs = len(order), []
        while left > 1:
            design = self._design(order[:left])
            designs.append(design.weights)
            left = longest_prefix(
                order[:left], lambda kept: self._design(kept).lower_bound, design.value / 2
            )
        return designs
