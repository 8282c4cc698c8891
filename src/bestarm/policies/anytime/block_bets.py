"""Betting on contrasts round by round: the mathematics of blocks (lemmas of docs/blocks.md).

Before a batch is drawn, fix a distribution q over blocks, a linear guess c of the arms' rewards
and, for a contrast y, u = X M⁻¹y with M = Σ q_B A_B. A round whose members B have outcomes gives

    z = Σ_B w(i) (r_i − c_i),   w(i) = u_i − ū_B,        E[z | past] = s y·(θ − θ̂),

whatever its baseline: weights that sum to zero do not see it. (s = 1 for whole blocks.) If z ≥ −C
and 0 ≤ λ < 1/C, Π (1 + λz) exp(λ s y·θ̂) is a nonnegative supermartingale while y·θ ≤ 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import TIE, Array, ranked
from bestarm.policies.anytime.bets import EPSILON, MAX_LOSS, ROUNDINGS, BetResult, Scale, StakeGrid
from bestarm.policies.anytime.readout import Indices, Parts
from bestarm.records import BlockPlan, Blocks, Counts, Rounds

Flags = NDArray[np.bool_]

_SINGULAR = 1e-11  # an eigenvalue of M, relative to the largest, that is zero but for rounding
_UNREAD = 1e-7  # what M may leave of a contrast, relative to its length
_MANY = 1e100  # factors are multiplied until their product leaves this range, then its log is taken


@tiered
def _add_laplacian(blocks: Blocks, masses: Array, matrix: Array) -> None:
    """Add Σ mass (I_B − 1_B 1_Bᵀ/k) over blocks to a matrix."""
    size = blocks.shape[1]
    for b in range(len(blocks)):
        for i in range(size):
            a = blocks[b, i]
            matrix[a, a] += masses[b]
            for j in range(size):
                matrix[a, blocks[b, j]] -= masses[b] / size


def laplacian(blocks: Blocks, masses: Array, arms: int) -> Array:
    """Σ mass (I_B − 1_B 1_Bᵀ/k) over blocks: XᵀLX is Σ mass A_B."""
    matrix = np.zeros((arms, arms))
    _add_laplacian(blocks, np.array(masses), matrix)  # a copy: some are read-only, another type
    return matrix


class BlockSampling:
    """How blocks are drawn, and how contrasts are read off a round; kept from batch to batch.

    Attributes:
        arms: the arms that can be drawn.
        points: their coordinates, about their mean.
        blocks: the blocks, of places in `arms`.
        laplacian: L with Σ q_B A_B = XᵀLX.

    Args:
        coordinates: all source arms, in coordinates of their span.
        plan: a plan that draws like this.
    """

    def __init__(self, coordinates: Array, plan: BlockPlan) -> None:
        self.plan = plan
        self.arms = np.unique(plan.blocks)
        self.blocks = np.searchsorted(self.arms, plan.blocks)
        points = coordinates[self.arms]
        self.points = points - points.mean(axis=0)
        self.laplacian = laplacian(self.blocks, plan.block_weights, len(self.arms))
        values, vectors = np.linalg.eigh(self.points.T @ self.laplacian @ self.points)
        kept = values > _SINGULAR * values[-1]
        self._span = vectors[:, kept]
        self._readout = (self._span / values[kept]) @ (self.points @ self._span).T

    def read(self, contrasts: Array) -> Array:
        """u of each contrast (row): one column per arm; 0 where blocks do not inform about it."""
        seen = (contrasts @ self._span) @ self._span.T
        length = np.linalg.norm(contrasts, axis=1)
        lost = np.linalg.norm(contrasts - seen, axis=1) > _UNREAD * length
        return np.where(lost[:, None], 0.0, contrasts @ self._readout)

    def informs(self, contrasts: Array) -> bool:
        """Whether blocks inform about all of these contrasts, none of them zero."""
        return bool(self.read(contrasts).any(axis=1).all())


@dataclass(frozen=True, eq=False)
class Population:
    """A finite population that rounds are drawn from without replacement, before a batch.

    Attributes:
        items: how many items there are.
        seen: how many of them were drawn.
        least: Σ reward of each source arm over these, at least; rewards are about the scale's
            center.
        most: at most: they differ where outcomes are incomplete.
        changes: how many times sums of batches were added to them or taken off.
    """

    items: int
    seen: int
    least: Array
    most: Array
    changes: int = 0

    def rounding(self, rounds: int, scale: Scale, guess: float) -> float:
        """What rounding may do to Σ (S/(N − t + 1) + c) over the next rounds: docs/blocks.md."""
        before = self.seen + np.arange(rounds)
        largest = max(abs(scale.low), abs(scale.high)) * before / (self.items - before) + guess
        return float(EPSILON * ((before + self.changes + rounds + ROUNDINGS) * largest).sum())

    def best(
        self, left: Counts, *, top: int, tolerance: float
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
        """The best of these arms once all items are seen, the best first; None if that is open.

        And all that tie with the last of them, unless only the best do. Arms that tie, but for
        rounding, are in order of their index.
        """
        least, most = self.least[left] / self.items, self.most[left] / self.items
        order = ranked(least, size=float(np.abs(least).max()))
        chosen, rest = order[:top], order[top:]
        # As far apart as arms can be that are ranked as if they tied.
        slack = len(left) * TIE * float(np.abs(most).max())
        last = float(least[chosen].min())
        if len(rest) and float(most[rest].max()) > last + (tolerance + slack):
            return None, ()
        equal = (least >= last - slack) & (most <= last + slack)
        tied = left[equal].tolist() if equal[rest].any() and equal[chosen[-1]] else []
        return tuple(left[chosen].tolist()), tuple(tied)


class BlockFrame:
    """All that is fixed before a batch of rounds is drawn; the bets on any contrast follow from it.

    Attributes:
        guess: c of each arm that can be drawn.
        falls: how far z can fall below zero, per block, in units of Σ|w|.
        tail: what is charged for noise beyond that, in units of Σ|w|.

    Args:
        sampling: how blocks are drawn.
        slope: θ̂ that rewards are guessed with.
        variance: the expected squared residual of a reward within its block.
        scale: where rewards lie, but for the baseline.
        rounds: the number of rounds before the batch.
        grid: the stakes.
        leaders: the targets that look best and second best.
        population: what is known of a finite population, or None.
    """

    def __init__(
        self,
        sampling: BlockSampling,
        *,
        slope: Array,
        variance: float,
        scale: Scale,
        rounds: int,
        grid: StakeGrid | None = None,
        leaders: tuple[int, int] = (0, 1),
        population: Population | None = None,
    ) -> None:
        self.sampling, self.scale, self.variance = sampling, scale, variance
        self.grid = grid or StakeGrid.make()
        self.leaders, self.population = leaders, population
        guess = sampling.points @ slope
        # Guesses farther apart than rewards can be would only widen C.
        apart = float(np.ptp(guess))
        shrink = min(1.0, (scale.high - scale.low) / apart) if apart else 1.0
        self.slope, self.guess = shrink * slope, shrink * guess
        reach, self.tail = scale.reach(rounds)
        inside = self.guess[sampling.blocks]
        half = (scale.high - scale.low) / 2
        self.falls = half + np.ptp(inside, axis=1) / 2 + reach

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> BlockBets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return BlockBets(self, self.sampling.read(contrasts), margin)


@tiered
def block_residuals(
    table: Array, members: Blocks, entered: Flags, guess: Array, residuals: Array, rounds: Parts
) -> tuple[float, float]:
    """Residuals r − c of every round, less their mean over the block.

    The first outcome is subtracted before all else, so that a baseline of any size drops out before
    anything is rounded.

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
    rounding, sizes, incomplete = rounds
    squares = freedom = 0.0
    size = table.shape[1]
    for t in range(len(table)):
        first, observed, counted, mean, farthest = -1, 0, 0, 0.0, 0.0
        for i in range(size):
            counted += entered[t, i]
            residuals[t, i] = 0.0
            if not entered[t, i] or math.isnan(table[t, i]):
                continue
            observed += 1
            if first < 0:
                first = i
            reward = table[t, i] - table[t, first]
            expected = guess[members[t, i]] - guess[members[t, first]]
            residuals[t, i] = reward - expected
            mean += residuals[t, i]
            farthest = max(farthest, abs(reward) + abs(expected))
        sizes[t], incomplete[t] = counted, observed < counted
        rounding[t] = (size + ROUNDINGS) * EPSILON * farthest
        for i in range(size):
            if observed >= 2 and entered[t, i] and not math.isnan(table[t, i]):
                residuals[t, i] -= mean / observed
                squares += residuals[t, i] * residuals[t, i]
            else:
                residuals[t, i] = 0.0
        freedom += max(observed - 1, 0)
    return squares, freedom


