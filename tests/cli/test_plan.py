"""`bestarm plan` says what the library finds, in words or as JSON, and refuses in sentences."""

from __future__ import annotations

import json
import re
import shlex
import signal
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from databases import wait_until

from bestarm import Problem
from bestarm.cli.output import show_progress
from bestarm.planning import PlanRequest, detectable_lifts, plan_experiment, simulating

run = partial(commands.run, "plan")
refused = partial(commands.refused, "plan")

ARMS = "name,a,b,c\nold,1,0,0\nnew,0,1,0\nbold,0,0,1\n"
PROBLEM = Problem(np.eye(3), delta=0.05, source_labels=["old", "new", "bold"])
QUICK = ["--gap", "0.5", "--policy", "sp-bai", "--runs", "20"]


@pytest.fixture
def arms(tmp_path: Path) -> str:
    path = tmp_path / "arms.csv"
    path.write_text(ARMS, encoding="utf-8")
    return str(path)


def test_json_is_the_library_s_plan(arms: str) -> None:
    plan = plan_experiment(PlanRequest(PROBLEM, gap=0.5, policies=["sp-bai"], runs=20, per_day=100))
    found = commands.data("plan", arms, *QUICK, "--per-day", "100")
    assert found == json.loads(json.dumps(plan.to_dict()))


def test_words_have_the_figures_and_what_they_rest_on(arms: str) -> None:
    out, _ = run(arms, *QUICK, "--per-day", "100", "--drift", "none", "--drift", "walk")
    plan = plan_experiment(
        PlanRequest(
            PROBLEM,
            gap=0.5,
            policies=["sp-bai"],
            runs=20,
            drift=["none", "walk"],
            per_day=100,
        )
    )
    for assumed, each in zip(plan.scenarios, plan.forecasts, strict=True):
        assert f"{assumed.describe('outcomes', rates=plan.bounds == (0, 1))}." in out
        assert f"{assumed.lower_bound:,.0f} outcomes on average" in out
        row = re.search(rf"^sp-bai +{each.pulls.median:,.0f} +(\S+)", out, re.M)
        assert row is not None
        assert row[1] == f"{each.pulls.low:,.0f}–{each.pulls.high:,.0f}"
    assert "'old' leads all others by 0.5" in out
    assert "too few to show an error rate below δ" in out
    assert "a median here is known to" in out
    assert max(len(line) for line in out.splitlines() if line.startswith("sp-bai")) <= 80


def test_a_window_is_counted_in_the_days(arms: str) -> None:
    chosen = ("--policy", "anytime", "--bounds", "0", "1")
    out, _ = run(arms, *QUICK, *chosen, "--per-day", "100", "--window", "12h")
    problem = Problem(
        np.eye(3), delta=0.05, noise=0.5, baseline=1.0, source_labels=["old", "new", "bold"]
    )
    plan = plan_experiment(
        PlanRequest(
            problem,
            gap=0.5,
            bounds=(0, 1),
            policies=["sp-bai", "anytime"],
            runs=20,
            per_day=100,
            window="12h",
        )
    )
    words = "A window of 12 h at 100 outcomes per day: 50 are always under way. Days include that."
    assert words in out
    closed, opened = plan.forecasts
    for each in plan.forecasts:
        row = re.search(rf"^{each.policy} +{each.pulls.median:,.0f} .* (\S+) \(\S+\)$", out, re.M)
        assert row is not None
        assert float(row[1]) == pytest.approx(each.rounds.median / 100, abs=0.6)
    waited = closed.rounds.mean - closed.pulls.mean
    assert f"sp-bai assigns nothing on {waited / 100:.1f} of its days, on average" in out
    assert "anytime assigns nothing" not in out
    assert opened.rounds == opened.pulls
    assert max(len(line) for line in out.splitlines() if re.match("sp-bai.*%", line)) <= 80


def test_blocks_are_counted_in_rounds_and_in_outcomes(arms: str) -> None:
    options = ["--gap", "0.9", "--block", "2", "--runs", "5", "--per-day", "10"]
    out, _ = run(arms, *options)
    plan = plan_experiment(PlanRequest(PROBLEM, gap=0.9, block=2, runs=5, per_day=10))
    assert "Count rounds where people are what it costs" in out
    assert "every round has a level of its own, within ±1." in out
    (each,) = plan.forecasts
    rounds = each.rounds
    row = re.search(rf"^anytime ×2 +{rounds.median:,.0f} +(\S+) +(\S+) ", out, re.M)
    assert row is not None
    spread = f"{rounds.low:,.0f}–{rounds.high:,.0f}"
    assert row.groups() == (spread, f"{each.pulls.median:,.0f}")
    assert "…" not in out


