"""Betting on contrasts round by round: the mathematics of blocks.

The proof, with Lemmas B1 to B4, is in docs/anytime.md.

Before a batch is drawn, fix a distribution q over blocks, a linear guess c of the arms' rewards
and, for a contrast y, u = X M⁻¹y with M = Σ q_B A_B. A round whose members B have outcomes gives

    z = Σ_B w(i) (r_i − c_i),   w(i) = u_i − ū_B,        E[z | past] = s y·(θ − θ̂),

whatever its baseline: weights that sum to zero do not see it. (s = 1 for whole blocks.) If z ≥ −C
and 0 ≤ λ < 1/C, Π (1 + λz) exp(λ s y·θ̂) is a nonnegative supermartingale while y·θ ≤ 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import TIE, Array, ranked
from bestarm.policies.anytime.bets import EPSILON, MAX_LOSS, ROUNDINGS, BetResult, Scale, StakeGrid
from bestarm.records import BlockPlan, Blocks, Counts, Rounds

Flags = NDArray[np.bool_]

_SINGULAR = 1e-11  # an eigenvalue of M, relative to the largest, that is zero but for rounding
_UNREAD = 1e-7  # what M may leave of a contrast, relative to its length
_AT_ONCE = 1 << 18  # contrasts × members of blocks or rounds whose weights are held at once
_ROUNDS_AT_ONCE = 64  # whose factors are held at once


def laplacian(blocks: Blocks, masses: Array, arms: int) -> Array:
    """Σ mass (I_B − 1_B 1_Bᵀ/k) over blocks: XᵀLX is Σ mass A_B."""
    columns, shared = blocks.T, np.zeros(arms * arms)
    for i, one in enumerate(columns[:-1]):
        pairs = one * arms + columns[i + 1 :]
        weights = np.broadcast_to(masses, pairs.shape)
        shared += np.bincount(pairs.ravel(), weights.ravel(), arms * arms)
    together = shared.reshape(arms, arms)
    together = together + together.T
    return np.asarray((np.diag(together.sum(axis=1)) - together) / len(columns))


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

    def draws_from(self, plan: BlockPlan) -> bool:
        """Whether a plan draws the same blocks with the same probabilities."""
        same = np.array_equal(self.plan.blocks, plan.blocks)
        return same and np.array_equal(self.plan.block_weights, plan.block_weights)

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
        """What rounding may do to Σ (S/(N − t + 1) + c) over the next rounds (Lemma B4)."""
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
        leaders: the targets that look best and second best; (1, 2).
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
        grid: StakeGrid,
        leaders: NDArray[np.int64] | None = None,
        population: Population | None = None,
    ) -> None:
        self.sampling, self.scale, self.variance = sampling, scale, variance
        self.grid, self.population = grid, population
        self.leaders = np.array([[0, 1]]) if leaders is None else leaders
        guess = sampling.points @ slope
        # Guesses farther apart than rewards can be would only widen C.
        apart = float(np.ptp(guess))
        shrink = min(1.0, (scale.high - scale.low) / apart) if apart else 1.0
        self.slope, self.guess = shrink * slope, shrink * guess
        reach, self.tail = (float(part) for part in scale.reach(np.asarray(rounds)))
        inside = self.guess[sampling.blocks]
        half = (scale.high - scale.low) / 2
        self.falls = half + np.ptp(inside, axis=1) / 2 + reach

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> BlockBets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return BlockBets(self, self.sampling.read(contrasts), margin)


class BlockOutcome:
    """The outcome of rounds that were drawn under a frame.

    Attributes:
        capped_exposure: none: what was outstanding is at its worst if it is lost.
        entered: which members of each round count. Members without an outcome that count are at
            the bound that hurts a bet most.
        members: their places among the arms of the frame.
        residuals: r − c less its mean over the block, of members with an outcome; else 0.
        rounding: how far off each round's residuals may be, in all that is made of them.
        squares: the sum of their squares.
        freedom: how many of them are free to vary.
        count: the number of rounds in which two members or more count.
        incomplete: those of them in which one of these has no outcome.
        exposure: by how much the log wealth of a stake λ = 1 falls if the margin falls by 1.
        expected: for a contrast that is u of each arm, a stake λ = 1 gains u times this, whatever
            the rewards are; the least and the largest that it may be.
        pending: whether outcomes are outstanding: then an amended batch may take this one's place.

    Args:
        frame: what was fixed before.
        summary: what came of it.
        entered: which members count. By default those with an outcome and those that await one.
    """

    capped_exposure = 0.0

    def __init__(self, frame: BlockFrame, summary: Rounds, entered: Flags | None = None) -> None:
        self.frame, self.summary = frame, summary
        table, size = summary.table, summary.table.shape[1]
        observed = ~np.isnan(table)
        self.entered = observed | summary.awaited if entered is None else entered
        self.members = frame.sampling.blocks[summary.kinds]
        # The first outcome is subtracted before all else, so that a baseline of any size drops out
        # before anything is rounded.
        guess, first = frame.guess[self.members], (np.arange(len(table)), observed.argmax(axis=1))
        rewards = np.where(observed, table - table[first][:, None], 0.0)
        guess = np.where(observed, guess - guess[first][:, None], 0.0)
        found = observed.sum(axis=1)
        means = (rewards - guess).sum(axis=1) / np.maximum(found, 1)
        self.residuals = np.where(observed, rewards - guess - means[:, None], 0.0)
        self.squares = float((self.residuals**2).sum())
        self.freedom = int(np.maximum(found - 1, 0).sum())
        farthest = (np.abs(rewards) + np.abs(guess)).max(axis=1, initial=0.0)
        self.rounding = 2 * (size + ROUNDINGS) * EPSILON * farthest
        self.pending = bool(summary.awaited.any())
        others = np.maximum(self.entered.sum(axis=1) - 1, 0)
        self.count = int(np.count_nonzero(others))
        self.incomplete = np.flatnonzero((others > 0) & (found <= others))
        if frame.population is None:
            self.exposure = float(others.sum() / max(size - 1, 1))
            expected = self.exposure * (frame.sampling.laplacian @ frame.guess)
            self.expected = expected, expected
        else:
            self.exposure, self.expected = self._of_remaining_items(frame.population)

    def by_arm(self, values: Array) -> Array:
        """Values of the members of each round: one row per round, one column per arm."""
        table = np.zeros((len(values), len(self.frame.sampling.arms)))
        table[np.arange(len(values))[:, None], self.members] = values
        return table

    def _of_remaining_items(self, population: Population) -> tuple[float, tuple[Array, Array]]:
        """What rounds before each round say of the items that were left then (Lemma B4)."""
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


def _log_growth(stakes: Array, z: Array) -> Array:
    """Σ log(1 + λz) over rounds (columns of z) for each stake of each contrast (row), at most.

    Adding n logs up rounds by nε/2 of the sum of their sizes at most, and each of them is off by a
    few ε of its own size: that holds for the rounding of λz too, as λz/(1 + λz) is at most four
    times the log where λz ≥ −0.9.
    """
    growth, sizes = np.zeros((2, *stakes.shape))
    for first in range(0, z.shape[1], _ROUNDS_AT_ONCE):
        logs = stakes[:, :, None] * z[:, None, first : first + _ROUNDS_AT_ONCE]
        growth += np.log1p(logs, out=logs).sum(axis=2)
        sizes += np.abs(logs, out=logs).sum(axis=2)
    return np.asarray(growth - (z.shape[1] + ROUNDINGS) * EPSILON * sizes)


@dataclass(frozen=True, eq=False)
class BlockBets:
    """Bets on contrasts. All of λ and C follow from the frame, so they are fixed with it.

    Attributes:
        frame: what they are made from.
        u: one row per contrast, one column per arm of the frame: an arm's weight w in a block is
            its u less the mean over the block.
        margin: what is added to each contrast.
    """

    frame: BlockFrame
    u: Array
    margin: float

    def settle(self, batch: BlockOutcome) -> BetResult:
        """Settle the bets on rounds drawn under the frame."""
        result = BetResult(*np.empty((2, len(self.u), len(self.frame.grid))))
        step = 1 + _AT_ONCE // max(self.frame.sampling.blocks.size, batch.members.size)
        for first in range(0, len(self.u), step):
            some = slice(first, first + step)
            result.stakes[some], result.growth[some] = self._settle(self.u[some], batch)
        return result

    def log_growth(self, batch: BlockOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with the rounds."""
        return self.settle(batch).growth

    def _settle(self, u: Array, batch: BlockOutcome) -> tuple[Array, Array]:
        """Stakes and growth of some contrasts."""
        frame, (least, most) = self.frame, batch.expected
        fall, size, square = self._moments(u)
        charge = frame.tail * size * batch.count  # κ (Lemma B3)
        gain = (u * np.where(u > 0, least, most)).sum(axis=1)
        gain += self.margin * batch.exposure - charge
        parts = np.abs(u) @ np.maximum(np.abs(least), np.abs(most))
        parts += abs(self.margin) * batch.exposure + charge
        gain -= (u.shape[1] + batch.summary.rounds + ROUNDINGS) * EPSILON * parts

        z = u @ batch.by_arm(batch.residuals).T
        z -= np.abs(u).sum(axis=1)[:, None] * batch.rounding
        if len(batch.incomplete):
            z[:, batch.incomplete] = self._least_z(u, batch)
        stakes = self._stakes(fall, square)
        return stakes, stakes * gain[:, None] + _log_growth(stakes, np.maximum(z, -fall[:, None]))

    def _moments(self, u: Array) -> tuple[Array, Array, Array]:
        """C, how far z can fall (Lemma B2), and the means of Σ|w| and Σw²; of each contrast."""
        sampling = self.frame.sampling
        w = u.T[sampling.blocks.T]  # members × blocks × contrasts
        w -= w.mean(axis=0)
        sizes = np.abs(w, out=w).sum(axis=0)
        rounding = 1 + (len(w) + ROUNDINGS) * EPSILON
        fall = rounding * (self.frame.falls[:, None] * sizes).max(axis=0)
        square = ((u @ sampling.laplacian) * u).sum(axis=1)
        return fall, sampling.plan.block_weights @ sizes, square

    def _stakes(self, fall: Array, square: Array) -> Array:
        """λ of every contrast and stake, with λC ≤ 0.9; 0 where blocks say nothing about one."""
        grid, seen = self.frame.grid, (fall > 0) & (square > 0)
        deviation = np.sqrt(self.frame.variance * np.where(seen, square, 1.0))[:, None]
        most = MAX_LOSS / np.where(seen, fall, 1.0)
        return np.where(seen[:, None], np.minimum(grid.signals / deviation, most[:, None]), 0.0)

    def _least_z(self, u: Array, batch: BlockOutcome) -> Array:
        """The least z of the rounds that lack outcomes: they are at the bound that hurts most."""
        scale, rows = self.frame.scale, batch.incomplete
        members, entered = batch.members[rows], batch.entered[rows]
        rewards, guess = batch.summary.table[rows] - scale.center, self.frame.guess[members]
        missing = np.isnan(rewards)
        w = u[:, members]  # contrasts × rounds × members
        w -= ((w * entered).sum(axis=2) / entered.sum(axis=1))[:, :, None]
        w *= entered
        z = (w * (np.where(missing, scale.middle, rewards) - guess)).sum(axis=2)
        w = np.abs(w, out=w)
        span = scale.high - scale.low
        z -= span / 2 * (w * missing).sum(axis=2)
        rounding = 2 * (rewards.shape[1] + ROUNDINGS) * EPSILON
        return np.asarray(z - rounding * (w * (np.abs(guess) + span)).sum(axis=2))
