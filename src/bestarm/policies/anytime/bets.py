"""Betting on contrasts from a batch's totals: the mathematics of the anytime rule.

Before a batch is drawn, fix the policy p, a guess c(a) of every arm's reward and, for a contrast y,
weights w(a) with Σ p_a w(a) = 0 and Σ p_a w(a) x_a = y. One pull then gives

    z = w(a) (r − c(a)),        E[z | past] = y·θ − Σ p_a w(a) c(a)

whatever the baseline, as long as it is fixed before the draw. If z ≥ −C and 0 ≤ λ < 1/C, then
Π (1 + λz) exp(λ Σ p w c) is a nonnegative supermartingale while y·θ ≤ 0. Totals do not give it, but
they bound it from below: with h(u) = (u − log(1 + u))/u², which is convex, for all F and M with
−F ≤ z ≤ M, F + M > 0 and λF < 1

    log(1 + λz) ≥ λz − λ²z² (h(−λF)(M − z) + h(λM)(z + F)) / (F + M)

which is linear in the batch's counts and sums of powers. F and M need not be known before the
draw: they are the farthest fall and rise that there were.

The first axis of every array is the run. Batches of one run can stand side by side like runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.anytime.readout import Belief, Reader, Runs, sums_of_weights
from bestarm.records import Counts, Summary

# In units of signal to noise, y·θ over the deviation of z. Shares fall off as powers on both sides
# of the likely one, so every gap is found; slowly above it, so that large gaps are found soon.
STAKES: Array = 0.6 * 0.5 ** np.arange(15.0)
_BELOW, _ABOVE = 2.0, 1.0  # the powers

MAX_LOSS = 0.9  # λC: the share of its wealth that a stake may lose in one pull
TAIL_RATE = 2e-3  # over √pulls: Φ(−k), how often noise exceeds what C allows for (Lemma 3)
EPSILON = float(np.finfo(float).eps)
SLACK = 1e-9  # nats: what adding up the logs of many batches may round
ROUNDINGS = 16  # roundings of a total besides those of adding it up
_SERIES = 1e-3  # |u| below which h(u) is computed by its series


@dataclass(frozen=True, eq=False)
class StakeGrid:
    """The stakes of a bet and their shares, fixed before the first draw.

    Attributes:
        signals: stakes in units of signal to noise.
        log_shares: the logs of their shares, which add up to 1 at most.
    """

    signals: Array
    log_shares: Array

    @classmethod
    def around(cls, likely: float) -> StakeGrid:
        """`STAKES`, with shares that fall off where they are far from the likely one."""
        ratios = STAKES / likely
        shares = np.minimum(ratios**_BELOW, ratios**-_ABOVE)
        # They add up to 1 at most, rounded too.
        return cls(STAKES, np.log(shares / shares.sum()) - 1e-13)

    def __len__(self) -> int:
        return len(self.log_shares)

    def log_value(self, log_wealth: Array) -> Array:
        """log Σ exp(log wealth + log share) over the last axis: an average of stakes (Lemma 4)."""
        values = log_wealth + self.log_shares
        top = values.max(axis=-1, keepdims=True)
        return np.asarray((top + np.log(np.exp(values - top).sum(axis=-1, keepdims=True)))[..., 0])


LEVEL_GRID = StakeGrid.around(0.15)  # of bets against the declared baseline


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

    def near(self, mean: Array, reach: Array) -> tuple[Array, Array]:
        """Rewards within reach of a mean, where they can lie at all."""
        low, high = self.low + self.center, self.high + self.center
        middle = np.clip(mean, low, high)
        return np.maximum(middle - reach, low), np.minimum(middle + reach, high)

    def reach(self, pulls: Array | Counts) -> tuple[Array, Array]:
        """kα and α√(2π)Φ(−k) of Lemma 3: the noise that C allows for, and the charge beyond it.

        With a reach of kα, E(η − kα)₊ ≤ ∫ exp(−t²/2α²) dt from kα on = α √(2π) Φ(−k).

        Args:
            pulls: pulls before the batch; with more of them, the charge must be smaller.
        """
        rare = TAIL_RATE / np.sqrt(np.asarray(pulls) + 1.0)
        if not self.noise:
            return np.zeros_like(rare), np.zeros_like(rare)
        return -self.noise * ndtri(rare), self.noise * math.sqrt(2 * math.pi) * rare


# --- what is fixed before a batch ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Frame(Runs):
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it.

    Attributes:
        weights: p; (runs, arms).
        guess: c(a), inside the range of rewards; (runs, arms).
        spread: the expected (r − c(a))²; (runs, arms).
        sizes: the pulls in the batch, as planned; (runs,).
        low: the least reward there can be, noise apart, less the center; (runs,).
        high: the largest; (runs,).
        reach: how far beyond these noise may lie before it is charged for; (runs,).
        tail: the charge for noise beyond it, in units of Σ p|w|; (runs,).
        reader: the weights of any contrast.
        leaders: the targets that look best and second best; (runs, 2).
        belief: what the sums of weights are chosen by; None if they are 0, or there is no baseline.
        grid: the stakes.
        center: what is subtracted from every reward.
    """

    weights: Array
    guess: Array
    spread: Array
    sizes: Array | Counts
    low: Array
    high: Array
    reach: Array
    tail: Array
    reader: Reader
    leaders: Indices
    belief: Belief | None
    grid: StakeGrid
    center: float = 0.0

    @classmethod
    def under(
        cls,
        scale: Scale,
        weights: Array,
        *,
        guess: Array,
        spread: Array,
        sizes: Array | Counts,
        pulls: Array | Counts,
        reader: Reader,
        grid: StakeGrid,
        leaders: Indices,
        belief: Belief | None = None,
        forecasts: tuple[Array, Array] | None = None,
    ) -> Frame:
        """A frame for rewards of this scale, after so many pulls of each run.

        If forecasts are subtracted, these lie between two numbers of each run.
        """
        reach, tail = scale.reach(pulls)
        low, high = np.full_like(reach, scale.low), np.full_like(reach, scale.high)
        center = scale.center
        if forecasts is not None:
            low, high = low + center - forecasts[1], high + center - forecasts[0]
            center = 0.0
        guess = np.clip(guess, low[:, None], high[:, None])
        parts = weights, guess, spread, sizes, low, high, reach, tail
        return cls(*parts, reader, leaders, belief, grid, center)

    def with_guess(self, guess: Array) -> Frame:
        """The same frame with another guess."""
        return replace(self, guess=guess)

    def weigh(self, contrasts: Array, margin: float = 0.0) -> tuple[Array, Array]:
        """w(a), (runs, contrasts, arms), and the charge |Σ p w| R of each (Lemma 5)."""
        w = contrasts @ self.reader.contrasts
        if self.belief is None:
            return w, np.zeros(w.shape[:2])
        sums = sums_of_weights(contrasts, margin, self.reader, self.belief)
        return w + sums[..., None] * self.reader.level[:, None], np.abs(sums) * self.belief.bound

    def settle(
        self, contrasts: Array, totals: Totals, *, margin: float = 0.0, capped: bool = False
    ) -> BetResult:
        """Settle bets that contrasts exceed −margin on a batch drawn under the frame.

        λ and C follow from the frame, so they are fixed with it.

        Args:
            contrasts: in coordinates; (runs, contrasts, rank). Rows of zeros bet nothing.
            totals: what came of it.
            margin: what is added to each contrast.
            capped: whether a pull without an outcome adds at most 0 to the log wealth.
        """
        w, charges = self.weigh(contrasts, margin)
        return settle_bets(self, w, charges, totals, self.grid, margin=margin, capped=capped)

    def settle_level(self, totals: Totals, *, capped: bool = False) -> BetResult:
        """Settle the bets that the baseline exceeds R, and that it is below −R (Lemma 5)."""
        assert self.belief is not None
        w = np.stack([self.reader.level, -self.reader.level], axis=1)
        charges = np.full(w.shape[:2], self.belief.bound)
        return settle_bets(self, w, charges, totals, LEVEL_GRID, capped=capped)

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> Bets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return Bets(self, contrasts, margin)


