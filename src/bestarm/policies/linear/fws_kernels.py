"""Frank–Wolfe sampling, compiled."""

from __future__ import annotations

import math

import numpy as np

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.linear.kernels import (
    LEADER,
    PULLS,
    TIE,
    Model,
    Rule,
    State,
    apart,
    dot,
    information,
    invert,
    over,
    square,
    take,
    times,
)
from bestarm.policies.linear.matrix_games import solve
from bestarm.policies.stepwise import Indices
from bestarm.presampled import Parts, reward_at

# t·x(t), the sum of the steps so far; the inverse of its information; the pulls at which it was
# last computed from the sum.
Course = tuple[Array, Array, Array]

_EVERY = 256.0  # pulls from one exact inverse to the next


@compiled
def advance(
    presampled: Parts, model: Model, state: State, rule: Rule, course: Course, due: int, most: int
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        following = take(model, state, due, reward_at(presampled, i, due))
        if following < 0:
            if over(model, state, rule):
                return i + 1, due, True
            following = _step(model, state, course)
        due = following
    return most, due, False


@inlined
def _step(model: Model, state: State, course: Course) -> int:
    """One step of Frank–Wolfe; the next arm has the largest x_a(t) / ω_a (Algorithm 1)."""
    counts, pulls = state[0], state[8][PULLS]
    total, inverse, exact = course
    arms = len(counts)
    block = pulls // arms
    if round(math.sqrt(block)) ** 2 == block or _tied(state):
        for a in range(arms):  # forced exploration: an even step
            total[a] += 1 / arms
        exact[0] = -math.inf
    else:
        if pulls - exact[0] >= _EVERY:
            invert(information(model[0], total, 0.0), inverse)
            exact[0] = pulls
        _ascend(model, state, course)
    best = 0
    for a in range(arms):
        if total[a] * counts[best] > TIE * total[best] * counts[a]:
            best = a
    return best


@inlined
def _tied(state: State) -> bool:
    means, leader = state[4], state[8][LEADER]
    alike = 0
    for b in range(len(means)):
        alike += means[b] == means[leader]
    return alike > 1


@inlined
def _alternatives(
    target: Array, state: State, inverse: Array, radius: float
) -> tuple[Array, Indices, int]:
    """f of every target, those within a radius of the least, and their number."""
    means, leader, pulls = state[4], state[8][LEADER], state[8][PULLS]
    values, least = np.zeros(len(means)), math.inf
    for b in range(len(means)):
        if b != leader:
            lead = means[leader] - means[b]
            values[b] = lead * lead / (2 * square(inverse, apart(target, leader, b)) * pulls)
            least = min(least, values[b])
    near, close = np.zeros(len(means), dtype=np.int64), 0
    for b in range(len(means)):
        if b != leader and values[b] < least + radius:
            near[close] = b
            close += 1
    return values, near, close


@inlined
def _ascend(model: Model, state: State, course: Course) -> None:
    """Move towards the arms that help most against all alternatives within r of the closest.

    With y = z_leader − z, f_z(x) = (y·θ̂)² / (2 ‖y‖² under V(x)⁻¹) and, by Proposition 1, its
    gradient is ½ (a·V(x)⁻¹y · y·θ̂ / ‖y‖²)² in arm a. The step z maximises the least
    ⟨z − x, ∇f⟩ over the alternatives with f < F + r, where r = t^(−9/10)/K: a matrix game.
    """
    source, target = model[:2]
    means, leader, pulls = state[4], state[8][LEADER], state[8][PULLS]
    total, inverse, exact = course
    arms = len(total)
    values, near, close = _alternatives(target, state, inverse, pulls**-0.9 / arms)
    gradients = np.zeros((arms, close))
    for j in range(close):
        contrast = apart(target, leader, near[j])
        along = times(inverse, contrast)
        slope = (means[leader] - means[near[j]]) / square(inverse, contrast)
        for a in range(arms):
            gradients[a, j] = 0.5 * (dot(source, a, along) * slope) ** 2
    if close == 1:
        best = 0
        for a in range(arms):
            if gradients[a, 0] > TIE * gradients[best, 0]:
                best = a
        total[best] += 1
        along = times(inverse, source[best])
        scale = 1 + dot(source, best, along)
        for k in range(len(along)):
            for m in range(len(along)):
                inverse[k, m] -= along[k] * along[m] / scale
        return
    for j in range(close):  # ⟨x, ∇f⟩ = f
        for a in range(arms):
            gradients[a, j] -= values[near[j]]
    step = solve(gradients)
    for a in range(arms):
        total[a] += step[a]
    exact[0] = -math.inf
