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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bestarm.checks import positive
from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.readout import (
    Indices,
    Parts,
    Sampling,
    level_weights,
    tilted_weights,
    total,
)
from bestarm.records import Summary

# Stakes of bets on contrasts between targets are in units of noise times the contrast's size, so
# that they stay with a gap while designs improve; those of all other bets are in units of signal
# to noise, y·θ over the deviation of z. Within a factor of three or four of the likely one shares
# hardly fall off, and beyond it as a power, so every gap is found.
EFFECTS: Array = 1.7 * 0.5 ** np.arange(15.0)
STAKES: Array = 0.3 * 0.5 ** np.arange(14.0)
LIKELY_EFFECT, LIKELY_BOUNDED_EFFECT = 0.15, 0.065  # the latter where rewards are bounded
_LEAST_UNIT = 0.08  # signal to noise of an effect of 1, however near features say two targets are


def log_shares(stakes: Array, likely: float, width: float) -> Array:
    """The logs of shares that fall off where stakes are far from the likely one.

    Args:
        stakes: the stakes.
        likely: the stake to centre on.
        width: how far from it, in powers of ten, shares are down by half.
    """
    shares = 1 / (1 + np.abs(np.log10(stakes / likely) / width) ** 4)
    # They add up to 1 at most, rounded too.
    return np.asarray(np.log(shares / shares.sum()) - 1e-13)


LOG_PRIOR: Array = log_shares(STAKES, 0.04, 0.6)


def log_effect_shares(likely: float) -> Array:
    """The logs of the shares of `EFFECTS`."""
    return log_shares(EFFECTS, likely, 0.5)


_EXPECTED: Array = np.array([2**-0.5, 1.0, 2**0.5])  # stakes for an expected gap, relative to it

MAX_LOSS = 0.9  # λC: the share of its wealth that a stake may lose in one pull
TAIL_RATE = 2e-3  # over √pulls: Φ(−k), how often noise exceeds what C allows for (Lemma 3)
EPSILON = float(np.finfo(float).eps)
SLACK = 1e-9  # nats: what adding up the logs of many batches may round
ROUNDINGS = 16  # roundings of a total besides those of adding it up


@tiered
def log_average(log_wealth: Array, log_shares: Array) -> float:
    """log Σ exp(log wealth + log share), an average of stakes (Lemma 4)."""
    top = -math.inf
    for s in range(len(log_shares)):
        top = max(top, log_wealth[s] + log_shares[s])
    total = 0.0
    for s in range(len(log_shares)):
        total += math.exp(log_wealth[s] + log_shares[s] - top)
    return top + math.log(total)


@tiered
def _log_averages(log_wealth: Array, log_shares: Array, values: Array) -> None:
    """The log of the e-value of each row; output."""
    for i in range(len(log_wealth)):
        values[i] = log_average(log_wealth[i], log_shares)


@dataclass(frozen=True, eq=False)
class StakeGrid:
    """The stakes of a bet and their shares, fixed before the first draw.

    Attributes:
        signals: stakes in units of signal to noise; for contrasts that have a size, in units of
            noise times that.
        gaps: stakes for contrasts of these values, in reward units.
        log_shares: the logs of their shares, those of `signals` first. They add up to 1 at most.
    """

    signals: Array
    gaps: Array
    log_shares: Array

    @classmethod
    def make(
        cls, expected_gap: float | None = None, *, likely_effect: float | None = None
    ) -> StakeGrid:
        """Wide stakes.

        Args:
            expected_gap: half of all shares are around it.
            likely_effect: if contrasts have sizes, where stakes are centred.
        """
        stakes, prior = STAKES, LOG_PRIOR
        if likely_effect is not None:
            stakes, prior = EFFECTS, log_effect_shares(likely_effect)
        if expected_gap is None:
            return cls(stakes, np.zeros(0), prior)
        gap, half = positive(expected_gap, "expected_gap"), math.log(0.5)
        near = np.full(len(_EXPECTED), half - math.log(len(_EXPECTED)))
        return cls(stakes, gap * _EXPECTED, np.concatenate([prior + half, near]))

    def __len__(self) -> int:
        return len(self.log_shares)

    def log_value(self, log_wealth: Array) -> Array:
        """The log of e-values: the wealth of all stakes (columns), averaged by their shares."""
        values = np.empty(len(log_wealth))
        _log_averages(log_wealth, self.log_shares, values)
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

    def minus_forecasts(self, forecasts: tuple[float, float] | None) -> Scale:
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
        rare = TAIL_RATE / math.sqrt(pulls + 1)
        if not self.noise:
            return 0.0, 0.0
        return -self.noise * float(ndtri(rare)), self.noise * math.sqrt(2 * math.pi) * rare


