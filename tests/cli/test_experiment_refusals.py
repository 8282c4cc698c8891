"""Bad input to `bestarm experiment`: one sentence, exit code 2, and nothing lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from functools import partial
from pathlib import Path

import commands
import pytest
from forked_commands import ForkedCommand

from bestarm import Experiment

invoke = partial(commands.invoke, "experiment")
run = partial(commands.run, "experiment")
data = partial(commands.data, "experiment")
refused = partial(commands.refused, "experiment")


@pytest.fixture(autouse=True)
def arms(folder: Path) -> None:
    (folder / "arms.csv").write_text(ARMS, encoding="utf-8")


ARMS = "name,f1,f2\ntea,1,0\ncoffee,0,1\n"
STORE = "sqlite:///bestarm.db"


@pytest.fixture(scope="module")
def drinks_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an experiment of five assignments and one outcome, for copies of it."""
    folder = tmp_path_factory.mktemp("drinks")
    store = folder / "bestarm.db"
    (folder / "arms.csv").write_text(ARMS, encoding="utf-8")
    where = ("--store", f"sqlite:///{store}")
    create = ("create", "drinks", str(folder / "arms.csv"), "--bounds", "0", "1")
    for command in (create, ("ask", "drinks", "5"), ("tell", "drinks", "0", "0.5")):
        assert invoke(*command, *where)[0] == 0
    assert [path.name for path in folder.glob("bestarm.db*")] == ["bestarm.db"]
    return store


@pytest.fixture
def drinks(drinks_file: Path, folder: Path) -> str:
    shutil.copy(drinks_file, folder / "bestarm.db")
    return "drinks"


def record(name: str = "drinks") -> tuple[object, ...]:
    """All that a refusal must leave as it was."""
    with Experiment.open(STORE, name) as experiment:
        return (
            experiment.assignments().to_csv(),
            experiment.outcomes().to_csv(),
            experiment.events(),
            experiment.status(),
        )


@pytest.mark.parametrize(
    ("outcome", "hint"),
    [
        (("0", "0.75"), "already told 0.5"),
        (("-1", "0.5"), "never given out"),
        (("99999999999999999999999", "0.5"), "never given out"),
        (("1", "1e400"), "finite"),
        (("1", "good"), "`reward` must be a number, or true or false; got 'good'"),
        (("1", ""), "`reward` must be a number"),
        (("one", "0.5"), "`id` must be a whole number; got 'one'"),
        (("1e0", "0.5"), "whole number"),
        (("", "0.5"), "whole number"),
        (("1",), "Give an id and a reward"),
        (("1", "0.5", "2"), "Give an id and a reward"),
        ((), "Give an id and a reward, or a table"),
        (("1", "0.5", "--from", "x.csv"), "or a table"),
        (("1", "--jsno"), "must be a number"),
    ],
)
def test_outcomes(drinks: str, outcome: tuple[str, ...], hint: str) -> None:
    before = record()
    assert hint in refused("tell", drinks, *outcome)
    assert record() == before


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("id,reward\n1,0.5\n1,0.6\n", "In line 3 of standard input: Assignment 1 was already told"),
        ("id,reward\n1,0.5\n0,0.6\n", "line 3 of standard input: Assignment 0 was already"),
        ("id,reward\n1,0.5\n2,5\n", "line 3 of standard input: `reward` must lie between 0 and 1"),
        ("1,0.5\n\n\n2,5\n", "In line 4 of standard input: `reward` must lie"),
        ("id,reward\n1,0.5\n2,1e400\n", "line 3 of standard input: `reward` must be a finite"),
        ("id,reward\n1,0.5\n2,nan\n", "line 3 of standard input: `reward` must be a finite number"),
        ("id,reward\n1,0.5\n77,0\n", "line 3 of standard input: Assignment 77 was never given out"),
        ("id,reward\n1,0.5\n-7,0\n", "line 3 of standard input: Assignment -1 was never given"),
        (f"id,reward\n1,0.5\n{10**30},0\n", "In line 3 of standard input: Assignment 92"),
        ("unit,reward\n\nx,0.5\n,1\n", "In line 4 of standard input: `unit` must be a text"),
        ("unit,reward\n\nx,0.5\n", "In line 3 of standard input: Unit 'x' has no assignment."),
        ('[{"id": 1, "reward": 1}, {"id": 2, "reward": 5}]', "row 2 of standard input: `reward`"),
        ("id,reward\n1,0.5\n2,none\n", "line 3"),
        ("id,reward\n1,0.5\n2\n", "In line 3 of standard input: A field is missing."),
        ("id,reward\n1.0,0.5\n", "line 2"),
        ("id,value\n1,0.5\n", "'id' and 'reward'"),
        ("one\n", "'id' and 'reward'"),
        ("1,0.5,3\n", "In line 1 of standard input: Without a header there must be 2"),
        ("1\n", "In line 1 of standard input: Without a header there must"),
        ('id,reward\n1,"0.5\n2,0.5', "line 3"),
    ],
)
def test_tables_of_outcomes(drinks: str, table: str, hint: str) -> None:
    before = record()
    message = refused("tell", drinks, "--from", "-", stdin=table)
    assert hint in message
    assert "Nothing of the table is recorded: correct it, and tell all of it again." in message
    assert record() == before


