"""Betting on contrasts from a batch's totals: the mathematics of the anytime rule.

Before a batch is drawn, fix the policy p, a guess c(a) of every arm's reward and, for a contrast y,
weights w(a) with Σ p_a w(a) = 0 and Σ p_a w(a) x_a = y. One pull then gives

    z = w(a) (r − c(a)),        E[z | past] = y·θ − Σ p_a w(a) c(a)

whatever the baseline, as long as it is fixed before the draw. If z ≥ −C, then for 0 ≤ λ < 1/C

    exp(λz − ψz²) ≤ 1 + λz,     ψ = (−log(1 − λC) − λC) / C²                  (Fan et al. 2015)

so that Π exp(λ(z + Σ p w c) − ψz²) is a nonnegative supermartingale while y·θ ≤ 0. Its logarithm
is linear in the batch's counts, sums and sums of squares: totals are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bestarm.geometry import Array
from bestarm.records import Summary

__all__ = ["LOG_PRIOR", "STAKES", "Batch", "Bets", "Frame", "Scale", "log_value"]

# Stakes in units of signal to noise, y·θ over the deviation of z. A contrast at 0.02 takes some
# 20 000 pulls; it has the largest share, and shares fall off slowly on both sides, so that easier
# and harder ones cost little more and every gap is found at last.
STAKES: Array = 0.3 * 0.5 ** np.arange(14.0)
_SHARES = 1 / (1 + np.square(np.log10(STAKES / 0.02) / 0.6))
LOG_PRIOR: Array = np.log(_SHARES / _SHARES.sum())

_LARGEST = 0.5  # λC; beyond it ψ grows faster than the stake is worth
_RARE = 2e-3  # over √pulls: how often noise may be farther out than C allows for
_ROUNDING = 64 * float(np.finfo(float).eps)


def log_value(log_wealth: Array) -> Array:
    """The log of e-values: the wealth of all stakes (last axis), averaged by their shares."""
    exponents = log_wealth + LOG_PRIOR
    top = exponents.max(axis=-1)
    return np.asarray(top + np.log(np.exp(exponents - top[..., None]).sum(axis=-1)))


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


class Frame:
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it.

    Attributes:
        arms: the source arms that can be drawn.
        weights: their probabilities.
        guess: c(a) of each.
        centered: their coordinates, less the mean under the policy.
        covariance: Σ_cov,p in these coordinates.

    Args:
        coordinates: all source arms, in coordinates of the affine span.
        weights: the policy p.
        guess: c(a) for all of them, inside the range of the scale.
        spread: the expected (r − c(a))² for all of them.
        scale: where rewards lie.
        pulls: the number of pulls before the batch.
    """

    def __init__(
        self,
        coordinates: Array,
        weights: Array,
        *,
        guess: Array,
        spread: Array,
        scale: Scale,
        pulls: int,
    ) -> None:
        self.arms = np.flatnonzero(weights)
        self.weights = weights[self.arms]
        self.guess = guess[self.arms]
        self.scale = scale
        coordinates = coordinates[self.arms]
        self.centered = coordinates - self.weights @ coordinates
        self.covariance = self.centered.T @ (self.weights[:, None] * self.centered)
        self._spread = self.weights * spread[self.arms]
        # Of all weights that read y off a pull, w = C y has the least variance:
        # with M = Σ p φφᵀ/s² on φ = (1, x), w(a) = φ_aᵀ M⁻¹ (0, y) / s_a².
        precision = 1 / spread[self.arms]
        mass = self.weights * precision
        center = mass @ self.centered / mass.sum()
        shifted = self.centered - center
        moment = shifted.T @ (mass[:, None] * shifted)
        self._readout = np.linalg.solve(moment, (precision[:, None] * shifted).T)
        reach, self._tail = scale.reach(pulls)
        self._below = self.guess - scale.low + reach
        self._above = scale.high - self.guess + reach

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> Bets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        w = contrasts @ self._readout
        expected = w @ (self.weights * self.guess)
        charge = self._tail * (np.abs(w) @ self.weights) if self._tail else 0.0
        # C: the farthest that z can fall below zero, short of what is charged for.
        fall = np.maximum(w * self._below, -w * self._above).max(axis=1, keepdims=True)
        deviation = np.sqrt(np.square(w) @ self._spread)[:, None]
        x = np.minimum(STAKES * (fall / deviation), _LARGEST)  # λC
        series = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
        cost = np.where(x < 1e-3, series, -np.log1p(-x) - x)
        return Bets(self, w, expected + margin - charge, x / fall, cost / np.square(fall))

    def totals(self, summary: Summary) -> tuple[Array, Array, Array]:
        """Counts, Σ(r − c) and Σ(r − c)² for each of `arms`."""
        counts = summary.counts[self.arms].astype(float)
        sums, c = summary.sums[self.arms], self.guess
        return counts, sums - c * counts, summary.squares[self.arms] - c * (2 * sums - c * counts)


@dataclass(frozen=True, eq=False)
class Bets:
    """Stakes on contrasts, fixed before the batch: one row a contrast, one column a stake.

    Attributes:
        frame: what they were made from.
        w: w(a) for each contrast and each of the frame's arms.
        offset: what is added to z, so that its mean is at most zero under the hypothesis.
        stakes: λ.
        costs: ψ.
    """

    frame: Frame
    w: Array
    offset: Array
    stakes: Array
    costs: Array

    def log_growth(self, batch: Batch) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        summary = batch.summary
        counts, first, second = self.frame.totals(summary)
        # What cancels to less than the rounding of its parts is not known to be smaller than that.
        parts = summary.squares[self.frame.arms] + np.square(self.frame.guess) * counts
        variation = np.square(self.w) @ (second + _ROUNDING * parts)
        gain = self.w @ first + counts.sum() * self.offset
        gain -= _ROUNDING * (np.abs(self.w) @ np.sqrt(counts * parts))
        growth = self.stakes * gain[:, None] - self.costs * variation[:, None]
        if batch.worst_case:
            lost = summary.missing[self.frame.arms]
            for arm in np.flatnonzero(lost):
                growth += lost[arm] * self._worst(int(arm))
        return np.asarray(growth)

    def _worst(self, arm: int) -> Array:
        """The least log growth that one pull of an arm can bring: at one of the reward's bounds."""
        scale, c = self.frame.scale, self.frame.guess[arm]
        ends = [
            self.stakes * z[:, None] - self.costs * np.square(z)[:, None]
            for z in (self.w[:, arm] * (end - c) for end in (scale.low, scale.high))
        ]
        return np.asarray(np.minimum(*ends) + self.stakes * self.offset[:, None])


@dataclass(frozen=True, eq=False)
class Batch:
    """The outcome of pulls that were drawn under a frame.

    Attributes:
        frame: what was fixed before.
        summary: what came of it.
        worst_case: whether pulls without an outcome enter at the reward that hurts a bet most. If
            not, they are passed over.
    """

    frame: Frame
    summary: Summary
    worst_case: bool = False

    @property
    def pulls(self) -> int:
        """The number of pulls that enter."""
        lost = int(self.summary.missing.sum()) if self.worst_case else 0
        return self.summary.pulls + lost