# --- what is fixed before a batch ----------------------------------------------------------------


class ArmTerms(NamedTuple):
    """Quantities per arm that can be drawn, fixed before a batch, for the kernel.

    Attributes:
        weights: p.
        guess: c(a).
        spread: p times the expected (r − c)².
        below: how far a reward may fall below its guess, short of what is charged for.
        above: how far it may exceed it.
        likely: how far a reward will fall below or exceed its guess, as predicted.
    """

    weights: Array
    guess: Array
    spread: Array
    below: Array
    above: Array
    likely: Array


@tiered
def arm_terms(drawn: Parts, guesses: Array, spread: Array, range_: Parts, size: float) -> Parts:
    """The parts of `ArmTerms` but for the first.

    Args:
        drawn: the arms that can be drawn, and their probabilities.
        guesses: c(a) for all source arms.
        spread: the expected (r − c(a))² for all of them.
        range_: where means lie, and how far beyond noise may reach.
        size: the number of pulls in the batch, as predicted.
    """
    arms, weights = drawn
    low, high, reach = range_
    count = len(arms)
    guess, varied, likely = np.empty(count), np.empty(count), np.empty(count)
    below, above = np.empty(count), np.empty(count)
    for i in range(count):
        a = arms[i]
        guess[i] = guesses[a]
        varied[i] = weights[i] * spread[a]
        expected = size * weights[i]
        likely[i] = math.sqrt(spread[a] * (min(2 * math.log1p(expected), expected) + 1))
        below[i] = guess[i] - (low - reach)
        above[i] = (high + reach) - guess[i]
    return guess, varied, below, above, likely


@tiered
def contrast_sizes(contrasts: Array, metric: Array) -> Array:
    """√(yᵀQy) of each contrast y (row), Q being the metric."""
    sizes = np.zeros(len(contrasts))
    for y in range(len(contrasts)):
        square = 0.0
        for i in range(contrasts.shape[1]):
            for j in range(contrasts.shape[1]):
                square += contrasts[y, i] * metric[i, j] * contrasts[y, j]
        sizes[y] = math.sqrt(max(square, 0.0))
    return sizes


ANY_BASELINE: Parts = (np.empty(0), 0.0, math.inf, np.empty((0, 0)))


class Frame:
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it.

    Attributes:
        expected: c(a) of all source arms.
        tail: what is charged for noise beyond what may be, in units of Σ p|w|.

    Args:
        sampling: how arms are drawn.
        guess: c(a) for all source arms, inside the range of the scale.
        spread: the expected (r − c(a))² for all of them.
        scale: where rewards lie.
        size: the number of pulls in the batch, as predicted.
        pulls: the number of pulls before it.
        grid: the stakes; the wide ones by default.
        leaders: the targets that look best and second best.
        belief: of `tilted_weights`: what the sums of weights are chosen by.
        metric: what contrasts are measured by, for stakes; None if they have no size.
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
        belief: Parts = ANY_BASELINE,
        metric: Array | None = None,
    ) -> None:
        self.sampling, self.scale, self.leaders = sampling, scale, leaders
        self.belief, self.metric = belief, metric
        self.grid = grid or StakeGrid.make()
        self.expected, self.size, self._pulls = guess, size, pulls
        reach, self.tail = scale.reach(pulls)
        self._made_from = guess, spread.copy(), (scale.low, scale.high, reach), size

    @cached_property
    def terms(self) -> ArmTerms:
        """The quantities per arm; computed when the batch is in: plans do not need them."""
        drawn = self.sampling.arms, self.sampling.weights
        return ArmTerms(self.sampling.weights, *arm_terms(drawn, *self._made_from))

    @property
    def guess(self) -> Array:
        """c(a) of each arm that can be drawn."""
        return self.terms.guess

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
            belief=self.belief,
            metric=self.metric,
        )

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> Bets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return Bets(self, contrasts, margin)

    def level_bets(self) -> Bets:
        """Bets that the baseline exceeds R, and that it is below −R."""
        return Bets(self, None, 0.0)


