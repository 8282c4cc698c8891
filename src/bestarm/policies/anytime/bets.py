"""Betting on contrasts from a batch's totals: the mathematics of the anytime rule.

Before a batch is drawn, fix the policy p, a guess c(a) of every arm's reward and, for a contrast y,
weights w(a) with Σ p_a w(a) = 0 and Σ p_a w(a) x_a = y. One pull then gives

    z = w(a) (r − c(a)),        E[z | past] = y·θ − Σ p_a w(a) c(a)

whatever the baseline, as long as it is fixed before the draw. If z ≥ −C and 0 ≤ λ < 1/C, then
Π (1 + λz) exp(λ Σ p w c) is a nonnegative supermartingale while y·θ ≤ 0. Totals do not give it, but
they bound it from below: for every F with z ≥ −F

    1 + λz ≥ exp(λz − ψz²),     ψ = (−log(1 − λF) − λF) / F²                  (Fan et al. 2015)

whose logarithm is linear in the batch's counts, sums and sums of squares. F need not be known
before the draw: it is C, or the farthest fall that there was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bestarm.checks import positive
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.batches import AnyBatch
from bestarm.policies.anytime.sampling import Sampling
from bestarm.records import Summary

# Stakes in units of signal to noise, y·θ over the deviation of z. A contrast at 0.025 takes some
# 10 000 pulls; within a factor of four on both sides shares hardly fall off, so that easier and
# harder ones cost little more, and beyond it they fall off as a power, so every gap is found.
STAKES: Array = 0.3 * 0.5 ** np.arange(14.0)
_SHARES = 1 / (1 + np.abs(np.log10(STAKES / 0.025) / 0.6) ** 4)
LOG_PRIOR: Array = np.log(_SHARES / _SHARES.sum()) - 1e-13  # they add up to 1 at most, rounded too

_EXPECTED: Array = np.array([2**-0.5, 1.0, 2**0.5])  # stakes for an expected gap, relative to it

WINDOW = 32  # batches with outcomes outstanding, at the end of each of which the wealth is read

LARGEST = 0.9  # λC: the share of its wealth that a stake may lose in one pull
RARE = 2e-3  # over √pulls: Φ(−k), how often noise exceeds what C allows for (Lemma 3)
EPSILON = float(np.finfo(float).eps)
STEPS = 16  # roundings of a total besides those of adding it up


@dataclass(frozen=True, eq=False)
class StakeGrid:
    """The stakes of a bet and their shares, fixed before the first draw.

    Attributes:
        signals: stakes for contrasts of these signals, in units of signal to noise.
        gaps: stakes for contrasts of these sizes, in reward units.
        log_shares: the logs of their shares, those of `signals` first. They add up to 1.
    """

    signals: Array
    gaps: Array
    log_shares: Array

    @classmethod
    def make(cls, expected_gap: float | None = None) -> StakeGrid:
        """Wide stakes; with an expected gap, half of all shares are around it."""
        if expected_gap is None:
            return cls(STAKES, np.zeros(0), LOG_PRIOR)
        gap, half = positive(expected_gap, "expected_gap"), math.log(0.5)
        near = np.full(len(_EXPECTED), half - math.log(len(_EXPECTED)))
        return cls(STAKES, gap * _EXPECTED, np.concatenate([LOG_PRIOR + half, near]))

    def __len__(self) -> int:
        return len(self.log_shares)

    def log_value(self, log_wealth: Array) -> Array:
        """The log of e-values: the wealth of all stakes (columns), averaged by their shares."""
        from bestarm.policies.anytime.kernels import average  # noqa: PLC0415 - compiles

        values = np.empty(len(log_wealth))
        average(log_wealth, self.log_shares, values)
        return values


@dataclass(frozen=True)
class Scale:
    """Where rewards lie: means between `low` and `high`, plus `noise`-sub-Gaussian noise.

    Bounded rewards are the case without noise. All numbers, and all that is computed from them, are
    relative to `center`, which is subtracted from every reward: if rewards are a million times as
    far from zero as from each other, a sum of squares about zero would lose all their digits.
    """

    low: float
    high: float
    noise: float = 0.0
    center: float = 0.0

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    def less(self, forecasts: tuple[float, float] | None) -> Scale:
        """Where rewards less a forecast lie, if forecasts lie in this interval; else this scale."""
        if forecasts is None:
            return self
        lowest, highest = forecasts
        low, high = self.low + self.center - highest, self.high + self.center - lowest
        return Scale(low, high, self.noise)

    def near(self, mean: float, reach: float) -> tuple[float, float]:
        """Rewards within reach of a mean, where they can lie at all."""
        low, high = self.low + self.center, self.high + self.center
        middle = min(max(mean, low), high)
        return max(middle - reach, low), min(middle + reach, high)

    def reach(self, pulls: int) -> tuple[float, float]:
        """kα and α√(2π)Φ(−k) of Lemma 3: the noise that C allows for, and the charge beyond it.

        With a reach of kα, E(η − kα)₊ ≤ ∫ exp(−t²/2α²) dt from kα on = α √(2π) Φ(−k).

        Args:
            pulls: pulls before the batch; with more of them, the charge must be smaller.
        """
        rare = RARE / math.sqrt(pulls + 1)
        if not self.noise:
            return 0.0, 0.0
        return -self.noise * float(ndtri(rare)), self.noise * math.sqrt(2 * math.pi) * rare


class Prior(NamedTuple):
    """Quantities per arm that are fixed before a batch is drawn, for the kernel.

    Attributes:
        weights: p.
        guess: c(a).
        spread: p times the expected (r − c)².
        below: how far a reward may fall below its guess, short of what is charged for.
        above: how far it may exceed it.
        likely: how far a reward will fall below or exceed its guess, as foreseen.
    """

    weights: Array
    guess: Array
    spread: Array
    below: Array
    above: Array
    likely: Array


class KernelTotals(NamedTuple):
    """Totals per arm of a batch, for the kernel.

    Attributes:
        first: Σ(r − c).
        second: Σ(r − c)², at most.
        rounding: what rounding may have added to Σ(r − c).
        under: how far a reward fell below its guess, at most.
        over: how far one exceeded it.
        counts: pulls with an outcome.
        lost: pulls without one, to be entered at the reward that hurts a bet most.
        third: Σ(r − c)³; NaN if it is not known.
        third_rounding: how far off `third` may be.
    """

    first: Array
    second: Array
    rounding: Array
    under: Array
    over: Array
    counts: Array
    lost: Array
    third: Array
    third_rounding: Array


class Terms(NamedTuple):
    """Numbers of a bet that hold for all arms.

    Attributes:
        low: the least reward there can be.
        high: the largest.
        margin: what is added to the contrast.
        tail: what is charged, in units of Σ p|w|.
        relative: how far off sums over arms may be, relative to the sum of their terms' sizes.
        largest: the most that λC may be; less than 1.
        ceiling: the most that a pull without an outcome adds to the log wealth.
    """

    low: float
    high: float
    margin: float
    tail: float
    relative: float
    largest: float
    ceiling: float


class Frame:
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it.

    Attributes:
        sampling: how arms are drawn.
        scale: where rewards lie.
        grid: the stakes.
        leaders: the targets that look best and second best.
        expected: c(a) of all source arms.
        size: the number of pulls in the batch, as foreseen.
        tail: what is charged for noise beyond what may be, in units of Σ p|w|.

    Args:
        sampling: how arms are drawn.
        guess: c(a) for all source arms, inside the range of the scale.
        spread: the expected (r − c(a))² for all of them.
        scale: where rewards lie.
        size: the number of pulls in the batch, as foreseen.
        pulls: the number of pulls before it.
        grid: the stakes; the wide ones by default.
        leaders: the targets that look best and second best.
    """

    def __init__(
        self,
        sampling: Sampling,
        *,
        guess: Array,
        spread: Array,
        scale: Scale,
        size: int,
        pulls: int,
        grid: StakeGrid | None = None,
        leaders: tuple[int, int] = (0, 1),
    ) -> None:
        self.sampling, self.scale = sampling, scale
        self.grid = grid or StakeGrid.make()
        self.leaders = leaders
        self.expected, self.size, self._pulls = guess, size, pulls
        reach, self.tail = scale.reach(pulls)
        self._made_from = guess, spread.copy(), (scale.low, scale.high, reach), size

    @cached_property
    def prior(self) -> Prior:
        """The quantities per arm; computed when the batch is in, as compiling takes long."""
        from bestarm.policies.anytime.allocating import fix  # noqa: PLC0415 - compiles

        sampling = self.sampling
        drawn = sampling.arms, sampling.weights
        return Prior(sampling.weights, *fix(drawn, *self._made_from))

    @property
    def guess(self) -> Array:
        """c(a) of each arm that can be drawn."""
        return self.prior.guess

    def with_guess(self, guess: Array) -> Frame:
        """The same frame with another guess of all source arms."""
        return Frame(
            self.sampling,
            guess=guess,
            spread=self._made_from[1],
            scale=self.scale,
            size=self.size,
            pulls=self._pulls,
            grid=self.grid,
            leaders=self.leaders,
        )

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> Bets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return Bets(self, contrasts, margin)


