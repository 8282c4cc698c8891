"""Differences between methods: planted ones are found, none is invented, noise is called noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t
from tiny_studies import WORLD, data, published, results_of

from bestarm.policies import SBE
from bestarm.studies import Published, Replication, Row, StudyResults
from bestarm.studies.differences import (
    PaperDifference,
    paired_means,
    paired_rates,
    paper_differences,
    printed_test,
)

Good = NDArray[np.bool_]


def pairs(both: int, first: int, second: int, neither: int) -> tuple[Good, Good]:
    """Indicators of so many runs in which both, one or none succeeded."""
    counts = (both, first, second, neither)
    return np.repeat([True, True, False, False], counts), np.repeat([1, 0, 1, 0], counts) > 0


def test_paired_rates_against_a_worked_example() -> None:
    """Altman, Machin, Bryant and Gardner (2000), table 6.2: 0.122, from 0.011 to 0.226."""
    assert paired_rates(*pairs(14, 5, 0, 22)) == pytest.approx((0.122, 0.011, 0.226), abs=6e-4)
    value, low, high = paired_rates(*pairs(14, 0, 5, 22))
    assert (value, low, high) == pytest.approx((-0.122, -0.226, -0.011), abs=6e-4)


def test_rates_that_never_vary_still_leave_a_width() -> None:
    for counts in [(0, 0, 0, 100), (100, 0, 0, 0)]:
        value, low, high = paired_rates(*pairs(*counts))
        assert value == 0
        assert low == pytest.approx(-high)
        assert 0.02 < high < 0.08
    assert paired_rates(*pairs(0, 100, 0, 0))[1] > 0.9


@pytest.mark.parametrize(("shared", "own"), [(0.6, 0.2), (0.02, 0.02), (0.0, 0.3)])
def test_paired_rates_cover_and_find(shared: float, own: float) -> None:
    """Of 1000 intervals at 95 %, 925 or more hold the truth: fewer with probability 3e-4.

    `shared` is how often both fail together, `own` how often the first fails besides.
    """
    rng = np.random.default_rng(5)
    covered = found = 0
    for _ in range(1000):
        together = rng.random(200) < shared
        first, second = together | (rng.random(200) < own), together | (rng.random(200) < 0.02)
        truth = (1 - shared) * (own - 0.02)
        _, low, high = paired_rates(first, second)
        covered += low <= truth <= high
        found += low > 0
    assert covered >= 925
    if own >= 0.2:
        assert found > 900
    else:
        assert found < 50


def test_what_pairs_share_is_no_noise() -> None:
    """Instances vary a thousandfold; a tenth less in each of them is seen all the same."""
    rng = np.random.default_rng(6)
    levels = rng.lognormal(10, 1.5, 400)
    first, second = (0.9 * levels).astype(np.int64), levels.astype(np.int64)
    value, low, high = paired_means(first, second)
    assert value == pytest.approx(-0.1 * second.mean(), rel=0.01)
    assert high < 0
    alone = second.std(ddof=1) / 20
    assert high - low < alone  # two independent samples would leave 5.5 times that
    value, low, high = paired_means(rng.permutation(second), second)
    assert low < 0 < high
    assert value == 0


def test_fixed_instances_are_not_drawn_anew() -> None:
    rng = np.random.default_rng(7)
    strata = np.arange(1000) % 100
    effect = np.linspace(-900, 1000, 100)[strata]  # one method is better here, the other there
    second = np.full(1000, 5000)
    covered = 0
    for _ in range(200):
        first = np.rint(second + effect + rng.normal(0, 50, 1000)).astype(np.int64)
        _, low, high = paired_means(first, second, strata=strata)
        assert 0 < high - low < 8
        covered += low <= 50 <= high
    assert 175 <= covered < 200  # 190 expected; fewer than 175 with probability 1e-5
    _, low, high = paired_means(first, second)
    assert high - low > 50  # as if other instances were to come


def test_printed_pulls_are_held_against_their_noise() -> None:
    one, other = Published(2_038_886.49, 2_930_198.9), Published(1_523_534.64, 2_822_607.36)
    # Welch's statistic 515 352 / √(2 930 199² + 2 822 607²) · 10 = 1.267 at 198 degrees: 0.207.
    assert printed_test("pulls", one, other, (1.0, 1.0)) == pytest.approx(0.207, abs=1e-3)
    bare = Published(61_546.4, None), Published(266_706.2, None)
    assert printed_test("pulls", *bare, (40_000.0, 200_000.0)) < 1e-6
    assert printed_test("pulls", *bare, (2e6, 2e6)) > 0.4
    fixed = Published(5.0, 0.0), Published(5.0, 0.0), Published(6.0, 0.0)
    assert printed_test("pulls", fixed[0], fixed[1], (1.0, 1.0)) == 1
    assert printed_test("pulls", fixed[0], fixed[2], (1.0, 1.0)) == 0


def test_a_figure_that_hardly_varies_adds_no_degrees_of_freedom() -> None:
    """A spread of 1 beside one of 100: Welch's degrees are 99.02, where a pooled test has 198."""
    one, other = Published(120.0, 1.0), Published(100.0, 100.0)
    variances = 1 / 100, 100**2 / 100
    degrees = 99 * sum(variances) ** 2 / sum(part**2 for part in variances)
    assert degrees == pytest.approx(99.02, abs=1e-3)
    expected = 2 * t.sf(20 / math.sqrt(sum(variances)), degrees)
    assert printed_test("pulls", one, other, (0.0, 0.0)) == pytest.approx(expected, rel=1e-9)


