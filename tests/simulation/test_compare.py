"""Comparisons as tables: the figures of the results, as Markdown and as LaTeX."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bestarm.environments import small_gap
from bestarm.policies import RAGE, SPBAI
from bestarm.simulation import Results
from bestarm.simulation.compare import Comparison, Contestant, compare


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    world = small_gap(3, 0.7)
    methods = {"rage": Contestant(RAGE, world), "sp-bai": Contestant(SPBAI, world)}
    return compare(methods, runs=4, seed=3, delta=0.1, reference="sp-bai")


def test_markdown_has_the_figures(comparison: Comparison) -> None:
    caption, pulls, errors = comparison.to_markdown().strip().split("\n\n")
    assert "δ = 0.1, seed 3, 4 runs of each method" in caption
    heading = "| method | mean pulls | 10 % | median | 90 % | not final |"
    assert pulls.splitlines()[0] == heading
    rage = comparison.results["rage"]
    low, high = rage.pulls_interval()
    assert f"| rage | {rage.mean_pulls:,.0f} ± {(high - low) / 2:,.0f} | " in pulls
    gap = comparison.difference("rage")
    assert gap is not None
    assert f"{gap.mean:,.0f}".replace("-", "−") + f" ± {gap.half:,.0f} |" in errors
    assert errors.splitlines()[0].endswith("| pulls − sp-bai's |")
    assert errors.splitlines()[-1].endswith("| – |")  # the reference itself


def test_latex_is_a_float_with_a_line_per_method_and_table(comparison: Comparison) -> None:
    text = comparison.to_latex()
    assert text.startswith("% Needs \\usepackage{booktabs}.\n\\begin{table}\n")
    assert text.count(r"\begin{tabular}") == 2
    assert len(re.findall(r"^(rage|sp-bai) & ", text, re.M)) == 4
    assert r"10 \% & median & 90 \%" in text
    assert r"$\delta$ = 0.1, seed 3" in text


def results(pulls: list[int], *, rounds: list[int], requested: int) -> Results:
    counts, index = np.array(pulls), np.arange(len(pulls))
    good = np.ones(len(pulls), dtype=bool)
    about = ("m", "e", 0, 0.1, requested, len(pulls) < requested)
    return Results(*about, index, counts, good, good, index, index, np.array(rounds))


def test_rounds_partial_runs_and_single_runs() -> None:
    made = Comparison(
        "a rather long name",
        {
            "blocks": results([40, 60], rounds=[20, 30], requested=2),
            "one": results([7], rounds=[7], requested=2),
        },
    )
    pulls, rounds, errors = (table.to_markdown().splitlines() for table in made.tables())
    assert pulls[-1] == "| one [1 run] | 7 | 7 | 7 | 7 | 0 |"  # without an interval
    assert rounds[-2:] == ["| blocks | 25 ± 10 | 2.00 |", "| one | 7 | 1.00 |"]
    assert errors[0].endswith("| pulls − a rather lo…'s |")
    assert Comparison("x").caption == "No run has finished."
