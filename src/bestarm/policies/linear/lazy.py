"""Lazy Track-and-Stop: track the optimal allocation, computed ever more rarely."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from bestarm.bounds import certified_threshold, lazy_experiments, lazy_threshold
from bestarm.checks import choice
from bestarm.design import complexity
from bestarm.numerics.geometry import Array
from bestarm.policies.linear.base import LinearRule, coordinates
from bestarm.policies.stepwise import Indices
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_problem

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
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.lazy import LazyTrackAndStop
        >>> LazyTrackAndStop(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Jedra and Proutière (2020).
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "certified", "experiments"] = "published",
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        choice(threshold, ("published", "certified", "experiments"), "threshold")
        source, _ = coordinates(as_problem(problem))
        basis, rank = _basis(source), source.shape[1]
        least = float(np.linalg.eigvalsh(source[basis].T @ source[basis])[0])
        delta = problem.delta
        super().__init__(
            problem,
            lazy_threshold(delta, least=least)
            if threshold == "published"
            else certified_threshold(delta)
            if threshold == "certified"
            else lazy_experiments(delta, rank=rank),
            name=threshold,
            sigma=sigma,
            opening=basis,
            max_pulls=max_pulls,
        )
        even = np.full(problem.arms, 1 / problem.arms)
        ends = np.array([0.0, least / math.sqrt(rank)])  # known of λ_min; c
        places = np.array([rank, 0])  # the pulls at the next allocation; whose turn it is
        self._course = (even, np.zeros(problem.arms), ends, places)

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.linear.lazy_kernels import (  # noqa: PLC0415 - compiles
            ASKING,
            STOPPED,
            advance,
            choose,
        )

        made = 0
        while True:
            pulls, self._due, end = advance(
                presampled.parts,
                self._model,
                self._state,
                self._rule,
                self._course,
                (self._due, made, most),
            )
            made += pulls
            self._lead()
            if end != ASKING:
                return made, end == STOPPED
            self._allocate()
            self._due = choose(self._model, self._state, self._course)
            if made == most:
                return made, False

    def _allocate(self) -> None:
        """The optimal allocation for the estimate; the one before while targets are tied."""
        weights, _, _, places = self._course
        places[0] = 2 * self._counters[0]
        source, target = self._model[:2]
        found = _allocation(source, target, self._fit[1])
        if found is not None:
            weights[:] = found


def _allocation(source: Array, target: Array, theta: Array) -> Array | None:
    problem = Problem(source, target=target)
    design = complexity(problem, theta, "linear", tol=_ALLOCATION_GAP)
    return design.weights if math.isfinite(design.value) else None


def _basis(source: Array) -> Indices:
    """Arms that span what all span: each the furthest from the span of those before it."""
    left, chosen = source.copy(), []
    for _ in range(source.shape[1]):
        sizes = np.einsum("ij,ij->i", left, left)
        chosen.append(int(np.argmax(sizes > sizes.max() * (1 - 1e-9))))
        axis = left[chosen[-1]] / math.sqrt(sizes[chosen[-1]])
        left -= np.outer(left @ axis, axis)
    return np.array(chosen, dtype=np.int64)
