"""Lazy Track-and-Stop: track the optimal allocation, computed ever more rarely."""

from __future__ import annotations

import math

import numpy as np

from bestarm.design import complexity
from bestarm.field.kernels import cholesky, compiled, reward_at
from bestarm.field.linear_model import coordinates, spanning_arms
from bestarm.field.linear_rule import (
    LEADER,
    PULLS,
    TIE,
    LinearRule,
    Model,
    Rule,
    State,
    Threshold,
    identified,
    information,
    learn,
)
from bestarm.field.pull_by_pull import Rewards, rest_of
from bestarm.field.thresholds import certified_threshold, lazy_experiments, lazy_threshold
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem, as_problem

# Weights; their sum over the pulls; a lower bound on λ_min(A), and c; the pulls at the next
# allocation, and the last arm of the basis that was forced; the basis.
Allocation = tuple[Array, Array, Array, Indices, Indices]
_LEAST, _FORCED = 0, 1
_NEXT, _TURN = 0, 1
_GOING, _STOPPED, _ALLOCATING = 0, 1, 2  # how a loop over pulls ended

_ALLOCATION_GAP = 0.01  # relative; how far from the optimum an allocation may be


class LazyTrackAndStop(LinearRule):
    """Track the allocation that would be optimal if the estimate were true.

    The allocation is computed anew whenever the pulls have doubled. Between, the next arm is the
    one whose pulls are furthest behind the sum of all allocations so far. While the least
    eigenvalue of A = Σ x xᵀ is below c √t, the arms of a basis are pulled in turn instead. It
    stops when the statistic of the likelihood ratio exceeds a threshold, and the expected number of
    pulls is asymptotically the smallest possible as δ → 0.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, with the
    thresholds `"published"` and `"certified"`.

    Where the paper leaves a choice: the basis takes the arm furthest from the span of those
    before it, where the authors draw it; allocations come from a certified solver, within one per
    cent of the optimum, where they make up to a thousand steps of Frank–Wolfe.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        threshold: `"published"` (its equation 9, with u = 0.1), `"certified"` (without the factor
            1 + u: `bounds.certified_threshold`), or `"experiments"`, the smaller one of its
            Appendix A.1, which is not proven.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import LazyTrackAndStop
        >>> LazyTrackAndStop(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Jedra and Proutière (2020).
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Threshold = "published",
        max_pulls: int | None = None,
    ) -> None:
        source, _ = coordinates(as_problem(problem))
        basis, rank = spanning_arms(source), source.shape[1]
        least = float(np.linalg.eigvalsh(source[basis].T @ source[basis])[0])
        super().__init__(
            problem,
            threshold,
            published=lazy_threshold(problem.delta, least=least),
            others={
                "certified": certified_threshold(problem.delta),
                "experiments": lazy_experiments(problem.delta, rank=rank),
            },
            sigma=sigma,
            opening=basis,
            max_pulls=max_pulls,
        )
        even = np.full(problem.arms, 1 / problem.arms)
        bounds = np.array([0.0, least / math.sqrt(rank)])
        self._allocation = (even, np.zeros(problem.arms), bounds, np.array([rank, 0]), basis)

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        made, known = 0, (self._model, self._state, self._rule, self._allocation)
        while True:
            left = rest_of(rewards, made)
            pulls, self._next_arm, end = advance(left, *known, self._next_arm, most - made)
            made += pulls
            self._leader = int(self._state[8][LEADER])
            if end != _ALLOCATING:
                return made, end == _STOPPED
            self._allocate()
            self._next_arm = _next_arm(self._model, self._state, self._allocation)
            if made == most:
                return made, False

    def _allocate(self) -> None:
        """The optimal allocation for the estimate; the one before while targets are tied."""
        self._allocation[3][_NEXT] = 2 * self._state[8][PULLS]
        estimated = Problem(self._model[0], target=self._model[1])
        design = complexity(estimated, self._state[3], "linear", tol=_ALLOCATION_GAP)
        if math.isfinite(design.value):
            self._allocation[0][:] = design.weights


@compiled
def advance(
    rewards: Rewards,
    model: Model,
    state: State,
    rule: Rule,
    allocation: Allocation,
    arm: int,
    most: int,
) -> tuple[int, int, int]:
    """Make pulls until `most` are made, it stops, or it asks for an allocation.

    Returns the pulls made, the next arm, and which of the three it was. Where it asks, the next arm
    is still to be chosen.
    """
    for i in range(most):
        above = learn(model, state, arm, reward_at(rewards, i, arm))
        if above and identified(model, state, rule):
            return i + 1, arm, _STOPPED
        if state[8][PULLS] >= allocation[3][_NEXT]:
            return i + 1, arm, _ALLOCATING
        arm = _next_arm(model, state, allocation)
    return most, arm, _GOING


@compiled
def _next_arm(model: Model, state: State, allocation: Allocation) -> int:
    """The next arm: of the basis while λ_min(A) < c √t, else the one furthest behind (eq. 5)."""
    counts, counters = state[0], state[8]
    weights, total, bounds, places, basis = allocation
    for a in range(len(weights)):
        total[a] += weights[a]
    needed = bounds[_FORCED] * math.sqrt(counters[PULLS])
    for ask in (1.25 * needed, needed / TIE):  # λ_min never falls: what was once shown still holds
        if bounds[_LEAST] * TIE < needed and _exceeds(model[0], counts, ask):
            bounds[_LEAST] = ask
    if bounds[_LEAST] * TIE < needed:
        places[_TURN] = (places[_TURN] + 1) % len(basis)
        return int(basis[places[_TURN]])
    best, furthest = 0, math.inf
    for a in range(len(weights)):
        if total[a] > 0 and counts[a] - total[a] < furthest:
            best, furthest = a, counts[a] - total[a]
    return best


@compiled
def _exceeds(source: Array, counts: Indices, value: float) -> bool:
    """Whether λ_min(Σ x xᵀ) > value: whether the matrix less value·I is positive."""
    return cholesky(information(source, counts, -value))