# --- what came of it -----------------------------------------------------------------------------


class ArmTotals(NamedTuple):
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


@tiered
def batch_totals(
    arms: Indices,
    guess: Array,
    shift: float,
    lost: Indices,
    sums: Parts,
    extremes: Parts,
    known: bool,
    totals: Parts,
) -> None:
    """Totals of r − c from totals of rewards, rounded so that evidence is a lower bound.

    Args:
        arms: those that can be drawn.
        guess: c(a) of each.
        shift: what was subtracted from every reward, beyond what was subtracted from guesses.
        lost: pulls without an outcome, of all arms.
        sums: counts, Σx and Σx² of rewards less a center, of all arms.
        extremes: the least and the largest x, and Σx³, of all arms.
        known: whether these are known.
        totals: the parts of `ArmTotals`, output.
    """
    counts, first, second = sums
    least, largest, cubes = extremes
    for i in range(len(arms)):
        a = arms[i]
        n, g, squares = float(counts[a]), guess[i] - shift, second[a]
        parts = squares + g * g * n  # q of `BatchOutcome`
        relative = (n + ROUNDINGS) * EPSILON
        slack = ROUNDINGS * EPSILON * (abs(g) + math.sqrt(squares))
        totals[0][i] = first[a] - g * n
        totals[1][i] = squares - g * (2 * first[a] - g * n) + relative * parts
        totals[2][i] = relative * math.sqrt(n * parts)
        if known:
            totals[3][i] = max(g - least[a] + slack, 0.0) if n > 0 else 0.0
            totals[4][i] = max(largest[a] - g + slack, 0.0) if n > 0 else 0.0
        else:
            totals[3][i] = totals[4][i] = math.sqrt(max(totals[1][i], 0.0))
        totals[5][i] = n
        totals[6][i] = float(lost[a])
        totals[7][i] = math.nan
        totals[8][i] = 0.0
        if known:
            # Σ(x − g)³; the sizes of its terms add up to 4 (max|x| + |g|) q at most.
            farthest = max(abs(least[a]), abs(largest[a])) + abs(g)
            totals[7][i] = cubes[a] - g * (3 * second[a] - g * (3 * first[a] - g * n))
            totals[8][i] = 8 * relative * farthest * parts


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
        self.frame, self.summary = frame, summary
        lost = summary.pending + (summary.missing if worst_case else 0)
        self.totals = ArmTotals(*np.empty((9, len(frame.guess))))
        shift = summary.center - frame.scale.center
        arms, totals = frame.sampling.arms, tuple(self.totals)
        batch_totals(arms, frame.guess, shift, lost, *summary.totals, totals)
        self.pending = summary.pending_pulls > 0
        self.may_be_lost = not worst_case

    @property
    def pulls(self) -> int:
        """The number of pulls that enter."""
        return int(self.totals.counts.sum() + self.totals.lost.sum())

    @property
    def exposure(self) -> float:
        """See `evidence.AnyBatch.exposure`: every pull has the margin once."""
        return self.pulls - self.capped_exposure

    @property
    def capped_exposure(self) -> float:
        """See `evidence.AnyBatch.capped_exposure`."""
        return self.summary.pending_pulls if self.may_be_lost else 0


# --- Lemmas 2 to 4: what a bet gains from a batch ------------------------------------------------


