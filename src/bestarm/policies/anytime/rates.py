"""What each option pays on average, with intervals that are valid at every moment at once.

Before the arm of a round is drawn, let μ_k be what option k would pay in it, noise apart. One round
estimates it without bias: with weights w(a), Σ p_a w(a) = 1 and Σ p_a w(a) x_a = x_k,

    E[ w(a) (r − c(a)) | past ] + Σ p_a w(a) c(a) = x_k·θ + ν = μ_k

Every target is an arm here, so that μ_k lies where rewards do. For options that are plain names
w(a) is 1/p_k for a = k and 0 otherwise: nothing is assumed of how μ_k moves, or that all options
move alike. Stakes λ are the same in all rounds: then

    Π (1 + λz) exp(−λ(μ_k − Σ p_a w(a) c(a)))          (Lemma 4, with −μ_k for ε)

is a supermartingale whose exponent holds the plain average of μ_k over the rounds, which is what
the interval is about. A stake ends, and counts as nothing, before a batch that could ruin it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.bounds import rates_delta
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.batches import AnyBatch
from bestarm.policies.anytime.bets import (
    EPSILON,
    LARGEST,
    STEPS,
    BatchOutcome,
    Frame,
    Scale,
    StakeGrid,
    folded,
)
from bestarm.policies.anytime.intervals import inverted
from bestarm.policies.policy import Rates
from bestarm.problem import Problem

# Stakes relative to the width of the range: pulls from a few to 10¹², variances 10⁶ apart.
_STAKES: Array = 0.5 ** np.arange(26.0)
_RUINED = -1e300  # the log wealth of a stake that has ended


def are_arms(problem: Problem) -> bool:
    """Whether every target is an arm: what others pay need not lie within the bounds of rewards."""
    arms = {row.tobytes() for row in problem.source + 0.0}  # −0.0 is 0.0
    return all(row.tobytes() in arms for row in problem.target + 0.0)


def complete(past: Sequence[AnyBatch]) -> Sequence[AnyBatch]:
    """The batches that averages are about: those whose outcomes are in, or all before there are."""
    return past[: folded(past)] or past


def mean_level(past: Sequence[AnyBatch], arms: Array, slope: Array) -> float:
    """The estimated reward at the origin of the coordinates, averaged over all outcomes so far."""
    total = sum(float(each.summary.rewards.sum()) + each.summary.forecast_sum for each in past)
    counts = np.sum([each.summary.counts for each in past], axis=0)
    pulls = float(counts.sum())
    return total / pulls - float((counts @ arms / pulls) @ slope) if pulls else math.nan


def average_rates(
    problem: Problem,
    past: Sequence[BatchOutcome],
    *,
    arms: Array,
    targets: Array,
    slope: Array,
    scale: Scale,
) -> Rates:
    """What each target would have paid on average, had it been pulled in every round.

    Args:
        problem: the problem.
        past: the batches so far.
        arms: the source arms, in coordinates of their span.
        targets: the targets, in the same coordinates, not shifted.
        slope: θ̂.
        scale: where rewards lie.
    """
    done = past[: len(complete(past))]
    ends = _lower_ends(done, problem, arms, targets, scale)
    lowest, highest = scale.low + scale.center, scale.high + scale.center
    low = np.clip(ends[: len(targets)], lowest, highest)
    high = np.maximum(np.clip(-ends[len(targets) :], lowest, highest), low)
    level = mean_level(done, arms, slope)
    estimate = np.clip(level + targets @ slope, low, high)
    rounds = sum(each.summary.pulls for each in done)
    return Rates(estimate, low, high, rounds, problem.delta)


def _weights(frame: Frame, arms: Array, targets: Array, *, drifts: bool) -> Array:
    """w(a), one row per target, one column per arm that can be drawn."""
    sampling = frame.sampling
    if not drifts:
        return np.asarray(targets @ sampling.readout)
    mean = sampling.weights @ arms[sampling.arms]
    return np.asarray(1.0 + (targets - mean) @ sampling.readout)


def _lower_ends(
    past: Sequence[BatchOutcome], problem: Problem, arms: Array, targets: Array, scale: Scale
) -> Array:
    """Lower ends for the average of each target, then for the negative of each."""
    level = -math.log(rates_delta(problem.delta, targets=problem.targets))
    stakes = _STAKES / (scale.high - scale.low + scale.noise)
    grid = StakeGrid(stakes, np.zeros(0), np.full(len(stakes), -math.log(len(stakes)) - 1e-12))
    count = 2 * len(targets)
    wealth, exposure = np.zeros((2, count, len(stakes)))
    for batch in past:
        w = _weights(batch.frame, arms, targets, drifts=problem.drifts)
        wealth += _growth(np.concatenate([w, -w]), batch, stakes)
        wealth += stakes * _known(batch, len(targets))[:, None]
        exposure += batch.summary.pulls * stakes
    if not exposure.any():
        return np.full(count, -np.inf)
    return inverted(np.maximum(wealth, _RUINED), exposure, np.zeros_like(exposure), level, grid)


def _known(batch: BatchOutcome, targets: int) -> Array:
    """What was subtracted from rewards, at least; then its negative, at least."""
    known = batch.summary.forecast_sum + batch.frame.scale.center * batch.summary.pulls
    ends = np.array([known, -known])
    return np.repeat(ends - EPSILON * STEPS * np.abs(ends), targets)


def _growth(w: Array, batch: BatchOutcome, stakes: Array) -> Array:
    """By how much the log wealth of every row and stake grows: see `kernels.settle`."""
    totals, prior, scale = batch.totals, batch.frame.prior, batch.frame.scale
    size = np.abs(w)
    relative = (w.shape[1] + STEPS) * EPSILON
    fall = np.maximum(w * prior.below, -w * prior.above).max(axis=1)  # C
    deepest = np.maximum(w * totals.under, -w * totals.over).max(axis=1)  # F
    gain = w @ totals.first - size @ (totals.rounding + relative * np.abs(totals.first))
    variation = (w * w) @ totals.second * (1 + relative)
    charge = batch.frame.tail * (size @ prior.weights)  # κ
    guessed = size @ (prior.weights * np.abs(prior.guess))
    offset = w @ (prior.weights * prior.guess) - charge - relative * (guessed + charge)
    gain += totals.counts.sum() * offset
    reach = stakes * np.minimum(fall, deepest)[:, None]
    alive = stakes * fall[:, None] <= LARGEST
    # ψ(F)/λ² (Lemma 2); near 0, where it would cancel, a little more than it is.
    safe = np.where(alive, np.maximum(reach, 1e-3), 0.5)
    cost = (-np.log1p(-safe) - safe) / (safe * safe) * (1 + 1e-9)
    growth = stakes * gain[:, None] - stakes * stakes * cost * variation[:, None]
    if totals.lost.any():
        # Not in the average. Neither the mean nor the offset exceeds the largest Σ p w r, so that
        # the factor is at most 1, and it holds whether the outcome comes or is lost.
        most = np.maximum(w * scale.low, w * scale.high) @ prior.weights
        most += relative * max(abs(scale.low), abs(scale.high)) * (size @ prior.weights)
        worst = np.minimum(w * (scale.low - prior.guess), w * (scale.high - prior.guess))
        for arm in np.flatnonzero(totals.lost):
            factor = np.where(alive, 1 + stakes * worst[:, [arm]], 0.5)
            growth += totals.lost[arm] * (np.log(factor) + stakes * (offset - most)[:, None])
    return np.where(alive, growth, 2 * _RUINED)