def test_a_table_that_is_corrected_is_told_again_and_counts_once(drinks: str, folder: Path) -> None:
    run("ask", drinks, "6")
    table = folder / "told.csv"
    table.write_text("id,reward\n1,0.5\n")
    assert "1 outcome" in run("tell", drinks, "--from", "told.csv")[0]
    table.write_text("id,reward\n1,0.5\n2,0.25\n3,2.5\n4,1\n")
    assert "In line 4 of 'told.csv': `reward`" in refused("tell", drinks, "--from", "told.csv")
    with Experiment.open("sqlite:///bestarm.db", drinks) as experiment:
        assert experiment.outcomes()["id"].tolist() == [0, 1]
    table.write_text("id,reward\n1,0.5\n2,0.25\n3,0.25\n4,1\n")
    for recorded in (3, 0):
        found = data("tell", drinks, "--from", "told.csv")
        assert (found["recorded"], found["repeated"]) == (recorded, 4 - recorded)
    with Experiment.open("sqlite:///bestarm.db", drinks) as experiment:
        assert experiment.outcomes()["id"].tolist() == [0, 1, 2, 3, 4]


def test_of_units_and_guardrails_the_line_is_named_too(folder: Path) -> None:
    rail = 'refund={"bounds": [0, 1], "worse_by": 0.01}'
    names = ("--options", "old", "new", "--control", "old", "--bounds", "0", "1")
    run("create", "shop", *names, "--guardrail", rail)
    for unit in "abc":
        run("ask", "shop", "--unit", unit)
    run("tell", "shop", "1", "--unit", "a", "--guardrail", "refund=0")
    for rows, hint in (
        ("c,1,\nb,1,\na,0,\n", "In line 4 of standard input: Assignment 0 was already told 1"),
        ("c,1,\na,,0\na,1,1\n", "line 4 of standard input: Of assignment 0, 'refund' was already"),
        ("c,1,\nb,1,7\n", "In line 3 of standard input: `refund` must lie between 0 and 1; got 7"),
        ("c,1,\nd,1,1\n", "In line 3 of standard input: Unit 'd' has no assignment."),
    ):
        message = refused("tell", "shop", "--from", "-", stdin=f"unit,reward,refund\n{rows}")
        assert hint in message
        assert "Nothing of the table is recorded" in message
    with Experiment.open("sqlite:///bestarm.db", "shop") as experiment:
        assert experiment.outcomes()["id"].tolist() == [0]


def test_tables_that_are_none(drinks: str, folder: Path) -> None:
    message = refused("tell", drinks, "--from", "none.csv")
    assert (
        "'none.csv' cannot be read or written: no such file or directory. Check its name" in message
    )
    assert "is a directory. Name a file." in refused("tell", drinks, "--from", str(folder))
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00\x01\x80")
    wanted = "is not text in UTF-8. Save it as CSV in UTF-8."
    assert f"'binary.csv' {wanted}" in refused("tell", drinks, "--from", "binary.csv")
    assert wanted in refused("tell", drinks, "--from", "-", stdin=b"\xff\xfe")


def test_an_empty_table_tells_nothing(drinks: str) -> None:
    before = record()
    for table in ("", "id,reward\n", "\n\n"):
        code, out, _ = invoke("tell", drinks, "--from", "-", "--json", stdin=table)
        assert (code, json.loads(out)["recorded"]) == (0, 0)
    assert record() == before


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("fail", "0"), "has the outcome 0.5"),
        (("fail", "1", "x"), "whole number"),
        (("fail", "-3"), "`id` must be a whole number from 0"),
        (("ask", "-3"), "`count` must be a whole number from 1 to 10000000; got -3."),
        (("ask", "--", "-3"), "`count` must be a whole number from 1 to 10000000; got -3."),
        (("ask", "--request-id", ""), "request_id"),
        (("lease", "-5"), "`lease` must be a time like 90s, 30m, 12h or 2d; got '-5'."),
        (("add", "tea"), "There is an option 'tea' already."),
        (("add", "milk", "--features", "1,x"), "`features` must be numbers"),
        (("retire", "milk", "--reason", "x"), "There is no option 'milk'."),
        (("retire", "tea", "--reason", " "), "`reason` must say why"),
        (("create", "arms.csv", "--bounds", "0", "1"), "already"),
        (("log", "--start", "-1"), "start"),
        (("log", "--last", "0"), "last"),
        (("export", "--out", "out.xlsx"), ".csv or .parquet"),
        (("export", "--out", "no/out.csv"), "no such file"),
        (("report", "--out", "no/out.html"), "no such file"),
    ],
)
def test_commands(drinks: str, arguments: tuple[str, ...], hint: str) -> None:
    before = record()
    verb, *others = arguments
    assert hint in refused(verb, drinks, *others)
    assert record() == before


