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
from typer.testing import CliRunner

from bestarm import Experiment
from bestarm.cli.app import app

invoke = partial(commands.invoke, "experiment")
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
        (("99", "0.5"), "never given out"),
        (("-1", "0.5"), "never given out"),
        (("99999999999999999999999", "0.5"), "never given out"),
        (("1", "nan"), "finite"),
        (("1", "inf"), "finite"),
        (("1", "-inf"), "finite"),
        (("1", "1e400"), "finite"),
        (("1", "7"), "between 0 and 1"),
        (("1", "-0.01"), "between 0 and 1"),
        (("1", "good"), "`reward` must be a number, or true or false; got 'good'"),
        (("1", ""), "`reward` must be a number"),
        (("one", "0.5"), "`id` must be a whole number; got 'one'"),
        (("1.5", "0.5"), "whole number"),
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
        ("id,reward\n1,0.5\n1,0.6\n", "Assignment 1 was already told 0.5"),
        ("id,reward\n1,0.5\n0,0.6\n", "already told"),
        ("id,reward\n1,0.5\n77,0.6\n", "77 was never given out"),
        ("id,reward\n1,0.5\n2,nan\n", "finite"),
        ("id,reward\n1,0.5\n2,none\n", "line 3"),
        ("id,reward\n1,0.5\n2\n", "missing in line 3"),
        ("id,reward\n1.0,0.5\n", "line 2"),
        ("id,value\n1,0.5\n", "'id' and 'reward'"),
        ("one\n", "'id' and 'reward'"),
        ("1,0.5,3\n", "3 fields in line 1"),
        ("1\n", "1 fields in line 1"),
        ('id,reward\n1,"0.5\n2,0.5', "line 3"),
    ],
)
def test_tables_of_outcomes(drinks: str, folder: Path, table: str, hint: str) -> None:
    before = record()
    assert hint in refused("tell", drinks, "--from", "-", stdin=table)
    (folder / "o.csv").write_text(table, encoding="utf-8")
    assert hint in refused("tell", drinks, "--from", "o.csv")
    assert record() == before


def test_tables_that_are_none(drinks: str, folder: Path) -> None:
    message = refused("tell", drinks, "--from", "none.csv")
    assert (
        "'none.csv' cannot be read or written: no such file or directory. Check its name" in message
    )
    assert "is a directory. Name a file." in refused("tell", drinks, "--from", str(folder))
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00\x01\x80")
    wanted = "is not text in UTF-8. Save it as CSV in UTF-8."
    assert f"'binary.csv' {wanted}" in refused("tell", drinks, "--from", "binary.csv")
    arguments = ["experiment", "tell", drinks, "--from", "-"]
    result = CliRunner().invoke(app, arguments, input=b"\xff\xfe")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert wanted in result.stderr


def test_an_empty_table_tells_nothing(drinks: str) -> None:
    before = record()
    for table in ("", "id,reward\n", "\n\n"):
        code, out, _ = invoke("tell", drinks, "--from", "-", "--json", stdin=table)
        assert (code, json.loads(out)["recorded"]) == (0, 0)
    assert record() == before


def test_failures(drinks: str) -> None:
    before = record()
    assert "already told 0.5" in refused("fail", drinks, "0")
    assert "never given out" in refused("fail", drinks, "1", "99")
    assert "whole number" in refused("fail", drinks, "1", "x")
    assert "`id` must be a whole number from 0" in refused("fail", drinks, "-3")
    assert record() == before


@pytest.mark.parametrize("count", ["0", "-3"])
def test_counts(drinks: str, count: str) -> None:
    before = record()
    for arguments in ((count,), ("--", count)):
        message = refused("ask", drinks, *arguments)
        assert f"`count` must be a whole number from 1 to 10000000; got {count}." in message
    assert record() == before


def test_leases(drinks: str) -> None:
    before = record()
    for length in ("-5", "soon", "nan", ""):
        assert f"`lease` must be a time like 90s, 30m, 12h or 2d; got {length!r}." in refused(
            "lease", drinks, length
        )
    assert record() == before


def test_requests(drinks: str) -> None:
    invoke("ask", drinks, "2", "--request-id", "a")
    before = record()
    assert "asked for 2 before" in refused("ask", drinks, "3", "--request-id", "a")
    assert "request_id" in refused("ask", drinks, "--request-id", "")
    assert record() == before


