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

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import TIE, Array
from bestarm.numerics.sampling import next_random_word
from bestarm.policies.anytime.allocating import fix, minimised, mixed, pose, read_out, weigh
from bestarm.policies.anytime.allocation import AGAIN, LEAST_WEIGHT, SHARE, SOON, SURE
from bestarm.policies.anytime.bets import EPSILON, LARGEST, RARE, STEPS
from bestarm.policies.anytime.contests import LEAST_NEED
from bestarm.policies.anytime.drawing import GROWTH, LEAST
from bestarm.policies.anytime.guesses import AT, DRIFT
from bestarm.policies.anytime.kernels import add_up, contradiction, lead, look, settle
from bestarm.policies.anytime.learning import expect, learn
from bestarm.presampled import reward_at

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
def draw(
    presampled: Parts, start: int, size: int, law: Parts, words: Words, center: float
) -> Parts:
    """Draw arms, and add up what they pay, less a center: (counts, Σx, Σx²), (least, largest, Σx³).

    Every pull takes one random word. `law` are the number of arms, those that can be drawn, and
    what `guide_draws` says of their probabilities.
    """
    arms, support, bounds, guide = law
    counts, sums, squares = np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms)
    least, largest, cubes = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    last, bits = len(bounds), 0
    while 1 << bits < len(guide):
        bits += 1
    shift = uint64(64 - bits)
    a, b, c, w = words[0], words[1], words[2], words[3]
    for i in range(start, start + size):
        word, a, b, c, w = next_random_word(a, b, c, w)
        k = guide[word >> shift]
        while k < last and bounds[k] <= word:
            k += 1
        arm = support[k]
        value = reward_at(presampled, i, arm) - center
        counts[arm] += 1
        sums[arm] += value
        squares[arm] += value * value
        cubes[arm] += value * value * value
        first = counts[arm] == 1
        least[arm] = value if first else min(least[arm], value)
        largest[arm] = value if first else max(largest[arm], value)
    words[0], words[1], words[2], words[3] = a, b, c, w
    return (counts, sums, squares), (least, largest, cubes)


# The parts of `run` take single arrays: a tuple of many takes long to compile wherever it is passed
# on, because every array in it is counted once more.


@inlined
def _next_size(numbers: Array, least: int, course: Indices) -> int:
    """See `drawing.Singles`."""
    size = GROWTH * course[_PULLS]
    if numbers[_MOVED] > 0:
        longest = DRIFT * math.sqrt(numbers[_SPREAD] * numbers[_WEIGHED] / numbers[_MOVED])
        size = min(size, longest)
    return int(min(max(int(size), least), course[_MOST] - course[_PULLS]))


@inlined
def _lasts(course: Indices, order: Indices, pulls: float) -> bool:
    """Whether the design in force is kept for the next plan: see `allocation`."""
    same = course[_STAGE_LEADER] == order[0] and course[_STAGE_ACTIVE] == len(order)
    pulls_then = course[_STAGE_PULLS]
    return bool(pulls_then >= 0 and pulls < (AGAIN if same else SOON) * pulls_then)


@inlined
def _open(targets: Array, order: Indices, value: Array, level: float) -> tuple[Array, Array]:
    """The contrasts of the leader with the others, and how much evidence each wants."""
    rows, needs = np.empty((len(order) - 1, targets.shape[1])), np.empty(len(order) - 1)
    for i in range(len(rows)):
        needs[i] = max(level - value[order[i + 1]], LEAST_NEED)
        for j in range(rows.shape[1]):
            rows[i, j] = targets[order[0], j] - targets[order[i + 1], j]
    return rows, needs


@inlined
def _differ(weights: Array, others: Array) -> bool:
    differ = len(weights) != len(others)
    for a in range(min(len(weights), len(others))):
        differ = differ or weights[a] != others[a]
    return differ


@inlined
def _design(
    features: Array, plain: Array, spread: Array, state: Parts, rows: Array, needs: Array
) -> tuple[bool, Array]:
    """The design for the open contrasts, and whether it could be certified."""
    scaled, posed = pose(features, spread, rows, needs, state)
    certified, weights = minimised(scaled, posed)
    return certified, mixed(weights, plain, SHARE, LEAST_WEIGHT)


@inlined
def _guess(memory: Parts, coordinates: Array, known: Parts, size: int) -> Array:
    """c(a) of every arm in the next batch: see `guesses.Guesses.rewards`."""
    low, high, center, _, intercept = known
    guesses = np.empty(len(coordinates))
    if memory[0][0] > 0:
        expect(memory, coordinates, known, memory[0][0] + size / 2, guesses)
    else:
        guesses[:] = low / 2 + high / 2 if intercept else min(max(-center, low), high)
    return guesses


