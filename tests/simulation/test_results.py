"""Intervals, quantiles and tables of results."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy import stats

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.simulation import Results


def results(errors: int, runs: int) -> Results:
    index = np.arange(runs)
    pulls = 100 + 10 * index
    correct = index >= errors
    return Results(
        method="m",
        environment="e",
        seed=0,
        delta=0.1,
        requested=runs,
        interrupted=False,
        index=index,
        pulls=pulls,
        correct=correct,
        final=index != 1,
        contradicted=index == 2,
        target=index % 3,
        plans=index + 1,
        rounds=pulls,
    )


@pytest.mark.parametrize(("errors", "runs"), [(0, 10), (3, 10), (10, 10), (7, 1000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_error_interval_is_wilson_s(errors: int, runs: int, confidence: float) -> None:
    # Reference: SciPy's own Wilson interval.
    test = stats.binomtest(errors, runs)
    interval = test.proportion_ci(confidence_level=confidence, method="wilson")
    low, high = results(errors, runs).error_interval(confidence)
    assert low == pytest.approx(interval.low, abs=1e-12)
    assert high == pytest.approx(interval.high, abs=1e-12)
    assert 0 <= low <= errors / runs <= high <= 1


def test_pulls_interval_is_the_normal_one() -> None:
    data = results(0, 50)
    low, high = data.pulls_interval(0.9)
    half = 1.6448536269514722 * np.std(data.pulls, ddof=1) / math.sqrt(50)
    assert (low, high) == pytest.approx((data.mean_pulls - half, data.mean_pulls + half))


def test_numbers_of_a_small_case() -> None:
    data = results(1, 5)
    assert (data.runs, data.mean_pulls) == (5, 120.0)
    assert data.error_rate == pytest.approx(0.2)
    assert data.std_pulls == pytest.approx(15.811388300841896)
    assert data.quantiles((0.0, 0.5, 1.0)) == {0.0: 100.0, 0.5: 120.0, 1.0: 140.0}
    assert repr(data) == (
        "Results(m on e: 5 runs, pulls 120 ± 16 (sd), errors 20.00% "
        "(95% in 3.62% to 62.45%, delta 0.1), 1 capped, assumptions contradicted in 1)"
    )
    assert "sd" not in repr(results(0, 1))
    assert "contradicted" not in repr(results(0, 1))


def test_frame_has_one_row_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    frame = results(1, 4).to_frame()
    assert frame.shape == (4, 9)
    assert frame.index.name == "run"
    assert frame["pulls"].tolist() == [100, 110, 120, 130]
    assert frame["contradicted"].tolist() == [False, False, True, False]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[frames\]'"):
        results(1, 4).to_frame()


def test_a_notebook_shows_a_table() -> None:
    html = results(1, 5)._repr_html_()
    assert html.startswith("<p>e, δ = 0.1, seed 0, 5 runs</p>")
    row = re.findall(r"<td[^>]*>(.*?)</td>", html)
    # Quantiles of 100, 110, …, 140; the half-width is 1.96 · 15.81 / √5.
    assert row == ["m", "120 ± 14", "104", "120", "136", "1", "20.0% (3.6–62.4)", "1"]
    assert "<td" not in results(0, 0)._repr_html_()


def test_a_picture_is_new_or_on_given_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = results(1, 5).plot(label="mine")
    assert results(2, 5).plot(ax=axes) is axes
    texts = axes.get_legend_handles_labels()[1]
    assert texts == ["mine: 1 of 5 wrong, 1 not final", "m: 2 of 5 wrong, 1 not final"]
    assert not results(0, 0).plot(ax=Figure().subplots()).lines
    pyplot.close(axes.figure)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bestarmid\[plots\]'"):
        results(1, 5).plot()


def test_too_few_runs_and_wrong_levels_are_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidInputError, match=r"1 finished run.*at least 2"):
        results(0, 1).pulls_interval()
    with pytest.raises(InvalidInputError, match="0 finished run"):
        results(0, 0).error_interval()
    with pytest.raises(InvalidInputError, match=r"`confidence` must lie in \(0, 1\); got 95"):
        results(0, 5).error_interval(95)
    with pytest.raises(InvalidInputError, match=r"probabilities in \[0, 1\]"):
        results(0, 5).quantiles((50,))
