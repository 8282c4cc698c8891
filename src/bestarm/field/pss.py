"""PSS: sequential halving on random pulls, so that corrupted rewards cannot single out an arm."""

from __future__ import annotations

import numpy as np

from bestarm.checks import whole
from bestarm.field.gse import stage_sizes
from bestarm.numerics.geometry import Array
from bestarm.policies.shrinking import Shrinking
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class PSS(Shrinking):
    """Probabilistic sequential shrinking: phases of uniformly drawn pulls keep the better part.

    There are M = ⌈log_u K⌉ phases of ⌊T/M⌋ pulls, each drawn uniformly among the arms left. An arm
    is estimated by inverse probabilities from its phase alone: its sum of rewards times the number
    of arms left, per pull. The best ⌈K/u^m⌉ are kept.

    For rewards in [0, 1] with fixed means, corrupted by at most C in total, the best arm is named
    with probability tending to 1 if C/T is small against the gaps; else the arm named is worse by
    at most 8 ⌈log_u K⌉ C/T. Who corrupts must not know the draw to come. A baseline common to all
    arms biases nothing and adds variance. No budget is an error probability: the answer is never
    final.

    Args:
        problem: the problem; its targets must be its source arms, whose features are not used.
        budget: the number of pulls, at least one per arm.
        factor: u: which part of the arms a phase keeps.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import PSS
        >>> PSS(Problem(["a", "b", "c", "d"]), budget=1000).plan().pulls
        500

    Reference: Zhong, Cheung and Tan (2021), algorithm 1.
    """

    _transductive = False

    def __init__(self, problem: Problem, *, budget: int, factor: int = 2) -> None:
        super().__init__(problem)
        self._keep = stage_sizes(problem.arms, whole(factor, "factor", least=2))
        self._length = whole(budget, "budget", least=problem.arms) // len(self._keep)

    def _make_plan(self) -> Plan:
        weights = np.zeros(self.problem.arms)
        weights[self._active] = 1 / len(self._active)
        return Plan.randomised(weights, self._length, phase=self._plans + 1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        return np.asarray(summary.sums[self._active] * len(self._active) / plan.pulls)

    def _value(self, plan: Plan) -> float:  # noqa: ARG002
        return 2.0 * len(self._active)
