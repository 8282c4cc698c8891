"""Compiled loops over single pulls. Imported only when a run begins: compiling costs a second once.

Random words come from NumPy's SFC64, continued here from the generator's own state, so that they
need not travel through memory: the words are, bit for bit, those of `SFC64.random_raw`.
"""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.geometry import Array

__all__ = ["BANKS", "LANE", "accumulate", "deal", "draw", "fill_guide", "rate", "react", "reflect"]

Arms = NDArray[np.uint32]  # unsigned: no test for negative indices in the inner loops
Guide = NDArray[np.int32]
Integers = NDArray[np.int64]
Word = np.uint64
Words = NDArray[np.uint64]

BANKS = 4  # accumulators an arm: consecutive pulls of one arm need not wait for each other's store
LANE = 16  # bits of a word spent on a pull; a word serves BANKS pulls


@compiled
def _next(a: Word, b: Word, c: Word, w: Word) -> tuple[Word, Word, Word, Word, Word]:
    """One step of SFC64: the word, then the new state."""
    word = a + b + w
    rotated = (c << uint64(24)) | (c >> uint64(40))
    return word, b ^ (b >> uint64(11)), c + (c << uint64(3)), rotated + word, w + uint64(1)


@compiled
def fill_guide(bounds: Words, bits: int, guide: Guide) -> None:
    """Index a cumulative distribution: entry j is for uniforms whose first `bits` bits are j.

    It holds the outcome k itself where the whole cell belongs to k, and −1 − k where the cell's
    lowest outcome is k and more bits must decide. `bounds[k]` · 2⁻⁶⁴ is P(outcome ≤ k).
    """
    shift = uint64(64 - bits)
    rest = (uint64(1) << shift) - uint64(1)
    k, last = 0, len(bounds)
    for j in range(len(guide)):
        low = uint64(j) << shift
        while k < last and bounds[k] <= low:
            k += 1
        guide[j] = k if k == last or bounds[k] > low + rest else -1 - k


@compiled
def draw(state: Words, bounds: Words, guide: Guide, bits: int, support: Arms, arms: Arms) -> None:
    """Fill `arms` with independent draws: inversion of a 64-bit uniform, through the guide.

    The first `bits` bits of the uniform are a lane of a word shared by BANKS pulls; where they do
    not settle the outcome the rest come from a fresh word. Nothing is rounded but the bounds.
    """
    a, b, c, w = state[0], state[1], state[2], state[3]
    mask, unused, below = uint64((1 << LANE) - 1), uint64(LANE - bits), uint64(64 - bits)
    last = len(bounds)
    word = uint64(0)
    for i in range(len(arms)):
        if i % BANKS == 0:
            word, a, b, c, w = _next(a, b, c, w)
        cell = (word & mask) >> unused
        word >>= uint64(LANE)
        k = guide[cell]
        if k < 0:
            more, a, b, c, w = _next(a, b, c, w)
            uniform = (cell << below) | (more >> uint64(bits))
            k = -1 - k
            while k < last and bounds[k] <= uniform:
                k += 1
        arms[i] = support[uint64(k)]
    state[0], state[1], state[2], state[3] = a, b, c, w


@compiled
def _regroup(active: Arms, left: Integers, size: int) -> tuple[int, int]:
    """Pack the arms with pulls left to the front; book the rounds until one of them runs out."""
    kept, rounds = 0, np.iinfo(np.int64).max
    for j in range(size):
        arm = active[j]
        if left[arm] > 0:
            active[kept] = arm
            kept += 1
            rounds = min(rounds, left[arm])
    for j in range(kept):
        left[active[j]] -= rounds
    return kept, rounds


