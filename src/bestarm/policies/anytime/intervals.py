"""Intervals for contrasts, valid at every moment at once: e-processes, inverted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.geometry import Array
from bestarm.policies.anytime.bets import LOG_PRIOR, STAKES, BatchOutcome, folded, log_value

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


def lower_ends(contrasts: Array, past: Sequence[BatchOutcome], *, level: float) -> Array:
    """The largest v at which each contrast's e-process against y·θ ≤ v has reached exp(level).

    Betting against y·θ ≤ v instead of y·θ ≤ 0 changes the log wealth of a stake by −v Σ nλ, so one
    pass over the past serves all v, and the e-value falls in v.

    Args:
        contrasts: rows, in coordinates of the affine span.
        past: the batches so far.
        level: the log of the threshold.
    """
    wealth, exposure = np.zeros((2, len(contrasts), len(STAKES)))
    ends: Array = np.full(len(contrasts), -np.inf)
    prefixes = {folded(past), len(past)}  # both hold: the better one counts
    for done, batch in enumerate(past, start=1):
        stakes, growth = batch.frame.bets(contrasts).settle(batch)
        wealth += growth
        exposure += batch.pulls * stakes
        if done in prefixes and exposure.any():
            ends = np.maximum(ends, _inverted(wealth, exposure, level))
    return ends


def _inverted(wealth: Array, exposure: Array, level: float) -> Array:
    """The largest v at which the wealth less v times the exposure has reached the level."""
    # One stake alone reaches the level at `low`; at `high` not even all together do.
    alone = (wealth + LOG_PRIOR - level) / exposure
    low = alone.max(axis=1)
    high = (alone + np.log(len(STAKES)) / exposure).max(axis=1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = log_value(wealth - middle[:, None] * exposure) >= level
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return np.asarray(low)