# --- what came of it -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Totals(Runs):
    """Totals of r − c per arm of a batch, rounded so that evidence is a lower bound.

    Sums of n rounded terms, added in whatever order, are off by at most (n − 1)u Σ|term| to first
    order, with u = ε/2 (Higham 2002, section 4.2). Let x be a reward less the totals' center and
    g the guess about that center. Then, with q = Σx² + n g², Σ(r − c) = Σx − ng is off by no more
    than (n + 16) ε √(n q), and Σ(r − c)² = Σx² − g (2Σx − ng) by no more than (n + 16) ε q: n for
    adding up, the rest for taking the center off, squaring, and the few operations here. (In the
    first Σ|x| ≤ √(n Σx²), in the second 2|g| Σ|x| ≤ q; ε is twice u, which leaves room for terms
    of second order up to n = 2⁴⁰.)

    Attributes:
        counts: pulls with an outcome. All are (runs, arms).
        lost: pulls without one, to be entered at the reward that hurts a bet most.
        first: Σ(r − c).
        second: Σ(r − c)², at most.
        rounding: what rounding may have added to Σ(r − c).
        under: how far a reward fell below its guess, at most.
        over: how far one exceeded it.
        third: Σ(r − c)³; NaN if it is not known.
        third_rounding: how far off `third` may be.
    """

    counts: Array
    lost: Array
    first: Array
    second: Array
    rounding: Array
    under: Array
    over: Array
    third: Array
    third_rounding: Array

    @classmethod
    def about(
        cls,
        guess: Array,
        sums: tuple[Array | Counts, Array, Array],
        extremes: tuple[Array, Array, Array] | None,
        lost: Array | Counts | None = None,
    ) -> Totals:
        """Totals of rewards less a guess.

        Args:
            guess: g of each arm.
            sums: counts, Σx and Σx².
            extremes: the least and the largest x, and Σx³, if they are known.
            lost: pulls without an outcome that enter.
        """
        counts, first, second = (np.asarray(part, dtype=float) for part in sums)
        squares = second + guess * guess * counts  # q
        relative = (counts + ROUNDINGS) * EPSILON
        about = second - guess * (2 * first - guess * counts) + relative * squares
        absent = np.zeros_like(counts) if lost is None else np.asarray(lost, dtype=float)
        ends = first - guess * counts, about, relative * np.sqrt(counts * squares)
        if extremes is None:
            farthest = np.sqrt(np.maximum(about, 0.0))
            none = np.zeros_like(counts)
            return cls(counts, absent, *ends, farthest, farthest, none + np.nan, none)
        least, largest, cubes = extremes
        some, slack = counts > 0, ROUNDINGS * EPSILON * (np.abs(guess) + np.sqrt(second))
        under = np.where(some, np.maximum(guess - least + slack, 0.0), 0.0)
        over = np.where(some, np.maximum(largest - guess + slack, 0.0), 0.0)
        # Σ(x − g)³; the sizes of its terms add up to 4 (max|x| + |g|) q at most.
        third = cubes - guess * (3 * second - guess * (3 * first - guess * counts))
        farthest = np.maximum(np.abs(least), np.abs(largest)) + np.abs(guess)
        return cls(counts, absent, *ends, under, over, third, 8 * relative * farthest * squares)


