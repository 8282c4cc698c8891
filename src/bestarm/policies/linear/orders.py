"""Allocations that do not depend on rewards: runs of a simulation share them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array, first_largest, linear_span
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem

Order = NDArray[np.int32]

RENEWAL = 4096  # pulls after which matrices kept by rank-one updates are computed afresh


class Points(NamedTuple):
    """Arms and targets in coordinates of the linear span of the arms, one row each.

    Targets are less the first of them, which changes no difference: an offset would cost digits.
    `basis` are as many arms as the span has dimensions, and span it.
    """

    arms: Array
    targets: Array
    basis: Indices


@lru_cache(maxsize=64)
def points_of(problem: Problem) -> Points:
    """The arms and targets of a problem."""
    span = linear_span(problem.source)
    arms = np.ascontiguousarray(span.coordinates(problem.source))
    targets = span.contrast_coordinates(problem.target - problem.target[0])
    left, basis = arms.copy(), []
    for _ in range(span.rank):  # the longest arm, then the longest of what it leaves of others
        chosen = first_largest(np.einsum("ij,ij->i", left, left))
        basis.append(chosen)
        unit = left[chosen] / np.linalg.norm(left[chosen])
        left = left - np.outer(left @ unit, unit)
    return Points(arms, np.ascontiguousarray(targets), np.array(basis, dtype=np.int64))


def all_pairs(targets: Indices) -> Indices:
    """Every two of these targets, one row each."""
    first, second = np.triu_indices(len(targets), 1)
    return np.column_stack([targets[first], targets[second]])


def inverse_of(arms: Array, counts: Indices) -> Array:
    """P = (Σ n_a x_a x_aᵀ)⁻¹, of arms that span."""
    return np.asarray(np.linalg.inv((arms.T * counts) @ arms))


def extend_greedily(
    points: Points, pairs: Indices, counts: Indices, order: Order, level: float = 0.0
) -> int:
    """Go on with a greedy allocation, as `allocate` does; the arms pulled before span.

    Products with P are computed afresh every `RENEWAL` pulls of the whole allocation.

    Returns:
        The number of pulls, which are written into `order` and added to `counts`.
    """
    from bestarm.policies.linear.xy_kernels import allocate  # noqa: PLC0415 - compiles

    made = 0
    while made < len(order):
        piece = order[made : made + RENEWAL - int(counts.sum()) % RENEWAL]
        inverse = inverse_of(points.arms, counts)
        across = points.targets @ inverse @ points.arms.T
        apart = points.targets[pairs[:, 0]] - points.targets[pairs[:, 1]]
        widths = np.einsum("ij,ij->i", apart @ inverse, apart)
        within = points.arms @ inverse @ points.arms.T
        pulls = allocate(within, across, pairs, widths, counts, piece, level)
        made += pulls
        if pulls < len(piece):
            break
    return made


class FixedOrder(ABC):
    """The arms in the order in which an allocation pulls them, computed as far as needed.

    It begins with arms that span, one pull each. Subclasses go on with it (`_extend`).
    """

    def __init__(self, problem: Problem) -> None:
        self._points = points_of(problem)
        self._arms: Order = self._points.basis.astype(np.int32)
        self._counts = np.bincount(self._arms, minlength=problem.arms)
        self._lock = Lock()

    def first(self, pulls: int) -> Order:
        """At least so many of the pulls, in order."""
        with self._lock:
            known = len(self._arms)
            if known < pulls:
                steps = -(-max(pulls, known + known // 2) // RENEWAL)  # whatever was asked for
                further = np.empty(steps * RENEWAL - known, dtype=np.int32)
                self._extend(further)
                self._arms = np.concatenate([self._arms, further])
            return self._arms

    @abstractmethod
    def _extend(self, further: Order) -> None:
        """Fill in further pulls, and add them to `_counts`."""


class GreedyOrder(FixedOrder):
    """Every pull makes the contrast of two targets that is known least as well known as it can."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._pairs = all_pairs(np.arange(problem.targets))

    def _extend(self, further: Order) -> None:
        extend_greedily(self._points, self._pairs, self._counts, further)


class DesignOrder(FixedOrder):
    """Pulls whose shares tend to the weights of a design, as quickly as whole pulls can."""

    def __init__(self, problem: Problem, weights: Array) -> None:
        super().__init__(problem)
        self._weights = weights

    def _extend(self, further: Order) -> None:
        from bestarm.policies.linear.xy_kernels import track  # noqa: PLC0415 - compiles

        track(self._weights, self._counts, further)
