"""What a published figure is worth beside ours: the stated tests behind every verdict.

A published rate is so many of 100 runs; ours, so many of n: Fisher's exact test. A published mean
of pulls is compared with what the mean of 100 of our runs can be: 20 000 times, 100 of our runs
are drawn with replacement and a normal error is added for our own mean; the published figure's
two-sided tail is the p-value. Where the 100 published runs were one an instance, so are those
drawn. Pulls that are the same in every run either agree or do not.

A cell *differs* if its p-value stays below 0.05 after Holm's correction for all cells of the
report. Otherwise it is *consistent* if the published figure lies in our own 95 % interval, and if
not, *the published difference is within the noise of 100 runs*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bestarm.geometry import Array
from bestarm.replication.published import RUNS, Metric, Published
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Row, Table
from bestarm.simulation import Results
from bestarm.simulation.results import wilson

__all__ = ["LEVEL", "Cell", "Verdict", "cells", "mean_test", "rate_test", "succeeded"]

Verdict = Literal[
    "consistent", "differs", "the published difference is within the noise of 100 runs"
]

LEVEL = 0.05
_WITHIN_NOISE: Verdict = "the published difference is within the noise of 100 runs"
_RESAMPLES = 20_000
_ROUNDING = 0.005  # of figures printed with two decimals


@dataclass(frozen=True)
class Cell:
    """One figure of one row, ours beside the published one.

    Attributes:
        table: the table's key.
        row: the row's key.
        metric: pulls, error or success.
        value: our mean or share.
        low: the lower end of our 95 % interval (normal for pulls, Wilson's for rates).
        high: its upper end.
        spread: the standard deviation of our pulls.
        runs: the number of our runs.
        quantiles: our pulls at 10, 25, 50, 75 and 90 %; only for pulls.
        printed: the published figure; None for rows of our own.
        p_value: of the stated test, not corrected.
        verdict: None for rows of our own.
    """

    table: str
    row: str
    metric: Metric
    value: float
    low: float
    high: float
    spread: float | None
    runs: int
    quantiles: dict[float, float] | None = None
    printed: Published | None = None
    p_value: float | None = None
    verdict: Verdict | None = None


def cells(replication: Replication) -> list[Cell]:
    """Every cell with its verdict, in the order of the tables."""
    tested = [
        cell
        for table in replication.tables
        for row in table.rows
        for cell in _row_cells(table, row, replication.of(table, row))
    ]
    smallest = _holm([cell.p_value for cell in tested if cell.p_value is not None])
    adjusted = iter(smallest)
    return [
        cell if cell.p_value is None else replace(cell, verdict=_verdict(cell, next(adjusted)))
        for cell in tested
    ]


def _row_cells(table: Table, row: Row, results: Results) -> Iterator[Cell]:
    if table.counts_pulls:
        printed = table.printed(row, "pulls")
        low, high = results.pulls_interval() if results.runs > 1 else (math.nan, math.nan)
        yield Cell(
            table.key,
            row.key,
            "pulls",
            results.mean_pulls,
            low,
            high,
            results.std_pulls,
            results.runs,
            results.quantiles(),
            printed,
            None
            if printed is None
            else mean_test(results.pulls, printed.value, strata=_strata(row, results)),
        )
    good = succeeded(row, results)
    hits = int(good.sum() if table.rate == "success" else (~good).sum())
    printed = table.printed(row, table.rate)
    low, high = wilson(hits, results.runs)
    yield Cell(
        table.key,
        row.key,
        table.rate,
        hits / results.runs,
        low,
        high,
        None,
        results.runs,
        None,
        printed,
        None if printed is None else rate_test(hits, results.runs, printed.value),
    )


def succeeded(row: Row, results: Results) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which runs are good: they named the best target, and reached no cap that counts."""
    return np.asarray(results.correct & results.final if row.caps_fail else results.correct)


def _strata(row: Row, results: Results) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """The instance of each run where all are given and the paper had one run in each."""
    worlds = getattr(row.environment, "worlds", None)
    if worlds is None or len(worlds) != RUNS or results.runs < 2 * RUNS:
        return None
    return np.asarray(results.index % RUNS)


def mean_test(
    ours: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]],
    printed: float,
    *,
    strata: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None,
    seed: int = 0,
) -> float:
    """The p-value of a mean of 100 runs being as far out as the printed one; see the module."""
    values = np.asarray(ours, dtype=float)
    if np.ptp(values) == 0:
        return 1.0 if abs(values[0] - printed) <= _ROUNDING else 0.0
    rng = np.random.default_rng(seed)
    if strata is None:
        drawn = values[rng.integers(len(values), size=(_RESAMPLES, RUNS))].mean(axis=1)
        own = values.std(ddof=1) / math.sqrt(len(values))
    else:
        groups = [values[strata == stratum] for stratum in range(RUNS)]
        drawn = np.zeros(_RESAMPLES)
        for group in groups:
            drawn += rng.choice(group, size=_RESAMPLES) / RUNS
        own = math.sqrt(sum(group.var(ddof=1) / len(group) for group in groups)) / RUNS
    drawn += own * rng.standard_normal(_RESAMPLES)
    above = (1 + int((drawn >= printed).sum())) / (_RESAMPLES + 1)
    below = (1 + int((drawn <= printed).sum())) / (_RESAMPLES + 1)
    return min(1.0, 2 * min(above, below))


def rate_test(hits: int, runs: int, printed: float) -> float:
    """Fisher's exact p-value for so many of our runs and so many of the paper's 100."""
    from scipy.stats import fisher_exact  # noqa: PLC0415 - slow to load

    theirs = round(printed * RUNS)
    table = np.array([[hits, runs - hits], [theirs, RUNS - theirs]])
    return float(fisher_exact(table).pvalue)


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values)
    steps: Array = np.asarray(p_values)[order] * (len(p_values) - np.arange(len(p_values)))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def _verdict(cell: Cell, adjusted: float) -> Verdict:
    assert cell.printed is not None
    if adjusted < LEVEL:
        return "differs"
    slack = _ROUNDING
    if cell.low - slack <= cell.printed.value <= cell.high + slack:
        return "consistent"
    return _WITHIN_NOISE
