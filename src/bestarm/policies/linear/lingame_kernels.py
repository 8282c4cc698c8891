"""The games of LinGame and LinGame-C, compiled: AdaHedge against the closest alternative."""

from __future__ import annotations

import math

import numpy as np

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.linear.kernels import (
    LEADER,
    PULLS,
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
from bestarm.presampled import Parts, reward_at

# Per learner its cumulative losses and its mixability gap Δ; the sum of all weights; the pulls of
# every pair of answer and arm, for a learner over pairs.
Game = tuple[Array, Array, Array, Array]

_FAINT = 1e-9  # of an even allocation, added to one that may leave out a direction


@compiled
def advance(
    presampled: Parts, model: Model, state: State, rule: Rule, game: Game, due: int, most: int
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        following = take(model, state, due, reward_at(presampled, i, due))
        if following < 0:
            if over(model, state, rule):
                return i + 1, due, True
            if len(game[3]) > 0:
                following = _play_pairs(model, state, game)
            else:
                following = _play(model, state, game)
        due = following
    return most, due, False


@inlined
def _play(model: Model, state: State, game: Game) -> int:
    """One round of LinGame (Algorithm 2), with one learner per answer; gives the arm to pull."""
    losses, gaps, total, _ = game
    counts, leader = state[0], state[8][LEADER]
    weights = _act(losses[leader], gaps[leader])
    gains = _respond(model, state, weights, 0)
    for a in range(len(weights)):
        gains[a] = _optimistic(state, a, gains[a])
    gaps[leader] += _suffer(losses[leader], gaps[leader], weights, gains)
    best = 0
    for a in range(len(weights)):  # C-tracking
        total[a] += weights[a]
        if counts[a] - total[a] < counts[best] - total[best]:
            best = a
    return best


@inlined
def _play_pairs(model: Model, state: State, game: Game) -> int:
    """One round of LinGame-C (Algorithm 1), with one learner over pairs of answer and arm.

    The alternative to an answer that is not the leader's is the estimate itself.
    """
    losses, gaps, total, counts = game
    arms, leader = len(state[0]), state[8][LEADER]
    weights = _act(losses[0], gaps[0])
    values = _respond(model, state, weights, leader * arms)
    gains = np.zeros(len(weights))
    for a in range(arms):
        apart = _optimistic(state, a, 0.0)
        for pair in range(a, len(weights), arms):
            gains[pair] = apart
        gains[leader * arms + a] = _optimistic(state, a, values[a])
    gaps[0] += _suffer(losses[0], gaps[0], weights, gains)
    best = 0
    for pair in range(len(weights)):  # C-tracking
        total[pair] += weights[pair]
        if counts[pair] - total[pair] < counts[best] - total[best]:
            best = pair
    counts[best] += 1
    return best % arms


@compiled
def _act(losses: Array, gap: float) -> Array:
    """AdaHedge's weights, in proportion to exp(−η L) with η = log(actions)/Δ."""
    rate, least, total = math.log(len(losses)) / gap, math.inf, 0.0
    for k in range(len(losses)):  # NumPy's minimum takes long to compile
        least = min(least, losses[k])
    weights = np.zeros(len(losses))
    for k in range(len(losses)):
        weights[k] = math.exp(-rate * (losses[k] - least))
        total += weights[k]
    for k in range(len(losses)):
        weights[k] /= total
    return weights


@compiled
def _suffer(losses: Array, gap: float, weights: Array, gains: Array) -> float:
    """Take the losses −gains; what Δ grows by: the expected loss less the mix loss."""
    rate, most = math.log(len(losses)) / gap, -math.inf
    for k in range(len(gains)):
        most = max(most, gains[k])
    mix, expected = 0.0, 0.0
    for k in range(len(losses)):
        losses[k] -= gains[k]
        mix += weights[k] * math.exp(rate * (gains[k] - most))
        expected += weights[k] * gains[k]
    best = most + math.log(mix) / rate if mix > 0 else most
    return float(max(0.0, best - expected))


@compiled
def _respond(model: Model, state: State, weights: Array, start: int) -> Array:
    """x·(θ̂ − λ) of every arm x, for the alternative λ that is closest under weights from `start`.

    With V = Σ w x xᵀ and y = z_leader − z, the closest λ at which z is as good as the leader has
    θ̂ − λ = V⁻¹y (y·θ̂) / ‖y‖² and a distance of (y·θ̂)² / (2 ‖y‖²), both norms under V⁻¹.
    """
    source, target = model[:2]
    means, leader = state[4], state[8][LEADER]
    size, arms = 0.0, len(source)
    for a in range(arms):
        size += weights[start + a]
    share = np.zeros(arms)
    for a in range(arms):
        share[a] = weights[start + a] / max(size, 1e-300) + _FAINT / arms
    inverse = np.zeros((source.shape[1], source.shape[1]))
    invert(information(source, share, 0.0), inverse)
    nearest, least, length = -1, math.inf, 1.0
    for b in range(len(means)):
        if b != leader:
            norm = square(inverse, apart(target, leader, b))
            lead = means[leader] - means[b]
            if lead * lead / norm < least:
                nearest, least, length = b, lead * lead / norm, norm
    along = times(inverse, apart(target, leader, nearest))
    slope = (means[leader] - means[nearest]) / length
    values = np.zeros(arms)
    for a in range(arms):
        values[a] = slope * dot(source, a, along)
    return values


@compiled
def _optimistic(state: State, arm: int, value: float) -> float:
    """½ (|x·(θ̂ − λ)| + √(2 log t ‖x‖² under A⁻¹))², at most log t: the largest plausible gain."""
    width = math.log(state[8][PULLS])
    largest = abs(value) + math.sqrt(2 * width * state[6][arm])
    return min(0.5 * largest * largest, width)
