"""Settle many bets on one batch, compiled: one pass over the weights.

Imported when the first batch is in: compiling takes a second, once. Lemmas are those of
docs/anytime.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import EPSILON, STEPS

Indices = NDArray[np.int64]

Parts = tuple[Any, ...]  # of a value of `bets`; kernels take plain tuples: see `compiling`


@tiered
def _cost(x: float) -> float:
    """(−log(1 − x) − x) / x², by its series where that cancels: ψ(F)/λ² at x = λF (Lemma 2)."""
    if x < 1e-3:
        return 1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 4))
    return (-math.log1p(-x) - x) / (x * x) * (1 + 1e-12)  # more than cancellation loses


@tiered
def _fourth_cost(x: float) -> float:
    """(−log(1 − x) − x − x²/2 − x³/3) / x⁴, by its series where that cancels (Lemma 2)."""
    if x < 0.02:
        return 1 / 4 + x * (1 / 5 + x * (1 / 6 + x * (1 / 7 + x * (1 / 8 + x / 8))))
    cost = (-math.log1p(-x) - x * (1 + x * (1 / 2 + x / 3))) / (x * x * x * x)
    return cost * (1 + 1e-9)  # more than cancellation loses


@tiered
def _impossible(sums: Parts, extremes: Parts, known: bool) -> int:
    """The first arm whose totals no rewards can have, beyond rounding, or −1."""
    counts, first, second = sums
    least, largest, _ = extremes
    for a in range(len(counts)):
        n = float(counts[a])
        relative = 4 * (n + STEPS) * EPSILON
        squares = max(second[a], 0.0)
        slack = relative * math.sqrt(n * squares)
        if second[a] < 0 or first[a] * first[a] > n * squares * (1 + relative):
            return a
        if known and (n * least[a] > first[a] + slack or n * largest[a] < first[a] - slack):
            return a
    return -1


@tiered
def contradiction(sums: Parts, extremes: Parts, known: bool, limits: Parts) -> int:
    """The first arm whose totals no rewards within the limits can have, or −1; −2 − a if no rewards
    at all can have those of arm a.

    Args:
        sums: counts, Σx and Σx² of rewards less a center.
        extremes: the least and the largest x, and Σx³.
        known: whether these are known.
        limits: half the range of rewards; the center less the middle of the range; by how much Σx
            may exceed it for √n pulls; and whether single rewards lie within the range.
    """
    counts, first, second = sums
    least, largest, _ = extremes
    half, shift, likely, bounded = limits
    odd = _impossible(sums, extremes, known)
    if odd >= 0:
        return -2 - odd
    size = half + abs(shift)
    for a in range(len(counts)):
        n = float(counts[a])
        lost = EPSILON * (n + 8.0) * n * size
        total = first[a] + shift * n
        if abs(total) > half * n + likely * math.sqrt(n) + lost:
            return a
        if not bounded or n == 0:
            continue
        if second[a] + shift * (first[a] + total) > half * half * n + 4 * size * lost:
            return a
        slack = 8 * EPSILON * size
        if known and (least[a] + shift < -half - slack or largest[a] + shift > half + slack):
            return a
    return -1


@tiered
def add_up(
    arms: Indices,
    guess: Array,
    shift: float,
    lost: Indices,
    sums: Parts,
    extremes: Parts,
    known: bool,
    totals: Parts,
) -> None:
    """Totals of r − c from totals of rewards, rounded so that evidence is a lower bound.

    Args:
        arms: those that can be drawn.
        guess: c(a) of each.
        shift: what was subtracted from every reward, beyond what was subtracted from guesses.
        lost: pulls without an outcome, of all arms.
        sums: counts, Σx and Σx² of rewards less a center, of all arms.
        extremes: the least and the largest x, and Σx³, of all arms.
        known: whether these are known.
        totals: the parts of `KernelTotals`, output.
    """
    counts, first, second = sums
    least, largest, cubes = extremes
    for i in range(len(arms)):
        a = arms[i]
        n, g, squares = float(counts[a]), guess[i] - shift, second[a]
        parts = squares + g * g * n  # q of `BatchOutcome`
        relative = (n + STEPS) * EPSILON
        slack = STEPS * EPSILON * (abs(g) + math.sqrt(squares))
        totals[0][i] = first[a] - g * n
        totals[1][i] = squares - g * (2 * first[a] - g * n) + relative * parts
        totals[2][i] = relative * math.sqrt(n * parts)
        if known:
            totals[3][i] = max(g - least[a] + slack, 0.0) if n > 0 else 0.0
            totals[4][i] = max(largest[a] - g + slack, 0.0) if n > 0 else 0.0
        else:
            totals[3][i] = totals[4][i] = math.sqrt(max(totals[1][i], 0.0))
        totals[5][i] = n
        totals[6][i] = float(lost[a])
        totals[7][i] = math.nan
        totals[8][i] = 0.0
        if known:
            # Σ(x − g)³; its terms are at most (max|x| + |g|)(x² + …) ≤ 4 (max|x| + |g|) q in sum.
            farthest = max(abs(least[a]), abs(largest[a])) + abs(g)
            totals[7][i] = cubes[a] - g * (3 * second[a] - g * (3 * first[a] - g * n))
            totals[8][i] = 8 * relative * farthest * parts


@tiered
def total(values: Array) -> float:
    """The sum; NumPy's takes long to compile."""
    found = 0.0
    for i in range(len(values)):
        found += values[i]
    return found


