"""Betting on contrasts round by round: the mathematics of blocks (docs/blocks.md).

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
from bestarm.policies.anytime.bets import EPSILON, LARGEST, STEPS, Scale, Settled, StakeGrid
from bestarm.policies.anytime.block_design import laplacian
from bestarm.records import BlockPlan, Counts, Rounds

Flags = NDArray[np.bool_]

_SINGULAR = 1e-11  # an eigenvalue of M, relative to the largest, that is zero but for rounding
_UNREAD = 1e-7  # what M may leave of a contrast, relative to its length


class BlockSampling:
    """How blocks are drawn, and how contrasts are read off a round; kept from batch to batch.

    Attributes:
        plan: a plan that draws like this.
        arms: the arms that can be drawn.
        points: their coordinates, about their mean.
        blocks: the blocks, of places in `arms`.
        laplacian: L with Σ q_B A_B = XᵀLX.

    Args:
        coordinates: all source arms, in coordinates of their span.
        plan: the plan.
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
        most: at most: they differ where outcomes are lacking.
        changes: how many times sums of batches were added to them or taken off.
    """

    items: int
    seen: int
    least: Array
    most: Array
    changes: int = 0

    def rough(self, rounds: int, scale: Scale, guess: float) -> float:
        """What rounding may do to Σ (S/(N − t + 1) + c) over the next rounds: docs/blocks.md."""
        before = self.seen + np.arange(rounds)
        largest = max(abs(scale.low), abs(scale.high)) * before / (self.items - before) + guess
        return float(EPSILON * ((before + self.changes + rounds + STEPS) * largest).sum())

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
        sampling: how blocks are drawn.
        slope: θ̂ that rewards are guessed with.
        guess: c of each arm that can be drawn.
        scale: where rewards lie, but for the baseline.
        variance: the expected squared residual.
        grid: the stakes.
        leaders: the targets that look best and second best.
        falls: how far z can fall below zero, per block, in units of Σ|w|.
        tail: what is charged for noise beyond that, in units of Σ|w|.
        population: what is known of a finite population, or None.

    Args:
        sampling: how blocks are drawn.
        slope: θ̂.
        variance: the expected squared residual of a reward within its block.
        scale: where rewards lie.
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

    def settle(self, batch: BlockOutcome) -> Settled:
        """Settle the bets on rounds drawn under the frame."""
        from bestarm.policies.anytime.block_kernels import settle  # noqa: PLC0415 - compiles

        frame, scale = self.frame, self.frame.scale
        result = Settled(*np.empty((2, len(self.u), len(frame.grid))))
        limits = frame.guess, scale.low, scale.high, scale.center
        fixed = (
            *(frame.sampling.blocks, frame.sampling.plan.block_weights, frame.falls),
            *(frame.variance, limits),
        )
        terms = float(self.margin), frame.tail, LARGEST
        stakes = frame.grid.signals, frame.grid.gaps
        settle(self.u, fixed, batch.parts, terms, stakes, *result)
        return result

    def log_growth(self, batch: BlockOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with the rounds."""
        return self.settle(batch).growth


class BlockOutcome:
    """The outcome of rounds that were drawn under a frame.

    Attributes:
        frame: what was fixed before.
        summary: what came of it.
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
        from bestarm.policies.anytime.block_kernels import take_in  # noqa: PLC0415 - compiles

        self.frame, self.summary = frame, summary
        table, rounds = summary.table, summary.rounds
        self.entered = ~np.isnan(table) | summary.awaited if entered is None else entered
        self.members = frame.sampling.blocks[summary.kinds]
        self.residuals = np.empty(table.shape)
        rough, sizes = np.empty(rounds), np.empty(rounds, dtype=np.int64)
        lacking = np.empty(rounds, dtype=np.bool_)
        self.squares, self.freedom = take_in(
            *(table, self.members, self.entered, frame.guess, self.residuals),
            (rough, sizes, lacking),
        )
        self.pending = bool(summary.awaited.any())
        lacking &= sizes > 1
        counted = int(np.count_nonzero(sizes > 1))
        if frame.population is None:
            self.exposure = float((sizes[sizes > 1] - 1).sum() / max(table.shape[1] - 1, 1))
            known = self.exposure * (frame.sampling.laplacian @ frame.guess)
            bounds = known, known
        else:
            self.exposure, bounds = self._of_the_rest(frame.population)
        self.parts = (
            *(self.members, self.residuals, rough, lacking, table, self.entered),
            *(bounds, self.exposure, counted),
        )

    def _of_the_rest(self, population: Population) -> tuple[float, tuple[Array, Array]]:
        """What rounds before each round say of the items that were left then: docs/blocks.md."""
        scale, arms = self.frame.scale, self.frame.sampling.arms
        left = population.items - population.seen - np.arange(self.summary.rounds)
        ends = []
        for known, bound in ((population.least, scale.low), (population.most, scale.high)):
            rewards = self.filled(bound)
            before = known[arms] + np.cumsum(rewards, axis=0) - rewards
            ends.append((before / left[:, None] + self.frame.guess).sum(axis=0))
        guess = float(np.abs(self.frame.guess).max())
        rough = population.rough(self.summary.rounds, scale, guess)
        return float((population.items / left).sum()), (ends[0] - rough, ends[1] + rough)

    def filled(self, bound: float) -> Array:
        """Rewards about the scale's center of whole blocks of all arms, a bound where they lack."""
        rewards = self.summary.table - self.frame.scale.center
        return np.where(np.isnan(rewards), bound, rewards)
