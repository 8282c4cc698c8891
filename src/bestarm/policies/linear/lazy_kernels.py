"""Lazy Track-and-Stop between two computations of the allocation, compiled."""

from __future__ import annotations

import math

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.linear.kernels import (
    PULLS,
    TIE,
    Model,
    Rule,
    State,
    factor,
    information,
    over,
    take,
)
from bestarm.policies.stepwise import Indices
from bestarm.presampled import Parts, reward_at

Course = tuple[Array, Array, Array, Indices]  # weights, their sum over the pulls, ends, places
GOING, STOPPED, ASKING = 0, 1, 2
LEAST, FORCED = 0, 1  # places in the ends
DUE, TURN = 0, 1  # places in the places: the pulls at the next allocation, whose turn it is


@compiled
def advance(
    presampled: Parts,
    model: Model,
    state: State,
    rule: Rule,
    course: Course,
    pulls: tuple[int, int, int],
) -> tuple[int, int, int]:
    """Make pulls until all are made, it stops, or it asks for an allocation.

    Args:
        presampled: the rewards of the pulls to come.
        model: the problem.
        state: what is known.
        rule: the threshold.
        course: where allocations have got to.
        pulls: the arm of the next pull, its number among those to come, and how many to make.

    Returns:
        The pulls made, the next arm, and which of the three it was. Where it asks, the next arm is
        still to be chosen.
    """
    due, first, most = pulls
    for i in range(first, most):
        following = take(model, state, due, reward_at(presampled, i, due))
        if following < 0:
            if over(model, state, rule):
                return i + 1 - first, due, STOPPED
            if state[8][PULLS] >= course[3][DUE]:
                return i + 1 - first, due, ASKING
            following = choose(model, state, course)
        due = following
    return most - first, due, GOING


@compiled
def choose(model: Model, state: State, course: Course) -> int:
    """The next arm: of the basis while λ_min(A) < c √t, else the one furthest behind (eq. 5)."""
    counts, counters = state[0], state[8]
    weights, total, ends, places = course
    for a in range(len(weights)):
        total[a] += weights[a]
    needed = ends[FORCED] * math.sqrt(counters[PULLS])
    for ask in (1.25 * needed, needed / TIE):  # λ_min never falls: what was once shown still holds
        if ends[LEAST] * TIE < needed and _exceeds(model[0], counts, ask):
            ends[LEAST] = ask
    if ends[LEAST] * TIE < needed:
        basis = model[2]
        places[TURN] = (places[TURN] + 1) % len(basis)
        return int(basis[places[TURN]])
    best, furthest = 0, math.inf
    for a in range(len(weights)):
        if total[a] > 0 and counts[a] - total[a] < furthest:
            best, furthest = a, counts[a] - total[a]
    return best


@inlined
def _exceeds(source: Array, counts: Indices, value: float) -> bool:
    """Whether λ_min(Σ x xᵀ) > value: whether the matrix less value·I is positive."""
    return factor(information(source, counts, -value)) > -math.inf
