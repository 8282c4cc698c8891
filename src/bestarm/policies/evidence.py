"""Betting on contrasts from a batch's totals: the mathematics of the anytime rule.

Before a batch is drawn, fix the policy p, a guess c(a) of every arm's reward and, for a contrast y,
weights w(a) with Σ p_a w(a) = 0 and Σ p_a w(a) x_a = y. One pull then gives

    z = w(a) (r − c(a)),        E[z | past] = y·θ − Σ p_a w(a) c(a)

whatever the baseline, as long as it is fixed before the draw. If z ≥ −C and 0 ≤ λ < 1/C, then
Π (1 + λz) exp(λ Σ p w c) is a nonnegative supermartingale while y·θ ≤ 0. Totals do not give it, but
they bound it from below: for every F with z ≥ −F

    1 + λz ≥ exp(λz − ψz²),     ψ = (−log(1 − λF) − λF) / F²                  (Fan et al. 2015)

whose logarithm is linear in the batch's counts, sums and sums of squares. F need not be known
before the draw: it is C, or the farthest fall that the sums of squares leave possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bestarm.geometry import Array
from bestarm.records import Summary

__all__ = [
    "LOG_PRIOR",
    "STAKES",
    "Batch",
    "Bets",
    "Frame",
    "Sampling",
    "Scale",
    "Settled",
    "log_value",
]

# Stakes in units of signal to noise, y·θ over the deviation of z. A contrast at 0.02 takes some
# 20 000 pulls; it has the largest share, and shares fall off slowly on both sides, so that easier
# and harder ones cost little more and every gap is found at last.
STAKES: Array = 0.3 * 0.5 ** np.arange(14.0)
_SHARES = 1 / (1 + np.square(np.log10(STAKES / 0.02) / 0.6))
LOG_PRIOR: Array = np.log(_SHARES / _SHARES.sum())

_LARGEST = 0.9  # λC: what the farthest fall may take of a stake's wealth
_RARE = 2e-3  # over √pulls: how often noise may be farther out than C allows for
_ROUNDING = 64 * float(np.finfo(float).eps)


def log_value(log_wealth: Array) -> Array:
    """The log of e-values: the wealth of all stakes (columns), averaged by their shares."""
    from bestarm.policies.evidence_kernels import average  # noqa: PLC0415 - compiles

    values = np.empty(len(log_wealth))
    average(log_wealth, LOG_PRIOR, values)
    return values


@dataclass(frozen=True)
class Scale:
    """Where rewards lie: means between `low` and `high`, plus `noise`-sub-Gaussian noise.

    Bounded rewards are the case without noise.
    """

    low: float
    high: float
    noise: float = 0.0

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    def reach(self, pulls: int) -> tuple[float, float]:
        """How far outside the range C allows for, and what is charged for noise beyond that.

        With a reach of kα, E(η − kα)₊ ≤ ∫ exp(−t²/2α²) dt from kα on = α √(2π) Φ(−k).

        Args:
            pulls: pulls before the batch: with more of them, less can be afforded.
        """
        rare = _RARE / math.sqrt(pulls + 1)
        if not self.noise:
            return 0.0, 0.0
        return -self.noise * float(ndtri(rare)), self.noise * math.sqrt(2 * math.pi) * rare


class Sampling:
    """How arms are drawn, and how contrasts are read off a pull; kept from batch to batch.

    Attributes:
        probabilities: the policy p over all source arms.
        arms: the source arms that can be drawn.
        weights: their probabilities.
        centered: their coordinates, less the mean under the policy.
        covariance: Σ_cov,p in these coordinates.
        readout: w(a) of a contrast y (a row) is y @ readout.

    Args:
        coordinates: all source arms, in coordinates of the affine span.
        probabilities: p.
        spread: the expected (r − c(a))² for all of them, up to a common factor.
    """

    def __init__(self, coordinates: Array, probabilities: Array, spread: Array) -> None:
        self.probabilities = probabilities
        self.arms = np.flatnonzero(probabilities)
        self.weights = probabilities[self.arms]
        coordinates = coordinates[self.arms]
        self.centered = coordinates - self.weights @ coordinates
        self.covariance = self.centered.T @ (self.weights[:, None] * self.centered)
        # Of all weights that read y off a pull, these have the least variance:
        # with M = Σ p φφᵀ/s² on φ = (1, x), w(a) = φ_aᵀ M⁻¹ (0, y) / s_a².
        precision = 1 / spread[self.arms]
        mass = self.weights * precision
        center = mass @ self.centered / mass.sum()
        shifted = self.centered - center
        moment = shifted.T @ (mass[:, None] * shifted)
        self.readout = np.linalg.solve(moment, (precision[:, None] * shifted).T)


class Frame:
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it.

    Attributes:
        sampling: how arms are drawn.
        guess: c(a) of each arm that can be drawn.
        scale: where rewards lie.
        spread: p times the expected (r − c)² of each.
        below: how far a reward of each may fall below its guess, short of what is charged for.
        above: how far it may exceed it.
        likely: √Σ(r − c)² of each, as foreseen.
        tail: what is charged for noise beyond that, in units of Σ p|w|.

    Args:
        sampling: how arms are drawn.
        guess: c(a) for all source arms, inside the range of the scale.
        spread: the expected (r − c(a))² for all of them.
        scale: where rewards lie.
        size: the number of pulls in the batch, as foreseen.
        pulls: the number of pulls before it.
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
    ) -> None:
        self.sampling, self.scale = sampling, scale
        self.guess = guess[sampling.arms]
        self.spread = sampling.weights * spread[sampling.arms]
        self.likely = np.sqrt(size * self.spread)
        reach, self.tail = scale.reach(pulls)
        self.below = self.guess - (scale.low - reach)
        self.above = (scale.high + reach) - self.guess

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> Bets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        return Bets(self, contrasts @ self.sampling.readout, margin)


class Settled(NamedTuple):
    """What came of bets: one row a contrast, one column a stake.

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
        w: w(a), one row a contrast, one column an arm of the frame.
        margin: what is added to each contrast.
    """

    frame: Frame
    w: Array
    margin: float

    def settle(self, batch: Batch) -> Settled:
        """What a batch drawn under the frame makes of them."""
        from bestarm.policies.evidence_kernels import settle  # noqa: PLC0415 - compiles

        frame = self.frame
        # What cancels to less than the rounding of its parts is not known to be smaller than that.
        parts = batch.squares + np.square(frame.guess) * batch.counts
        result = Settled(*np.empty((2, len(self.w), len(STAKES))))
        settle(
            self.w,
            frame.sampling.weights,
            frame.guess,
            frame.spread,
            frame.below,
            frame.above,
            frame.likely,
            batch.first,
            batch.second + _ROUNDING * parts,
            _ROUNDING * np.sqrt(batch.counts * parts),
            batch.counts,
            batch.lost,
            frame.scale.low,
            frame.scale.high,
            self.margin,
            frame.tail,
            STAKES,
            _LARGEST,
            *result,
        )
        return result

    def log_growth(self, batch: Batch) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        return self.settle(batch).growth


class Batch:
    """The outcome of pulls that were drawn under a frame.

    Attributes:
        frame: what was fixed before.
        summary: what came of it.
        counts: pulls with an outcome, of each arm that can be drawn, as are the others.
        squares: Σ r².
        first: Σ (r − c).
        second: Σ (r − c)².
        lost: pulls without an outcome that enter at the reward that hurts a bet most.

    Args:
        frame: what was fixed before.
        summary: what came of it.
        worst_case: whether pulls without an outcome enter. If not, they are passed over.
    """

    def __init__(self, frame: Frame, summary: Summary, worst_case: bool = False) -> None:
        self.frame, self.summary = frame, summary
        arms, c = frame.sampling.arms, frame.guess
        self.counts: Array = summary.counts[arms].astype(float)
        self.squares, sums = summary.squares[arms], summary.sums[arms]
        shift = c * self.counts
        self.first = sums - shift
        self.second = self.squares - c * (2 * sums - shift)
        self.lost: Array = summary.missing[arms].astype(float) * worst_case

    @property
    def pulls(self) -> int:
        """The number of pulls that enter."""
        return int(self.counts.sum() + self.lost.sum())
