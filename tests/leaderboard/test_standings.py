"""Ranks and their ends, against results made by hand."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bestarm.errors import InvalidInputError
from bestarm.leaderboard import Contestant, Standing, columns, contestants, standings
from bestarm.leaderboard.report import cell_text, markdown, page, summaries
from bestarm.leaderboard.runner import Leaderboard, run_leaderboard
from bestarm.leaderboard.standing import relative_to_best
from bestarm.policies import LUCB, SPBAI, Method, Policy, PolicyInfo, Uniform, registry
from bestarm.problem import Problem
from bestarm.simulation import Results, simulate

COLUMN = columns(["six-means"], ["walk"])[0]
RUNS = 200
ARMS = np.arange(RUNS)


def results(pulls: object, *, wrong: int = 0, cut: int = 0) -> Results:
    """The first `wrong` runs are wrong, the last `cut` are cut by the cap."""
    counts = np.broadcast_to(np.asarray(pulls, dtype=np.int64), RUNS).copy()
    nothing = np.zeros(RUNS, dtype=np.int64)
    return Results(
        method="m",
        environment="e",
        seed=0,
        delta=0.05,
        requested=RUNS,
        interrupted=False,
        index=ARMS,
        pulls=counts,
        correct=wrong <= ARMS,
        final=RUNS - cut > ARMS,
        target=nothing,
        plans=nothing,
        rounds=counts,
    )


def ranked(**cells: Results) -> dict[str, Standing]:
    goals = {name: "budget" if name.startswith("budget") else "confidence" for name in cells}
    playing = [Contestant(name, object, goal=goals[name]) for name in cells]  # type: ignore[arg-type]
    playing[-1:] = (
        [Contestant("told", object, truths={"gap": "gap"})] if "told" in cells else playing[-1:]
    )
    made = {(name, COLUMN.key): each for name, each in cells.items()}
    return {each.contestant.name: each for each in standings(playing, [COLUMN], made)}


def test_ranks_have_ends_where_runs_cannot_tell() -> None:
    noise = np.random.default_rng(1).normal(scale=300, size=(2, RUNS)).round()
    found = ranked(
        best=results(500),
        second=results(1000 + noise[0]),
        alike=results(1000 + noise[1]),
        last=results(3000 + noise[0]),
    )
    assert [found["best"].rank, found["best"].rank_low, found["best"].rank_high] == [1, 1, 1]
    middle = {found["second"].rank, found["alike"].rank}
    assert middle == {2, 3}
    for name in ("second", "alike"):
        assert (found[name].rank_low, found[name].rank_high) == (2, 3)
    assert (found["last"].rank, found["last"].rank_low, found["last"].rank_high) == (4, 4, 4)
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
    assert cell_text(found["wrong"]).wrong
    rows = summaries(list(found.values()), "confidence")
    assert [row.method for row in rows] == ["doubtful", "right", "wrong"]
    assert rows[-1].relative == "–"


def test_a_run_without_an_answer_costs_the_cap_however_early_it_ended() -> None:
    cap = COLUMN.instance.max_pulls
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
    assert [found["silent"].pulls, cell_text(found["silent"]).main] == [50, "≥ 50 ± 0"]
    ratios = relative_to_best(list(found.values()))
    assert (ratios["right"], ratios["silent"]) == ([1.0], [cap / 900])


def test_the_report_counts_the_runs_without_an_answer() -> None:
    playing = (Contestant("a", object), Contestant("b", object), Contestant("c", object))
    cells = {
        ("a", COLUMN.key): results(50, cut=30),
        ("b", COLUMN.key): results(70),
        ("c", COLUMN.key): results(90, cut=RUNS),
    }
    board = Leaderboard(playing, (COLUMN,), RUNS, 0, 0.05, cells)
    found = board.standings()
    rows = {row.method: row.unanswered for row in summaries(found, "confidence")}
    assert rows == {"a": "30 of 200", "b": "0 of 200", "c": "200 of 200"}
    assert [cell_text(each).unanswered for each in found] == ["30 of 200", "", "200 of 200"]
    text = markdown(board, found)
    assert "Runs without a final answer: a 30 of 200; c 200 of 200." in text.splitlines()
    pytest.importorskip("jinja2")
    html = page(board, found)
    assert html.count("no answer in") == 2
    assert "<td>0 of 200</td>" in html


def test_runs_cut_by_the_cap_are_not_errors_unless_there_is_a_budget() -> None:
    found = ranked(
        cut=results(900, wrong=RUNS, cut=RUNS), budget_a=results(900, wrong=90, cut=RUNS)
    )
    assert (found["cut"].errors, found["cut"].cut) == (0, RUNS)
    assert cell_text(found["cut"]).main == "≥ 900 ± 0"
    assert (found["budget_a"].errors, found["budget_a"].cut) == (90, 0)
    assert not found["budget_a"].breaks_delta
    assert found["budget_a"].rank == 1


def test_who_is_told_the_truth_has_no_rank() -> None:
    found = ranked(honest=results(900), told=results(100))
    assert found["told"].rank is None
    assert found["honest"].rank == 1


def test_the_tables_say_who_is_wrong() -> None:
    playing = (Contestant("a", object), Contestant("b", object, goal="budget"))
    cells = {("a", COLUMN.key): results(10, wrong=60), ("b", COLUMN.key): results(9, wrong=50)}
    board = Leaderboard(playing, (COLUMN,), RUNS, 0, 0.05, cells)
    text = markdown(board, board.standings())
    lines = text.splitlines()
    assert "| a | – | 1 of 1 | 30.0 % | – |" in lines
    assert "| a | **wrong 30.0 % (24.1–36.7)** |" in lines
    assert "| b | 25.0 % (19.5–31.4) |" in lines
    for first, second in pairwise(lines):
        if first.startswith("| method |"):
            assert second == "|" + " --- |" * (first.count("|") - 1)


def needs_a_budget(problem: Problem, *, seed: int, budget: int) -> Policy:
    return Uniform(problem, budget=budget, seed=seed)


@pytest.mark.parametrize(
    ("method", "budget"),
    [
        (Uniform, COLUMN.instance.budget),
        (partial(Uniform, budget=12), 12),
        (needs_a_budget, COLUMN.instance.budget),
        (partial(needs_a_budget, budget=12), 12),
    ],
)
def test_a_method_that_takes_a_budget_has_the_column_s_unless_one_is_bound(
    method: Method, budget: int
) -> None:
    contestant = Contestant.own("mine", method)
    assert contestant.goal == "budget"
    found = simulate(contestant.method(COLUMN), COLUMN.environment, runs=2)
    assert found.pulls.tolist() == [budget, budget]


def test_a_method_without_a_budget_stops_when_it_is_sure() -> None:
    assert Contestant.own("mine", partial(LUCB, max_pulls=100)).goal == "confidence"


def test_a_method_enters_with_its_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dict(registry.policies())
    table["mine"] = PolicyInfo("mine", "bestarm.policies.means.lucb:LUCB", "mine", model="means")
    table["needs more"] = PolicyInfo("needs more", "bestarm.policies.budget.gopt:GOpt", "told")
    monkeypatch.setattr("bestarm.leaderboard.contestant.policies", lambda: table)
    names = [each.name for each in contestants()]
    assert "mine" in names
    assert "needs more" not in names  # it would need a gap
    assert "g-opt" in names  # it is told the gap
    assert names[:2] == ["anytime", "anytime, no baseline"]


def test_two_methods_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = [Contestant.own("mine", LUCB), Contestant.own("mine", partial(LUCB, sigma=2.0))]
    with pytest.raises(InvalidInputError, match="Two methods are named 'mine'"):
        run_leaderboard(twice, [COLUMN], out=tmp_path / "out", runs=2)
    assert not (tmp_path / "out").exists()


def test_the_same_method_under_another_name_is_recognised() -> None:
    sharp = next(each for each in contestants() if each.name == "sp-bai-sharp")
    again = partial(SPBAI, stability="actual", design="centered")
    assert sharp.same_method(Contestant.own("mine", again))
    assert not sharp.same_method(Contestant.own("mine", partial(SPBAI, design="centered")))
    assert not sharp.same_method(Contestant.own("mine", SPBAI))


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="sein"):
        columns(["soare"], ["sein"])
    assert len(columns()) == 25
