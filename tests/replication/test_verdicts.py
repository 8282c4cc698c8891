"""Verdicts: the tests behind them hold their level, find what is there, and say what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from bestarm.replication import Cell
from bestarm.replication.cell import mean_test, rate_test
from bestarm.replication.published import RUNS, Published
from bestarm.replication.verdicts import _holm, _verdict


@pytest.mark.parametrize("law", ["exponential", "lognormal", "normal"])
def test_a_mean_of_runs_like_ours_is_rarely_thought_different(
    law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.replication.cell._RESAMPLES", 1000)
    rng = np.random.default_rng(1)

    def draw(runs: int) -> NDArray[np.int64]:
        pulls = {
            "exponential": rng.exponential(1000, runs),
            "lognormal": rng.lognormal(7, 1, runs),
            "normal": rng.normal(1000, 50, runs),
        }
        return np.rint(pulls[law]).astype(np.int64)

    small = sum(
        mean_test(draw(1000), float(draw(RUNS).mean()), seed=trial) < 0.05 for trial in range(400)
    )
    assert binomtest(small, 400, 0.05).pvalue > 1e-3


def test_a_mean_that_is_elsewhere_is_found() -> None:
    ours = np.random.default_rng(2).exponential(1000, 1000).astype(np.int64)
    assert mean_test(ours, 1500) < 1e-3
    assert mean_test(ours, 600) < 1e-3
    assert mean_test(ours, 1000) > 0.1


def test_pulls_that_never_vary_agree_to_the_printed_digits_or_not() -> None:
    same = np.full(50, 387_106)
    assert mean_test(same, 387_106.0) == 1
    assert mean_test(same, 387_106.004) == 1
    assert mean_test(same, 387_107.0) == 0


def test_one_run_an_instance_is_compared_with_one_run_an_instance() -> None:
    """What varies between given instances is no noise: a small shift of all of them is found."""
    rng = np.random.default_rng(3)
    levels = rng.lognormal(10, 1.5, RUNS)
    strata = np.arange(1000) % RUNS
    ours = (levels[strata] * rng.normal(1, 0.1, 1000)).astype(np.int64)
    theirs = (levels * rng.normal(1, 0.1, RUNS)).mean()
    assert mean_test(ours, float(theirs), strata=strata) > 0.01
    assert mean_test(ours, float(theirs) * 1.3) > 0.05  # lost among the instances
    assert mean_test(ours, float(theirs) * 1.3, strata=strata) < 1e-3
    fixed = levels[strata].astype(np.int64)
    assert mean_test(fixed, float(fixed[:RUNS].mean()), strata=strata) == 1


def test_rates_are_compared_exactly() -> None:
    assert rate_test(0, 1000, 0.0) == 1
    assert rate_test(0, 1000, 0.29) < 1e-6
    assert 0.05 < rate_test(0, 1000, 0.01) < 0.2  # one in a hundred beside none in a thousand
    assert rate_test(1000, 1000, 1.0) == 1


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
    assert _verdict(far, 0.2) == "the published difference is within the noise of 100 runs"