def test_every_figure_that_was_cut_has_its_sign(arms: str) -> None:
    options = ("--gap", "0.1", "--policy", "anytime", "--runs", "8", "--max-pulls", "300")
    out, _ = run(arms, *options, "--per-day", "100", "--bounds", "0", "1")
    assert "noise 0.5 and baseline ±1 declared" in out  # as yes and no imply
    assert "points; the level of all options" in out
    assert "had no winner in 8 of 8" in out
    (row,) = [line for line in out.splitlines() if line.startswith("anytime  ")]
    assert re.match(r"anytime +≥ 300 +≥ 300–≥ 300 +≥ 0\.\d ", row)
    assert row.endswith(" ≥ 3.0 (≥ 3.0–≥ 3.0)")
    assert "is known to" not in out


@pytest.mark.parametrize("runs", [1, 6])
def test_precision_is_stated_from_six_runs_on(arms: str, runs: int) -> None:
    out, _ = run(arms, "--gap", "0.5", "--policy", "sp-bai", "--runs", str(runs))
    assert ("From 6 simulated experiments each, a median here is known to" in out) == (runs == 6)
    assert ("known to" in out) == (runs == 6)
    assert "1 simulated experiments" not in out


def test_precision_is_stated_of_the_medians_that_have_one(arms: str) -> None:
    """SP-BAI takes some thousand pulls here, anytime far fewer: only the former is cut."""
    options = ["--gap", "0.9", "--runs", "8", "--max-pulls", "700"]
    out, _ = run(arms, *options, "--policy", "anytime", "--policy", "sp-bai")
    assert "had no winner in 8 of 8" in out
    assert "From 8 simulated experiments each, 1 of 2 medians here are known to" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "the smallest lead worth finding, or the visitors you have"),
        (["--gap", "1", "--policy", "magic"], "`policies` must be one of"),
        (["--gap", "1", "--delta", "5"], "Did you mean 0.05?"),
        (["--gap", "1", "--window", "7d"], "A window needs `per_day`"),
        (["--gap", "1", "--workers", "0"], "`workers` must be a whole number"),
        (["--gap", "1", "--seconds", "0"], "`seconds` must be positive"),
        (["--gap", "+10 %"], "needs a base rate"),
        (
            ["--gap", "+-3", "--base", "2 %"],
            "must be a lead like 0.002, '+10 %' (of the base rate)",
        ),
        (["--gap", "+10 %", "--base", "200 %"], "must lie between the bounds 0 and 1; got 2"),
        (["--gap", "+80 %", "--base", "60 %"], "above the highest outcome, 1"),
        (["--visitors", "0"], "`visitors` must be a whole number of at least 1"),
        (["--visitors", "9", "--gap", "1"], "`gap` does not go with `visitors`"),
        (["--visitors", "9", "--base", "two"], "a percentage like '2 %'"),
        (["--gap", "1", "--options", "3"], "`options` does not go with a file of options"),
    ],
)
def test_bad_input_is_one_sentence(arms: str, options: list[str], words: str) -> None:
    assert words in refused(arms, *options)


def test_alone_it_shows_examples_that_work() -> None:
    message = refused()
    found = re.search("For example: bestarm plan (.*), or bestarm plan (.*)\\.$", message)
    assert found is not None
    for words, answer in zip(found.groups(), ("leads all others", "is found with"), strict=True):
        out, _ = run(*shlex.split(words), "--policy", "anytime", "--runs", "1")
        assert answer in out


def test_a_plan_in_percent_for_options_without_a_file() -> None:
    options = ("--options", "3", "--base", "20 %", "--gap", "+50 %", "--policy", "anytime")
    out, _ = run(*options, "--runs", "5")
    assert (
        "'option 1' leads all others by 10.0 points, +50 % (20 % → 30 %) of the base rate;" in out
    )
    (assumed,) = commands.data("plan", *options, "--runs", "5")["scenarios"]
    assert (assumed["base"], assumed["level"]) == (0.2, pytest.approx(0.25))
    assert "from 2 to 10000; got 1" in refused("--options", "1", "--gap", "1")


LIFTS = ("--visitors", "400", "--base", "20 %", "--options", "3", "--runs", "5", "--drift", "none")


