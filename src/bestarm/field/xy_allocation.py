"""Allocations that do not depend on rewards, for the XY rules: runs of a simulation share them.

Arms and targets are in coordinates of the span of the arms, one row each. A direction is the
difference y of two targets. P = A⁻¹ is the inverse of Σ x xᵀ over the pulls so far. It is kept by
rank-one updates, and computed afresh now and then, so that rounding does not add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.design import complexity
from bestarm.field.linear_model import Points, points_of
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import subtract_outer
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem

Order = NDArray[np.int32]  # the arms of pulls, in order

REFRESH = 4096  # pulls after which matrices kept by rank-one updates are computed afresh
_NEGLIGIBLE = 1e-6  # times the mean weight: left over by the solver, and not worth a pull
_TIE = 1e-9  # widths that differ by less, relative to their size, are equal on paper


def all_pairs(targets: Indices) -> Indices:
    """Every two of these targets, one row each."""
    first, second = np.triu_indices(len(targets), 1)
    return np.column_stack([targets[first], targets[second]])


def inverse_of(arms: Array, counts: Indices) -> Array:
    """P = (Σ n_a x_a x_aᵀ)⁻¹, of arms that span."""
    return np.asarray(np.linalg.inv((arms.T * counts) @ arms))


class StaticAllocation:
    """The arms in the order in which an allocation pulls them, computed as far as needed.

    It begins with arms that span, one pull each.

    Args:
        problem: the problem.
        extend: fills in further pulls, and adds them to the counts that it is given.
    """

    def __init__(self, problem: Problem, extend: Callable[[Indices, Order], object]) -> None:
        self._arms: Order = points_of(problem).basis.astype(np.int32)
        self._counts = np.bincount(self._arms, minlength=problem.arms)
        self._extend, self._lock = extend, Lock()

    def first(self, pulls: int) -> Order:
        """At least so many of the pulls, in order."""
        with self._lock:
            known = len(self._arms)
            if known < pulls:
                steps = -(-max(pulls, known + known // 2) // REFRESH)  # whatever was asked for
                further = np.empty(steps * REFRESH - known, dtype=np.int32)
                self._extend(self._counts, further)
                self._arms = np.concatenate([self._arms, further])
            return self._arms


@lru_cache(maxsize=8)
def greedy_allocation(problem: Problem) -> StaticAllocation:
    """Every pull makes the contrast of two targets that is known least as well known as it can."""
    points, pairs = points_of(problem), all_pairs(np.arange(problem.targets))
    return StaticAllocation(problem, partial(extend_greedily, points, pairs))


@lru_cache(maxsize=8)
def oracle_allocation(problem: Problem, theta: tuple[float, ...]) -> StaticAllocation:
    """Pulls whose shares tend to the optimal design for θ, as quickly as whole pulls can."""
    weights = complexity(problem, theta, "linear").weights
    weights = np.where(weights > _NEGLIGIBLE / problem.arms, weights, 0.0)
    return StaticAllocation(problem, partial(_track, weights))


def extend_greedily(
    points: Points, pairs: Indices, counts: Indices, order: Order, level: float = 0.0
) -> int:
    """Go on with a greedy allocation, as `_allocate` does; the arms pulled before span.

    Products with P are computed afresh every `REFRESH` pulls of the whole allocation.

    Returns:
        The number of pulls, which are written into `order` and added to `counts`.
    """
    made = 0
    while made < len(order):
        piece = order[made : made + REFRESH - int(counts.sum()) % REFRESH]
        inverse = inverse_of(points.arms, counts)
        across = points.targets @ inverse @ points.arms.T
        apart = points.targets[pairs[:, 0]] - points.targets[pairs[:, 1]]
        widths = np.einsum("ij,ij->i", apart @ inverse, apart)
        within = points.arms @ inverse @ points.arms.T
        pulls = _allocate(within, across, pairs, widths, counts, piece, level)
        made += pulls
        if pulls < len(piece):
            break
    return made


@compiled
def _allocate(
    within: Array,
    across: Array,
    pairs: Indices,
    widths: Array,
    counts: Indices,
    order: Order,
    level: float,
) -> int:
    """Go on with a greedy allocation until `order` is full, or all widths are narrow enough.

    They are after n pulls if ‖y‖² ≤ level·n for every direction. `within` has x·P·x′ for all arms,
    `across` z·P·x for all targets and arms, `pairs` the two targets of each direction y, and
    `widths` ‖y‖² under P. All but `pairs` are updated in place. Returns the number of pulls.
    """
    arms = len(within)
    own, work, row = np.empty(arms), np.empty((3, arms)), np.empty(arms)
    column = np.empty(len(across))
    n = counts.sum()
    for made in range(len(order)):
        if widths.max() <= level * (n + made):
            return made
        for a in range(arms):
            own[a] = within[a, a]
        arm = _next_arm(own, across, pairs, widths, work)
        order[made] = arm
        counts[arm] += 1
        share = 1 / (1 + own[arm])
        for a in range(arms):  # as slices, these take seconds longer to compile
            row[a] = within[arm, a]
        for z in range(len(across)):
            column[z] = across[z, arm]
        for y in range(len(pairs)):
            taken = column[pairs[y, 0]] - column[pairs[y, 1]]
            widths[y] -= taken * taken * share
        subtract_outer(within, row, row, share)
        subtract_outer(across, column, row, share)
    return len(order)


@compiled
def _next_arm(own: Array, across: Array, pairs: Indices, widths: Array, work: Array) -> int:
    """The arm whose pull makes the widest direction narrowest (Soare et al. 2014, eq. 12 and 14).

    A pull of x takes (x·P·y)²/(1 + x·P·x) off ‖y‖². The widest direction stays at least as wide as
    the best arm for it leaves it, so that directions narrower than this need no look. Where several
    directions are equally wide, no arm may make all of them narrower. Of arms that are equal, it is
    the one that makes the directions looked at narrowest in sum. `own` has x·P·x for every arm,
    and `work` room for three rows.
    """
    arms = len(own)
    largest, total, left = work[0], work[1], work[2]
    largest[:] = 0.0
    total[:] = 0.0
    widest, floor = int(np.argmax(widths)), 0.0
    for turn in range(len(widths) + 1):
        y = widest if turn == 0 else turn - 1
        if turn > 0 and (y == widest or widths[y] < floor):
            continue
        one, other = across[pairs[y, 0]], across[pairs[y, 1]]
        for a in range(arms):
            taken = one[a] - other[a]
            left[a] = widths[y] - taken * taken / (1 + own[a])
            total[a] += left[a]
            largest[a] = max(largest[a], left[a])
        if turn == 0:
            floor = left.min() * (1 - _TIE)
    best = 0
    for a in range(1, arms):
        tie = _TIE * largest[best]
        if largest[a] < largest[best] - tie or (
            largest[a] <= largest[best] + tie and total[a] < total[best] * (1 - _TIE)
        ):
            best = a
    return best


@compiled
def _track(weights: Array, counts: Indices, order: Order) -> None:
    """Pull the arm whose next pull comes first under the weights: the least (n + 1)/weight."""
    for made in range(len(order)):
        best, least = 0, math.inf
        for a in range(len(weights)):
            if weights[a] > 0 and (counts[a] + 1) / weights[a] < least:
                best, least = a, (counts[a] + 1) / weights[a]
        order[made] = best
        counts[best] += 1