def test_states_that_do_not_follow(drinks: str) -> None:
    invoke("stop", drinks)
    assert "is stopped cannot be resumed" in refused("resume", drinks)
    assert invoke("stop", drinks)[0] == 0  # repeated, it is harmless


def test_an_experiment_that_is_not_there(drinks: str) -> None:
    for verb, *others in (("ask",), ("tell", "0", "1"), ("status",), ("export", "--out", "o.csv")):
        message = refused(verb, "drink", *others)
        assert "no experiment 'drink'" in message
        assert "'drinks'" in message


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("arms.csv", "--delta", "5"), "Did you mean 0.05?"),
        (
            ("arms.csv", "--policy", "sp_bay"),
            "There is no policy 'sp_bay'. Did you mean sp-bai? Known are anytime",
        ),
        (("arms.csv", "--policy", "nowhere:Mine"), "There is no module 'nowhere'"),
        (("arms.csv", "--policy", "broken_one:Mine"), "SyntaxError"),
        (("arms.csv", "--policy-option", "max_pulls"), "key=value"),
        (("arms.csv", "--policy-option", "top=1", "--policy-option", "top=1"), "each name once"),
        (("arms.csv", "--floor", "tea"), "`floor` must be option=share"),
        (("arms.csv", "--floor", "milk=0.5", "--bounds", "0", "1"), "milk"),
        (("arms.csv", "--bounds", "1", "0"), "bounds"),
        (("arms.csv", "--seed", "-1", "--bounds", "0", "1"), "seed"),
        (("arms.csv", "--lease", "-5m", "--bounds", "0", "1"), "90s"),
        (
            ("arms.csv", "--forecaster", "mine", "--bounds", "0", "1"),
            "must be 'default' or 'own'; got 'mine'.",
        ),
        (("--options", "tea", "coffee"), "How large outcomes may be is not declared."),
        (("arms.csv", "--policy", "bernstein"), "How large outcomes may be is not declared."),
        (("--problem", "good.toml"), "0 and 1 for no and yes"),
        ((), "There are no options to try"),
        (("--options",), "There are no options to try"),
        (("--options", "tea,coffee"), "Separate names by spaces"),
        (("--options", "tea", "tea"), "`options` holds 'tea' twice."),
        (("--options", "tea", ""), "`options` holds '', which is empty."),
        (("--options", "tea"), "There is only one option, 'tea'"),
        (("arms.csv", "--options", "tea", "coffee"), "by name and in a file"),
        (("--options", "tea", "coffee", "--control", "milk", "--bounds", "0", "1"), "milk"),
        (("none.csv",), "no such file"),
        (("ragged.csv",), "line 2"),
        (("arms.csv", "--problem", "good.toml"), "options"),
        (("--problem", "good.toml", "--seed", "3"), "seed cannot be given"),
        (("--problem", "none.toml"), "no such file"),
        (("--problem", "arms.csv"), "is not a TOML file"),
        (("--problem", "binary.toml"), "is not a TOML file"),
        (("--problem", "unknown.toml"), "Did you mean baseline?"),
        (("--problem", "numbers.toml"), "`options` must be a file"),
        (("--problem", "bad_options.toml"), "`policy_options` must be a table"),
        (("--problem", "bad_features.toml"), "source"),
        (("--problem", "dates.toml"), "The option 'when' cannot be kept"),
    ],
)
def test_experiments(folder: Path, arguments: tuple[str, ...], hint: str) -> None:
    inline = "[options]\ntea = [1, 0]\ncoffee = [0, 1]\n"
    files = {
        "good.toml": inline,
        "ragged.csv": "1,0\n1\n",
        "unknown.toml": f"basline = 2\n{inline}",
        "numbers.toml": "options = 3\n",
        "bad_options.toml": f"policy_options = 3\n{inline}",
        "bad_features.toml": '[options]\ntea = [1, 0]\ncoffee = ["x", 1]\n',
        "dates.toml": f"noise = 1\n{inline}[policy_options]\nwhen = 2024-01-01\n",
        "broken_one.py": "def (:\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert hint in refused("create", "drinks", *arguments)
    assert invoke("list", "--json")[1].split() == ["{", '"experiments":', "[]", "}"]


@pytest.mark.parametrize(
    ("store", "hint"),
    [
        ("", "`url`"),
        ("sqlite:///:memory:", "`url`"),
        ("sqlite:///no/such/folder/store.db", "folder"),
        ("postgresql://nobody@127.0.0.1:1/none", "Check the host, the user, the password"),
    ],
)
def test_stores(store: str, hint: str) -> None:
    assert hint in refused("create", "drinks", "arms.csv", "--noise", "1", "--store", store)


def change(*statements: str) -> None:
    connection = sqlite3.connect("bestarm.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_log_that_was_changed(drinks: str) -> None:
    change("UPDATE bestarm_events SET at = at - 60 WHERE number = 0")
    code, out, err = invoke("verify", drinks)
    assert (code, err) == (1, "")
    assert "NOT SOUND" in out
    assert "- Event 0 (created)" in out
    code, out, _ = invoke("verify", drinks, "--json")
    report = json.loads(out)
    assert (code, report["sound"]) == (1, False)
    (hashed,) = report["findings"]
    assert hashed.startswith("Event 0 (created) does not have the hash")


def test_a_record_that_was_changed_is_not_played_again(drinks: str) -> None:
    with Experiment.open(STORE, drinks) as experiment:
        experiment.tell_many((n, 0.5) for n in range(1, 5))
        for _ in range(4):
            experiment.tell_many((n, 0.5) for n in experiment.ask(40).ids)
    change(
        "UPDATE bestarm_plans SET plan = replace(plan, '\"pulls\":', '\"pulls\":99999')"
        " WHERE phase > 1"
    )
    before = record()
    code, out, err = invoke("replay", drinks, "--json")
    assert (code, json.loads(out)["agrees"]) == (1, False)
    assert err.count("\n") == 1
    assert "verify" in refused("replay", drinks, code=1)
    assert "refuses summary" in refused("recommend", drinks)
    assert record() == before
    assert invoke("verify", drinks)[0] == 1


def test_a_plan_that_was_changed_is_held_against_the_log(drinks: str) -> None:
    """Plans on record are adopted, never recomputed: the log says whether they were changed."""
    with Experiment.open(STORE, drinks) as experiment:
        experiment.tell_many((n, 0.5) for n in range(1, 5))
        for _ in range(4):
            experiment.tell_many((n, 0.5) for n in experiment.ask(40).ids)
    change("UPDATE bestarm_plans SET plan = replace(plan, '\"pulls\":', '\"pulls\":1')")
    assert "The plan of phase 1 is not the one in the log" in refused("replay", drinks, code=1)
    assert invoke("verify", drinks)[0] == 1


def test_a_policy_of_ones_own_that_breaks_loses_nothing(folder: Path) -> None:
    (folder / "breaking.py").write_text(
        "from bestarm.policies import Uniform\n"
        "class Mine(Uniform):\n"
        "    def __init__(self, problem):\n"
        "        super().__init__(problem, budget=4)\n"
        "    def update(self, summary):\n"
        "        raise KeyError('tea')\n",
        encoding="utf-8",
    )
    assert invoke("create", "drinks", "arms.csv", "--policy", "breaking:Mine")[0] == 0
    invoke("ask", "drinks", "4")
    outcomes = "0,1\n1,1\n2,1\n3,1\n"
    allow = ("--allow-module", "breaking")
    message = refused("tell", "drinks", "--from", "-", *allow, stdin=outcomes)
    assert "'breaking:Mine' raised KeyError: 'tea'" in message
    with Experiment.open(STORE, "drinks") as experiment:
        assert len(experiment.outcomes()) == 4
    sys.modules.pop("breaking")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status", "nothing"), 2),
        (("--nothing",), 2),
        (("verify", "drinks"), 1),
    ],
)
def test_processes_end_without_a_traceback(
    drinks: str, arguments: tuple[str, ...], code: int
) -> None:
    if code == 1:
        change("UPDATE bestarm_experiments SET last_hash = ''")
    command = ForkedCommand("experiment", *arguments)
    _, message = command.communicate()
    assert command.returncode == code
    assert "Traceback" not in message
    if code == 2 and arguments != ("--nothing",):
        assert message.startswith("bestarm: ")
        assert message.count("\n") == 1