def test_printed_rates_are_two_hundred_runs() -> None:
    # Fisher, 65 and 58 of 100; by hand from the hypergeometric law.
    rates = Published(0.65, None), Published(0.58, None)
    assert printed_test("success", *rates, (0.0, 0.0)) == pytest.approx(0.383, abs=1e-3)
    assert printed_test("error", Published(0.01, None), Published(0.29, None), (0, 0)) < 1e-7


@pytest.mark.parametrize(
    ("low", "high", "printed", "finding"),
    [
        (1.0, 3.0, 5.0, "confirmed"),
        (-3.0, -1.0, -0.5, "confirmed"),
        (1.0, 3.0, -5.0, "reversed"),
        (-1.0, 3.0, 2.0, "not resolved"),
        (-1.0, 3.0, 5.0, "not found"),
    ],
)
def test_findings(low: float, high: float, printed: float, finding: str) -> None:
    found = PaperDifference("t", "pulls", "A", "B", printed, 0.2, (low + high) / 2, low, high, 77)
    assert found.finding == finding
    assert "is within the noise" in found.sentence
    assert "within the noise of 100 runs; our 77 runs" in found.sentence
    assert "is more than the noise" in replace(found, p_value=0.01).sentence


def ranking(deo: Good, uniform: Good, runs: int) -> list[PaperDifference]:
    """What is found in a ranking table in which two methods succeeded in these runs."""
    rows = tuple(
        Row(f"{name}-3000", name.upper(), SBE, WORLD, ours=False) for name in ("deo", "uniform")
    )
    table = replace(published("jester-ranking"), rows=rows, judged=True)
    results = {
        (table.key, row.key): results_of([3000] * runs, correct=good, final=False)
        for row, good in zip(rows, (deo, uniform), strict=True)
    }
    study = Replication((table,), data())
    return paper_differences(StudyResults(study, runs, 0, results), study.tables)


def test_a_planted_difference_is_found_and_none_is_invented() -> None:
    rng = np.random.default_rng(8)
    base = rng.random(2000)
    (same,) = ranking(base < 0.6, rng.random(2000) < 0.6, 2000)
    assert (same.first, same.second, same.metric) == ("DEO", "UNIFORM", "success")
    assert same.printed == pytest.approx(0.07)
    assert "is within the noise" in same.sentence
    assert same.finding == "not found"  # seven points would have shown in 2000 runs
    (planted,) = ranking(base < 0.66, base < 0.6, 2000)
    assert planted.finding == "confirmed"
    assert planted.low > 0.04  # in pairs; two samples would give 0.03
    (other,) = ranking(base < 0.6, base < 0.66, 2000)
    assert other.finding == "reversed"


def test_one_run_is_compared_with_nothing() -> None:
    assert ranking(np.array([True]), np.array([False]), 1) == []
