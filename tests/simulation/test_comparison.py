"""Comparisons as tables: the figures of the results, as Markdown and as LaTeX."""

from __future__ import annotations

import html
import re
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from matplotlib.figure import Figure

from bestarm.datasets import jester
from bestarm.environments import Semiparametric, small_gap
from bestarm.errors import InvalidInputError
from bestarm.policies import RAGE, SPBAI, AnytimeBAI, Uniform
from bestarm.policies.policy import Method
from bestarm.problem import Problem
from bestarm.simulation import Comparison, Results, compare, plot_regret, run_once


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(
        {"rage": RAGE, "sp-bai": SPBAI},
        small_gap(3, 0.7),
        runs=4,
        seed=3,
        delta=0.1,
        reference="sp-bai",
    )


def test_markdown_has_the_figures(comparison: Comparison) -> None:
    caption, table = comparison.to_markdown().strip().split("\n\n")
    assert "δ = 0.1, seed 3, 4 runs of each method" in caption
    heading = "| method | mean pulls | errors | pulls − sp-bai's |"
    assert table.splitlines()[0] == heading
    rage = comparison.results["rage"]
    low, high = rage.pulls_interval()
    assert f"| rage | {rage.mean_pulls:,.0f} ± {(high - low) / 2:,.0f} | " in table
    gap = comparison.difference("rage")
    assert gap is not None
    assert f"{gap.mean:,.0f}".replace("-", "−") + f" ± {gap.half:,.0f} |" in table
    assert table.splitlines()[-1].endswith("| – |")  # the reference itself


def test_latex_is_a_float_with_a_line_per_method_and_table(comparison: Comparison) -> None:
    text = comparison.to_latex()
    assert text.startswith("% Needs \\usepackage{booktabs}.\n\\begin{table}\n")
    assert text.count(r"\begin{tabular}") == 1
    assert len(re.findall(r"^(rage|sp-bai) & ", text, re.M)) == 2
    assert r"$\delta$ = 0.1, seed 3" in text


def results(pulls: list[int], *, rounds: list[int], requested: int) -> Results:
    counts, index = np.array(pulls), np.arange(len(pulls))
    good = np.ones(len(pulls), dtype=bool)
    about = ("m", "e", 0, 0.1, requested, len(pulls) < requested)
    return Results(*about, index, counts, good, good, ~good, index, index, np.array(rounds))


def test_a_notebook_shows_the_tables_and_what_failed(comparison: Comparison) -> None:
    page = comparison._repr_html_()
    assert page.count("<table>") == 1
    assert "<p>small-gap, δ = 0.1" in page
    assert repr(comparison) == "Comparison(rage, sp-bai)"
    broken = Comparison("x", failed="<b>", failure=ValueError("x < y"))
    assert "&lt;b&gt; failed: ValueError: x &lt; y.</p>" in broken._repr_html_()
    assert "No run has finished.\n\n<b> failed: ValueError: x < y." in str(broken)
    assert repr(broken) == "Comparison(; <b> failed: x < y)"


def test_printed_it_shows_the_tables(comparison: Comparison) -> None:
    lines = str(comparison).splitlines()
    assert lines[0].startswith("small-gap, δ = 0.1, seed 3")
    for name, results in comparison.results.items():
        [line] = (line for line in lines if line.startswith(f"{name} "))
        assert f"{results.mean_pulls:,.0f}" in line
        assert "%" in line
    assert len({len(line) for line in lines[2:5]}) == 1  # columns stand below each other


def failing(problem: Problem, *, seed: int) -> SPBAI:
    """Raises for some seeds of the policy."""
    if seed % 3 == 0:
        raise RuntimeError(f"no luck with {seed}")
    return SPBAI(problem, seed=seed)