class BatchOutcome:
    """The outcome of a batch of one run that was drawn under a frame.

    Attributes:
        frame: what was fixed before.
        summary: what came of it.
        totals: the same about the frame's guess.
        pending: whether outcomes are outstanding: then an amended batch may take this one's place.
        may_be_lost: whether outstanding outcomes are passed over once they are lost. Until then
            their factor is at most 1 ("Losses").

    Args:
        frame: what was fixed before.
        summary: what came of it.
        worst_case: whether pulls whose outcome never comes enter. If not, they are passed over.
    """

    def __init__(self, frame: Frame, summary: Summary, worst_case: bool = False) -> None:
        self.frame, self.summary = frame, summary
        self._lost = summary.pending + (summary.missing if worst_case else 0)
        self.pending = summary.pending_pulls > 0
        self.may_be_lost = not worst_case

    @cached_property
    def totals(self) -> Totals:
        """The totals of one run."""
        summary, guess = self.summary, self.frame.guess
        sums = summary.counts[None], summary.sums[None], summary.squares[None]
        shifted = guess - (summary.center - self.frame.center)
        return Totals.about(shifted, sums, summary.extremes, self._lost[None])

    @property
    def pulls(self) -> int:
        """The number of pulls that enter."""
        return self.summary.pulls + int(self._lost.sum())

    @property
    def exposure(self) -> float:
        """See `evidence.AnyBatch.exposure`: every pull has the margin once."""
        return self.pulls - self.capped_exposure

    @property
    def capped_exposure(self) -> float:
        """See `evidence.AnyBatch.capped_exposure`."""
        return self.summary.pending_pulls if self.may_be_lost else 0


