"""Verdicts: the tests behind them hold their level, find what is there, and say what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from tiny_studies import published, results_of

from bestarm.studies import Cell, Published, PublishedTable, Row
from bestarm.studies.published import RUNS
from bestarm.studies.verdicts import _holm, _verdict, mean_test, rate_test, row_cells


@pytest.mark.parametrize("runs", [100, 1000])
@pytest.mark.parametrize("law", ["exponential", "three lengths", "normal"])
def test_a_mean_of_runs_like_ours_is_rarely_thought_different(
    law: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.studies.verdicts._RESAMPLES", 2000)
    rng = np.random.default_rng([1, runs])

    def draw(size: int) -> NDArray[np.int64]:
        pulls = {
            "exponential": rng.exponential(1000, size),
            "three lengths": rng.choice([400, 1500, 6000], size, p=[0.015, 0.9, 0.085]),
            "normal": rng.normal(1000, 50, size),
        }
        drawn: NDArray[np.int64] = np.rint(pulls[law]).astype(np.int64)
        return drawn

    small = sum(
        mean_test(draw(runs), Published(float(draw(RUNS).mean())), seed=seed) < 0.05
        for seed in range(100)
    )
    assert binomtest(small, 100, 0.05, alternative="greater").pvalue > 1e-3


def test_a_mean_that_is_elsewhere_is_found() -> None:
    ours = np.random.default_rng(2).exponential(1000, 1000).astype(np.int64)
    assert mean_test(ours, Published(1500)) < 1e-3
    assert mean_test(ours, Published(600)) < 1e-3
    assert mean_test(ours, Published(1000)) > 0.1


def test_pulls_that_never_vary_agree_to_the_printed_digits_or_not() -> None:
    same = np.full(50, 387_106)
    assert mean_test(same, Published(387_106.0)) == 1
    assert mean_test(same, Published(387_106.004)) == 1
    assert mean_test(same, Published(387_107.0)) == 0


def test_one_run_an_instance_is_compared_with_one_run_an_instance() -> None:
    """What varies between given instances is no noise: a small shift of all of them is found."""
    rng = np.random.default_rng(3)
    levels = rng.lognormal(10, 1.5, RUNS)
    strata = np.arange(1000) % RUNS
    ours = (levels[strata] * rng.normal(1, 0.1, 1000)).astype(np.int64)
    theirs = (levels * rng.normal(1, 0.1, RUNS)).mean()
    assert mean_test(ours, Published(float(theirs)), strata=strata) > 0.01
    assert mean_test(ours, Published(float(theirs) * 1.3)) > 0.05  # lost among the instances
    assert mean_test(ours, Published(float(theirs) * 1.3), strata=strata) < 1e-3
    fixed = levels[strata].astype(np.int64)
    assert mean_test(fixed, Published(float(fixed[:RUNS].mean())), strata=strata) == 1


def test_rates_are_compared_exactly() -> None:
    assert rate_test(0, 1000, Published(0.0)) == 1
    assert rate_test(0, 1000, Published(0.29)) < 1e-6
    # One in a hundred beside none in a thousand; ten in a thousand differ.
    assert 0.05 < rate_test(0, 1000, Published(0.01)) < 0.2
    assert rate_test(0, 1000, Published(0.01, runs=1000)) < 0.01
    assert rate_test(1000, 1000, Published(1.0)) == 1


def test_holm_multiplies_the_smallest_most_and_never_reverses_an_order() -> None:
    assert _holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert _holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert _holm([]) == []
    assert _holm([0.2, 0.001]) == pytest.approx([0.2, 0.002])


def test_the_three_verdicts() -> None:
    cell = Cell("t", "r", "pulls", 100, 90, 110, 5, 1000, printed=Published(105.0, None))
    assert _verdict(cell, 0.5) == "consistent"
    assert _verdict(cell, 0.01) == "differs"
    far = replace(cell, printed=Published(120.0, None))
    assert _verdict(far, 0.2) == "within noise"


def table_and_row(key: str) -> tuple[PublishedTable, Row]:
    table = published("small-gap")
    [row] = [row for row in table.rows if row.key == key]
    return table, row


def test_a_handful_of_runs_is_not_judged_but_a_length_that_never_varies_is() -> None:
    pulls, _ = row_cells(*table_and_row("sbe"), results_of([1_500_525] * 99))
    assert pulls.p_value is None
    pulls, _ = row_cells(*table_and_row("sbe"), results_of([1_500_525] * 100))
    assert pulls.p_value is not None
    for value, verdict in ((387_106, "consistent"), (387_107, "differs")):
        pulls, _ = row_cells(*table_and_row("g-opt"), results_of([value]))
        assert pulls.p_value is not None
        assert _verdict(pulls, pulls.p_value) == verdict


def test_printed_rates_have_no_slack() -> None:
    cell = Cell("t", "r", "success", 0.997, 0.991, 0.999, None, 1000, printed=Published(1.0, None))
    assert _verdict(cell, 1.0) == "within noise"
