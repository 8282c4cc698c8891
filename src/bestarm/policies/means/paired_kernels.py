"""Bets on the differences of all pairs of arms, round by round, compiled."""

from __future__ import annotations

import math

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array

_EPSILON = float(np.finfo(float).eps)
_LARGEST = 0.9  # of its wealth that a bet may lose
_ROOM = 16.0  # times the rounding error, below which differences are too small to bet on


@compiled
def settle(
    rewards: Array,
    reach: float,
    items: int,
    rounds: int,
    sums: Array,
    squares: Array,
    wealth: Array,
    evidence: Array,
) -> None:
    """Settle the bets of every pair (i, j) against θ_i ≤ θ_j: see `PairedTests`.

    Args:
        rewards: one row per round, one column per arm, from 0 to `reach`.
        reach: C, the largest difference of two rewards.
        items: N, if rounds are the items of a finite population in random order; 0 if not.
        rounds: t − 1, the number of rounds before.
        sums: Σ r_i over all rounds; changed.
        squares: Σ d² of every pair; changed.
        wealth: the log wealth of every pair; changed.
        evidence: the largest log wealth so far; changed.
    """
    arms = len(sums)
    for t in range(len(rewards)):
        past = rounds + t
        left = float(items - past)
        # Sums of t numbers up to C are wrong by less than t² ε C.
        rounding = _EPSILON * reach * ((past + 2.0) * (past + 2.0) / left if items else 4.0)
        for i in range(arms):
            for j in range(arms):
                if i == j:
                    continue
                total = sums[i] - sums[j]
                # m, the largest expected difference under the null, given the past.
                bound = -total / left if items else 0.0
                fall = reach + bound  # C + m: d − m ≥ −fall
                if fall < -rounding:
                    evidence[i, j] = math.inf  # no differences to come can have so small a sum
                elif fall > _ROOM * rounding:
                    mean = total / (past + 1.0)
                    excess = mean - bound
                    # The variance in the past, with C² for one round more.
                    second = (squares[i, j] + reach * reach) / (past + 1.0) - mean * mean
                    stake = excess / (second + excess * excess)
                    stake = min(max(stake, 0.0), _LARGEST / fall)
                    gain = rewards[t, i] - rewards[t, j] - bound - rounding
                    wealth[i, j] += math.log1p(stake * gain)
                    evidence[i, j] = max(evidence[i, j], wealth[i, j])
                difference = rewards[t, i] - rewards[t, j]
                squares[i, j] += difference * difference
        for i in range(arms):
            sums[i] += rewards[t, i]
