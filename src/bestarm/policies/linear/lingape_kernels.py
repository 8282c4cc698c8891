"""LinGapE's choice of the next pull, compiled."""

from __future__ import annotations

import math

from bestarm.compiling import compiled
from bestarm.policies.linear.kernels import (
    BAR,
    DETERMINANT,
    DOUBT,
    LEADER,
    LOG_DET,
    LOG_LOG,
    PULLS,
    REFRESHED,
    TIE,
    Model,
    Rule,
    State,
    apart,
    dot,
    over,
    take,
    threshold,
    times,
)
from bestarm.presampled import Parts, reward_at


@compiled
def advance(
    presampled: Parts, model: Model, state: State, rule: Rule, due: int, most: int
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        following = take(model, state, due, reward_at(presampled, i, due))
        if following < 0:
            _renew(model, state, rule)
            if over(model, state, rule):
                return i + 1, due, True
            following = _choose(model, state)
        due = following
    return most, due, False


@compiled
def _renew(model: Model, state: State, rule: Rule) -> None:
    """The threshold now, as far as it costs little: it also decides what to pull."""
    growth, factor, level, shift, prior = rule
    numbers, counters = state[7], state[8]
    if growth == DETERMINANT:  # A contains the prior
        grown = numbers[LOG_DET] - len(prior) * math.log(prior[0, 0])
        numbers[BAR] = factor * (math.sqrt(level + grown / 2) + shift) ** 2
    elif growth == LOG_LOG or counters[REFRESHED] == counters[PULLS]:
        numbers[BAR] = threshold(model, state, rule)


@compiled
def _choose(model: Model, state: State) -> int:
    """The arm after which the most ambiguous direction is known best (Algorithms 1 to 3)."""
    source, target = model[:2]
    _, _, inverse, _, means, norms, spreads, numbers, counters = state
    leader = counters[LEADER]
    width = math.sqrt(2 * numbers[BAR])  # C_t
    rival, largest = counters[DOUBT], -math.inf
    for b in range(len(means)):
        if b != leader and counters[DOUBT] < 0:
            bound = means[b] - means[leader] + width * math.sqrt(norms[b])
            if bound > largest:
                rival, largest = b, bound
    along = times(inverse, apart(target, leader, rival))
    # ‖y‖² under (A + x xᵀ)⁻¹ is ‖y‖² under A⁻¹ less (x·A⁻¹y)² / (1 + ‖x‖² under A⁻¹).
    best, most = 0, 0.0
    for a in range(len(spreads)):
        gain = dot(source, a, along) ** 2 / (1 + spreads[a])
        if gain > TIE * most:
            best, most = a, gain
    return best
