"""The XY rules, compiled: which arm an allocation pulls next, and when to stop.

Arms and targets are in coordinates of the span of the arms, one row each. A direction is the
difference y of two targets. P = A⁻¹ is the inverse of Σ x xᵀ over the pulls so far. It is kept by
rank-one updates; callers compute it afresh now and then, so that rounding does not add up.
Loops run along contiguous rows and sum into vectors, which lets the compiler use wide registers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.stepwise import Indices
from bestarm.presampled import reward_at

Order = NDArray[np.int32]

_TIE = 1e-9  # widths that differ by less, relative to their size, are equal on paper


@compiled
def combine(rows: Array, factors: Array, out: Array) -> None:
    """out = Σ_i factors_i rows_i."""
    out[:] = 0.0
    for i in range(len(rows)):
        factor = factors[i]
        for j in range(len(out)):
            out[j] += factor * rows[i, j]


@compiled
def dot(one: Array, other: Array) -> float:
    """The inner product."""
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@compiled
def less_product(matrix: Array, left: Array, right: Array, factor: float) -> None:
    """Subtract factor·left·rightᵀ."""
    for i in range(len(left)):
        part = factor * left[i]
        for j in range(len(right)):
            matrix[i, j] -= part * right[j]


@compiled
def next_arm(own: Array, across: Array, pairs: Indices, widths: Array, work: Array) -> int:
    """The arm whose pull makes the widest direction narrowest (Soare et al. 2014, eq. 12 and 14).

    A pull of x takes (x·P·y)²/(1 + x·P·x) off ‖y‖². The widest direction stays at least as wide as
    the best arm for it leaves it, so that directions narrower than this need no look. Where several
    directions are equally wide, no arm may make all of them narrower. Of arms that are equal, it is
    the one that makes the directions looked at narrowest in sum.

    Args:
        own: x·P·x for every arm.
        across: z·P·x for all targets and arms.
        pairs: the two targets of each direction.
        widths: ‖y‖² under P.
        work: three rows, one entry per arm.
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
def allocate(
    within: Array,
    across: Array,
    pairs: Indices,
    widths: Array,
    counts: Indices,
    order: Order,
    level: float,
) -> int:
    """Go on with a greedy allocation until `order` is full, or all widths are narrow enough.

    They are after n pulls if ‖y‖² ≤ level·n for every direction.

    Args:
        within: x·P·x′ for all arms, updated in place.
        across: z·P·x for all targets and arms, updated in place.
        pairs: the two targets of each direction.
        widths: ‖y‖² under P, updated in place.
        counts: pulls per arm, updated in place.
        order: the arms pulled are written into it.
        level: how narrow is narrow enough.

    Returns:
        The number of pulls.
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
        arm = next_arm(own, across, pairs, widths, work)
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
        less_product(within, row, row, share)
        less_product(across, column, row, share)
    return len(order)


@compiled
def track(weights: Array, counts: Indices, order: Order) -> None:
    """Pull the arm whose next pull is due first under the weights: the least (n + 1)/weight."""
    for made in range(len(order)):
        best, least = 0, math.inf
        for a in range(len(weights)):
            if weights[a] > 0 and (counts[a] + 1) / weights[a] < least:
                best, least = a, (counts[a] + 1) / weights[a]
        order[made] = best
        counts[best] += 1


@compiled
def separated(targets: Array, inverse: Array, scores: Array, pair: Array, critical: float) -> bool:
    """Whether the target with the best score is shown to be the best of all (eq. 11 and 13).

    It is once its lead over each other target is at least ‖z − z′‖ √critical under P. The one that
    stood in the way last is looked at first: `pair` holds the two and ‖z − z′‖² under P. `targets`
    has one column per target.
    """
    leader = int(np.argmax(scores))
    lead = scores[leader] - scores[int(pair[1])]
    if leader == pair[0] and (lead <= 0 or lead * lead < critical * pair[2]):
        return False
    pair[0] = leader
    size = len(targets)
    apart, shadow = np.empty(size), np.empty(size)
    for z in range(len(scores)):
        if z == leader:
            continue
        lead = scores[leader] - scores[z]
        for i in range(size):
            apart[i] = targets[i, leader] - targets[i, z]
        combine(inverse, apart, shadow)
        width = dot(apart, shadow)
        if not (lead > 0 and lead * lead >= critical * width):  # nor if it is no number
            pair[1], pair[2] = z, width
            return False
    return True


@compiled
def watch(
    presampled: tuple[Any, ...],
    start: int,
    order: Order,
    points: tuple[Array, Array],
    totals: tuple[Indices, Array],
    state: tuple[Array, Array, Array, Array],
    threshold: tuple[float, float],
) -> tuple[int, bool]:
    """Pull in a given order until one target is shown to be the best, or the order ends.

    Args:
        presampled: the rewards to come.
        start: how many of them were paid for before.
        order: the arms to pull.
        points: arms, one per row, and targets, one per column.
        totals: pulls and sum of rewards of each arm, updated in place.
        state: P; θ̂; z·θ̂ for every target; the leader, a target not separated from it yet and
            ‖z − z′‖² of the two. All are updated in place.
        threshold: the critical value after n pulls is threshold[0]·(2 log n + threshold[1]).

    Returns:
        The number of pulls, and whether a target was shown to be the best.
    """
    arms, targets = points
    counts, sums = totals
    inverse, theta, scores, pair = state
    factor, level = threshold
    shadow, moves = np.empty(len(theta)), np.empty(len(scores))
    n = counts.sum()
    for made in range(len(order)):
        arm = order[made]
        reward = reward_at(presampled, start + made, arm)
        counts[arm] += 1
        sums[arm] += reward
        combine(inverse, arms[arm], shadow)
        share = 1 / (1 + dot(arms[arm], shadow))
        step = share * (reward - dot(arms[arm], theta))
        combine(targets, shadow, moves)
        for i in range(len(theta)):
            theta[i] += step * shadow[i]
        for z in range(len(scores)):
            scores[z] += step * moves[z]
        between = moves[int(pair[0])] - moves[int(pair[1])]
        pair[2] -= share * between * between
        less_product(inverse, shadow, shadow, share)
        critical = factor * (2 * math.log(n + made + 1) + level)
        if separated(targets, inverse, scores, pair, critical):
            return made + 1, True
    return len(order), False
