"""Compiled loops over single pulls. Imported when a run begins: compiling takes a second, once.

Random words come from NumPy's SFC64, continued here from the state of the generator, so that they
need not pass through memory: the words are, bit for bit, those of `SFC64.random_raw`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.numerics.sampling import next_random_word
from bestarm.presampled import respond
from bestarm.records import Summary

Arms = NDArray[np.uint32]  # unsigned: no test for negative indices in the inner loops
Guide = NDArray[np.int32]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

BANKS = 4  # accumulators per arm: consecutive pulls of one arm do not wait for each other's store
LANE = 16  # bits of a word used per pull; a word serves BANKS pulls

Parts = tuple[Any, ...]  # of a value below; kernels take plain tuples: see `compiling`


class Columns(NamedTuple):
    """The distribution of the ratings of each item, side by side in flat arrays.

    The distinct ratings of item a are `values[starts[a]:starts[a + 1]]`, with probabilities
    `masses`, the most frequent last. Its guide is `guide[cells[a]:cells[a + 1]]`, of `bits[a]`
    bits, over `bounds`; `places` counts 0, 1, …
    """

    starts: Integers
    values: Array
    masses: Array
    bounds: Words
    cells: Integers
    guide: Guide
    bits: Integers
    places: Arms


class Totals(NamedTuple):
    """Counts, Σx, Σx², the least and the largest x, and Σx³ per arm, with x = r − center.

    Arms without pulls have +∞ and −∞ as extremes.
    """

    counts: Integers
    sums: Array
    squares: Array
    least: Array
    largest: Array
    cubes: Array

    @classmethod
    def empty(cls, arms: int) -> Totals:
        """No pulls yet."""
        sums, squares, least, largest, cubes = np.zeros((5, arms))
        least[:], largest[:] = np.inf, -np.inf
        return cls(np.zeros(arms, dtype=np.int64), sums, squares, least, largest, cubes)

    def summary(self, center: float, forecast_sum: float = 0.0) -> Summary:
        """The totals as a policy is told them."""
        return Summary.unchecked(self.known(), center=center, forecast_sum=forecast_sum)

    def known(self) -> dict[str, Any]:
        """The totals by name, with extremes of 0 for arms without pulls."""
        none = self.counts == 0
        self.least[none] = self.largest[none] = 0.0
        return self._asdict()


@compiled
def fill_guide(bounds: Words, bits: int, guide: Guide) -> None:
    """Index a cumulative distribution: entry j is for uniforms whose first `bits` bits are j.

    An entry is the outcome k if the whole cell belongs to k, and −1 − k if k is the lowest outcome
    of the cell and more bits must decide. `bounds[k]` · 2⁻⁶⁴ is P(outcome ≤ k).
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

    The first `bits` bits of the uniform are a lane of a word shared by BANKS pulls; if they do not
    settle the outcome, the rest come from another word. Only the bounds are rounded.
    """
    a, b, c, w = state[0], state[1], state[2], state[3]
    mask, unused, below = uint64((1 << LANE) - 1), uint64(LANE - bits), uint64(64 - bits)
    last = len(bounds)
    word = uint64(0)
    for i in range(len(arms)):
        if i % BANKS == 0:
            word, a, b, c, w = next_random_word(a, b, c, w)
        cell = (word & mask) >> unused
        word >>= uint64(LANE)
        k = guide[cell]
        if k < 0:
            more, a, b, c, w = next_random_word(a, b, c, w)
            uniform = (cell << below) | (more >> uint64(bits))
            k = -1 - k
            while k < last and bounds[k] <= uniform:
                k += 1
        arms[i] = support[uint64(k)]
    state[0], state[1], state[2], state[3] = a, b, c, w


@compiled
def _regroup(active: Arms, left: Integers, size: int) -> tuple[int, int]:
    """Move the arms with pulls left to the front; count the rounds until one of them runs out."""
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
    """Fill `arms` with the next pulls of a round-robin: each remaining arm once per round.

    `cursor` holds the place in this round, the number of arms in it, and the rounds still to be
    dealt among these arms, this one included; `left` is the pulls of each arm after those.
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
    """Add count, Σv and Σv² per arm, v = ν − shift, in BANKS separate rows.

    These are n, `first` and `second` of `BaseStream._noisy_totals`.
    """
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
def add_up(arms: Arms, rewards: Array, center: float, totals: Parts) -> None:
    """Add single pulls to totals. `totals` are the parts of `Totals`."""
    counts, sums, squares, least, largest, cubes = totals
    for i in range(len(arms)):
        arm = arms[i]
        value = rewards[i] - center
        counts[arm] += 1
        sums[arm] += value
        squares[arm] += value * value
        cubes[arm] += value * value * value
        least[arm] = min(least[arm], value)
        largest[arm] = max(largest[arm], value)


@compiled
def rate(
    state: Words, counts: Integers, columns: Parts, drawn: Arms, center: float, totals: Parts
) -> None:
    """Add Σ(r − center) and Σ(r − center)² of `counts[a]` draws from column a, for every arm a.

    `columns` are the parts of `Columns`, `totals` the two sums; `drawn` is room for the draws
    made at a time.
    """
    starts, values, _, every_bound, cells, guide, bits, places = columns
    _, sums, squares, least, largest, cubes = totals
    for arm in range(len(counts)):
        left = counts[arm]
        low, high = starts[arm], starts[arm + 1]
        here = guide[cells[arm] : cells[arm + 1]]
        bounds = every_bound[low : high - 1]
        while left > 0:
            block = drawn[: min(left, len(drawn))]
            draw(state, bounds, here, bits[arm], places, block)
            total, square, cube = 0.0, 0.0, 0.0
            for i in range(len(block)):
                value = values[low + block[i]] - center
                total += value
                square += value * value
                cube += value * value * value
                least[arm] = min(least[arm], value)
                largest[arm] = max(largest[arm], value)
            sums[arm] += total
            squares[arm] += square
            cubes[arm] += cube
            left -= len(block)


@compiled
def react(arms: Arms, means: Array, bound: float, past: Parts, rewards: Array) -> None:
    """Pull `arms` against the adversary of `baselines.adversary`.

    `past` are the parts of its `AdversaryState`; `rewards` holds the noise, and then the rewards.
    """
    for i, arm in enumerate(arms.astype(np.int64)):
        rewards[i] = respond(past, bound, arm, rewards[i] + means[arm])


@compiled
def reflect(steps: Array, start: float, bound: float) -> None:
    """Turn steps, in place, into a walk from `start` reflected at ±bound."""
    now = start
    for i in range(len(steps)):
        now += steps[i]
        while abs(now) > bound:
            now = (2.0 * bound if now > 0 else -2.0 * bound) - now
        steps[i] = now
