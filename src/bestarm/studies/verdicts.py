"""Cells: our figure with its interval, the published one, and the verdict on the two.

A published rate is a count of m runs, ours a count of n: Fisher's exact test. A published mean of
pulls is compared with what the mean of m of our runs can be: 20 000 times, m of our runs are drawn
with replacement and a normal error is added for our own mean; the published figure's two-sided tail
is the p-value. Where the m published runs were one per instance, so are those drawn, once we have
two runs on each; with fewer the test is conservative. Pulls that are the same in every run either
agree or do not. With fewer than 100 of our runs, other pulls are not tested.

A cell *differs* if the p-value of its test stays below 0.05 after Holm's correction for all cells
of the report. Otherwise it is *consistent* if the published figure lies in our own 95 % interval,
and if not, the published difference is *within noise* of the published runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from bestarm.numerics.geometry import Array
from bestarm.simulation import Results
from bestarm.simulation.results import Z95, wilson
from bestarm.studies.published import RUNS, Metric, Published, PublishedTable
from bestarm.studies.study import Row

Verdict = Literal["consistent", "within noise", "differs"]

LEVEL = 0.05
_RESAMPLES = 20_000
_AT_ONCE = 2_000_000  # draws: the whole at 100 runs, as ever


@dataclass(frozen=True)
class Cell:
    """One figure of one row, ours beside the published one.

    Attributes:
        table: the table's key.
        row: the row's key.
        metric: pulls, error or success.
        value: our mean or share; fixed instances have equal weights.
        low: the lower end of our 95 % interval (normal for pulls, Wilson's for rates; on given
            instances, from two runs on each, for their mean rather than for instances to come).
        high: its upper end.
        spread: the standard deviation of our pulls.
        runs: the number of our runs.
        quantiles: our pulls at 10, 25, 50, 75 and 90 %; only for pulls.
        printed: the published figure; None for rows of our own.
        p_value: of the stated test, not corrected; None where there is nothing to test, too few of
            our own runs to test it, or users who were made up.
        verdict: None without a p-value.
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


def row_cells(table: PublishedTable, row: Row, results: Results) -> list[Cell]:
    """The cells of a row, without verdicts: those depend on how many cells are tested."""
    runs = results.runs
    good = row.succeeded(results)
    hits = int(good.sum() if table.rate == "success" else (~good).sum())
    low, high = wilson(hits, runs)
    printed = table.printed(row, table.rate)
    p_value = None if printed is None or not table.judged else rate_test(hits, runs, printed)
    rate = Cell(
        table.key, row.key, table.rate, hits / runs, low, high, None, runs, None, printed, p_value
    )
    if not table.counts_pulls:
        return [rate]
    printed, strata = table.printed(row, "pulls"), fixed_instances(row, results)
    value, error = balanced_mean(np.asarray(results.pulls, dtype=float), strata)
    half = Z95 * error
    p_value = None
    # Few runs do not show the tails; a length that is the same in every run needs one.
    if printed is not None and table.judged and (runs >= RUNS or printed.spread == 0):
        p_value = mean_test(results.pulls, printed, strata=strata)
    mean = Cell(
        table=table.key,
        row=row.key,
        metric="pulls",
        value=value,
        low=value - half,
        high=value + half,
        spread=results.std_pulls,
        runs=runs,
        quantiles=results.quantiles(),
        printed=printed,
        p_value=p_value,
    )
    return [mean, rate]


def fixed_instances(row: Row, results: Results) -> NDArray[np.int64] | None:
    """The instance of each run, if the instances are fixed and the paper had one run in each."""
    worlds = getattr(row.environment, "worlds", None)
    if worlds is None or len(worlds) != RUNS or results.runs < RUNS:
        return None
    return np.asarray(results.index % RUNS)


def balanced_mean(values: Array, strata: NDArray[np.int64] | None) -> tuple[float, float]:
    """The mean with equal weights of the fixed instances, and its standard error.

    Fixed instances do not add to the error. With one run per instance, which does not show the
    variation within it, the error is that of new instances, which is larger.
    """
    groups = _groups(values, strata)
    mean = float(np.mean([group.mean() for group in groups]))
    if len(values) < 2:
        return mean, math.nan
    if not _repeated(groups):
        groups = [values]
    error = math.sqrt(sum(float(group.var(ddof=1)) / len(group) for group in groups)) / len(groups)
    return mean, error


def _groups(values: Array, strata: NDArray[np.int64] | None) -> list[Array]:
    """The values of each fixed instance."""
    if strata is None:
        return [values]
    return [values[strata == stratum] for stratum in range(RUNS)]


def _repeated(groups: Sequence[Array]) -> bool:
    return len(groups) > 1 and min(map(len, groups)) > 1


def mean_test(
    ours: Sequence[int] | NDArray[np.int64],
    printed: Published,
    *,
    strata: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> float:
    """The p-value of a mean of so many runs being as far out as the published; see the module."""
    values = np.asarray(ours, dtype=float)
    published, rounding = printed.value, printed.rounding
    if np.ptp(values) == 0:
        return 1.0 if abs(values[0] - published) <= rounding else 0.0
    rng = np.random.default_rng(seed)
    groups = _groups(values, strata)
    if _repeated(groups):
        drawn = np.zeros(_RESAMPLES)
        for group in groups:
            drawn += rng.choice(group, size=_RESAMPLES) / len(groups)
    else:
        drawn = _resampled_means(values, printed.runs, rng)
    drawn += balanced_mean(values, strata)[1] * rng.standard_normal(_RESAMPLES)
    above = (1 + int((drawn >= published - rounding).sum())) / (_RESAMPLES + 1)
    below = (1 + int((drawn <= published + rounding).sum())) / (_RESAMPLES + 1)
    return min(1.0, 2 * min(above, below))


def _resampled_means(values: Array, runs: int, rng: np.random.Generator) -> Array:
    """Means of so many of the values, drawn with replacement; a part at a time, to save memory."""
    part = max(1, _AT_ONCE // runs)
    sizes = [min(part, _RESAMPLES - start) for start in range(0, _RESAMPLES, part)]
    return np.concatenate(
        [values[rng.integers(len(values), size=(size, runs))].mean(axis=1) for size in sizes]
    )


def rate_test(hits: int, runs: int, printed: Published) -> float:
    """Fisher's exact p-value for a count of our runs and a count of the published ones."""
    theirs = round(printed.value * printed.runs)
    table = np.array([[hits, runs - hits], [theirs, printed.runs - theirs]])
    return float(fisher_exact(table).pvalue)


def add_verdicts(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a report with their verdicts."""
    adjusted = iter(_holm([cell.p_value for cell in cells if cell.p_value is not None]))
    return [
        cell if cell.p_value is None else replace(cell, verdict=_verdict(cell, next(adjusted)))
        for cell in cells
    ]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order of the input."""
    order = np.argsort(p_values)
    steps = np.asarray(p_values)[order] * (len(p_values) - np.arange(len(p_values)))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def _verdict(cell: Cell, adjusted: float) -> Verdict:
    assert cell.printed is not None
    if adjusted < LEVEL:
        return "differs"
    # Rates are printed exactly.
    slack = cell.printed.rounding if cell.metric == "pulls" else 1e-9
    same = abs(cell.value - cell.printed.value) <= slack  # a single run has no interval
    if same or cell.low - slack <= cell.printed.value <= cell.high + slack:
        return "consistent"
    return "within noise"
