"""Intervals for contrasts, valid at every moment at once: e-processes, inverted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.bounds import pairs_delta
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.batches import AnyBatch, AnyFrame
from bestarm.policies.anytime.bets import StakeGrid, folded

_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Intervals:
    """How far the leader is ahead of every target.

    Attributes:
        leader: the index of the leader.
        estimate: estimated leader − target, in reward units, for each target.
        low: lower ends.
        high: upper ends.
        delta: the probability with which any of them, at any moment, may miss its contrast.
    """

    leader: int
    estimate: Array
    low: Array
    high: Array
    delta: float


def leads(
    targets: Array,
    leader: int,
    slope: Array,
    past: Sequence[AnyBatch],
    *,
    grid: StakeGrid,
    delta: float,
    margin: float | None,
) -> Intervals:
    """How far the leader is ahead of every target.

    Args:
        targets: in coordinates of the span.
        leader: its index.
        slope: θ̂.
        past: the batches so far.
        grid: the stakes.
        delta: δ.
        margin: how much worse than the best the leader may be, once that is decided. On the event
            that the decision is right, no lead is less than minus this, so lower ends are raised;
            with that event, they hold together but for a probability of 2δ.
    """
    rows = targets[leader] - targets
    others = np.arange(len(rows)) != leader
    level = -math.log(pairs_delta(delta, targets=len(rows)))
    low, high = np.zeros((2, len(rows)))
    both = np.concatenate([rows[others], -rows[others]])  # in one pass over the past
    ends = lower_ends(both, past, level=level, grid=grid)
    low[others], high[others] = ends[: others.sum()], -ends[others.sum() :]
    if margin is not None:
        low[others] = np.maximum(low[others], -margin)
        high = np.maximum(high, low)
        delta = 2 * delta
    return Intervals(leader, rows @ slope, low, high, delta)


def lower_ends(
    contrasts: Array | Callable[[AnyFrame], Array],
    past: Sequence[AnyBatch],
    *,
    level: float,
    grid: StakeGrid,
) -> Array:
    """The largest v at which each contrast's e-process against y·θ ≤ v has reached exp(level).

    Betting against y·θ ≤ v instead of y·θ ≤ 0 changes the log wealth of a stake by −v Σ nλ, so one
    pass over the past serves all v, and the e-value falls in v. An outstanding outcome that may be
    lost has min(1, its least factor): with v < 0 that is at least what it is with v = 0.

    Args:
        contrasts: rows, in coordinates of the span; or what gives one row for each batch, from what
            was fixed before it.
        past: the batches so far.
        level: the log of the threshold.
        grid: the stakes.
    """
    count = 1 if callable(contrasts) else len(contrasts)
    wealth, exposure, capped = np.zeros((3, count, len(grid)))
    ends: Array = np.full(count, -np.inf)
    prefixes = {folded(past), len(past)}  # both hold: the better one counts
    for done, batch in enumerate(past, start=1):
        rows = contrasts(batch.frame) if callable(contrasts) else contrasts
        stakes, growth = batch.frame.bets(rows).settle(batch)
        wealth += growth
        exposure += batch.exposure * stakes
        capped += batch.capped_exposure * stakes
        if done in prefixes and exposure.any():
            ends = np.maximum(ends, inverted(wealth, exposure, capped, level, grid))
    return ends


def inverted(wealth: Array, exposure: Array, capped: Array, level: float, grid: StakeGrid) -> Array:
    """The largest v at which the wealth less v · exposure and max(v, 0) · capped has the level."""
    # One stake alone reaches the level at `low`; at `high` not even all together do.
    beyond = wealth + grid.log_shares - level
    alone = beyond / np.where(beyond > 0, exposure + capped, exposure)
    low = alone.max(axis=1)
    high = (alone + np.log(len(grid)) / exposure).max(axis=1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = middle[:, None]
        reached = grid.log_value(wealth - v * exposure - np.maximum(v, 0.0) * capped) >= level
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return np.asarray(low)
