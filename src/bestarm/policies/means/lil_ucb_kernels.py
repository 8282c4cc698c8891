"""lil'UCB pull by pull, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.means.rates import first_without_pulls
from bestarm.policies.stepwise import Indices
from bestarm.presampled import reward_at


@compiled
def _bonus(n: int, constants: tuple[float, ...]) -> float:
    """(1 + β)(1 + √ε) √(2σ²(1 + ε) log(log((1 + ε)n + c)/δ) / n); infinite if log ≤ 0."""
    factor, stretch, shift, level, _ = constants
    inner = math.log(stretch * n + shift) / level
    return factor * math.sqrt(math.log(inner) / n) if inner > 1 else math.inf


@compiled
def advance(
    presampled: tuple[Any, ...],
    due: int,
    counts: Indices,
    sums: Array,
    constants: tuple[float, ...],
    most: int,
) -> tuple[int, int, bool]:
    """Pull until `most` pulls are made or one arm has enough of them (Figure 1).

    Returns the pulls made, the arm due next, and whether it stopped; changes `counts` and `sums`.
    """
    arms, share = len(counts), constants[4]
    upper = np.full(arms, math.inf)
    for a in range(arms):
        if counts[a]:
            upper[a] = sums[a] / counts[a] + _bonus(counts[a], constants)
    total, missing = counts.sum(), first_without_pulls(counts)
    rival = math.inf  # the highest bound of the arms that are not due
    for i in range(most):
        sums[due] += reward_at(presampled, i, due)
        counts[due] += 1
        total += 1
        n = counts[due]
        upper[due] = sums[due] / n + _bonus(n, constants)
        if missing >= 0:
            missing = first_without_pulls(counts)
        if missing >= 0:
            due = missing
            continue
        if n >= 1 + share * (total - n):  # T_i ≥ 1 + λ Σ_{j ≠ i} T_j
            return i + 1, due, True
        if upper[due] > rival:
            continue
        due, rival = 0, -math.inf
        for a in range(1, arms):
            if upper[a] > upper[due]:
                rival = max(rival, upper[due])
                due = a
            else:
                rival = max(rival, upper[a])
    return most, due, False