def test_visitors_say_which_lift_is_found_with_which_probability() -> None:
    labels = ["option 1", "option 2", "option 3"]
    request = PlanRequest(
        Problem(labels, noise=0.5), base=0.2, bounds=(0, 1), drift="none", runs=5, per_day=50
    )
    found = detectable_lifts(request, visitors=400)
    document = commands.data("plan", *LIFTS, "--per-day", "50")
    assert document == json.loads(json.dumps(found.to_dict()))
    out, _ = run(*LIFTS, "--per-day", "50")
    (curve,) = found.curves
    lift = curve.at(0.8).lift
    assert lift is not None
    share, rate = (f"{float(f'{100 * each:.3g}'):g} %" for each in (lift / 0.2, 0.2 + lift))
    words = f"a lift of +{share} (20 % → {rate}) is found with probability 80 %."
    assert f"With 400 visitors {words}" in out
    assert "3 options, δ = 0.05; 400 visitors (8.0 days). 5 simulated experiments per lift" in out
    assert "A lift in percent is of the base rate, 20 %: that of the next best option." in out
    for point in curve.points:
        assert f" {point.probability:.1%} (" in out
    assert max(map(len, out.split("A lift in percent")[0].splitlines())) <= 100


def test_visitors_without_a_base_rate_find_leads_in_units_of_the_outcome(arms: str) -> None:
    out, _ = run(arms, "--visitors", "1", "--runs", "2", "--drift", "none")
    assert re.search(r"With 1 visitor no lead up to \S+ is found with probability 80 %\.", out)
    assert "base rate" not in out


@pytest.mark.parametrize(("after", "partial"), [(50, True), (3, False)])
def test_ctrl_c_within_a_curve_and_before_it(
    monkeypatch: pytest.MonkeyPatch, after: int, partial: bool
) -> None:
    """The eight lifts have six experiments each first, and then twelve."""

    def stop(done: int, total: int) -> None:
        if done and done == total - 8 * 12 + after:
            raise KeyboardInterrupt

    monkeypatch.setattr("bestarm.cli.plan.show_progress", lambda *_: nullcontext(stop))
    monkeypatch.setattr("bestarm.planning.lifts._PILOT", 2)
    out, err = run(*LIFTS, "--runs", "12", code=130)
    assert ("Interrupted: the figures are partial, from 6 of 12" in out) == partial
    assert ("interrupted before enough experiments had been simulated" in err) != partial


def test_a_time_limit_gives_a_partial_plan(arms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate = simulating.simulate  # type: ignore[attr-defined]

    def until_six(*arguments: Any, runs: int, **options: Any) -> Any:
        if runs > 6:
            signal.raise_signal(signal.SIGALRM)
        return simulate(*arguments, runs=runs, **options)

    monkeypatch.setattr(simulating, "simulate", until_six)
    out, _ = run(arms, *QUICK, "--seconds", "600")
    assert "The time limit of 600 seconds was reached: the figures are partial, from 6 of 20" in out
    assert "From 6 simulated experiments each, a median here is known to" in out
    document = commands.data("plan", arms, *QUICK, "--seconds", "600")
    assert (document["interrupted"], document["timed_out"]) == (False, True)


def test_lines_go_on_while_no_run_ends(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ""

    def shown() -> str:
        nonlocal lines
        lines += capsys.readouterr().err
        return lines

    with show_progress("planning", 600, every=0.01) as told:
        told(0, 600)
        wait_until(lambda: shown().count("\n") >= 4)
        told(41, 600)
        wait_until(lambda: "bestarm: 41 of 600 runs after " in shown())
    assert lines.startswith("bestarm: 0 of 600 runs after ")
    capsys.readouterr()
    assert not [thread for thread in threading.enumerate() if thread.name == "lines"]


def test_ctrl_c_gives_a_partial_plan(arms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(done: int, _total: int) -> None:
        if done == 27:
            raise KeyboardInterrupt

    monkeypatch.setattr("bestarm.cli.plan.show_progress", lambda *_: nullcontext(stop))
    document = commands.data("plan", arms, *QUICK, "--policy", "sbe", code=130)
    assert document["interrupted"] is True
    found = [(each["policy"], each["runs"]) for each in document["forecasts"]]
    assert found == [("sp-bai", 20), ("sbe", 6)]
    out, _ = run(arms, *QUICK, "--policy", "sbe", code=130)
    assert "sp-bai [of 20]" in out
    assert "sbe [of 6]" in out
    assert "Interrupted" in out