def test_printed_it_says_how_to_repeat_what_failed() -> None:
    world = small_gap(3, 0.7)
    made = compare({"rage": RAGE, "broken": failing}, world, runs=20, seed=4, delta=0.1)
    assert isinstance(made.failure, RuntimeError)
    for text in (str(made), made._repr_html_()):
        words = html.unescape(text)
        assert f"broken failed: RuntimeError: {made.failure}" in words
        assert "rage" in words
        found = re.search(r"run_once\(\.\.\., run=(\d+), seed=4, delta=0\.1\) repeats it", words)
        assert found
        assert "on small-gap" in words
        assert repr(world.problem(0.1)) in words
        seed = int(str(made.failure).split()[-1])
        assert f"seed={seed}" in words  # of the policy
        with pytest.raises(RuntimeError, match=str(made.failure)):
            run_once(failing, world, run=int(found[1]), seed=4, delta=0.1)


def test_runs_whose_assumptions_are_contradicted_are_counted() -> None:
    """Pulls of arms at 0 and 3, of which policies are told that no mean exceeds 0.1."""
    world = Semiparametric(np.eye(2), [0, 3], noise=0.1, declared_baseline=0.1)
    methods: dict[str, Method] = {
        "anytime": partial(AnytimeBAI, mean_bound=0.1, max_pulls=500),
        "rage": RAGE,
    }
    made = compare(methods, world, runs=3, delta=0.1)
    assert made.results["anytime"].contradicted.tolist() == [True] * 3
    for run in range(3):
        assert run_once(methods["anytime"], world, run=run, delta=0.1).contradicted
    assert "Contradicted: anytime 3." in made.caption
    assert "nothing is proven" in made.caption
    assert made.to_frame()["contradicted"].tolist() == [True] * 3 + [False] * 3
    assert "assumptions contradicted in 3)" in repr(made.results["anytime"])
    assert ">contradicted</th>" in made.results["anytime"]._repr_html_()
    assert "contradict" not in compare({"rage": RAGE}, world, runs=1).caption


def test_an_error_of_a_method_is_kept_and_an_unknown_reference_is_refused() -> None:
    def broken(problem: Problem) -> SPBAI:
        raise RuntimeError("out of order")

    methods: dict[str, Method] = {"rage": RAGE, "broken": broken}
    made = compare(methods, small_gap(3, 0.7), runs=2, delta=0.1)
    assert (made.reference, list(made.results), made.failed) == ("rage", ["rage"], "broken")
    with pytest.raises(InvalidInputError, match="`reference` must be one of 'rage', 'broken'"):
        compare(methods, small_gap(3, 0.7), runs=2, reference="sp-bai")


@pytest.mark.parametrize("methods", [[RAGE], {}, RAGE])
def test_methods_without_names_are_refused(methods: Any) -> None:
    with pytest.raises(InvalidInputError, match="`methods` must be methods by name"):
        compare(methods, small_gap(3, 0.7), runs=2)


def test_a_frame_has_all_runs_of_all_methods(comparison: Comparison) -> None:
    frame = comparison.to_frame()
    assert frame["method"].tolist() == ["rage"] * 4 + ["sp-bai"] * 4
    assert frame["pulls"].tolist()[4:] == comparison.results["sp-bai"].pulls.tolist()
    assert Comparison("x").to_frame().empty


def test_a_picture_has_a_line_per_method(comparison: Comparison) -> None:
    axes = Figure().subplots()
    assert comparison.plot(ax=axes) is axes
    rage = comparison.results["rage"]
    texts = axes.get_legend_handles_labels()[1]
    assert texts == [f"rage: {4 - rage.correct.sum()} of 4 wrong", "sp-bai: 0 of 4 wrong"]
    for line, results in zip(axes.lines, comparison.results.values(), strict=True):
        # The last step of an empirical distribution is at the largest value, up to 1.
        assert line.get_xdata()[-1] == results.pulls.max()  # type: ignore[index]
        assert line.get_ydata()[-1] == 1  # type: ignore[index]
    low, high = axes.get_xlim()
    assert low < min(each.pulls.min() for each in comparison.results.values())
    assert high > max(each.pulls.max() for each in comparison.results.values())
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 2