class BlockOutcome:
    """The outcome of rounds that were drawn under a frame.

    Attributes:
        capped_exposure: none: what was outstanding is at its worst if it is lost.
        entered: which members of each round count. Members without an outcome that count are at
            the bound that hurts a bet most.
        members: their places among the arms of the frame.
        residuals: r − c less its mean over the block, of members with an outcome.
        squares: the sum of their squares.
        freedom: how many of them are free to vary.
        exposure: by how much the log wealth of a stake λ = 1 falls if the margin falls by 1.
        pending: whether outcomes are outstanding: then an amended batch may take this one's place.

    Args:
        frame: what was fixed before.
        summary: what came of it.
        entered: which members count. By default those with an outcome and those that await one.
    """

    capped_exposure = 0.0

    def __init__(self, frame: BlockFrame, summary: Rounds, entered: Flags | None = None) -> None:
        self.frame, self.summary = frame, summary
        table, rounds = summary.table, summary.rounds
        self.entered = ~np.isnan(table) | summary.awaited if entered is None else entered
        self.members = frame.sampling.blocks[summary.kinds]
        self.residuals = np.empty(table.shape)
        rounding, sizes = np.empty(rounds), np.empty(rounds, dtype=np.int64)
        incomplete = np.empty(rounds, dtype=np.bool_)
        self.squares, self.freedom = block_residuals(
            *(table, self.members, self.entered, frame.guess, self.residuals),
            (rounding, sizes, incomplete),
        )
        self.pending = bool(summary.awaited.any())
        incomplete &= sizes > 1
        counted = int(np.count_nonzero(sizes > 1))
        if frame.population is None:
            self.exposure = float((sizes[sizes > 1] - 1).sum() / max(table.shape[1] - 1, 1))
            known = self.exposure * (frame.sampling.laplacian @ frame.guess)
            bounds = known, known
        else:
            self.exposure, bounds = self._of_remaining_items(frame.population)
        self.parts = (
            *(self.members, self.residuals, rounding, incomplete, table, self.entered),
            *(bounds, self.exposure, counted),
        )

    def _of_remaining_items(self, population: Population) -> tuple[float, tuple[Array, Array]]:
        """What rounds before each round say of the items that were left then: docs/blocks.md."""
        scale, arms = self.frame.scale, self.frame.sampling.arms
        left = population.items - population.seen - np.arange(self.summary.rounds)
        ends = []
        for known, bound in ((population.least, scale.low), (population.most, scale.high)):
            rewards = self.filled(bound)
            before = known[arms] + np.cumsum(rewards, axis=0) - rewards
            ends.append((before / left[:, None] + self.frame.guess).sum(axis=0))
        guess = float(np.abs(self.frame.guess).max())
        rounding = population.rounding(self.summary.rounds, scale, guess)
        return float((population.items / left).sum()), (ends[0] - rounding, ends[1] + rounding)

    def filled(self, bound: float) -> Array:
        """Rewards about the scale's center of whole blocks of all arms, a bound where they lack."""
        rewards = self.summary.table - self.frame.scale.center
        return np.where(np.isnan(rewards), bound, rewards)


