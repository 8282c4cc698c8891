"""The plain way to simulate plans, one pull after the other, for many runs at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bestarm.records import Plan, Summary, round_robin

__all__ = ["Floats", "add_up", "assert_same_law", "draw_arms", "totals"]

Floats = NDArray[np.float64]


def draw_arms(plan: Plan, runs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The arms that are pulled, one row per run."""
    if plan.weights is None:
        assert plan.counts is not None
        return np.tile(round_robin(plan.counts), (runs, 1))
    return np.searchsorted(np.cumsum(plan.weights), rng.random((runs, plan.pulls)))


def add_up(arms: NDArray[np.int64], rewards: Floats, size: int) -> Floats:
    """Counts, sums and sums of squares: three tables with one row per run, one column per arm."""
    pulled = arms[:, :, None] == np.arange(size)
    return np.stack([np.sum(pulled * rewards[:, :, None] ** power, axis=1) for power in (0, 1, 2)])


def totals(summaries: Iterable[Summary]) -> Floats:
    """The same tables, of summaries."""
    found = [(each.counts, each.sums, each.squares) for each in summaries]
    return np.transpose(found, (1, 0, 2)).astype(float)


def assert_same_law(left: Floats, right: Floats, false_alarm: float) -> None:
    """Fail if a column of two tables of runs has two laws."""
    for a, b in zip(np.round(left, 9).T, np.round(right, 9).T, strict=True):
        assert stats.ks_2samp(a, b, method="asymp").pvalue > false_alarm