@tiered
def _cost(x: float) -> float:
    """(x − log(1 + x)) / x² for x > −1, by its series where that cancels (Lemma 2)."""
    if abs(x) < 1e-3:
        return 1 / 2 - x * (1 / 3 - x * (1 / 4 - x / 5)) + 1e-12
    return (x - math.log1p(x)) / (x * x) * (1 + 1e-9)  # more than cancellation loses


@tiered
def _log_loss(stake: float, fall: float, rise: float, squares: tuple[float, float]) -> float:
    """What Lemma 2 takes off λΣz, at most: `squares` are Σ z²(M − z) and Σ z²(z + F) over F + M."""
    falling, rising = squares
    return stake * stake * (_cost(-stake * fall) * falling + _cost(stake * rise) * rising)


@tiered
def _signal_unit(effect: float, charge: float) -> tuple[float, float]:
    """The signal of an effect of 1, and what the charge takes off; 1 and 0 without a size."""
    if effect == 0:
        return 1.0, 0.0
    return max(effect, _LEAST_UNIT), charge


@tiered
def _stake(signal: float, deviation: float, fall: float, farthest: float) -> float:
    """λ = S/D / (1 + min(Sf/D, (Sm/D)²)): nearly the best one ("Stakes")."""
    third_order = signal * min(fall, farthest) / deviation
    ratio = signal * farthest / deviation
    return signal / deviation / (1 + min(third_order, ratio * ratio))


@tiered
def settle_bets(
    w: Array,
    charges: Array,
    sizes: Array,
    fixed: Parts,
    totals: Parts,
    terms: Parts,
    grid: Parts,
    stakes: Array,
    growth: Array,
) -> None:
    """λ of every contrast (row of `w`) and stake, and the growth of its log wealth (Lemma 4).

    Args:
        w: w(a), one row per contrast, one column per arm.
        charges: what a small baseline may add to each contrast (Lemma 5).
        sizes: of each contrast; 0 where stakes are in units of signal to noise.
        fixed: the parts of `ArmTerms`: fixed before the draw, per arm.
        totals: the parts of `ArmTotals`: the outcome, per arm.
        terms: the least and the largest reward there can be; the margin that is added to each
            contrast; the charge for noise, in units of Σ p|w|; how far off sums over arms may be,
            relative to the sum of their terms' sizes; the most that λC may be; and the most that a
            pull without an outcome adds to the log wealth.
        grid: the signals and the gaps of a `StakeGrid`.
        stakes: λ, output.
        growth: the growth of the log wealth, output.
    """
    weights, guess, spread, below, above, likely = fixed
    first, second, rounding, under, over, counts, lost, third, third_rounding = totals
    low, high, margin, tail, relative, largest, ceiling = terms
    signals, gaps = grid
    pulls, missing, noise = total(counts), total(lost), math.sqrt(total(spread))
    for i in range(len(w)):
        fall = predicted = deepest = highest = variance = expected = 0.0
        size = gain = slack = variation = guessed = skew = skew_error = 0.0
        for a in range(w.shape[1]):
            x = w[i, a]
            square = x * x
            # C, the farthest that z can fall below zero (Lemma 2; with kα, Lemma 3).
            fall = max(fall, x * below[a], -x * above[a])
            # F and M, the farthest that z did fall below zero and rise above it (after Lemma 2).
            deepest = max(deepest, x * under[a], -x * over[a])
            highest = max(highest, x * over[a], -x * under[a])
            predicted = max(predicted, abs(x) * likely[a])
            variance += square * spread[a]
            expected += x * weights[a] * guess[a]  # Σ p_a w(a) c(a) (Lemma 1)
            guessed += abs(x) * weights[a] * abs(guess[a])
            size += abs(x) * weights[a]  # Σ p_a |w(a)|, for κ (Lemma 3)
            gain += x * first[a]  # Σ z
            slack += abs(x) * (rounding[a] + relative * abs(first[a]))
            variation += square * second[a]  # Σ z²
            skew += square * x * third[a]  # Σ z³
            skew_error += square * abs(x) * (third_rounding[a] + relative * abs(third[a]))
        # Rounded downwards: evidence is a lower bound after rounding too ("Rounding").
        charge = charges[i] + tail * size
        offset = expected + margin - charge  # Σ p w c + ε − |s|R − κ (Lemmas 4 and 5)
        offset -= relative * (guessed + margin + charge)
        gain += pulls * offset - slack
        variation *= 1 + relative
        deviation = math.sqrt(variance)
        cubic = not math.isnan(skew) and (deepest <= fall or tail == 0)  # no z below −C
        deepest = min(fall, deepest)  # F, the smaller of the two
        falling = variation  # Σ z² (M − z) / (F + M), rounded upwards; if not known, all of Σ z²
        if cubic and deepest + highest > 0:
            falling = (highest * variation - skew + skew_error) / (deepest + highest)
            falling = min(falling * (1 + relative), variation)
        squares = falling, variation - falling
        unit, less = _signal_unit(sizes[i] * noise / deviation, charges[i] / deviation)
        for s in range(stakes.shape[1]):
            if s < len(signals):
                signal = max(signals[s] * unit - less, signals[s] * unit / 2)
            else:
                signal = (gaps[s - len(signals)] + margin) / deviation
            stake = min(_stake(signal, deviation, fall, predicted), largest / fall)  # λC ≤ 0.9
            stakes[i, s] = stake
            # λ (Σz + n(Σ p w c + ε − κ)) less what Lemma 2 takes off (Lemma 4).
            growth[i, s] = stake * gain - _log_loss(stake, deepest, highest, squares)
            if missing > 0:
                pending = 0.0
                for a in range(w.shape[1]):
                    # The least factor of an outcome in [lo, hi], or of one passed over ("Losses").
                    z = min(w[i, a] * (low - guess[a]), w[i, a] * (high - guess[a]))
                    loss, more = math.log1p(stake * z), stake * offset
                    pending += lost[a] * min(
                        loss + more - relative * (abs(loss) + abs(more)), ceiling
                    )
                growth[i, s] += pending