@tiered
def _least_z(u: Array, members: Indices, rewards: Array, entered: Flags, range_: Parts) -> float:
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
    return z - (len(members) + ROUNDINGS) * EPSILON * size


@tiered
def _block_moments(
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
    return total + part - EPSILON * (2.0 * len(z) + ROUNDINGS * (logs + abs(part) + 1.0))


@tiered
def settle_block_bets(
    u: Array, frame: Parts, batch: Parts, terms: Parts, grid: Parts, stakes: Array, growth: Array
) -> None:
    """λ of every contrast (row of `u`) and stake, and the growth of its log wealth.

    Args:
        u: uᵢ of each arm: its weight in a block is uᵢ less the mean over the block.
        frame: blocks, their probabilities, how far z can fall per block (in units of its Σ|w|), the
            variance of a residual, and what `_least_z` needs.
        batch: members, residuals and what `block_residuals` gives of each round, rewards and which
            members count; then what is known of the contrasts (the least and the largest, per arm),
            the exposure, and the number of rounds that count.
        terms: the margin, what is charged for noise beyond the reach in units of Σ|w|, and the most
            that λC may be.
        grid: stakes in units of signal to noise, and those for contrasts of known sizes.
        stakes: λ, output.
        growth: the growth of the log wealth, output.
    """
    blocks, chances, falls, variance, range_ = frame
    members, residuals, rounding, incomplete, rewards, entered, known, exposure, count = batch
    margin, tail, largest = terms
    signals, gaps = grid
    least, most = known
    rounds, arms = len(members), u.shape[1]
    z = np.empty(rounds)
    for i in range(len(u)):
        fall, size, square = _block_moments(u[i], blocks, chances, falls)
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
        gain += margin * exposure - charge - (arms + rounds + ROUNDINGS) * EPSILON * parts
        for t in range(rounds):
            if incomplete[t]:
                z[t] = _least_z(u[i], members[t], rewards[t], entered[t], range_)
                continue
            z[t] = -rounding[t] * norm
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


@dataclass(frozen=True, eq=False)
class BlockBets:
    """Bets on contrasts. All of λ and C follow from the frame, so they are fixed with it.

    Attributes:
        frame: what they are made from.
        u: one row per contrast, one column per arm of the frame.
        margin: what is added to each contrast.
    """

    frame: BlockFrame
    u: Array
    margin: float

    def settle(self, batch: BlockOutcome) -> BetResult:
        """Settle the bets on rounds drawn under the frame."""
        frame, scale = self.frame, self.frame.scale
        result = BetResult(*np.empty((2, len(self.u), len(frame.grid))))
        limits = frame.guess, scale.low, scale.high, scale.center
        fixed = (
            *(frame.sampling.blocks, frame.sampling.plan.block_weights, frame.falls),
            *(frame.variance, limits),
        )
        terms = float(self.margin), frame.tail, MAX_LOSS
        stakes = frame.grid.signals, frame.grid.gaps
        settle_block_bets(self.u, fixed, batch.parts, terms, stakes, *result)
        return result

    def log_growth(self, batch: BlockOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with the rounds."""
        return self.settle(batch).growth
