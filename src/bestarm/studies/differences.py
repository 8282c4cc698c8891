"""The differences between methods that the paper draws, each judged twice.

A printed difference is held against the noise of 100 runs: Fisher's exact test of 100 against 100
for rates; for pulls Welch's test with the printed standard deviations or, where none is printed,
ours. Single runs are not in print, so neither test knows that the paper's methods shared
instances. Ours comes with a 95 % interval for pairs, since run i of all rows starts from the same
seed: the normal one for pulls, Newcombe's (1998, method 10) for rates. None of it is corrected
for the number of differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind_from_stats

from bestarm.simulation.results import Z95, wilson
from bestarm.studies.published import RUNS, Metric, Published, PublishedTable
from bestarm.studies.study import Row, StudyResults
from bestarm.studies.verdicts import LEVEL, Cell, balanced_mean, fixed_instances, rate_test

Finding = Literal["confirmed", "reversed", "not found", "not resolved"]
Interval = tuple[float, float, float]  # the difference, and the ends of its interval


@dataclass(frozen=True)
class PaperDifference:
    """One method's figure less another's, in print and in our runs.

    `first` and `second` are labels of rows; `printed` is the published difference, `p_value` that
    of it, were there none; `value` is our difference, with its 95 % interval.
    """

    table: str
    metric: Metric
    first: str
    second: str
    printed: float
    p_value: float
    value: float
    low: float
    high: float
    runs: int

    @property
    def finding(self) -> Finding:
        """The direction of the difference in our interval, or that it shows none."""
        if self.low <= 0 <= self.high:
            return "not resolved" if self.low <= self.printed <= self.high else "not found"
        return "confirmed" if (self.value > 0) == (self.printed > 0) else "reversed"

    @property
    def sentence(self) -> str:
        """The conclusion in words."""
        size = "within" if self.p_value >= LEVEL else "more than"
        ours = {
            "confirmed": "show one in the same direction",
            "reversed": "show the opposite",
            "not found": "show none, or a smaller one",
            "not resolved": "allow both it and none",
        }[self.finding]
        return (
            f"The printed difference is {size} the noise of 100 runs; our {self.runs} runs {ours}."
        )


def paper_differences(
    results: StudyResults[Cell], tables: Sequence[PublishedTable]
) -> list[PaperDifference]:
    """Every difference the paper draws between rows that were replicated, in its order.

    A single run has no spread: nothing is compared then.
    """
    if results.runs < 2:
        return []
    return [
        _difference(results, table, (rows[first], rows[second]), metric)
        for table in tables
        if table.judged
        for rows in [{row.key: row for row in table.rows}]
        for first, second, metric in table.differences
        if {first, second} <= rows.keys()
    ]


def _difference(
    results: StudyResults[Cell], table: PublishedTable, rows: tuple[Row, Row], metric: Metric
) -> PaperDifference:
    printed = [table.printed(row, metric) for row in rows]
    assert printed[0] is not None
    assert printed[1] is not None
    first, second = (results.of(table, row) for row in rows)
    if metric == "pulls":
        strata = fixed_instances(rows[0], first)
        value, low, high = paired_means(first.pulls, second.pulls, strata=strata)
    else:
        one, other = rows[0].succeeded(first), rows[1].succeeded(second)
        value, low, high = paired_rates(*((one, other) if metric == "success" else (~one, ~other)))
    return PaperDifference(
        table=table.key,
        metric=metric,
        first=rows[0].label,
        second=rows[1].label,
        printed=printed[0].value - printed[1].value,
        p_value=printed_test(metric, printed[0], printed[1], (first.std_pulls, second.std_pulls)),
        value=value,
        low=low,
        high=high,
        runs=first.runs,
    )


def printed_test(
    metric: Metric, first: Published, second: Published, ours: tuple[float, float]
) -> float:
    """The p-value of two printed figures, were the methods equal; see the module.

    `ours` are the standard deviations of our pulls, used where none is printed.
    """
    if metric != "pulls":
        return rate_test(round(first.value * RUNS), RUNS, second)
    spreads = [
        own if part.spread is None else part.spread
        for part, own in zip((first, second), ours, strict=True)
    ]
    if not any(spreads):
        return float(first.value == second.value)
    test = ttest_ind_from_stats(
        first.value, spreads[0], RUNS, second.value, spreads[1], RUNS, equal_var=False
    )
    return float(test.pvalue)


def paired_means(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    *,
    strata: NDArray[np.int64] | None = None,
) -> Interval:
    """The mean of first − second over pairs, and its normal 95 % interval.

    With `strata`, the instance of each pair, it is the interval for these instances' mean.
    """
    differences = np.subtract(first, second, dtype=float)
    mean, error = balanced_mean(differences, strata)
    return mean, mean - Z95 * error, mean + Z95 * error


def paired_rates(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Interval:
    """The difference of two shares of the same runs, and Newcombe's 95 % interval.

    It joins Wilson's intervals of both shares through their correlation, so that no run of either
    kind still leaves a width.
    """
    runs, phi = len(first), _correlation(first, second)
    hits = int(first.sum()), int(second.sum())
    p, q = hits[0] / runs, hits[1] / runs
    (p_low, p_high), (q_low, q_high) = wilson(hits[0], runs), wilson(hits[1], runs)

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))

    value = p - q
    return value, value - joined(p - p_low, q_high - q), value + joined(p_high - p, q - q_low)


def _correlation(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Of two indicators, with Newcombe's correction for continuity; 0 where one is constant."""
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    one, other = int((first & ~second).sum()), int((~first & second).sum())
    scale = (both + one) * (other + neither) * (both + other) * (one + neither)
    if scale == 0:
        return 0.0
    excess = float(both * neither - one * other)
    if excess > 0:
        excess = max(excess - len(first) / 2, 0.0)
    return excess / math.sqrt(scale)