class Settled(NamedTuple):
    """Settled bets: one row per contrast, one column per stake.

    Attributes:
        stakes: λ.
        growth: by how much the log wealth grew.
    """

    stakes: Array
    growth: Array


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets on contrasts. All of λ, C and ψ follow from the frame, so they are fixed with it.

    Attributes:
        frame: what they are made from.
        contrasts: one per row.
        margin: what is added to each contrast.
    """

    frame: Frame
    contrasts: Array
    margin: float

    @cached_property
    def w(self) -> Array:
        """w(a), one row per contrast, one column per arm of the frame."""
        from bestarm.policies.anytime.allocating import weigh  # noqa: PLC0415 - compiles

        return weigh(self.contrasts, self.frame.sampling.readout)

    def settle(self, batch: BatchOutcome) -> Settled:
        """Settle the bets on a batch drawn under the frame."""
        from bestarm.policies.anytime.kernels import settle  # noqa: PLC0415 - compiles

        frame, scale = self.frame, self.frame.scale
        relative = (len(frame.guess) + STEPS) * EPSILON
        numbers = scale.low, scale.high, self.margin, frame.tail, relative, LARGEST
        terms = Terms(*numbers, 0.0 if batch.may_be_lost else math.inf)
        result = Settled(*np.empty((2, len(self.w), len(frame.grid))))
        stakes = frame.grid.signals, frame.grid.gaps
        settle(self.w, tuple(frame.prior), tuple(batch.totals), tuple(terms), stakes, *result)
        return result

    def log_growth(self, batch: BatchOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        return self.settle(batch).growth


class BatchOutcome:
    """The outcome of pulls that were drawn under a frame.

    Sums of n rounded terms, added in whatever order, are off by at most (n − 1)u Σ|term| to first
    order, with u = ε/2 (Higham 2002, section 4.2). Let x be a reward less the summary's center and
    g the guess about that center. Then, with q = Σx² + n g², Σ(r − c) = Σx − ng is off by no more
    than (n + 16) ε √(n q), and Σ(r − c)² = Σx² − g (2Σx − ng) by no more than (n + 16) ε q: n for
    adding up, the rest for taking the center off, squaring, and the few operations here. (In the
    first Σ|x| ≤ √(n Σx²), in the second 2|g| Σ|x| ≤ q; ε is twice u, which leaves room for terms
    of second order up to n = 2⁴⁰.)

    Attributes:
        frame: what was fixed before.
        summary: what came of it.
        totals: of each arm that can be drawn.
        pending: whether outcomes are outstanding: then an amended batch may take this one's place.
        may_be_lost: whether outstanding outcomes are passed over once they are lost. Until then
            their factor is at most 1 ("Losses").

    Args:
        frame: what was fixed before.
        summary: what came of it.
        worst_case: whether pulls whose outcome never comes enter. If not, they are passed over.
    """

    def __init__(self, frame: Frame, summary: Summary, worst_case: bool = False) -> None:
        from bestarm.policies.anytime.kernels import add_up  # noqa: PLC0415 - compiles

        self.frame, self.summary = frame, summary
        lost = summary.pending + (summary.missing if worst_case else 0)
        self.totals = KernelTotals(*np.empty((9, len(frame.guess))))
        shift = summary.center - frame.scale.center
        arms, totals = frame.sampling.arms, tuple(self.totals)
        add_up(arms, frame.guess, shift, lost, *summary.totals, totals)
        self.pending = summary.pending_pulls > 0
        self.may_be_lost = not worst_case

    @property
    def pulls(self) -> int:
        """The number of pulls that enter."""
        return int(self.totals.counts.sum() + self.totals.lost.sum())

    @property
    def exposure(self) -> float:
        """See `AnyBatch.exposure`: every pull has the margin once."""
        return self.pulls - self.capped_exposure

    @property
    def capped_exposure(self) -> float:
        """See `AnyBatch.capped_exposure`."""
        return self.summary.pending_pulls if self.may_be_lost else 0


def folded(past: Sequence[AnyBatch]) -> int:
    """How many of the first batches to count in every prefix that is looked at.

    Those before the first with outcomes outstanding; but never more than the last few stay out, so
    that one outcome that nobody ever tells holds nothing up.
    """
    done = max(len(past) - WINDOW, 0)
    while done < len(past) and not past[done].pending:
        done += 1
    return done
