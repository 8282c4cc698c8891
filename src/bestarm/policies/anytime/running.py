"""Whole runs of the anytime rule on rewards known ahead, compiled.

Every step is one of the kernels that plans and updates go through, in the same order and on the
same arrays. So a run that is followed has the evidence, to the last bit, of one that is told the
totals of the same pulls plan by plan.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from bestarm.ahead.paying import pay
from bestarm.ahead.words import next_word
from bestarm.compiling import compiled, inlined
from bestarm.geometry import TIE, Array
from bestarm.policies.anytime.allocating import fix, minimised, mixed, pose, read_out, weigh
from bestarm.policies.anytime.allocation import AGAIN, LEAST_WEIGHT, SHARE, SOON, SURE
from bestarm.policies.anytime.bets import EPSILON, LARGEST, RARE, STEPS
from bestarm.policies.anytime.contests import LEAST_NEED
from bestarm.policies.anytime.drawing import GROWTH, LEAST
from bestarm.policies.anytime.guesses import AT, DRIFT
from bestarm.policies.anytime.kernels import add_up, contradiction, lead, look, settle
from bestarm.policies.anytime.learning import expect, learn

Indices = NDArray[np.int64]
Words = NDArray[np.uint64]
Parts = tuple[Any, ...]  # see `compiling`


class Course(NamedTuple):
    """Where the whole numbers of a run stand in their array.

    Attributes:
        pulls: the pulls drawn so far.
        plans: the plans carried out so far.
        most: the pulls at which to stop.
        stage_pulls: the pulls before the design in force; −1 if there is none.
        stage_leader: the leader then.
        stage_active: how many targets were left then.
        odd: what `kernels.contradiction` last said; −1 unless rewards contradict the assumptions.
    """

    pulls: int = 0
    plans: int = 1
    most: int = 2
    stage_pulls: int = 3
    stage_leader: int = 4
    stage_active: int = 5
    odd: int = 6


_PULLS, _PLANS, _MOST, _STAGE_PULLS, _STAGE_LEADER, _STAGE_ACTIVE, _ODD = Course()
_MOVED, _WEIGHED, _SPREAD = AT.moved, AT.weighed, AT.spread


@compiled
def guide_draws(weights: Array) -> Parts:
    """Bounds of the cumulative distribution, and where to begin to search among them.

    P(outcome ≤ k) is `bounds[k]` · 2⁻⁶⁴. Words whose first bits are j have outcome `guide[j]` or a
    later one.
    """
    bits = 4
    while 1 << bits < 4 * len(weights):
        bits += 1
    bounds = np.empty(len(weights) - 1, dtype=np.uint64)
    guide = np.empty(1 << bits, dtype=np.int64)
    below = 0.0
    for k in range(len(bounds)):
        below += weights[k]
        bounds[k] = uint64(min(below, 1.0 - 2.0**-53) * 2.0**64)
    k = 0
    for j in range(len(guide)):
        while k < len(bounds) and bounds[k] <= uint64(j) << uint64(64 - bits):
            k += 1
        guide[j] = k
    return bounds, guide


@compiled
def draw(ahead: Parts, start: int, size: int, stage: Parts, words: Words, center: float) -> Parts:
    """Draw arms, and add up what they pay, less a center: (counts, Σx, Σx²), (least, largest, Σx³).

    Every pull takes one random word.
    """
    probabilities, support, _, _, _, _, bounds, guide = stage
    arms = len(probabilities)
    counts, sums, squares = np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms)
    least, largest, cubes = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    last, bits = len(bounds), 0
    while 1 << bits < len(guide):
        bits += 1
    shift = uint64(64 - bits)
    a, b, c, w = words[0], words[1], words[2], words[3]
    for i in range(start, start + size):
        word, a, b, c, w = next_word(a, b, c, w)
        k = guide[word >> shift]
        while k < last and bounds[k] <= word:
            k += 1
        arm = support[k]
        value = pay(ahead, i, arm) - center
        counts[arm] += 1
        sums[arm] += value
        squares[arm] += value * value
        cubes[arm] += value * value * value
        first = counts[arm] == 1
        least[arm] = value if first else min(least[arm], value)
        largest[arm] = value if first else max(largest[arm], value)
    words[0], words[1], words[2], words[3] = a, b, c, w
    return (counts, sums, squares), (least, largest, cubes)


@inlined
def _next_size(fixed: Parts, memory: Parts, course: Indices) -> int:
    """See `drawing.Singles`."""
    numbers, known = memory[0], fixed[4]
    size = GROWTH * course[_PULLS]
    if numbers[_MOVED] > 0:
        longest = DRIFT * math.sqrt(numbers[_SPREAD] * numbers[_WEIGHED] / numbers[_MOVED])
        size = min(size, longest)
    least = LEAST * (fixed[0].shape[1] + (1 if known[4] else 0))
    return int(min(max(int(size), least), course[_MOST] - course[_PULLS]))


@inlined
def _renew(
    fixed: Parts, memory: Parts, contest: Parts, order: Indices, stage: Parts, course: Indices
) -> tuple[bool, Parts]:
    """The stage of the next plan, and whether its design could be certified: see `allocation`."""
    coordinates, features, targets, plain, known = fixed[:5]
    _, value, level = contest
    leader, pulls = order[0], memory[0][0]
    if course[_STAGE_PULLS] >= 0:
        same = course[_STAGE_LEADER] == leader and course[_STAGE_ACTIVE] == len(order)
        if pulls < (AGAIN if same else SOON) * course[_STAGE_PULLS]:
            return True, stage
    weights = plain
    if pulls > 0:
        rows = np.empty((len(order) - 1, targets.shape[1]))
        needs = np.empty(len(rows))
        for i in range(len(rows)):
            needs[i] = max(level - value[order[i + 1]], LEAST_NEED)
            for j in range(rows.shape[1]):
                rows[i, j] = targets[leader, j] - targets[order[i + 1], j]
        state = memory[2], memory[1], 0.0, SURE
        scaled, posed = pose(features, memory[9], rows, needs, state)
        certified, weights = minimised(scaled, posed)
        if not certified:
            return False, stage
        weights = mixed(weights, plain, SHARE, LEAST_WEIGHT)
    renewed = course[_STAGE_PULLS] < 0
    for a in range(len(weights)):
        renewed = renewed or weights[a] != stage[0][a]
    course[_STAGE_PULLS], course[_STAGE_LEADER] = int(pulls), leader
    course[_STAGE_ACTIVE] = len(order)
    if not renewed:
        return True, stage
    arms, shares, centered, covariance, readout, _ = read_out(
        coordinates, weights, memory[9], known[4]
    )
    bounds, guide = guide_draws(shares)
    return True, (weights, arms, shares, centered, covariance, readout, bounds, guide)


@inlined
def _guess(fixed: Parts, memory: Parts, size: int) -> Array:
    """c(a) of every arm in the next batch: see `guesses.Guesses.rewards`."""
    low, high, center, _, intercept = fixed[4]
    guesses = np.empty(len(fixed[0]))
    if memory[0][0] > 0:
        expect(memory, fixed[0], fixed[4], memory[0][0] + size / 2, guesses)
    else:
        guesses[:] = low / 2 + high / 2 if intercept else min(max(-center, low), high)
    for a in range(len(guesses)):
        guesses[a] = min(max(guesses[a], low), high)
    return guesses


@inlined
def _bet(
    fixed: Parts, stage: Parts, order: Indices, frame: Parts, totals: Parts, wealth: Array
) -> None:
    """Settle every target's bet against the leader, and the leader's against the runner-up."""
    targets, grid, known = fixed[2], fixed[5], fixed[4]
    guess, varied, below, above, likely, tail = frame
    contrasts = np.empty((len(order), targets.shape[1]))
    for i in range(len(order)):
        opponent = order[0] if i else order[1]
        for j in range(targets.shape[1]):
            contrasts[i, j] = targets[opponent, j] - targets[order[i], j]
    w = weigh(contrasts, stage[5])
    relative = (len(guess) + STEPS) * EPSILON
    terms = known[0], known[1], 0.0, tail, relative, LARGEST
    prior = stage[2], guess, varied, below, above, likely
    stakes, growth = np.empty((len(order), len(grid[2]))), np.empty((len(order), len(grid[2])))
    settle(w, prior, totals, terms, (grid[0], grid[1]), stakes, growth)
    for i in range(len(order)):
        for s in range(growth.shape[1]):
            wealth[order[i], s] += growth[i, s]


@inlined
def _left(contest: Parts, log_shares: Array, active: Indices) -> Indices:
    """The targets that are left: see `contests.BestOf`."""
    wealth, value, level = contest
    for target in active:
        value[target] = -math.inf
    if look(wealth, log_shares, active, value) < level:
        return active
    best, count = active[0], 0
    for target in active:
        count += value[target] < level
        if value[target] < value[best]:
            best = target
    left = np.empty(max(count, 1), dtype=np.int64)
    left[0] = best  # if all are dropped, in error, the one with the least against it stays
    count = 0
    for target in active:
        if value[target] < level:
            left[count] = target
            count += 1
    return left


@compiled
def run(
    ahead: Parts,
    fixed: Parts,
    memory: Parts,
    contest: Parts,
    active: Indices,
    stage: Parts,
    course: Indices,
    words: Words,
) -> tuple[Indices, Indices, Parts]:
    """Carry out plans until the rule stops or the rounds known ahead do not suffice for the next.

    Args:
        ahead: all parts of an `Ahead`.
        fixed: what does not change: the source arms in coordinates and as features of designs, the
            targets, the G-design, the `_known` of `Guesses`, the stakes for signals and for gaps
            with the logs of their shares, the noise, and how far from its mean, in deviations, it
            may lie after 0, 1, … pulls; last, the limits of `kernels.contradiction`.
        memory: the parts of a `Memory`; changed.
        contest: the log wealth, the log e-values, and the level that drops a target; changed.
        active: the targets that are left.
        stage: the parts of a `Sampling`, and how to draw from it.
        course: see `Course`; changed.
        words: the state of the random words; changed.

    Returns:
        The targets left, the same in order, and the stage.
    """
    targets, known, grid, noise, reaches, limits = fixed[2], fixed[4], *fixed[5:]
    rounds = len(ahead[1])
    at = 0
    order = active.copy()
    lead(targets, memory[1], TIE, order)
    while len(active) > 1 and course[_PULLS] < course[_MOST]:
        size = _next_size(fixed, memory, course)
        if at + size > rounds or course[_PULLS] >= len(reaches):
            break
        certified, stage = _renew(fixed, memory, contest, order, stage, course)
        if not certified:
            break
        reach = noise * reaches[course[_PULLS]]
        tail = 0.0
        if noise > 0:
            tail = noise * math.sqrt(2 * math.pi) * (RARE / math.sqrt(course[_PULLS] + 1))
        guesses = _guess(fixed, memory, size)
        range_ = known[0], known[1], reach
        guess, varied, below, above, likely = fix(
            (stage[1], stage[2]), guesses, memory[9], range_, size
        )
        # Both are compiled, and nothing else twice: with the adversary in it, a loop without one is
        # slower by a factor of four.
        if ahead[3] > 0:
            sums, extremes = draw(ahead, at, size, stage, words, known[2])
        else:
            sums, extremes = draw(ahead[:3], at, size, stage, words, known[2])
        odd = contradiction(sums, extremes, True, limits)
        if odd != -1:
            course[_ODD] = odd
            if limits[3] or odd < -1:
                break
        totals = np.empty((9, len(guess)))
        parts = (totals[0], totals[1], totals[2], totals[3], totals[4], totals[5], totals[6],
                 totals[7], totals[8])  # fmt: skip
        lost = np.zeros(len(guesses), dtype=np.int64)
        add_up(stage[1], guess, 0.0, lost, sums, extremes, True, parts)
        _bet(fixed, stage, order, (guess, varied, below, above, likely, tail), parts, contest[0])
        active = _left(contest, grid[2], active)
        at += size
        course[_PULLS] += size
        course[_PLANS] += 1
        drawn = stage[1], stage[3], stage[4], guess
        outcome = parts[5], parts[0], parts[1], parts[7]
        learn(memory, fixed[0], known, drawn, outcome, False)
        order = active.copy()
        lead(targets, memory[1], TIE, order)
    return active, order, stage