@tiered
def _stake(signal: float, deviation: float, fall: float, farthest: float) -> float:
    """λ = S/s / (1 + min(SF/s, (SM/s)²)): what either form of Lemma 2 wants ("Stakes")."""
    third_order = signal * min(fall, farthest) / deviation
    ratio = signal * farthest / deviation
    return signal / deviation / (1 + min(third_order, ratio * ratio))


@tiered
def settle(
    w: Array, prior: Parts, totals: Parts, terms: Parts, grid: Parts, stakes: Array, growth: Array
) -> None:
    """λ of every contrast (row of `w`) and stake, and the growth of its log wealth (Lemma 4).

    Args:
        w: w(a), one row per contrast, one column per arm.
        prior: the parts of a `Prior`: fixed before the draw, per arm.
        totals: the parts of `KernelTotals`: the outcome, per arm.
        terms: the parts of `Terms`: numbers that hold for all arms.
        grid: stakes in units of signal to noise, and those for contrasts of known sizes.
        stakes: λ, output.
        growth: the growth of the log wealth, output.
    """
    weights, guess, spread, below, above, likely = prior
    first, second, rounding, under, over, counts, lost, third, third_rounding = totals
    low, high, margin, tail, relative, largest, ceiling = terms
    signals, gaps = grid
    pulls, missing = total(counts), total(lost)
    for i in range(len(w)):
        fall = foreseen = deepest = variance = expected = 0.0
        size = gain = slack = variation = guessed = skew = fourth = 0.0
        for a in range(w.shape[1]):
            x = w[i, a]
            square = x * x
            # C, the farthest that z can fall below zero (Lemma 2; with kα, Lemma 3).
            fall = max(fall, x * below[a], -x * above[a])
            # F, the farthest that z did fall below zero (after Lemma 2).
            deepest = max(deepest, x * under[a], -x * over[a])
            foreseen = max(foreseen, abs(x) * likely[a])
            variance += square * spread[a]
            expected += x * weights[a] * guess[a]  # Σ p_a w(a) c(a) (Lemma 1)
            guessed += abs(x) * weights[a] * abs(guess[a])
            size += abs(x) * weights[a]  # Σ p_a |w(a)|, for κ (Lemma 3)
            gain += x * first[a]  # Σ z
            slack += abs(x) * (rounding[a] + relative * abs(first[a]))
            variation += square * second[a]  # Σ z²
            cube = square * x
            skew += cube * third[a]  # Σ z³, and what bounds Σ z⁴ (Lemma 2)
            skew -= abs(cube) * (third_rounding[a] + relative * abs(third[a]))
            farthest = max(under[a], over[a])
            fourth += square * square * farthest * farthest * second[a]
        # Rounded downwards: evidence is a lower bound after rounding too ("Rounding").
        offset = expected + margin - tail * size  # Σ p w c + ε − κ (Lemma 4)
        offset -= relative * (guessed + margin + tail * size)
        gain += pulls * offset - slack
        variation *= 1 + relative
        fourth *= 1 + relative
        deviation = math.sqrt(variance)
        cubic = not math.isnan(skew) and (deepest <= fall or tail == 0)  # no z below −C
        deepest = min(fall, deepest)  # F, the smaller of the two
        for s in range(stakes.shape[1]):
            if s < len(signals):
                signal = signals[s]
            else:
                signal = (gaps[s - len(signals)] + margin) / deviation
            stake = min(_stake(signal, deviation, fall, foreseen), largest / fall)  # λC ≤ 0.9
            stakes[i, s] = stake
            # λ (Σz + n(Σ p w c + ε − κ)) less what Lemma 2 takes off, in its better form (Lemma 4).
            taken = stake * stake * _cost(stake * deepest) * variation  # ψ(F) Σz²
            if cubic:
                finer = variation / 2 - stake * skew / 3
                finer += stake * stake * _fourth_cost(stake * deepest) * fourth
                taken = min(taken, stake * stake * finer)
            growth[i, s] = stake * gain - taken
            if missing > 0:
                for a in range(w.shape[1]):
                    # The least factor of an outcome in [lo, hi], or of one passed over ("Losses").
                    z = min(w[i, a] * (low - guess[a]), w[i, a] * (high - guess[a]))
                    factor = math.log1p(stake * z) + stake * offset
                    growth[i, s] += lost[a] * min(factor, ceiling)


