"""What a batch makes of many bets, compiled: one pass over the weights, nothing kept in between.

Imported only when the first batch is in: compiling costs a second once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bestarm.compiling import compiled
from bestarm.geometry import Array

if TYPE_CHECKING:
    from bestarm.policies.anytime.bets import Prior, Terms, Totals

__all__ = ["average", "settle"]


@compiled
def _cost(x: float) -> float:
    """−log(1 − x) − x, by its series where that would cancel."""
    if x < 1e-3:
        return x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return -math.log1p(-x) - x


@compiled
def settle(
    w: Array, prior: Prior, totals: Totals, terms: Terms, grid: Array, stakes: Array, growth: Array
) -> None:
    """λ of every contrast (row of `w`) and stake, and by how much its log wealth grows.

    Args:
        w: w(a), one row per contrast, one column per arm.
        prior: what was fixed before the draw.
        totals: what came of it.
        terms: what holds for all arms.
        grid: stakes, in units of signal to noise.
        stakes: λ, filled in.
        growth: filled in.
    """
    weights, guess, spread, below, above, likely = prior
    first, second, rounding, counts, lost = totals
    low, high, margin, tail, relative, largest = terms
    pulls, missing = counts.sum(), lost.sum()
    for i in range(len(w)):
        fall = foreseen = seen = variance = expected = size = gain = slack = variation = 0.0
        guessed = 0.0
        for a in range(w.shape[1]):
            x = w[i, a]
            square = x * x
            # C: the farthest that z can fall below zero, short of what is charged for.
            fall = max(fall, x * below[a], -x * above[a])
            # No fall is longer than the root of the sum of all squares.
            foreseen = max(foreseen, abs(x) * likely[a])
            seen = max(seen, square * second[a])
            variance += square * spread[a]
            expected += x * weights[a] * guess[a]
            guessed += abs(x) * weights[a] * abs(guess[a])
            size += abs(x) * weights[a]
            gain += x * first[a]
            slack += abs(x) * (rounding[a] + relative * abs(first[a]))
            variation += square * second[a]
        # Rounded the way that hurts: evidence is a lower bound after rounding too.
        offset = expected + margin - tail * size
        offset -= relative * (guessed + margin + tail * size)
        gain += pulls * offset - slack
        variation *= 1 + relative
        deviation, foreseen = math.sqrt(variance), min(fall, foreseen)
        seen = min(fall, math.sqrt(seen))
        for s in range(len(grid)):
            # The best stake if the signal is grid[s] deviations and no fall exceeds the foreseen.
            stake = min(grid[s] / (deviation + grid[s] * foreseen), largest / fall)
            stakes[i, s] = stake
            growth[i, s] = stake * gain
            if seen > 0:
                growth[i, s] -= _cost(stake * seen) / (seen * seen) * variation
            if missing > 0:
                for a in range(w.shape[1]):
                    z = min(w[i, a] * (low - guess[a]), w[i, a] * (high - guess[a]))
                    growth[i, s] += lost[a] * (math.log1p(stake * z) + stake * offset)


@compiled
def average(log_wealth: Array, log_shares: Array, values: Array) -> None:
    """log Σ exp of each row plus the shares, filled into `values`."""
    for i in range(len(log_wealth)):
        top = -math.inf
        for s in range(len(log_shares)):
            top = max(top, log_wealth[i, s] + log_shares[s])
        total = 0.0
        for s in range(len(log_shares)):
            total += math.exp(log_wealth[i, s] + log_shares[s] - top)
        values[i] = top + math.log(total)
