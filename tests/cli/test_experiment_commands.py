"""`bestarm experiment`: what every command prints, in words and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import commands
import pandas as pd
import pytest

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.cli.experiment import records
from bestarm.live.store import Store

run = partial(commands.run, "experiment")
data = partial(commands.data, "experiment")
refused = partial(commands.refused, "experiment")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "arms.csv").write_text(ARMS, encoding="utf-8")
    (folder / "names.csv").write_text("old\nnew\n", encoding="utf-8")
    (folder / "offer.toml").write_text(TOML, encoding="utf-8")


ARMS = "name,f1,f2\ntea,1,0\ncoffee,0,1\nwater,0.6,0.8\n"
TOML = """
description = "What to drink"
delta = 0.05
seed = 7
lease = "2d"
policy = "anytime"

[options]
tea = [1, 0]
coffee = [0, 1]

[policy_options]
bounds = [0, 1]
max_pulls = 500
"""


def open_one(name: str = "drinks") -> Experiment:
    return Experiment.open("sqlite:///bestarm.db", name)


@pytest.fixture
def drinks() -> str:
    run("create", "drinks", "arms.csv", "--bounds", "-1", "1", "--seed", "3")
    return "drinks"


@pytest.mark.parametrize("how", ["csv", "json", "toml", "words"])
def test_names_alone_begin_an_experiment(folder: Path, how: str) -> None:
    (folder / "names.json").write_text('["old", "new"]', encoding="utf-8")
    (folder / "names.toml").write_text('options = ["old", "new"]\nnoise = 1\n', encoding="utf-8")
    given: dict[str, tuple[str, ...]] = {
        "toml": ("--problem", "names.toml"),
        "words": ("--options", "old", "new", "--noise", "1"),
    }
    report = data("create", "named", *given.get(how, (f"names.{how}", "--noise", "1")))
    assert (report["arms"], report["targets"]) == (["old", "new"], ["old", "new"])
    with open_one("named") as experiment:
        assert experiment.problem == Problem(["old", "new"])


def test_an_experiment_from_csv_files(folder: Path) -> None:
    (folder / "t.csv").write_text("name,f1,f2\nmild,1,0.5\nstrong,0.2,1\n", encoding="utf-8")
    report = data(
        *("create", "drinks", "arms.csv", "--target", "t.csv", "--delta", "0.02"),
        *("--policy", "anytime", "--bounds", "-1", "2", "--policy-option", "missing=worst-case"),
        *("--policy-option", "max_pulls=900", "--seed", "11", "--lease", "90m", "--noise", "0.5"),
        *("--baseline", "3", "--description", "hot or not"),
    )
    expected = {
        "experiment": "drinks",
        "state": "running",
        "policy": "anytime",
        "arms": ["tea", "coffee", "water"],
        "targets": ["mild", "strong"],
        "delta": 0.02,
        "seed": 11,
        "lease": 5400.0,
        "needs_lease": False,
    }
    assert {key: report[key] for key in expected} == expected
    assert (report["phase"], report["description"]) == (1, "hot or not")
    with open_one() as experiment:
        problem = experiment.problem
        assert (problem.delta, problem.noise, problem.baseline) == (0.02, 0.5, 3.0)
        assert experiment.description == "hot or not"
        document = experiment.spec
        assert document is not None
        assert document.options == {"bounds": [-1, 2], "max_pulls": 900, "missing": "worst-case"}


def test_an_experiment_from_a_toml_file(folder: Path) -> None:
    assert "2 options, δ 0.05" in run("create", "drinks", "--problem", "offer.toml")[0]
    with open_one() as experiment:
        assert experiment.description == "What to drink"
        assert (experiment.seed, experiment.lease) == (7, 172_800.0)
        assert experiment.problem.source_labels == ("tea", "coffee")


def test_files_named_in_a_toml_file_lie_beside_it(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a.csv").write_text(ARMS, encoding="utf-8")
    (folder / "sub" / "t.toml").write_text(
        'options = "a.csv"\ntarget = [[1, 0], [0, 1]]\nbounds = [0, 1]\n', encoding="utf-8"
    )
    report = data("create", "drinks", "--problem", "sub/t.toml")
    assert report["arms"] == ["tea", "coffee", "water"]
    assert report["targets"] == ["0", "1"]


def test_asking_and_telling(drinks: str) -> None:
    assert run("ask", drinks)[0].split() == ["0", "tea"]
    report = data("ask", drinks, "3", "--request-id", "a")
    assert [each["id"] for each in report["assignments"]] == [1, 2, 3]
    assert report == data("ask", drinks, "3", "--request-id", "a")
    assert set(report) == {"experiment", "state", "phase", "waiting", "assignments"}
    fields = {"id", "arm", "label", "probability", "phase", "round"}
    fields |= {"unit", "decision_point", "covariates", "experiment"}
    assert set(report["assignments"][0]) == fields
    assert run("tell", drinks, "0", "-0.5")[0] == "1 outcome recorded.\n"
    assert data("tell", drinks, "0", "-0.5") == {
        "experiment": "drinks",
        "state": "running",
        "recorded": 0,
        "repeated": 1,
        "late": 0,
        "held": 0,
        "values": 0,
        "served": 0,
        "skipped": 0,
    }
    assert data("tell", drinks, "1", "No")["recorded"] == 1
    assert "no outcome will come for 2" in run("fail", drinks, "2", "--reason", "gone home")[0]
    assert data("fail", drinks, "2", "3")["failed"] == [2, 3]
    out, err = run("tell", drinks, "2", "1")
    assert "too late" in out
    assert "flagged, but not used" in err
    report = data("status", drinks)
    assert (report["pulls"], report["lost"], report["late"], report["state"]) == (
        4,
        2,
        1,
        "running",
    )
    assert "4 assignments" in run("status", drinks)[0]


@pytest.mark.parametrize("file", ["-", "o.csv"])
def test_telling_a_table(drinks: str, folder: Path, file: str) -> None:
    run("ask", drinks, "3")
    table = "\ufeffid,outcome\r\n0,.5\r\n1,-.25\r\n2,\r\n"
    (folder / "o.csv").write_text(table, encoding="utf-8")
    report = data("tell", drinks, "--from", file, stdin=table)
    assert (report["recorded"], report["skipped"]) == (2, 1)
    with open_one() as experiment:
        assert experiment.outcomes()["reward"].tolist() == [0.5, -0.25]


def test_nothing_is_given_out_while_paused_or_recorded_after_the_end(drinks: str) -> None:
    run("ask", drinks, "2")
    assert run("pause", drinks)[0] == "drinks is paused.\n"
    out, err = run("ask", drinks)
    assert (out, err) == ("", "bestarm: Nothing was assigned: the experiment is paused.\n")
    assert data("ask", drinks)["state"] == "paused"
    assert data("resume", drinks) == {"experiment": "drinks", "state": "running"}
    said = "drinks is stopped. No option was shown to be the best: from now on `ask` gives 'tea'.\n"
    assert run("stop", drinks, "--reason", "enough")[0] == said
    assert data("status", drinks)["pulls"] == len(data("ask", drinks, "5")["assignments"]) - 3
    out, err = run("tell", drinks, "0", "0.5")
    assert err == "bestarm: 1 kept and flagged, but not used: the experiment is stopped.\n"
    with open_one() as experiment:
        assert experiment.outcomes()["late"].tolist() == [True]
        (stopped,) = (each for each in experiment.events() if each.kind == "stopped")
        assert stopped.data["reason"] == "enough"


def test_a_closed_plan_says_what_is_awaited() -> None:
    run("create", "turns", "arms.csv", "--policy", "ae")
    run("ask", "turns", "2")
    out, err = run("ask", "turns", "9")
    assert len(out.splitlines()) == 1
    assert "1 of 9 assigned: 3 outcomes of phase 1 must arrive first." in err
    assert data("ask", "turns")["waiting"] == 3


def finish(name: str) -> None:
    with open_one(name) as experiment:
        while not experiment.finished:
            batch = experiment.ask(200)
            experiment.tell_many((a.id, float(a.label == "tea")) for a in batch)


def test_the_recommendation_says_what_it_rests_on(drinks: str) -> None:
    assert "no leader yet" in run("recommend", drinks)[0]
    with open_one(drinks) as experiment:
        experiment.tell_many((a.id, float(a.label == "tea")) for a in experiment.ask(40))
    words = run("recommend", drinks)[0]
    assert "not identified" in words
    assert "(once identified: error ≤ 0.05)" in words  # it is proven, once it decides
    report = data("recommend", drinks)
    assert (report["final"], report["claims"], report["error_bound"]) == (False, 0.05, None)
    finish(drinks)
    report = data("recommend", drinks)
    assert (report["label"], report["final"], report["reason"]) == ("tea", True, "identified")
    assert report["error_bound"] == 0.05
    assert report["active"] == ["tea"]
    assert "tea" in report["statement"]
    assert report["assumptions"]
    words = run("recommend", drinks)[0]
    assert report["statement"] in words
    assert all(each in words for each in report["assumptions"])
    assert run("ask", drinks)[0] == "none  tea\n"


def test_the_log_is_shown(drinks: str) -> None:
    finish(drinks)
    events = data("log", drinks)["events"]
    assert [event["number"] for event in events] == list(range(len(events)))
    assert events[0]["kind"] == "created"
    assert events[-1]["kind"] == "finished"
    assert len(events[0]["hash"]) == 64
    assert data("log", drinks, "--start", "2", "--last", "1")["events"] == events[-1:]
    assert data("log", drinks, "--start", "2")["events"] == events[2:]
    assert run("log", drinks, "--start", "99")[0] == ""
    words = run("log", drinks)[0].splitlines()
    assert words[0].endswith("  Created.")
    assert words[-2].endswith("  Decided: ‘tea’ is the best.")
    phases = sum(event["kind"] == "closed" for event in events)
    assert f"{phases} phase" in words[-1]
    assert words[-1].startswith("Besides: ")
    assert not any(event["hash"][:8] in " ".join(words) for event in events)


def test_health_is_told_and_an_alarm_is_exit_code_1(drinks: str) -> None:
    report = data("health", drinks)
    assert report["level"] == "ok"
    assert set(report["checks"][0]) == {"name", "level", "finding", "action"}
    run("ask", drinks, "20")
    for number in range(5):
        run("tell", drinks, str(number), "99", code=2)
    report = data("health", drinks, code=1)
    assert report["level"] == "alarm"
    out, _ = run("health", drinks, code=1)
    assert "ALARM   range" in out


@pytest.mark.parametrize("layout", ["assignments", "mrt"])
def test_exporting(drinks: str, folder: Path, layout: str) -> None:
    run("ask", drinks, "4")
    out = run("export", drinks, "--out", "out.csv", "--layout", layout, "--probabilities")[0]
    assert out == "Wrote out.csv: 4 assignments.\n"
    header, *rows = (folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4
    assert header.endswith("probability_tea,probability_coffee,probability_water")
    assert data("export", drinks, "--out", "o.parquet", "--layout", layout) == {
        "experiment": "drinks",
        "file": "o.parquet",
        "layout": layout,
        "rows": 4,
    }


def test_verifying_and_replaying(drinks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(drinks)
    report = data("verify", drinks)
    assert report["sound"] is True
    assert report["findings"] == []
    assert report["assignments"] == report["outcomes"] > 0
    assert run("verify", drinks)[0].startswith("drinks: sound: ")
    assert run("verify", drinks)[1] == ""
    monkeypatch.setattr(records, "_MANY", 1)
    for command in (["verify", drinks], ["export", drinks, "--out", "out.csv"]):
        assert "assignments after" in run(*command)[1]
    report = data("replay", drinks)
    assert report.pop("agrees") is True
    assert report.pop("remarks") == []
    recommended = data("recommend", drinks)
    assert [each["label"] for each in recommended.pop("rates")] == ["tea", "coffee", "water"]
    assert report == recommended
    assert "agrees with the log" in run("replay", drinks)[0]


def test_listing(drinks: str) -> None:
    run("create", "second", "--problem", "offer.toml")
    report = data("list")
    assert [each["name"] for each in report["experiments"]] == ["drinks", "second"]
    assert report["experiments"][1]["description"] == "What to drink"
    assert report["experiments"][0]["status"]["state"] == "running"
    words = run("list")[0].splitlines()
    assert words[0].startswith("drinks: phase 1")
    assert words[1].startswith("second (What to drink): ")


def test_an_empty_store_is_no_error(folder: Path) -> None:
    Store("sqlite:///bestarm.db").prepare()
    assert run("list") == ("", "bestarm: It holds no experiments yet.\n")
    assert data("list") == {"experiments": []}


def test_a_file_that_does_not_exist_is_named_and_not_made(folder: Path) -> None:
    before = sorted(folder.iterdir())
    absent = f"The file {str(folder / 'bestarm.db')!r} does not exist.\n"
    assert run("list") == ("", f"bestarm: {absent}")
    assert data("list") == {"experiments": []}
    reading = ("status", "recommend", "guardrails", "health", "watch", "log", "verify", "replay")
    for verb in (*reading, "export", "report", "ask", "pause", "stop"):
        where = "There is no experiment 'drinks' in sqlite:///bestarm.db."
        assert refused(verb, "drinks") == f"bestarm: {where} {absent}"
    assert "There are no tokens yet." in commands.run("token", "list")[0]
    assert commands.run("token", "list")[1] == f"bestarm: {absent}"
    assert sorted(folder.iterdir()) == before


def test_the_store_is_an_option_or_in_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BESTARM_STORE", "sqlite:///other.db")
    run("create", "drinks", "arms.csv", "--noise", "1")
    assert (folder / "other.db").exists()
    assert "drinks" in run("list")[0]
    assert run("list", "--store", "sqlite:///third.db")[0] == ""
    monkeypatch.delenv("BESTARM_STORE")
    assert run("status", "drinks", "--store", "sqlite:///other.db")[0].startswith("drinks: ")


def test_a_policy_of_ones_own_comes_from_the_folder(folder: Path) -> None:
    (folder / "mine_here.py").write_text(
        "from bestarm import SPBAI\nclass Mine(SPBAI):\n    pass\n", encoding="utf-8"
    )
    before = list(sys.path)
    run("create", "drinks", "arms.csv", "--policy", "mine_here:Mine", "--policy-option", "r1=0.01")
    assert len(run("ask", "drinks", "2")[0].splitlines()) == 2
    assert data("replay", "drinks", "--allow-module", "mine_here")["agrees"]
    assert sys.path == before
    sys.modules.pop("mine_here")


@pytest.mark.parametrize(
    ("length", "words"), [("1", "1 second"), ("90m", "90 minutes"), ("none", "any time")]
)
def test_a_lease_is_said_as_people_say_it(drinks: str, length: str, words: str) -> None:
    expected = f"Outcomes of drinks may take {words} from now on.\n"
    assert run("lease", drinks, length)[0] == expected


def test_stop_says_what_is_served_from_then_on() -> None:
    store = "sqlite:///bestarm.db"
    with Experiment.create(store, "page", ["old", "new"], bounds=(0, 1), control="new"):
        pass
    assert run("stop", "page")[0].endswith("from now on `ask` gives 'new', the control.\n")
    measuring = {"precision": 0.01}
    with Experiment.create(
        store, "sure", ["old", "new"], bounds=(0, 1), control="old", policy_options=measuring
    ) as sure:
        while not sure.recommendation().final:
            sure.tell_many((each.id, each.arm) for each in sure.ask(60))
        assert sure.state == "running"
    assert data("stop", "sure") == {"experiment": "sure", "state": "stopped", "served": "new"}
    assert run("ask", "sure")[0] == "none  new\n"


def test_after_the_end_the_option_to_use_is_printed(drinks: str) -> None:
    run("stop", drinks)
    out, err = run("ask", drinks, "2")
    assert out == "none  tea\nnone  tea\n"
    assert "The experiment is stopped: this is the option to use. Nothing is recorded." in err
    given = data("ask", drinks)
    assert given["state"] == "stopped"
    assert [(each["id"], each["experiment"]) for each in given["assignments"]] == [(None, False)]
    for number in ("none", "null"):  # as printed in words and in JSON
        told = data("tell", drinks, number, "1")
        assert (told["recorded"], told["served"]) == (0, 1)
    assert "not recorded" in run("tell", drinks, "none", "1")[0]
    assert data("status", drinks)["pulls"] == 0


def test_an_outcome_of_no_id_is_refused_before_the_end(drinks: str) -> None:
    assert "the experiment is running" in refused("tell", drinks, "none", "1")


def test_postgresql(postgres_url: str, drinks: str) -> None:
    """The same words on a server, from the creation to the end."""
    store = ("--store", postgres_url)
    run("create", "drinks", "arms.csv", "--bounds", "-1", "1", "--seed", "3", *store)
    assert data("ask", drinks, "5", *store) == data("ask", drinks, "5")
    assert data("tell", drinks, "0", "0.5", *store) == data("tell", drinks, "0", "0.5")
    assert data("verify", drinks, *store)["sound"]
    assert data("replay", drinks, *store) == data("replay", drinks)
    assert data("health", drinks, *store)["level"] == "ok"
    run("export", drinks, *store)


def test_asking_loads_nothing_it_does_not_need(folder: Path, drinks: str) -> None:
    code = (
        "import sys\nfrom bestarm.cli import main\n"
        "sys.argv = ['bestarm', 'experiment', 'ask', 'drinks']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'scipy', 'numba', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        timeout=120,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["0", "tea"]


def test_a_window(folder: Path) -> None:
    del folder
    ends = ("--bounds", "0", "1", "--window", "7d", "--otherwise", "0", "--seed", "1")
    made = data("create", "shop", "arms.csv", *ends)
    assert (made["window"], made["otherwise"], made["lease"]) == (604_800.0, 0.0, None)
    run("ask", "shop", "3")
    words = "1 outcome recorded; 1 to be counted at the end of the window.\n"
    assert run("tell", "shop", "1", "1")[0] == words
    assert "3 outstanding (1 told before the end of their window)" in run("status", "shop")[0]
    assert data("status", "shop")["early"] == 1
    assert "have a window" in run("lease", "shop", "2h", code=2)[1]
    assert run("expire", "shop")[0] == "No lease or window has ended.\n"
    assert data("expire", "shop")["expired"] is False


PAIRS = ("arms.csv", "--bounds", "0", "1", "--policy-option", "block=2", "--seed", "1")


def test_every_line_says_the_round() -> None:
    run("create", "pairs", *PAIRS)
    lines, _ = run("ask", "pairs", "2")
    with open_one("pairs") as experiment:
        labels = experiment.assignments()["label"].tolist()
    wanted = [f"round {place // 2}  {place}  {label}" for place, label in enumerate(labels)]
    assert lines.splitlines() == wanted
    assert [each["round"] for each in data("ask", "pairs")["assignments"]] == [2, 2]
    assert "6 assignments in 3 rounds" in run("status", "pairs")[0]


def test_where_fewer_rounds_are_made_it_says_so() -> None:
    run("create", "few", *PAIRS, "--policy-option", "max_pulls=7")
    made, why = run("ask", "few", "5")
    assert len(made.splitlines()) == 6
    assert "3 of 5 rounds made" in why


def play(reward: Callable[[int, int], float], *options: str) -> None:
    given = [word for option in ("control=old", *options) for word in ("--policy-option", option)]
    run("create", "t", "names.csv", "--bounds", "0", "1", "--seed", "1", *given)
    with open_one("t") as experiment:
        while not experiment.finished:
            batch = experiment.ask(64)
            experiment.tell_many([(each.id, reward(each.id, each.arm)) for each in batch])


def test_status_and_recommend_say_by_how_much() -> None:
    play(lambda number, arm: float(number % 10 < 4 + 5 * arm))
    told, effect = data("status", "t"), data("recommend", "t")["effect"]
    assert (effect["label"], effect["control"]) == ("old", 0)
    assert 0 < effect["lower"] < 0.5 < effect["upper"]
    lead = f"Its lead over the control ‘old’ is +{100 * effect['estimate']:.1f} points ("
    assert lead in told["verdict"]
    assert told["verdict"] in run("status", "t")[0]
    words = run("recommend", "t")[0]
    assert f"its lead over 'old', the control, is +{100 * effect['estimate']:.1f} points" in words
    rates = data("recommend", "t")["rates"]
    assert [each["label"] for each in rates] == ["old", "new"]
    assert rates[1]["estimate"] - rates[0]["estimate"] == pytest.approx(effect["estimate"])
    assert f"- new: {100 * rates[1]['estimate']:.1f} % (" in words
    assert "95 % for all intervals, at all times together" in words
    assert f"- new: {100 * rates[1]['estimate']:.1f} % (" in run("status", "t")[0]


def test_another_version_of_the_policy_shows_what_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(lambda _, arm: float(arm))
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    assert data("status", "t")["verdict"].startswith("‘new’ is the best of 2 options, at 95 %")


def test_equivalent_options_are_named() -> None:
    play(lambda number, _: float(number % 10 < 5), "tolerance=0.3")
    assert data("recommend", "t")["reason"] == "equivalent"
    assert (
        "No option is better than the control ‘old’ by more than 30 points" in run("status", "t")[0]
    )


def test_before_the_end_there_is_no_verdict() -> None:
    run("create", "t", "names.csv", "--bounds", "0", "1", "--policy-option", "control=new")
    assert data("status", "t")["verdict"] is None
    assert data("recommend", "t")["effect"] is None


def test_columns_of_a_file_are_what_is_known(folder: Path) -> None:
    run("create", "drinks", "names.csv", "--bounds", "0", "1", "--forecaster", "default")
    people = "age,country,member\n31,CH,true\n,PE,false\n"
    (folder / "people.csv").write_text(people, encoding="utf-8")
    asked = data("ask", "drinks", "--covariates", "people.csv")
    assert [each["id"] for each in asked["assignments"]] == [0, 1]
    run("export", "drinks", "--out", "all.csv")
    frame = pd.read_csv(folder / "all.csv")
    assert list(map(json.loads, frame["covariates"])) == [
        {"age": 31.0, "country": "CH", "member": True},
        {"country": "PE", "member": False},
    ]
    assert frame["forecast"].notna().all()
    assert "one row per assignment asked for" in refused(
        "ask", "drinks", "3", "--covariates", "people.csv"
    )


def test_units_like_formulas_come_back_from_an_exported_file(folder: Path) -> None:
    run("create", "shop", "names.csv", "--bounds", "0", "1")
    for unit in ("=2+3", "'=x", "-5", "tea"):
        run("ask", "shop", f"--unit={unit}")
    run("export", "shop", "--out", "all.csv")
    frame = pd.read_csv(folder / "all.csv", dtype=str)
    assert frame["unit"].tolist() == ["'=2+3", "''=x", "-5", "tea"]
    frame[["unit"]].assign(reward=1).to_csv(folder / "told.csv", index=False)
    assert data("tell", "shop", "--from", "told.csv")["recorded"] == 4
    frame[["unit"]].to_csv(folder / "people.csv", index=False)
    again = data("ask", "shop", "--covariates", "people.csv")["assignments"]
    assert [each["id"] for each in again] == [0, 1, 2, 3]


def test_units_get_the_same_assignment_again(folder: Path) -> None:
    run("create", "shop", "names.csv", "--bounds", "0", "1")
    first = data("ask", "shop", "--unit", "visitor-81")["assignments"]
    run("ask", "shop")
    assert data("ask", "shop", "--unit", "visitor-81")["assignments"] == first
    run("tell", "shop", "1", "--unit", "visitor-81")
    at = ("--unit", "7", "--decision-point", "9:00")
    assert data("ask", "shop", *at)["assignments"][0]["id"] == 2
    run("tell", "shop", "no", *at)
    people = "unit,decision_point,age\nvisitor-81,,31\n7,9:00,40\n7,18:00,41\n"
    (folder / "people.csv").write_text(people, encoding="utf-8")
    asked = data("ask", "shop", "--covariates", "people.csv")["assignments"]
    assert [each["id"] for each in asked] == [0, 2, 3]
    assert asked[2]["covariates"] == {"age": 41.0}
    (folder / "told.csv").write_text("unit,decision_point,reward\n7,18:00,1\n8,,\n")
    assert data("tell", "shop", "--from", "told.csv")["recorded"] == 1
    with Experiment.open("sqlite:///bestarm.db", "shop") as experiment:
        assert experiment.outcomes().set_index("id")["reward"].to_dict() == {0: 1, 2: 0, 3: 1}
    assert data("ask", "shop", "--unit", "caf\u00e9")["assignments"][0]["id"] == 4
    told = "unit,decision_point,reward\ncafe\u0301,,1\n"  # é in another form
    (folder / "told.csv").write_text(told, encoding="utf-8")
    assert data("tell", "shop", "--from", "told.csv")["recorded"] == 1
    away = ("ask", "shop", "--unit", "7", "--decision-point", "20:00", "--unavailable")
    assert "Recorded as not available: nothing was drawn." in run(*away)[1]
    assert "1 unit not available" in run("log", "shop")[0]
    assert data("erase", "shop", "7") == {"experiment": "shop", "state": "running", "rounds": 3}
    assert "Unit '7' has no assignment." in refused("erase", "shop", "7")
    assert "1 unit erased" in run("verify", "shop")[0]
    assert "erased" in run("log", "shop")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ask", "shop", "2", "--unit", "a"), "each has one assignment"),
        (("ask", "shop", "--decision-point", "1"), "`decision_point` is that of a unit"),
        (("ask", "shop", "--unit", "a", "--request-id", "b"), "needs no name"),
        (("tell", "shop", "--unit", "a"), "Give a reward"),
        (("tell", "shop", "0", "1", "--unit", "a"), "Give a reward; got '0 1'"),
        (("tell", "shop", "0", "1", "--decision-point", "1"), "`decision_point` is that of a unit"),
        (("tell", "shop", "1", "--unit", "a"), "Unit 'a' has no assignment."),
    ],
)
def test_units_that_cannot_be_are_refused(arguments: tuple[str, ...], message: str) -> None:
    run("create", "shop", "names.csv", "--bounds", "0", "1")
    assert message in refused(*arguments)


def test_forecasts_of_ones_own_are_a_column(folder: Path) -> None:
    (folder / "offer.toml").write_text(
        'options = ["tea", "coffee"]\nforecaster = "own"\npolicy = "sp-bai"\n', encoding="utf-8"
    )
    run("create", "drinks", "--problem", "offer.toml")
    (folder / "own.csv").write_text("forecast,age\n0.25,31\n0.75,32\n", encoding="utf-8")
    run("ask", "drinks", "--covariates", "own.csv")
    run("export", "drinks", "--out", "all.csv")
    frame = pd.read_csv(folder / "all.csv")
    assert frame["forecast"].tolist() == [0.25, 0.75]
    assert json.loads(frame["covariates"][1]) == {"age": 32.0}
    assert "your own" in refused("ask", "drinks")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age\n", "no rows below a header"),
        ("", "no rows below a header"),
        ("age,age\n1,2\n", "a header with a different name for each column"),
        ("age,country\n1\n", "1 fields in line 2, not 2"),
    ],
)
def test_files_that_cannot_be_read(folder: Path, text: str, message: str) -> None:
    run("create", "drinks", "names.csv", "--bounds", "0", "1", "--forecaster", "default")
    (folder / "people.csv").write_text(text, encoding="utf-8")
    assert message in refused("ask", "drinks", "--covariates", "people.csv")


def test_options_come_and_go(folder: Path) -> None:
    (folder / "names.json").write_text('["old", "new", "video"]', encoding="utf-8")
    floor = ("--floor", "old=0.2", "--floor", "new=0.1")
    run("create", "offer", "names.json", "--bounds", "0", "1", *floor)
    with open_one("offer") as experiment:
        assert experiment.spec is not None
        assert experiment.spec.options["floors"] == {"old": 0.2, "new": 0.1}
        experiment.ask(5)
    words = run("retire", "offer", "video", "--reason", "refunds")[0]
    assert words == "offer goes on with 'old', 'new'.\n"
    made = data("add", "offer", "flash")
    assert (made["state"], made["options"]) == ("running", ["old", "new", "flash"])
    assert data("status", "offer")["retired"] == {"video": "refunds"}
    assert {each["label"] for each in data("ask", "offer", "60")["assignments"]} == {
        "old",
        "new",
        "flash",
    }
    log = run("log", "offer")[0]
    assert "retired" in log
    assert "refunds" in log
    assert data("verify", "offer")["sound"]


def test_features_of_an_option_that_is_added(folder: Path) -> None:
    run("create", "drinks", "arms.csv", "--bounds", "0", "1")
    data("add", "drinks", "cocoa", "--features", "0.5, 2")
    with open_one() as experiment:
        assert experiment.problem.source[-1].tolist() == [0.5, 2.0]


def test_an_experiment_is_described_anew(drinks: str) -> None:
    assert run("describe", drinks, "Hot or cold?")[0] == f"{drinks} is described anew.\n"
    assert data("list")["experiments"][0]["description"] == "Hot or cold?"
    assert "Described as: Hot or cold?" in run("log", drinks)[0]
    assert data("verify", drinks)["sound"]


def test_an_experiment_is_archived_and_deleted_only_with_its_name_repeated(drinks: str) -> None:
    run("archive", drinks)
    assert data("list")["experiments"] == []
    assert [each["name"] for each in data("list", "--archived")["experiments"]] == [drinks]
    run("archive", drinks, "--undo")
    assert len(data("list")["experiments"]) == 1
    assert "differ" in commands.refused("experiment", "delete", drinks, "drink")
    assert run("delete", drinks, drinks)[0] == f"{drinks} is deleted.\n"
    assert data("list", "--archived")["experiments"] == []