@tiered
def lead(targets: Array, slope: Array, tie: float, order: Indices) -> None:
    """Swap the target of the largest z·θ̂ to the front of `order`, the second to its next place.

    Values that differ by less than `tie` times the largest count as equal: the first then leads.
    """
    values = np.empty(len(order))
    largest = 0.0
    for i in range(len(order)):
        values[i] = 0.0
        for j in range(len(slope)):
            values[i] += targets[order[i], j] * slope[j]
        largest = max(largest, abs(values[i]))
    for place in range(min(2, len(order))):
        best = place
        top = values[place]
        for i in range(place + 1, len(order)):
            top = max(top, values[i])
        top -= tie * largest
        while values[best] < top:
            best += 1
        target, value = order[best], values[best]
        for i in range(best, place, -1):
            order[i], values[i] = order[i - 1], values[i - 1]
        order[place], values[place] = target, value


@tiered
def _average(log_wealth: Array, log_shares: Array) -> float:
    """log Σ exp(log wealth + log share), an average of stakes (Lemma 4)."""
    top = -math.inf
    for s in range(len(log_shares)):
        top = max(top, log_wealth[s] + log_shares[s])
    total = 0.0
    for s in range(len(log_shares)):
        total += math.exp(log_wealth[s] + log_shares[s] - top)
    return top + math.log(total)


@tiered
def average(log_wealth: Array, log_shares: Array, values: Array) -> None:
    """The log of the e-value of each row, output."""
    for i in range(len(log_wealth)):
        values[i] = _average(log_wealth[i], log_shares)


@tiered
def look(log_wealth: Array, log_shares: Array, targets: Indices, values: Array) -> float:
    """Raise the values of these targets to their e-values; the largest of these."""
    most = -math.inf
    for target in targets:
        value = _average(log_wealth[target], log_shares)
        values[target] = max(values[target], value)
        most = max(most, value)
    return most