@inlined
def _contradicts(sums: Parts, extremes: Parts, limits: Parts, course: Indices) -> bool:
    """Whether rewards contradict the assumptions so that the run cannot go on."""
    odd = contradiction(sums, extremes, True, limits)
    if odd == -1:
        return False
    course[_ODD] = odd
    return limits[3] or odd < -1


@inlined
def _total(arms: Indices, guess: Array, sums: Parts, extremes: Parts) -> Parts:
    """The parts of `KernelTotals`."""
    totals = np.empty((9, len(guess)))
    parts = (totals[0], totals[1], totals[2], totals[3], totals[4], totals[5], totals[6],
             totals[7], totals[8])  # fmt: skip
    lost = np.zeros(len(sums[0]), dtype=np.int64)
    add_up(arms, guess, 0.0, lost, sums, extremes, True, parts)
    return parts


@inlined
def _terms(known: Parts, noise: float, pulls: int, arms: int) -> Parts:
    """The terms of bets for `kernels.settle`."""
    tail = noise * math.sqrt(2 * math.pi) * (RARE / math.sqrt(pulls + 1))
    return known[0], known[1], 0.0, tail, (arms + STEPS) * EPSILON, LARGEST, math.inf


@inlined
def _bet(
    targets: Array, order: Indices, readout: Array, prior: Parts, totals: Parts, terms: Parts,
    grid: Parts, wealth: Array,
) -> None:  # fmt: skip
    """Settle every target's bet against the leader, and the leader's against the runner-up."""
    contrasts = np.empty((len(order), targets.shape[1]))
    for i in range(len(order)):
        opponent = order[0] if i else order[1]
        for j in range(targets.shape[1]):
            contrasts[i, j] = targets[opponent, j] - targets[order[i], j]
    w = weigh(contrasts, readout)
    stakes, growth = np.empty((len(order), len(grid[2]))), np.empty((len(order), len(grid[2])))
    settle(w, prior, totals, terms, (grid[0], grid[1]), stakes, growth)
    for i in range(len(order)):
        for s in range(growth.shape[1]):
            wealth[order[i], s] += growth[i, s]


@inlined
def _left(wealth: Array, value: Array, level: float, log_shares: Array, active: Indices) -> Indices:
    """The targets that are left: see `contests.BestOf`."""
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
    presampled: Parts,
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
        presampled: all parts of `PresampledRewards`.
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
    coordinates, features, targets, plain, known, grid, noise, reaches, limits = fixed
    numbers, slope, information, spread = memory[0], memory[1], memory[2], memory[9]
    weights, arms, shares, centered, covariance, readout, bounds, guide = stage
    wealth, value, level = contest
    rounds, reacts, undisturbed = len(presampled[1]), presampled[3] > 0, presampled[:3]
    least = LEAST * (coordinates.shape[1] + (1 if known[4] else 0))
    at = 0
    order = active.copy()
    lead(targets, slope, TIE, order)
    while len(active) > 1 and course[_PULLS] < course[_MOST]:
        size = _next_size(numbers, least, course)
        if at + size > rounds or course[_PULLS] >= len(reaches):
            break
        if not _lasts(course, order, numbers[0]):
            design = plain
            if numbers[0] > 0:
                rows, needs = _open(targets, order, value, level)
                state = information, slope, 0.0, SURE
                certified, design = _design(features, plain, spread, state, rows, needs)
                if not certified:
                    break
            course[_STAGE_PULLS], course[_STAGE_LEADER] = int(numbers[0]), order[0]
            course[_STAGE_ACTIVE] = len(order)
            if _differ(design, weights):
                weights = design
                arms, shares, centered, covariance, readout, _ = read_out(
                    coordinates, weights, spread, known[4]
                )
                bounds, guide = guide_draws(shares)
        reach = noise * reaches[course[_PULLS]]
        guesses = _guess(memory, coordinates, known, size)
        guess, varied, below, above, likely = fix(
            (arms, shares), guesses, spread, (known[0], known[1], reach), size
        )
        # Both are compiled, and nothing else twice: with the adversary in it, a loop without one is
        # slower by a factor of four.
        law = len(coordinates), arms, bounds, guide
        if reacts:
            sums, extremes = draw(presampled, at, size, law, words, known[2])
        else:
            sums, extremes = draw(undisturbed, at, size, law, words, known[2])
        if _contradicts(sums, extremes, limits, course):
            break
        totals = _total(arms, guess, sums, extremes)
        prior = shares, guess, varied, below, above, likely
        terms = _terms(known, noise, course[_PULLS], len(guess))
        _bet(targets, order, readout, prior, totals, terms, grid, wealth)
        active = _left(wealth, value, level, grid[2], active)
        at += size
        course[_PULLS] += size
        course[_PLANS] += 1
        drawn = arms, centered, covariance, guess
        learn(memory, coordinates, known, drawn, (totals[5], totals[0], totals[1], totals[7]))
        order = active.copy()
        lead(targets, slope, TIE, order)
    return active, order, (weights, arms, shares, centered, covariance, readout, bounds, guide)