class RunsOutcome(NamedTuple):
    """The outcome of a batch of runs side by side, of which none is late or lost."""

    frame: Frame
    totals: Totals
    pending: bool = False
    may_be_lost: bool = False


# --- Lemmas 2 to 4: what a bet gains from a batch ------------------------------------------------


class BetResult(NamedTuple):
    """λ, and by how much the log wealth grew: (runs, contrasts, stakes), or of one run without the
    first axis."""

    stakes: Array
    growth: Array


def cost(x: Array) -> Array:
    """h(x) = (x − log(1 + x)) / x² for x > −1, by its series where that cancels (Lemma 2)."""
    near = np.abs(x) < _SERIES
    safe = np.where(near, 1.0, x)
    far = (safe - np.log1p(safe)) / (safe * safe) * (1 + 1e-9)  # more than cancellation loses
    return np.where(near, 1 / 2 - x * (1 / 3 - x * (1 / 4 - x / 5)) + 1e-12, far)


def log_loss(stakes: Array, fall: Array, rise: Array, falling: Array, rising: Array) -> Array:
    """What Lemma 2 takes off λΣz, at most.

    Args:
        stakes: λ; (…, stakes).
        fall: F; (…).
        rise: M; (…).
        falling: Σ z²(M − z) over F + M; (…).
        rising: Σ z²(z + F) over F + M; (…).
    """
    loss = cost(-stakes * fall[..., None]) * falling[..., None]
    loss += cost(stakes * rise[..., None]) * rising[..., None]
    return np.asarray(stakes * stakes * loss)


def settle_bets(
    frame: Frame,
    w: Array,
    charges: Array,
    totals: Totals,
    grid: StakeGrid,
    *,
    margin: float = 0.0,
    capped: bool = False,
) -> BetResult:
    """λ of every contrast and stake, and the growth of its log wealth (Lemma 4).

    Args:
        frame: what was fixed before the draw.
        w: w(a); (runs, contrasts, arms).
        charges: what a small baseline may add to each contrast (Lemma 5); (runs, contrasts).
        totals: what came of it.
        grid: the stakes.
        margin: what is added to each contrast.
        capped: whether a pull without an outcome adds at most 0 to the log wealth.
    """
    fall = farthest_fall(frame, w)
    deviation = np.sqrt(over_arms(w * w, frame.weights * frame.spread))
    bets = (fall > 0) & (deviation > 0)
    safe_fall, safe_deviation = np.where(bets, fall, 1.0), np.where(bets, deviation, 1.0)
    signals = grid.signals
    signal = np.maximum(signals - (charges / safe_deviation)[..., None], signals / 2)
    stakes = np.minimum(signal / safe_deviation[..., None], MAX_LOSS / safe_fall[..., None])
    stakes = np.where(bets[..., None], stakes, 0.0)
    offset = bet_offset(frame, w, charges, margin)
    growth = bet_growth(frame, w, totals, stakes, offset, fall)
    if totals.lost.any():
        growth += bet_losses(frame, w, stakes, offset, totals.lost, capped=capped)
    return BetResult(stakes, growth)


def over_arms(rows: Array, values: Array) -> Array:
    """Σ over arms of rows (runs, rows, arms) times values (runs, arms)."""
    return np.asarray(np.matmul(rows, values[..., None])[..., 0])


def _farthest(w: Array, low: Array, high: Array) -> Array:
    """The largest over arms of w · low where w > 0, and |w| · high where w < 0."""
    up = np.maximum(w, 0.0)
    return np.asarray(np.maximum(up * low[:, None], (up - w) * high[:, None]).max(axis=2))


def _relative(w: Array) -> float:
    """The rounding of sums over arms, relative to the sizes of their terms."""
    return float((w.shape[2] + ROUNDINGS) * EPSILON)


def farthest_fall(frame: Frame, w: Array) -> Array:
    """C, the farthest that z can fall below zero (Lemma 2; with kα, Lemma 3)."""
    below = frame.guess - (frame.low - frame.reach)[:, None]
    above = (frame.high + frame.reach)[:, None] - frame.guess
    return _farthest(w, below, above)


