"""EB-TCI pull by pull, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.means.rates import best_mean, first_without_pulls, rate
from bestarm.policies.stepwise import Indices
from bestarm.presampled import reward_at


@compiled
def advance(
    presampled: tuple[Any, ...],
    due: int,
    counts: Indices,
    sums: Array,
    scale: float,
    constants: tuple[float, ...],
    rng: np.random.Generator,
    most: int,
) -> tuple[int, int, int, bool]:
    """Pull until `most` pulls are made or the leader is shown to be the best.

    `scale` is 2σ². Returns the pulls made, the arm due next, the leader, and whether it stopped;
    changes `counts` and `sums`.
    """
    arms = len(counts)
    means, logs, inverse = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    for a in range(arms):
        if counts[a]:
            inverse[a] = 1.0 / counts[a]
            means[a], logs[a] = sums[a] * inverse[a], scale * math.log(counts[a])
    leader, missing = best_mean(means, counts), first_without_pulls(counts)
    total = counts.sum()
    proven = 0.0  # β at an earlier time, which is smaller: while the evidence is below, no log
    for i in range(most):
        sums[due] += reward_at(presampled, i, due)
        counts[due] += 1
        total += 1
        inverse[due] = 1.0 / counts[due]
        means[due], logs[due] = sums[due] * inverse[due], scale * math.log(counts[due])
        if missing >= 0:
            missing = first_without_pulls(counts)
        if missing >= 0:
            leader, due = best_mean(means, counts), missing
            continue
        leader = best_mean(means, counts)  # EB
        challenger, least, evidence = -1, math.inf, math.inf
        for a in range(arms):
            if a == leader:
                continue
            gap = means[leader] - means[a]
            # 2σ² W(i, j) = (μ_i − μ_j)² / (1/N_i + 1/N_j)
            cost = gap * gap / (inverse[leader] + inverse[a])
            evidence = min(evidence, cost)
            if cost + logs[a] < least:  # TCI: the cost with a penalty of log N_j
                challenger, least = a, cost + logs[a]
        evidence /= scale
        due = leader if rng.random() < 0.5 else challenger
        if evidence > proven:
            proven = rate(total, constants)
            if evidence > proven:
                return i + 1, due, leader, True
    return most, due, leader, False
