"""Settle bets on rounds, compiled: every round's own factor, for many contrasts and stakes.

Lemmas are those of docs/blocks.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import EPSILON, STEPS

Blocks = NDArray[np.int64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Parts = tuple[Any, ...]

_MANY = 1e100  # factors are multiplied until their product leaves this range, then its log is taken


@tiered
def add_laplacian(blocks: Blocks, masses: Array, matrix: Array) -> None:
    """Add Σ mass (I_B − 1_B 1_Bᵀ/k) over blocks to a matrix."""
    size = blocks.shape[1]
    for b in range(len(blocks)):
        for i in range(size):
            a = blocks[b, i]
            matrix[a, a] += masses[b]
            for j in range(size):
                matrix[a, blocks[b, j]] -= masses[b] / size


@tiered
def disperse(products: Array, blocks: Blocks, scores: Array) -> None:
    """Σ |v_i − v̄|² over the points of each block, from their products; output."""
    size = blocks.shape[1]
    for b in range(len(blocks)):
        own = total = 0.0
        for i in range(size):
            own += products[blocks[b, i], blocks[b, i]]
            for j in range(size):
                total += products[blocks[b, i], blocks[b, j]]
        scores[b] = max(own - total / size, 0.0)


@tiered
def take_in(
    table: Array, members: Blocks, entered: Flags, guess: Array, residuals: Array, rounds: Parts
) -> tuple[float, float]:
    """Residuals r − c of every round, less their mean over the block.

    The first member told is subtracted before all else, so that a baseline of any size drops out
    before anything is rounded.

    Args:
        table: rewards, NaN where there is none.
        members: the arms of each round.
        entered: which of them count; those without an outcome at their worst.
        guess: c of each arm.
        residuals: output; 0 for members without an outcome.
        rounds: outputs per round: what rounding may have done to a residual, how many members
            count, and whether one of these has no outcome.

    Returns:
        Σ residual², and the number of residuals that are free to vary.
    """
    rough, sizes, lacking = rounds
    squares = freedom = 0.0
    size = table.shape[1]
    for t in range(len(table)):
        first, told, counted, mean, farthest = -1, 0, 0, 0.0, 0.0
        for i in range(size):
            counted += entered[t, i]
            residuals[t, i] = 0.0
            if not entered[t, i] or math.isnan(table[t, i]):
                continue
            told += 1
            if first < 0:
                first = i
            reward = table[t, i] - table[t, first]
            expected = guess[members[t, i]] - guess[members[t, first]]
            residuals[t, i] = reward - expected
            mean += residuals[t, i]
            farthest = max(farthest, abs(reward) + abs(expected))
        sizes[t], lacking[t] = counted, told < counted
        rough[t] = (size + STEPS) * EPSILON * farthest
        for i in range(size):
            if told >= 2 and entered[t, i] and not math.isnan(table[t, i]):
                residuals[t, i] -= mean / told
                squares += residuals[t, i] * residuals[t, i]
            else:
                residuals[t, i] = 0.0
        freedom += max(told - 1, 0)
    return squares, freedom


@tiered
def learn(members: Blocks, table: Array, entered: Flags, residuals: Array, into: Parts) -> None:
    """Add the rounds' own Laplacian, and the sum of the residuals of each arm."""
    laplacian, sums = into
    for t in range(len(members)):
        told = 0
        for i in range(members.shape[1]):
            told += entered[t, i] and not math.isnan(table[t, i])
        if told < 2:
            continue
        for i in range(members.shape[1]):
            if not entered[t, i] or math.isnan(table[t, i]):
                continue
            a = members[t, i]
            sums[a] += residuals[t, i]
            laplacian[a, a] += 1.0
            for j in range(members.shape[1]):
                if entered[t, j] and not math.isnan(table[t, j]):
                    laplacian[a, members[t, j]] -= 1.0 / told


@tiered
def _at_worst(u: Array, members: Indices, rewards: Array, entered: Flags, range_: Parts) -> float:
    """The least z of a round that lacks outcomes: they are at the bound that hurts most."""
    guess, low, high, center = range_
    mean, counted = 0.0, 0
    for i in range(len(members)):
        if entered[i]:
            mean += u[members[i]]
            counted += 1
    mean /= counted
    z = size = 0.0
    for i in range(len(members)):
        if not entered[i]:
            continue
        w, c = u[members[i]] - mean, guess[members[i]]
        if math.isnan(rewards[i]):
            z += min(w * (low - c), w * (high - c))
        else:
            z += w * (rewards[i] - center - c)
        size += abs(w) * (abs(c) + high - low)
    return z - (len(members) + STEPS) * EPSILON * size


