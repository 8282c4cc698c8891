"""Settle many bets on one batch, compiled: one pass over the weights.

Imported when the first batch is in: compiling takes a second, once. Lemmas are those of
docs/anytime.md.
"""

from __future__ import annotations

import math
from typing import Any

from bestarm.compiling import compiled
from bestarm.geometry import Array

Parts = tuple[Any, ...]  # of a value of `bets`; kernels take plain tuples: see `compiling`


@compiled
def _cost(x: float) -> float:
    """−log(1 − x) − x, by its series where that would cancel: F² ψ(F) at x = λF (Lemma 2)."""
    if x < 1e-3:
        return x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return -math.log1p(-x) - x


@compiled
def settle(
    w: Array, prior: Parts, totals: Parts, terms: Parts, grid: Array, stakes: Array, growth: Array
) -> None:
    """λ of every contrast (row of `w`) and stake, and the growth of its log wealth (Lemma 4).

    Args:
        w: w(a), one row per contrast, one column per arm.
        prior: the parts of a `Prior`: fixed before the draw, per arm.
        totals: the parts of `KernelTotals`: the outcome, per arm.
        terms: the parts of `Terms`: numbers that hold for all arms.
        grid: stakes, in units of signal to noise.
        stakes: λ, output.
        growth: the growth of the log wealth, output.
    """
    weights, guess, spread, below, above, likely = prior
    first, second, rounding, counts, lost = totals
    low, high, margin, tail, relative, largest = terms
    pulls, missing = counts.sum(), lost.sum()
    for i in range(len(w)):
        fall = foreseen = largest_square = variance = expected = 0.0
        size = gain = slack = variation = guessed = 0.0
        for a in range(w.shape[1]):
            x = w[i, a]
            square = x * x
            # C, the farthest that z can fall below zero (Lemma 2; with kα, Lemma 3).
            fall = max(fall, x * below[a], -x * above[a])
            # F from the totals: |z| ≤ |w(a)| √Σ(r − c(a))² (after Lemma 2).
            foreseen = max(foreseen, abs(x) * likely[a])
            largest_square = max(largest_square, square * second[a])
            variance += square * spread[a]
            expected += x * weights[a] * guess[a]  # Σ p_a w(a) c(a) (Lemma 1)
            guessed += abs(x) * weights[a] * abs(guess[a])
            size += abs(x) * weights[a]  # Σ p_a |w(a)|, for κ (Lemma 3)
            gain += x * first[a]  # Σ z
            slack += abs(x) * (rounding[a] + relative * abs(first[a]))
            variation += square * second[a]  # Σ z²
        # Rounded downwards: evidence is a lower bound after rounding too ("Rounding").
        offset = expected + margin - tail * size  # Σ p w c + ε − κ (Lemma 4)
        offset -= relative * (guessed + margin + tail * size)
        gain += pulls * offset - slack
        variation *= 1 + relative
        deviation, foreseen = math.sqrt(variance), min(fall, foreseen)
        largest_fall = min(fall, math.sqrt(largest_square))  # F, the smaller of the two
        for s in range(len(grid)):
            # λ = S / (s + S F), with λC ≤ 0.9 ("Stakes").
            stake = min(grid[s] / (deviation + grid[s] * foreseen), largest / fall)
            stakes[i, s] = stake
            growth[i, s] = stake * gain  # λ (Σz + n(Σ p w c + ε − κ)) − ψ(F) Σz² (Lemma 4)
            if largest_fall > 0:
                cost = _cost(stake * largest_fall) / (largest_fall * largest_fall)  # ψ(F)
                growth[i, s] -= cost * variation
            if missing > 0:
                for a in range(w.shape[1]):
                    # The least factor 1 + λz of an outcome in [lo, hi] ("Losses").
                    z = min(w[i, a] * (low - guess[a]), w[i, a] * (high - guess[a]))
                    growth[i, s] += lost[a] * (math.log1p(stake * z) + stake * offset)


@compiled
def average(log_wealth: Array, log_shares: Array, values: Array) -> None:
    """log Σ exp(log wealth + log share) of each row, an average of stakes (Lemma 4), output."""
    for i in range(len(log_wealth)):
        top = -math.inf
        for s in range(len(log_shares)):
            top = max(top, log_wealth[i, s] + log_shares[s])
        total = 0.0
        for s in range(len(log_shares)):
            total += math.exp(log_wealth[i, s] + log_shares[s] - top)
        values[i] = top + math.log(total)
