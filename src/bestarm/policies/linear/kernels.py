"""Least squares pull by pull, the statistic that decides when to stop, and its threshold, compiled.

What a kernel needs to know of a problem (`Model`), what it learns (`State`) and the threshold
(`Rule`) are plain tuples; `policies/linear/base.py` makes them and says what is in them.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.stepwise import Indices

Model = tuple[Array, Array, Indices, float, float]
State = tuple[Indices, Array, Array, Array, Array, Array, Array, Array, Indices]
Rule = tuple[int, float, float, float, Array]

TIE = 1 + 1e-9  # what is larger by less counts as equal; the first of equals is taken
_EVERY = (
    256  # pulls from one exact computation to the next; between them, errors of rounding add up
)
_LOST = 1e10  # of A_kk (A⁻¹)_kk: from here on A⁻¹ and θ̂ have less than about five digits

LOG_DET, BAR = 0, 1  # places in the numbers of a state
PULLS, LEADER, REFRESHED, OPENED, DOUBT = 0, 1, 2, 3, 4  # places in the counters of a state
LOG_LOG, LOG, DETERMINANT, TRACE, COUNTS, CERTIFIED = 0, 1, 2, 3, 4, 5  # how a threshold grows


@compiled
def take(model: Model, state: State, arm: int, reward: float) -> int:
    """Learn from one pull; give the next arm of the opening, or −1 once that is over.

    With A = ridge·I + Σ x xᵀ, a pull of x changes A⁻¹ by −v vᵀ/s, where v = A⁻¹x and s = 1 + x·v
    (Sherman and Morrison), θ̂ by (r − x·θ̂) v/s, and log det A by log s. Every so often all of it
    is computed anew from counts and sums, so rounding errors do not grow with the pulls.
    """
    source, target, opening, _, sigma = model
    counts, sums, inverse, theta, means, norms, spreads, numbers, counters = state
    counts[arm] += 1
    sums[arm] += reward
    counters[PULLS] += 1
    first = counters[OPENED]
    while counters[OPENED] < len(opening) and counts[opening[counters[OPENED]]] > 0:
        counters[OPENED] += 1
    if counters[OPENED] < len(opening):
        return int(opening[counters[OPENED]])
    if first < len(opening) or counters[PULLS] - counters[REFRESHED] >= _EVERY:
        refresh(model, state)
        return -1
    rank = len(theta)
    v = times(inverse, source[arm])
    scale = 1 + dot(source, arm, v)
    error = (reward / sigma - dot(source, arm, theta)) / scale
    numbers[LOG_DET] += math.log(scale)
    for k in range(rank):
        theta[k] += v[k] * error
        for m in range(rank):
            inverse[k, m] -= v[k] * v[m] / scale
    for a in range(len(spreads)):
        along = dot(source, a, v)
        spreads[a] -= along * along / scale
    leader = counters[LEADER]
    at_leader, best = dot(target, leader, v), 0
    for b in range(len(means)):
        along = dot(target, b, v)
        means[b] += along * error
        norms[b] -= (along - at_leader) ** 2 / scale
        if means[b] > means[best]:
            best = b
    if best != leader:
        _lead(target, inverse, norms, best)
        counters[LEADER] = best
    return -1


@compiled
def refresh(model: Model, state: State) -> None:
    """Compute A⁻¹, θ̂ and everything that follows from them from counts and sums.

    log det A is −∞ where rounding has left too little of A⁻¹: where one feature is, over the pulls,
    a combination of others but for a part in 100,000.
    """
    source, target, _, ridge, sigma = model
    counts, sums, inverse, theta, means, norms, spreads, numbers, counters = state
    design = information(source, counts, ridge)
    sizes = np.diag(design).copy()
    numbers[LOG_DET] = invert(design, inverse)
    for k in range(len(sizes)):
        if not sizes[k] * inverse[k, k] < _LOST:
            numbers[LOG_DET] = -math.inf
    moment = np.zeros(len(theta))
    for a in range(len(counts)):
        for k in range(len(theta)):
            moment[k] += sums[a] / sigma * source[a, k]
    for k in range(len(theta)):
        theta[k] = dot(inverse, k, moment)
    best = 0
    for b in range(len(means)):
        means[b] = dot(target, b, theta)
        if means[b] > means[best]:
            best = b
    _lead(target, inverse, norms, best)
    for a in range(len(spreads)):
        spreads[a] = square(inverse, source[a])
    counters[LEADER], counters[REFRESHED] = best, counters[PULLS]


@compiled
def information(source: Array, weights: Array | Indices, ridge: float) -> Array:
    """ridge·I + Σ w x xᵀ."""
    rank = source.shape[1]
    design = np.zeros((rank, rank))
    for k in range(rank):
        design[k, k] = ridge
    for a in range(len(weights)):
        if weights[a] != 0:
            for k in range(rank):
                for m in range(rank):
                    design[k, m] += weights[a] * source[a, k] * source[a, m]
    return design


@compiled
def factor(matrix: Array) -> float:
    """Replace the lower half by L, where L Lᵀ is the matrix; its log det, or −∞ if not positive."""
    log_det = 0.0
    for j in range(len(matrix)):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        if not pivot > 0:
            return -math.inf
        log_det += math.log(pivot)
        matrix[j, j] = math.sqrt(pivot)
        for i in range(j + 1, len(matrix)):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]
    return log_det


@compiled
def invert(matrix: Array, inverse: Array) -> float:
    """Put the inverse of a positive matrix into `inverse`; give its log det. It is overwritten."""
    log_det, rank = factor(matrix), len(matrix)
    for column in range(rank):  # L⁻¹, in the lower half
        for i in range(column, rank):
            value = 1.0 if i == column else 0.0
            for k in range(column, i):
                value -= matrix[i, k] * inverse[k, column]
            inverse[i, column] = value / matrix[i, i]
    for i in range(rank):  # L⁻ᵀ L⁻¹
        for j in range(i + 1):
            total = 0.0
            for k in range(i, rank):
                total += inverse[k, i] * inverse[k, j]
            inverse[i, j] = inverse[j, i] = total  # no later row needs these
    return log_det


@compiled
def apart(rows: Array, first: int, second: int) -> Array:
    """The difference of two rows."""
    difference = np.zeros(rows.shape[1])
    for k in range(rows.shape[1]):
        difference[k] = rows[first, k] - rows[second, k]
    return difference


@compiled
def times(matrix: Array, vector: Array) -> Array:
    """M v."""
    product = np.zeros(len(matrix))
    for k in range(len(matrix)):
        product[k] = dot(matrix, k, vector)
    return product


@compiled
def dot(rows: Array, row: int, vector: Array) -> float:
    """The product of one of the rows with a vector."""
    total = 0.0
    for k in range(len(vector)):
        total += rows[row, k] * vector[k]
    return total


@compiled
def square(matrix: Array, vector: Array) -> float:
    """vᵀ M v."""
    total = 0.0
    for k in range(len(vector)):
        for m in range(len(vector)):
            total += vector[k] * matrix[k, m] * vector[m]
    return total


@compiled
def _lead(target: Array, inverse: Array, norms: Array, leader: int) -> None:
    """‖z_leader − z‖² under A⁻¹ for every target."""
    for b in range(len(norms)):
        norms[b] = square(inverse, apart(target, leader, b))


@compiled
def evidence(state: State) -> float:
    """Z(t) = min over z of ((z_leader − z)·θ̂)² / (2 ‖z_leader − z‖² under A⁻¹).

    0 where rounding has left no number: that is no evidence.
    """
    means, norms, leader = state[4], state[5], state[8][LEADER]
    least = math.inf
    for b in range(len(means)):
        if b != leader:
            lead = means[leader] - means[b]
            ratio = lead * lead / (2 * norms[b])
            if not ratio > 0:
                return 0.0
            least = min(least, ratio)
    return least


@compiled
def over(model: Model, state: State, rule: Rule) -> bool:
    """Whether the leader is identified: whether Z(t) exceeds the threshold.

    A threshold never falls, so while Z(t) is below its last value nothing more is computed. Nothing
    is identified while rounding decides what A⁻¹ is.
    """
    numbers, counters = state[7], state[8]
    counters[DOUBT] = -1
    if not evidence(state) > numbers[BAR]:
        return False
    refresh(model, state)
    if numbers[LOG_DET] == -math.inf:
        return False
    numbers[BAR] = threshold(model, state, rule)
    if not evidence(state) > numbers[BAR]:
        return False
    if rule[0] == CERTIFIED:
        counters[DOUBT] = doubtful(model, state, rule[4], numbers[BAR])
    return bool(counters[DOUBT] < 0)


@compiled
def threshold(model: Model, state: State, rule: Rule) -> float:
    """β(t, δ) = factor · (√(level + growth/2) + shift)²: see `bestarm.bounds`."""
    growth, multiple, level, shift, prior = rule
    counts, counters = state[0], state[8]
    pulls, rank = counters[PULLS], model[0].shape[1]
    grown = 0.0
    if growth == LOG_LOG:
        grown = 2 * math.log(1 + math.log(pulls))
    elif growth == LOG:
        grown = math.log(pulls)
    elif growth == TRACE:
        grown = rank * math.log(1 + pulls * prior[0, 0])
    elif growth == COUNTS:
        for n in counts:
            grown += 4 * math.log(4 + math.log(n))
    else:
        joint, alone = information(model[0], counts, 0.0), np.zeros((rank, rank))
        for k in range(rank):
            for m in range(rank):
                joint[k, m] += prior[k, m]
                alone[k, m] = prior[k, m]
        grown = factor(joint) - factor(alone)
    return multiple * (math.sqrt(level + grown / 2) + shift) ** 2


@compiled
def doubtful(model: Model, state: State, prior: Array, bar: float) -> int:
    """The target that most θ in the confidence set prefer to the leader; −1 if there is none.

    The set is {θ : ‖Σ x (r − x·θ)‖² under (A + Λ)⁻¹ ≤ 2 bar}, an ellipsoid around θ̂ in which
    y·(θ − θ̂) is at most √(2 bar (‖y‖² under A⁻¹ + ‖A⁻¹y‖² under Λ)).
    """
    target, inverse, means, norms, leader = model[1], state[2], state[4], state[5], state[8][LEADER]
    worst, least = -1, 2 * bar
    for b in range(len(means)):
        if b != leader:
            lead = means[leader] - means[b]
            norm = norms[b] + square(prior, times(inverse, apart(target, leader, b)))
            if lead * lead <= least * norm:
                worst, least = b, lead * lead / norm
    return worst