@tiered
def _over_blocks(
    u: Array, blocks: Blocks, chances: Array, falls: Array
) -> tuple[float, float, float]:
    """C, the farthest that z can fall below zero (Lemma B2); and the means of Σ|w| and Σw²."""
    fall = size = square = 0.0
    for b in range(len(blocks)):
        mean = spread = 0.0
        for j in range(blocks.shape[1]):
            mean += u[blocks[b, j]]
        mean /= blocks.shape[1]
        for j in range(blocks.shape[1]):
            w = u[blocks[b, j]] - mean
            spread += abs(w)
            square += chances[b] * w * w
        fall = max(fall, spread * falls[b])
        size += chances[b] * spread
    return fall, size, square


@tiered
def settle(
    u: Array, frame: Parts, batch: Parts, terms: Parts, grid: Parts, stakes: Array, growth: Array
) -> None:
    """λ of every contrast (row of `u`) and stake, and the growth of its log wealth.

    Args:
        u: uᵢ of each arm: its weight in a block is uᵢ less the mean over the block.
        frame: blocks, their probabilities, how far z can fall per block (in units of its Σ|w|), the
            variance of a residual, and what `_at_worst` needs.
        batch: members, residuals and what `take_in` gives of each round, rewards and which members
            count; then what is known of the contrasts (the least and the largest, per arm), the
            exposure, and the number of rounds that count.
        terms: the margin, what is charged for noise beyond the reach in units of Σ|w|, and the most
            that λC may be.
        grid: stakes in units of signal to noise, and those for contrasts of known sizes.
        stakes: λ, output.
        growth: the growth of the log wealth, output.
    """
    blocks, chances, falls, variance, range_ = frame
    members, residuals, rough, lacking, rewards, entered, known, exposure, count = batch
    margin, tail, largest = terms
    signals, gaps = grid
    least, most = known
    rounds, arms = len(members), u.shape[1]
    z = np.empty(rounds)
    for i in range(len(u)):
        fall, size, square = _over_blocks(u[i], blocks, chances, falls)
        if fall == 0.0:  # the blocks say nothing about this contrast
            stakes[i] = growth[i] = 0.0
            continue
        gain = norm = parts = 0.0
        for a in range(arms):
            gain += u[i, a] * (least[a] if u[i, a] > 0 else most[a])
            parts += abs(u[i, a]) * max(abs(least[a]), abs(most[a]))
            norm += abs(u[i, a])
        charge = tail * size * count  # κ (Lemma B3)
        parts += abs(margin) * exposure + charge
        gain += margin * exposure - charge - (arms + rounds + STEPS) * EPSILON * parts
        for t in range(rounds):
            if lacking[t]:
                z[t] = _at_worst(u[i], members[t], rewards[t], entered[t], range_)
                continue
            z[t] = -rough[t] * norm
            for j in range(members.shape[1]):
                z[t] += u[i, members[t, j]] * residuals[t, j]
            if tail > 0:
                z[t] = max(z[t], -fall)
        deviation = math.sqrt(variance * square)
        for s in range(stakes.shape[1]):
            if s < len(signals):
                signal = signals[s]
            else:
                signal = (gaps[s - len(signals)] + margin) / deviation
            stake = min(signal / deviation, largest / fall)  # λC ≤ 0.9
            stakes[i, s] = stake
            growth[i, s] = stake * gain + _log_product(z, stake)


@tiered
def _log_product(z: Array, stake: float) -> float:
    """Σ log(1 + λz), at most: each factor and product may be off by ε/2."""
    total, logs, product = 0.0, 0.0, 1.0
    for t in range(len(z)):
        product *= 1.0 + stake * z[t]
        if product > _MANY or product < 1 / _MANY:
            part = math.log(product)
            total += part
            logs += abs(part)
            product = 1.0
    part = math.log(product)
    return total + part - EPSILON * (2.0 * len(z) + STEPS * (logs + abs(part) + 1.0))
