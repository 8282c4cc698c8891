"""OD-LinBAI: one G-optimal phase keeps half as many arms as dimensions, then halving."""

from __future__ import annotations

import math

import numpy as np

from bestarm.checks import whole
from bestarm.design.memo import recall
from bestarm.field.linear_designs import LinearShrinking, g_weights
from bestarm.field.linear_model import linear_rank
from bestarm.numerics.geometry import Array, Indices, linear_span
from bestarm.problem import Problem
from bestarm.records import Plan


class ODLinBAI(LinearShrinking):
    """Optimal-design elimination: the error depends on the gaps of the d best arms only.

    There are ⌈log₂ d⌉ phases. Phase r pulls arm i ⌈m π_i⌉ times, where π is the G-optimal design
    over the arms left and m is chosen so that the budget suffices; then the ⌈d/2^r⌉ best under
    least squares on this phase alone are kept. d is the dimension of the span of all arms, and
    later phases work in the span of the arms left.

    For rewards x·θ + 1-sub-Gaussian noise the error is at most (4K/d + 3 log₂ d) exp(−m/(32 H₂)),
    with H₂ the largest i/Δ_i² over the d best arms. A baseline biases it. No budget is an error
    probability: the answer is never final.

    Args:
        problem: the problem; its targets must be its source arms.
        budget: the most pulls; up to one per arm and phase is left over.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import ODLinBAI
        >>> ODLinBAI(Problem([[1, 0], [0, 1]]), budget=103).plan().counts.tolist()
        [51, 51]

    Reference: Yang and Tan (2022), algorithm 1.
    """

    _transductive = False

    def __init__(self, problem: Problem, *, budget: int) -> None:
        super().__init__(problem)
        rank = linear_rank(problem)
        phases = max(1, math.ceil(math.log2(rank)))
        self._keep = [math.ceil(rank / 2**phase) for phase in range(1, phases + 1)]
        spare = largest_support(problem) + sum(self._keep[:-1])
        whole(budget, "budget", least=spare + 1)
        self._pulls_per_phase = (budget - spare) / phases  # m

    def _make_plan(self) -> Plan:
        weights = recall(_weights, self.problem.source, self._active)
        counts = np.ceil(weights * self._pulls_per_phase - 1e-9)
        counts[weights > 0] = np.maximum(counts[weights > 0], 1)
        return Plan.fixed(counts.astype(np.int64), phase=self._plans + 1)


def largest_support(problem: Problem) -> int:
    """How many arms a G-optimal design needs at most."""
    rank = linear_rank(problem)
    return min(problem.arms, rank * (rank + 1) // 2)


def _weights(source: Array, active: Indices) -> Array:
    return sparse_weights(source, g_weights(source, active))


def sparse_weights(source: Array, weights: Array) -> Array:
    """A design with the same matrix Σ p x xᵀ, up to scale, on at most d(d + 1)/2 arms.

    More matrices x xᵀ than the dimension of their space have a combination that vanishes; along it
    weight is moved until an arm has none (Carathéodory).
    """
    weights = np.array(weights)
    support = np.flatnonzero(weights)
    features = linear_span(source[support]).coordinates(source[support])
    rows, columns = np.triu_indices(features.shape[1])
    moments = features[:, rows] * features[:, columns]
    while len(support) > len(rows):
        null = np.linalg.svd(moments.T)[2][-1]
        null = null if null.max() > -null.min() else -null
        steps = np.full(len(null), np.inf)
        np.divide(weights[support], null, out=steps, where=null > 0)
        gone = int(np.argmin(steps))
        weights[support] = np.maximum(weights[support] - steps[gone] * null, 0.0)
        weights[support[gone]] = 0.0
        left = weights[support] > 0
        support, moments = support[left], moments[left]
    return np.asarray(weights / weights.sum())