def bet_offset(frame: Frame, w: Array, charges: Array | float = 0.0, margin: float = 0.0) -> Array:
    """Σ p w c − v − |s|R − κ (Lemmas 4 and 5), rounded downwards."""
    size = np.abs(w)
    charge = charges + frame.tail[:, None] * over_arms(size, frame.weights)
    offset = over_arms(w, frame.weights * frame.guess) + margin - charge
    parts = over_arms(size, frame.weights * np.abs(frame.guess)) + abs(margin) + charge
    return np.asarray(offset - _relative(w) * parts)


def bet_growth(
    frame: Frame, w: Array, totals: Totals, stakes: Array, offset: Array, fall: Array
) -> Array:
    """What outcomes add to the log wealth, at least, after rounding too (Lemmas 2 and 3).

    Args:
        frame: what was fixed before the draw.
        w: w(a); (runs, contrasts, arms).
        totals: what came of it.
        stakes: λ with λC < 1; (runs, contrasts, stakes).
        offset: see `bet_offset`; (runs, contrasts).
        fall: C; (runs, contrasts).
    """
    size, squares, relative = np.abs(w), w * w, _relative(w)
    gain = over_arms(w, totals.first)  # Σ z
    gain -= over_arms(size, totals.rounding + relative * np.abs(totals.first))
    gain += totals.counts.sum(axis=1)[:, None] * offset
    # F and M, the farthest z did fall below zero and rise above it.
    deepest = _farthest(w, totals.under, totals.over)
    highest = _farthest(w, totals.over, totals.under)
    variation = over_arms(squares, totals.second) * (1 + relative)  # Σ z²
    skew = over_arms(squares * w, totals.third)  # Σ z³
    skew_error = over_arms(squares * size, totals.third_rounding + relative * np.abs(totals.third))
    cubic = ~np.isnan(skew) & ((deepest <= fall) | (frame.tail == 0)[:, None])  # no z below −C
    deepest = np.minimum(fall, deepest)  # F, the smaller of the two
    cubic &= deepest + highest > 0
    between = np.where(cubic, deepest + highest, 1.0)
    chord = (highest * variation - np.where(cubic, skew - skew_error, 0.0)) / between
    falling = np.where(cubic, np.minimum(chord * (1 + relative), variation), variation)
    growth = stakes * gain[..., None]
    growth -= log_loss(stakes, deepest, highest, falling, variation - falling)
    return np.asarray(growth)


def bet_losses(
    frame: Frame, w: Array, stakes: Array, offset: Array, lost: Array, *, capped: bool = False
) -> Array:
    """The least that pulls without an outcome add: the least factor of a reward in [lo, hi]."""
    growth = np.zeros_like(stakes)
    for arm in np.flatnonzero(lost.any(axis=0)):
        ends = (frame.low - frame.guess[:, arm], frame.high - frame.guess[:, arm])
        z = np.minimum(*(w[:, :, arm] * end[:, None] for end in ends))
        logs, gains = np.log1p(stakes * z[..., None]), stakes * offset[..., None]
        factor = logs + gains - _relative(w) * (np.abs(logs) + np.abs(gains))
        if capped:  # or of one that is passed over ("Losses")
            factor = np.minimum(factor, 0.0)
        growth += lost[:, arm, None, None] * factor
    return np.asarray(growth)


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets on contrasts.

    Attributes:
        frame: what they are made from.
        contrasts: one per row, of one run; or (runs, contrasts, rank).
        margin: what is added to each contrast.
    """

    frame: Frame
    contrasts: Array
    margin: float

    @property
    def w(self) -> Array:
        """w(a), one row per contrast, one column per arm."""
        w, _ = self.frame.weigh(self.contrasts[None], self.margin)
        return np.asarray(w[0])

    def settle(self, batch: BatchOutcome | RunsOutcome) -> BetResult:
        """Settle the bets on a batch drawn under the frame."""
        rows, one = self.contrasts, self.contrasts.ndim == 2
        found = self.frame.settle(
            rows[None] if one else rows,
            batch.totals,
            margin=self.margin,
            capped=batch.may_be_lost,
        )
        return BetResult(found.stakes[0], found.growth[0]) if one else found

    def log_growth(self, batch: BatchOutcome | RunsOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        return self.settle(batch).growth