def test_rounds_partial_runs_and_single_runs() -> None:
    made = Comparison(
        "a rather long name",
        {
            "blocks": results([40, 60], rounds=[20, 30], requested=2),
            "one": results([7], rounds=[7], requested=2),
        },
    )
    heading, _, blocks, one = made.table().to_markdown().splitlines()
    assert "| mean pulls | mean rounds | errors |" in heading
    assert heading.endswith("| pulls − a rather lo…'s |")
    assert blocks.startswith("| blocks | 50 ± 20 | 25 | ")
    assert one.startswith("| one [1 run] | 7 | 7 | ")  # without an interval
    assert Comparison("x").caption == "No run has finished."


class Interrupting(RAGE):
    """Presses Ctrl-C in one of its runs."""

    seeds: ClassVar[list[int]] = []

    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem)
        if seed in self.seeds:
            raise KeyboardInterrupt


def test_ctrl_c_leaves_equally_many_runs_and_a_folder_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second method is interrupted in its second turn, which is of runs 100 to 199."""
    world = small_gap(3, 0.7)
    methods: dict[str, Method] = {"rage": RAGE, "interrupting": Interrupting}
    found = run_once_seed(world, 130)
    monkeypatch.setattr(Interrupting, "seeds", [found])
    cut = compare(methods, world, runs=250, delta=0.1, folder=tmp_path / "runs")
    assert cut.interrupted
    assert [results.runs for results in cut.results.values()] == [130, 130]
    assert [results.requested for results in cut.results.values()] == [250, 250]

    monkeypatch.setattr(Interrupting, "seeds", [])
    calls: list[tuple[int, int]] = []
    whole = compare(
        methods,
        world,
        runs=250,
        delta=0.1,
        folder=tmp_path / "runs",
        progress={"interrupting": lambda done, total: calls.append((done, total))},
    )
    assert whole.complete
    assert calls[0][0] > 0  # runs on record are not made again
    assert calls[-1] == (250, 250)
    expected = compare({"rage": RAGE, "interrupting": RAGE}, world, runs=250, delta=0.1)
    for name, results in expected.results.items():
        for column in ("index", "pulls", "correct", "target"):
            assert (getattr(whole.results[name], column) == getattr(results, column)).all()
    with pytest.raises(InvalidInputError, match="other seed"):
        compare(methods, world, runs=250, seed=1, delta=0.1, folder=tmp_path / "runs")


def run_once_seed(world: Semiparametric, run: int) -> int:
    """The seed of the policy in a run."""
    seeds: list[int] = []

    def method(problem: Problem, *, seed: int) -> RAGE:
        seeds.append(seed)
        return RAGE(problem)

    run_once(method, world, run=run, delta=0.1)
    return seeds[-1]


def test_regret_is_that_of_the_arms_pulled() -> None:
    """Uniform pulls each of three arms in turn: after n pulls its regret is n times the mean gap.

    Each of six lines has a colour of its own.
    """
    world = small_gap(2, 0.7)
    gaps = world.problem(0.1).source @ world.theta
    gaps = gaps.max() - gaps
    axes = Figure().subplots()
    methods = {f"{n} pulls": partial(Uniform, budget=n) for n in (30, 60, 90, 120, 150, 180)}
    assert plot_regret(methods, world, runs=2, delta=0.1, ax=axes) is axes
    for budget, line in zip((30, 60, 90, 120, 150, 180), axes.lines, strict=True):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert x[-1] == budget
        assert y == pytest.approx(x * gaps.mean())
    assert len({line.get_color() for line in axes.lines}) == 6
    with pytest.raises(InvalidInputError, match="has no `theta`"):
        plot_regret({"uniform": partial(Uniform, budget=30)}, jester().environment(), runs=1)