def test_names(drinks: str) -> None:
    before = record()
    assert "already" in refused("create", "drinks", "arms.csv")
    assert "name" in refused("create", "", "arms.csv")
    assert "name" in refused("create", "x" * 201, "arms.csv")
    every = [("ask",), ("tell",), ("fail",), ("status",), ("recommend",), ("health",), ("log",)]
    every += [("verify",), ("replay",), ("pause",), ("resume",), ("stop",), ("export",)]
    further = {"tell": ("0", "1"), "fail": ("0",), "export": ("--out", "o.csv")}
    for (verb,) in every:
        message = refused(verb, "drink", *further.get(verb, ()))
        assert "no experiment 'drink'" in message
        assert "'drinks'" in message
    assert record() == before


def test_states_that_do_not_follow(drinks: str) -> None:
    invoke("stop", drinks)
    before = record()
    assert "is stopped cannot be paused" in refused("pause", drinks)
    assert "is stopped cannot be resumed" in refused("resume", drinks)
    assert invoke("stop", drinks)[0] == 0  # repeated, it is harmless
    assert record() == before


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("arms.csv", "--delta", "5"), "Did you mean 0.05?"),
        (("arms.csv", "--noise", "-1"), "noise"),
        (
            ("arms.csv", "--policy", "sp_bay"),
            "There is no policy 'sp_bay'. Did you mean sp-bai? Known are anytime",
        ),
        (("arms.csv", "--policy", "nowhere:Mine"), "No module named 'nowhere'"),
        (("arms.csv", "--policy", "broken_one:Mine"), "SyntaxError"),
        (("arms.csv", "--policy", "math:pi"), "policy"),
        (
            ("arms.csv", "--option", "colour=red"),
            "The policy 'anytime' has no option 'colour'. Its options are bounds",
        ),
        (("one.csv",), "There is only one option, 'tea'. Give at least two."),
        (("arms.csv", "--option", "max_pulls"), "key=value"),
        (("arms.csv", "--option", "top=1", "--option", "top=1"), "each key once"),
        (("arms.csv", "--option", "max_pulls=many"), "max_pulls"),
        (("arms.csv", "--option", "seed=3"), "seed"),
        (("arms.csv", "--bounds", "1", "0"), "bounds"),
        (
            ("arms.csv", "--bounds", "0", "nan"),
            "`bounds` must be two finite numbers, the lower one first; got (0.0, nan).",
        ),
        (("arms.csv", "--bounds", "0", "1", "--option", "bounds=(0, 2)"), "given twice"),
        (("arms.csv", "--seed", "-1"), "seed"),
        (("arms.csv", "--lease", "soon"), "90s"),
        (("arms.csv", "--forecaster", "mine"), "must be 'default' or 'own'; got 'mine'."),
        (("arms.csv", "--lease", "0"), "90s"),
        (("arms.csv", "--lease", "-5m"), "90s"),
        ((), "There are no options to try"),
        (("none.csv",), "no such file"),
        (("ragged.csv",), "line 2"),
        (("arms.csv", "--target", "other.csv"), "features"),
        (("arms.csv", "--problem", "good.toml"), "source"),
        (("--problem", "good.toml", "--seed", "3"), "seed cannot be given"),
        (("--problem", "none.toml"), "no such file"),
        (("--problem", "arms.csv"), "is not a TOML file"),
        (("--problem", "binary.toml"), "is not a TOML file"),
        (("--problem", "unknown.toml"), "Did you mean baseline?"),
        (("--problem", "numbers.toml"), "`source` must be a file"),
        (("--problem", "bad_options.toml"), "`options` must be a table"),
        (("--problem", "bad_policy.toml"), "policy"),
        (("--problem", "bad_lease.toml"), "lease"),
        (("--problem", "bad_seed.toml"), "seed"),
        (("--problem", "bad_features.toml"), "source"),
        (("--problem", "bad_delta.toml"), "delta"),
        (("--problem", "dates.toml"), "The option 'when' cannot be kept"),
    ],
)
def test_experiments(folder: Path, arguments: tuple[str, ...], hint: str) -> None:
    inline = "[source]\ntea = [1, 0]\ncoffee = [0, 1]\n"
    files = {
        "good.toml": inline,
        "ragged.csv": "1,0\n1\n",
        "one.csv": "tea\n",
        "other.csv": "1,0,0\n0,1,0\n",
        "unknown.toml": f"basline = 2\n{inline}",
        "numbers.toml": "source = 3\n",
        "bad_options.toml": f"options = 3\n{inline}",
        "bad_policy.toml": f"policy = 3\n{inline}",
        "bad_lease.toml": f"lease = [1]\n{inline}",
        "bad_seed.toml": f"seed = 1.5\n{inline}",
        "bad_features.toml": '[source]\ntea = [1, 0]\ncoffee = ["x", 1]\n',
        "bad_delta.toml": f'delta = "small"\n{inline}',
        "dates.toml": f"{inline}[options]\nwhen = 2024-01-01\n",
        "broken_one.py": "def (:\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert hint in refused("create", "drinks", *arguments)
    assert invoke("list", "--json")[1].split() == ["{", '"experiments":', "[]", "}"]


@pytest.mark.parametrize(
    "store",
    ["", "nonsense", "foo://bar", "mysql://a/b", "sqlite://", "sqlite:///:memory:", "store.db"],
)
def test_urls(store: str) -> None:
    assert "`url`" in refused("status", "drinks", "--store", store)
    assert "`url`" in refused("create", "drinks", "arms.csv", "--store", store)


def test_stores_that_are_none(folder: Path) -> None:
    (folder / "text.db").write_text("no database at all, " * 100, encoding="utf-8")
    assert "not a database" in refused("status", "drinks", "--store", "sqlite:///text.db")
    assert (folder / "text.db").read_text(encoding="utf-8").startswith("no database")
    store = "sqlite:///no/such/folder/store.db"
    assert "folder" in refused("create", "drinks", "arms.csv", "--store", store)
    store = "postgresql://nobody@127.0.0.1:1/none"
    message = refused("status", "drinks", "--store", store)
    assert "Cannot connect to the database (" in message
    assert "Check the host, the user, the password" in message


def change(*statements: str) -> None:
    connection = sqlite3.connect("bestarm.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_store_of_a_newer_version(drinks: str, folder: Path) -> None:
    change("UPDATE bestarm_version SET version_num = '9999'")
    content = (folder / "bestarm.db").read_bytes()
    for arguments in (("status", drinks), ("ask", drinks), ("list",), ("verify", drinks)):
        assert "version 9999" in refused(*arguments)
    assert "version 9999" in refused("create", "second", "arms.csv")
    assert (folder / "bestarm.db").read_bytes() == content


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


def test_a_damaged_record(drinks: str) -> None:
    change("UPDATE bestarm_documents SET document = '{'")
    for verb in ("status", "verify", "ask"):
        assert "cannot be read" in refused(verb, drinks)


def test_exports(drinks: str, folder: Path) -> None:
    assert ".csv or .parquet" in refused("export", drinks, "--out", "out.xlsx")
    assert "no such file" in refused("export", drinks, "--out", "no/out.csv")
    assert "no such file" in refused("report", drinks, "--out", "no/out.html")
    (folder / "folder.csv").mkdir()
    assert "directory" in refused("export", drinks, "--out", "folder.csv")
    assert invoke("export", drinks, "--layout", "wide")[0] == 2


def test_numbers_of_the_log(drinks: str) -> None:
    assert "start" in refused("log", drinks, "--start", "-1")
    assert "last" in refused("log", drinks, "--last", "0")
    assert invoke("log", drinks, "--start", "99")[:2] == (0, "")


def test_a_policy_of_ones_own_that_breaks_loses_nothing(folder: Path) -> None:
    (folder / "breaking.py").write_text(
        "from bestarm.policies import Uniform\n"
        "class Mine(Uniform):\n"
        "    def __init__(self, problem, *, seed=0):\n"
        "        super().__init__(problem, budget=4, seed=seed)\n"
        "    def update(self, summary):\n"
        "        raise KeyError('tea')\n",
        encoding="utf-8",
    )
    assert invoke("create", "drinks", "arms.csv", "--policy", "breaking:Mine")[0] == 0
    invoke("ask", "drinks", "4")
    message = refused("tell", "drinks", "--from", "-", stdin="0,1\n1,1\n2,1\n3,1\n")
    assert "'breaking:Mine' raised KeyError: 'tea'" in message
    with Experiment.open(STORE, "drinks") as experiment:
        assert len(experiment.outcomes()) == 4
    sys.modules.pop("breaking")


@pytest.mark.usefixtures("drinks")
def test_a_store_or_a_policy_that_is_not_there_is_refused() -> None:
    refused("status", "x", "--store", "sqlite:///no/x.db")
    refused("create", "x", "arms.csv", "--policy", "nothing")


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
