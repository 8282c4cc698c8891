"""GSE: successive elimination that pulls the G-optimal design over the arms left."""

from __future__ import annotations

import math

from bestarm.checks import whole
from bestarm.design.memo import recall
from bestarm.field.linear_designs import LinearShrinking, g_counts
from bestarm.field.linear_model import linear_rank
from bestarm.policies.shrinking import parts
from bestarm.problem import Problem
from bestarm.records import Plan


class GSE(LinearShrinking):
    """Generalized successive elimination in the linear model: halve the arms, log₂ K times.

    There are ⌈log_η K⌉ stages of equal length. Each pulls the G-optimal design over the arms left,
    in whole pulls, and keeps the better 1/η of them under least squares on this stage alone. An arm
    is estimated in the span of the arms left.

    For rewards x·θ + σ-sub-Gaussian noise the error is at most
    2η log_η(K) exp(−B Δ²/(4σ² d log_η K)) in the smallest gap Δ. A baseline biases it. No budget is
    an error probability: the answer is never final.

    Args:
        problem: the problem; its targets must be its source arms.
        budget: the number of pulls, at least one per dimension and stage. All are used.
        factor: η: which part of the arms a stage keeps; the published 2 halves them.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import GSE
        >>> GSE(Problem([[1, 0], [0, 1]]), budget=100).plan().counts.tolist()
        [50, 50]

    Reference: Azizi, Kveton and Ghavamzadeh (2022), algorithm 1 with exact designs in place of
    Frank–Wolfe's.
    """

    _transductive = False

    def __init__(self, problem: Problem, *, budget: int, factor: int = 2) -> None:
        super().__init__(problem)
        self._keep = stage_sizes(problem.arms, whole(factor, "factor", least=2))
        whole(budget, "budget", least=linear_rank(problem) * len(self._keep))
        self._lengths = parts(budget, len(self._keep))

    def _make_plan(self) -> Plan:
        counts = recall(g_counts, self.problem.source, self._active, self._lengths[self._plans])
        return Plan.fixed(counts, phase=self._plans + 1)


def stage_sizes(arms: int, factor: int) -> list[int]:
    """How many arms are left after each stage that keeps the factor-th part: ⌈K/η^s⌉, down to 1."""
    sizes: list[int] = []
    while not sizes or sizes[-1] > 1:
        sizes.append(math.ceil(arms / factor ** (len(sizes) + 1)))
    return sizes
