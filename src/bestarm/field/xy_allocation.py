"""Allocations that do not depend on rewards, for the XY rules: runs of a simulation share them.

Arms and targets are in coordinates of the span of the arms, one row each. A direction is the
difference y of two targets. P = A⁻¹ is the inverse of Σ x xᵀ over the pulls so far. It is kept by
rank-one updates, and computed afresh now and then, so that rounding does not add up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, count, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from bestarm.design import complexity
from bestarm.field.linear_model import Points, points_of
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem

Order = NDArray[np.int32]  # the arms of pulls, in order

_REFRESH = 4096  # pulls after which matrices kept by rank-one updates are computed afresh
_NEGLIGIBLE = 1e-6  # times the mean weight: left over by the solver, and not worth a pull
_TIE = 1e-9  # widths that differ by less, relative to their size, are equal on paper


class StaticAllocation:
    """The arms in the order in which an allocation pulls them, computed as far as needed.

    Args:
        arms: the arms of all pulls, without an end.
    """

    def __init__(self, arms: Iterator[int]) -> None:
        self._arms, self._lock = arms, Lock()
        self._order: Order = np.empty(0, dtype=np.int32)

    def first(self, pulls: int) -> Order:
        """At least so many of the pulls, in order."""
        with self._lock:
            known = len(self._order)
            if known < pulls:
                further = islice(self._arms, max(pulls - known, known // 2))
                self._order = np.concatenate([self._order, np.fromiter(further, dtype=np.int32)])
            return self._order


@lru_cache(maxsize=8)
def greedy_allocation(problem: Problem) -> StaticAllocation:
    """Every pull makes the contrast of two targets that is known least as well known as it can.

    It begins with arms that span, one pull each.
    """
    points = points_of(problem)
    counts = np.bincount(points.basis, minlength=problem.arms)
    further = greedy_pulls(points, all_pairs(np.arange(problem.targets)), counts)
    return StaticAllocation(chain(points.basis.tolist(), further))


@lru_cache(maxsize=8)
def oracle_allocation(problem: Problem, theta: tuple[float, ...]) -> StaticAllocation:
    """Pulls whose shares tend to the optimal design for θ, as quickly as whole pulls can.

    It begins with arms that span, one pull each.
    """
    weights = complexity(problem, theta, "linear").weights
    weights = np.where(weights > _NEGLIGIBLE / problem.arms, weights, 0.0)
    basis = points_of(problem).basis
    counts = np.bincount(basis, minlength=problem.arms)
    return StaticAllocation(chain(basis.tolist(), _tracking_pulls(weights, counts)))


def all_pairs(targets: Indices) -> Indices:
    """Every two of these targets, one row each."""
    first, second = np.triu_indices(len(targets), 1)
    return np.column_stack([targets[first], targets[second]])


def greedy_pulls(
    points: Points, pairs: Indices, counts: Indices, level: float = 0.0
) -> Iterator[int]:
    """Arms that each make the widest direction y narrowest, after pulls of arms that span.

    Directions are narrow enough, and it ends, after n pulls if ‖y‖² ≤ level·n for all of them.

    Args:
        points: the arms and targets.
        pairs: the two targets of each direction.
        counts: the pulls of each arm before.
        level: 0 to go on without an end.
    """
    arms, counts = points.arms, counts.copy()
    first, second = pairs.T
    apart = points.targets[first] - points.targets[second]
    start = int(counts.sum())
    for n in count(start):
        if (n - start) % _REFRESH == 0:
            inverse = np.linalg.inv((arms.T * counts) @ arms)
            within = arms @ inverse @ arms.T  # x·P·x′ of all arms
            across = points.targets @ inverse @ arms.T  # z·P·x of all targets and arms
            widths = np.einsum("ij,ij->i", apart @ inverse, apart)  # ‖y‖² under P
        if widths.max() <= level * n:
            return
        arm = _best_arm(within.diagonal(), across, pairs, widths)
        yield arm
        counts[arm] += 1
        share = 1 / (1 + within[arm, arm])
        row, column = within[arm].copy(), across[:, arm].copy()
        widths -= share * (column[first] - column[second]) ** 2
        across -= share * np.outer(column, row)
        within -= share * np.outer(row, row)


def _best_arm(own: Array, across: Array, pairs: Indices, widths: Array) -> int:
    """The arm whose pull makes the widest direction narrowest (Soare et al. 2014, eq. 12 and 14).

    A pull of x takes (x·P·y)²/(1 + x·P·x) off ‖y‖². The widest direction stays at least as wide as
    the best arm for it leaves it, so that directions narrower than this need no look. Where several
    directions are equally wide, no arm may make all of them narrower. Of arms that are equal, it is
    the one that makes the directions looked at narrowest in sum. `own` has x·P·x for every arm.
    """
    left = _widths_after(own, across, pairs, widths, np.array([np.argmax(widths)]))
    wide = np.flatnonzero(widths >= left.min() * (1 - _TIE))
    left = _widths_after(own, across, pairs, widths, wide)
    largest, total = left.max(axis=0), left.sum(axis=0)
    equal = np.flatnonzero(largest <= largest.min() * (1 + _TIE))
    narrowest = total[equal] <= total[equal].min() * (1 + _TIE)
    return int(equal[np.argmax(narrowest)])


def _widths_after(
    own: Array, across: Array, pairs: Indices, widths: Array, which: Indices
) -> Array:
    """‖y‖² of these directions (rows) after one pull of each arm (columns)."""
    taken = across[pairs[which, 0]] - across[pairs[which, 1]]
    return np.asarray(widths[which, None] - taken**2 / (1 + own))


def _tracking_pulls(weights: Array, counts: Indices) -> Iterator[int]:
    """The arm whose next pull comes first under the weights: the least (n + 1)/weight."""
    due = [((counts[a] + 1) / weights[a], a) for a in np.flatnonzero(weights).tolist()]
    pulls = counts.tolist()
    heapq.heapify(due)
    while True:
        arm = due[0][1]
        yield arm
        pulls[arm] += 1
        heapq.heapreplace(due, ((pulls[arm] + 1) / weights[arm], arm))