@compiled
def deal(active: Arms, left: Integers, cursor: Integers, arms: Arms) -> None:
    """Fill `arms` with the next pulls of a round-robin: arms in order, once a round while any left.

    `cursor` holds the place in this round, the number of arms in it, and the rounds still to be
    dealt among just these arms, this one included; `left` is what each arm has left after them.
    """
    place, size, rounds = cursor[0], cursor[1], cursor[2]
    for i in range(len(arms)):
        if place == size:
            place = 0
            rounds -= 1
            if rounds <= 0:
                size, rounds = _regroup(active, left, size)
        arms[i] = active[place]
        place += 1
    cursor[0], cursor[1], cursor[2] = place, size, rounds


@compiled
def accumulate(arms: Arms, values: Array, shift: float, counts: Integers, moments: Array) -> None:
    """Add count, Σ(ν − shift) and Σ(ν − shift)² per arm, in BANKS separate rows."""
    whole = len(arms) - len(arms) % BANKS
    for i in range(0, whole, BANKS):
        for bank in range(BANKS):
            arm = arms[i + bank]
            value = values[i + bank] - shift
            counts[bank, arm] += 1
            moments[bank, arm, 0] += value
            moments[bank, arm, 1] += value * value
    for i in range(whole, len(arms)):
        arm = arms[i]
        value = values[i] - shift
        counts[0, arm] += 1
        moments[0, arm, 0] += value
        moments[0, arm, 1] += value * value


@compiled
def rate(
    state: Words,
    counts: Integers,
    starts: Integers,
    values: Array,
    bounds: Words,
    cells: Integers,
    guide: Guide,
    bits: Integers,
    places: Arms,
    drawn: Arms,
    center: float,
    sums: Array,
    squares: Array,
) -> None:
    """Add Σr and Σr², less `center`, of `counts[a]` draws from each arm a's distribution.

    Arm a's values and bounds are those from `starts[a]` on, its guide begins at `cells[a]`.
    `places` counts 0, 1, …, and `drawn` is room for the draws made at a time.
    """
    for arm in range(len(counts)):
        left = counts[arm]
        low, high = starts[arm], starts[arm + 1]
        here = guide[cells[arm] : cells[arm + 1]]
        while left > 0:
            block = drawn[: min(left, len(drawn))]
            draw(state, bounds[low : high - 1], here, bits[arm], places, block)
            total, square = 0.0, 0.0
            for i in range(len(block)):
                value = values[low + block[i]] - center
                total += value
                square += value * value
            sums[arm] += total
            squares[arm] += square
            left -= len(block)


@compiled
def react(
    arms: Arms,
    noise: Array,
    means: Array,
    bound: float,
    pulled: Integers,
    average: Array,
    winner: Integers,
    successor: Integers,
    last: int,
    center: float,
    counts: Integers,
    sums: Array,
    squares: Array,
) -> int:
    """Pull `arms` against the adversary; returns the last arm pulled.

    Before each pull it looks only at the past: the leader, kept at the root of a tournament over
    the running averages, and the arm that last followed the arm just pulled.
    """
    leaves = len(average)
    for i in range(len(arms)):
        predicted = successor[last] if last >= 0 else -1
        level = -bound if predicted == winner[1] else bound
        arm = arms[i]
        reward = means[arm] + level + noise[i]
        counts[arm] += 1
        value = reward - center
        sums[arm] += value
        squares[arm] += value * value
        pulled[arm] += 1
        if pulled[arm] == 1:
            average[arm] = reward  # it was −∞: an arm never pulled does not lead
        else:
            average[arm] += (reward - average[arm]) / pulled[arm]
        node = (leaves + arm) >> 1
        while node >= 1:
            left, right = winner[2 * node], winner[2 * node + 1]
            winner[node] = left if average[left] >= average[right] else right
            node >>= 1
        if last >= 0:
            successor[last] = arm
        last = arm
    return last


@compiled
def reflect(steps: Array, start: float, bound: float) -> None:
    """Turn steps, in place, into a walk from `start` reflected at ±bound."""
    now = start
    for i in range(len(steps)):
        now += steps[i]
        while abs(now) > bound:
            now = (2.0 * bound if now > 0 else -2.0 * bound) - now
        steps[i] = now