class BetResult(NamedTuple):
    """λ, and by how much the log wealth grew: one row per contrast, one column per stake."""

    stakes: Array
    growth: Array


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets on contrasts. λ and C follow from the frame, so they are fixed with it.

    Attributes:
        frame: what they are made from.
        contrasts: one per row; None for the bets against |ν| ≤ R.
        margin: what is added to each contrast.
    """

    frame: Frame
    contrasts: Array | None
    margin: float

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """w(a) and charges; computed when the batch is in: plans do not need them."""
        readout, belief = self.frame.sampling.readout, self.frame.belief
        if self.contrasts is None:
            return level_weights(readout, belief[2])
        varied = self.frame.terms.spread
        return tilted_weights(self.contrasts, self.margin, readout, varied, belief)

    @property
    def _sizes(self) -> Array:
        """Of the contrasts, for stakes."""
        if self.contrasts is None or self.frame.metric is None:
            return np.zeros(len(self.w))
        return contrast_sizes(np.ascontiguousarray(self.contrasts), self.frame.metric)

    @property
    def w(self) -> Array:
        """w(a), one row per contrast, one column per arm of the frame."""
        return self._weights[0]

    def settle(self, batch: BatchOutcome) -> BetResult:
        """Settle the bets on a batch drawn under the frame."""
        frame, scale = self.frame, self.frame.scale
        relative = (len(frame.guess) + ROUNDINGS) * EPSILON
        ceiling = 0.0 if batch.may_be_lost else math.inf
        terms = scale.low, scale.high, self.margin, frame.tail, relative, MAX_LOSS, ceiling
        result = BetResult(*np.empty((2, len(self.w), len(frame.grid))))
        grid = frame.grid.signals, frame.grid.gaps
        fixed, totals = tuple(frame.terms), tuple(batch.totals)
        settle_bets(*self._weights, self._sizes, fixed, totals, terms, grid, *result)
        return result

    def log_growth(self, batch: BatchOutcome) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        return self.settle(batch).growth
