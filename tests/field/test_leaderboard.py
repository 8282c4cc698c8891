"""Ranks and their ends, against results made by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tiny_studies import results_of

from bestarm.errors import InvalidInputError
from bestarm.field import Competitor, Leaderboard, Standing, competitors, conditions
from bestarm.field.benchmark import Goal
from bestarm.field.leaderboard import cell_entry, summary_table
from bestarm.field.standings import relative_to_best, standings
from bestarm.field.standings_pictures import standings_pictures
from bestarm.policies import LUCB, SPBAI, Method, Policy, PolicyInfo, Uniform, registry
from bestarm.problem import Problem
from bestarm.simulation import Results, simulate
from bestarm.studies import StudyResults
from bestarm.studies.report import latex, markdown, page

CONDITION = conditions(["six-means"], ["walk"])[0]
RUNS = 200
ORDER = np.arange(RUNS)


def results(pulls: object, *, wrong: int = 0, cut: int = 0, contradicted: int = 0) -> Results:
    """The first `wrong` and `contradicted` runs are so, the last `cut` are cut by the cap."""
    counts = np.broadcast_to(np.asarray(pulls), RUNS)
    flags = {"correct": wrong <= ORDER, "final": RUNS - cut > ORDER}
    return results_of(counts, **flags, contradicted=contradicted > ORDER, delta=0.05)


def ranked(**cells: Results) -> dict[str, Standing]:
    goals = {name: "budget" if name.startswith("budget") else "confidence" for name in cells}
    truths = {name: {"gap": "gap"} if name == "told" else {} for name in cells}
    entered = [Competitor(name, object, truths[name], goals[name]) for name in cells]  # type: ignore[arg-type]
    made = {(CONDITION.key, each.key): cells[each.name] for each in entered}
    return {each.competitor.name: each for each in standings(entered, [CONDITION], made)}


def test_ranks_have_ends_where_runs_cannot_tell() -> None:
    noise = np.random.default_rng(1).normal(scale=300, size=(2, RUNS)).round()
    found = ranked(
        best=results(500),
        second=results(1000 + noise[0]),
        alike=results(1000 + noise[1]),
        last=results(3000 + noise[0]),
    )
    ranks = {name: each.rank for name, each in found.items()}
    ends = {name: (each.rank_low, each.rank_high) for name, each in found.items()}
    assert (ranks["best"], {ranks["second"], ranks["alike"]}, ranks["last"]) == (1, {2, 3}, 4)
    assert ends == {"best": (1, 1), "second": (2, 3), "alike": (2, 3), "last": (4, 4)}
    ratios = relative_to_best(list(found.values()))
    assert ratios["best"] == [1.0]
    assert ratios["last"][0] == pytest.approx(found["last"].pulls / 500)


def test_the_same_instance_in_each_run_makes_a_small_difference_sure() -> None:
    instance = np.random.default_rng(1).normal(scale=300, size=RUNS).round() + 1000
    found = ranked(one=results(instance), other=results(instance + 2))
    assert found["other"].rank_low == 2
    assert found["one"].half == found["other"].half > 2


def test_who_is_wrong_more_often_than_delta_has_no_rank() -> None:
    # Of 200 runs at δ = 5 %, 17 wrong ones have a 95 % interval from 5.4 %, and 16 from 4.98 %.
    found = ranked(wrong=results(10, wrong=17), doubtful=results(20, wrong=16), right=results(500))
    assert found["wrong"].breaks_delta
    assert found["wrong"].rank is None
    assert not found["doubtful"].breaks_delta
    assert (found["doubtful"].rank, found["right"].rank) == (1, 2)
    assert cell_entry(found["wrong"]).kind == "wrong"
    lines = summary_table(list(found.values()), "confidence").lines
    assert [line.name for line in lines] == ["doubtful", "right", "wrong"]
    assert lines[-1].entries[5].text == "–"


def test_a_run_without_an_answer_costs_the_cap_however_early_it_ended() -> None:
    cap = CONDITION.instance.max_pulls
    found = ranked(
        silent=results(50, cut=RUNS),
        often=results(50, cut=RUNS // 2),
        right=results(900),
        slow=results(cap + 30_000),  # it cannot be cut
        late=results(cap + 40_000, cut=RUNS),
    )
    assert {name: each.cost for name, each in found.items()} == {
        "silent": cap,
        "often": (50 + cap) / 2,
        "right": 900,
        "slow": cap,
        "late": cap,
    }
    ranks = {name: each.rank for name, each in found.items()}
    assert ranks == {"right": 1, "often": 2, "silent": 3, "slow": 3, "late": 3}
    assert [found["silent"].pulls, cell_entry(found["silent"]).text] == [50, "≥ 50 ± 0"]
    ratios = relative_to_best(list(found.values()))
    assert (ratios["right"], ratios["silent"]) == ([1.0], [cap / 900])


def test_an_answer_without_a_pull_costs_one() -> None:
    """Otherwise the costs of the others over those of the best would be infinite."""
    found = ranked(guess=results(0), other=results(900))
    assert relative_to_best(list(found.values())) == {"guess": [1.0], "other": [900.0]}
    assert summary_table(list(found.values()), "confidence").lines[1].entries[5].text == "900.00"


def board(goals: dict[str, Goal], **cells: Results) -> StudyResults[Standing]:
    """The results of methods with these goals in one condition."""
    entered = [Competitor(name, object, goal=goal) for name, goal in goals.items()]
    found = {(CONDITION.key, name): each for name, each in cells.items()}
    return StudyResults(Leaderboard(entered, [CONDITION]), RUNS, 0, found)


def test_the_report_counts_the_runs_without_an_answer() -> None:
    made = board(
        dict.fromkeys("abc", "confidence"),
        a=results(50, cut=30),
        b=results(70),
        c=results(90, cut=RUNS),
    )
    lines = summary_table(made.cells, "confidence").lines
    unanswered = {line.name: line.entries[3].text for line in lines}
    assert unanswered == {"a": "30 of 200", "b": "0 of 200", "c": "200 of 200"}
    assert ["no answer in 30 of 200" in cell_entry(each).small for each in made.cells] == [
        True,
        False,
        False,
    ]
    report = made.study.report(made)
    printed = markdown(report).splitlines()
    assert "| a | – | 0 of 1 | 0.0 % | 30 of 200 | 0 of 200 | 43.46 |" in printed
    pytest.importorskip("jinja2")
    html = page(report, [(section, []) for section in report.sections])
    assert html.count("no answer in") == 2
    assert html.count('<td class="first"') == 1
    assert ">0 of 200</td>" in html


def test_the_report_counts_the_runs_whose_assumptions_are_contradicted() -> None:
    goals: dict[str, Goal] = {"a": "confidence", "b": "confidence", "c": "budget"}
    made = board(goals, a=results(50, contradicted=7), b=results(70), c=results(90))
    table = summary_table(made.cells, "confidence")
    assert table.columns[5].heading == "contradicted"
    counted = {line.name: line.entries[4].text for line in table.lines}
    assert counted == {"a": "7 of 200", "b": "0 of 200"}
    entries = [cell_entry(each).small for each in made.cells]
    assert ["contradicted in 7 of 200" in small for small in entries] == [True, False, False]
    header, *lines = made.study.report(made).cells
    assert [line[header.index("contradicted")] for line in lines] == [7, 0, 0]


def test_runs_cut_by_the_cap_are_not_errors_unless_there_is_a_budget() -> None:
    found = ranked(
        cut=results(900, wrong=RUNS, cut=RUNS), budget_a=results(900, wrong=90, cut=RUNS)
    )
    assert (found["cut"].errors, found["cut"].cut) == (0, RUNS)
    assert cell_entry(found["cut"]).text == "≥ 900 ± 0"
    assert (found["budget_a"].errors, found["budget_a"].cut) == (90, 0)
    assert not found["budget_a"].breaks_delta
    assert found["budget_a"].rank == 1


def test_who_is_told_the_truth_has_no_rank() -> None:
    found = ranked(honest=results(900), told=results(100))
    assert found["told"].rank is None
    assert found["honest"].rank == 1


def test_the_tables_say_who_is_wrong() -> None:
    made = board(
        {"a": "confidence", "b": "budget"}, a=results(10, wrong=60), b=results(9, wrong=50)
    )
    report = made.study.report(made)
    lines = markdown(report).splitlines()
    assert "| a | – | 1 of 1 | 30.0 % | 0 of 200 | 0 of 200 | – |" in lines
    assert "| a | **wrong 30.0 % (24.1–36.7)** |" in lines
    assert "| b | 25.0 % (19.5–31.4) |" in lines
    assert report.lead.startswith("1 of 1 methods that stop when they are sure")
    (section,) = (each for each in report.sections if each.key == "six-means")
    assert r"a & \textbf{wrong 30.0 \% (24.1--36.7)} \\" in latex(section)


def test_a_picture_has_a_mark_for_every_method_and_drift() -> None:
    pytest.importorskip("matplotlib")
    made = board(
        {"a": "confidence", "b": "confidence", "c": "budget"},
        a=results(10, wrong=60),
        b=results(ORDER + 1),
        c=results(9, wrong=50),
    )
    pictures = list(standings_pictures(CONDITION.instance, made.cells))
    assert [each.name for each in pictures] == ["six-means-confidence", "six-means-budget"]
    (axes,) = pictures[0].figure.axes
    marks = {
        float(np.asarray(line.get_xdata())[0]): line.get_markerfacecolor()
        for line in axes.lines
        if line.get_marker() == "^"
    }
    assert set(marks) == {10.0, 100.5}
    assert marks[10.0] == "#ffffff"  # it is wrong more often than δ
    assert marks[100.5] != "#ffffff"


def needs_a_budget(problem: Problem, *, budget: int) -> Policy:
    return Uniform(problem, budget=budget)


@pytest.mark.parametrize(
    ("method", "budget"),
    [
        (Uniform, CONDITION.instance.budget),
        (partial(Uniform, budget=12), 12),
        (needs_a_budget, CONDITION.instance.budget),
        (partial(needs_a_budget, budget=12), 12),
    ],
)
def test_a_method_that_takes_a_budget_has_the_instance_s_unless_one_is_bound(
    method: Method, budget: int
) -> None:
    assert Competitor.own("mine", partial(LUCB, max_pulls=100)).goal == "confidence"
    competitor = Competitor.own("mine", method)
    assert competitor.goal == "budget"
    found = simulate(competitor.method(CONDITION.instance), CONDITION.environment, runs=2)
    assert found.pulls.tolist() == [budget, budget]


def test_a_method_enters_with_its_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dict(registry.policies())
    table["mine"] = PolicyInfo("mine", "bestarm.policies.lucb:LUCB", "mine", model="means")
    table["needs more"] = PolicyInfo("needs more", "bestarm.policies.one_shot:GOpt", "told")
    monkeypatch.setattr("bestarm.field.benchmark.policies", lambda: table)
    names = [each.name for each in competitors()]
    assert "mine" in names
    assert "needs more" not in names  # it would need a gap
    assert "g-opt" in names  # it is told the gap
    assert names[:2] == ["anytime", "anytime, no baseline"]


def test_two_methods_of_one_name_are_refused() -> None:
    twice = [Competitor.own("mine", LUCB), Competitor.own("mine", partial(LUCB, sigma=2.0))]
    with pytest.raises(InvalidInputError, match="Two methods are named 'mine'"):
        Leaderboard(twice, [CONDITION])


def test_the_same_method_under_another_name_is_recognised() -> None:
    paper = next(each for each in competitors() if each.name == "sp-bai")
    assert paper.same_method(Competitor.own("mine", SPBAI))
    assert not paper.same_method(Competitor.own("mine", partial(SPBAI, preset="replication")))


def test_unknown_conditions_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="sein"):
        conditions(["soare"], ["sein"])
    assert len(conditions()) == 35
