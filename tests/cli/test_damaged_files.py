"""Files that are damaged, or hold something else: a sentence and an exit code, no traceback."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from commands import invoke, refused

from bestarm import Experiment, Problem
from bestarm.live.store import Store
from bestarm.server.tokens import Role, create_token

NESTED = "[" * 5000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with something of everything."""
    path = tmp_path_factory.mktemp("made") / "store.db"
    problem = Problem(np.eye(3), source_labels=["a", "b", "c"])
    refund = {"bounds": [0, 1], "worse_by": 0.1, "alpha": 0.05, "action": "alert"}
    with Experiment.create(
        f"sqlite:///{path}",
        "t",
        problem,
        bounds=(0, 1),
        control="a",
        guardrails={"refund": refund},
        seed=1,
        lease=1e6,
    ) as experiment:
        ids = experiment.ask(40, request_id="first").ids
        experiment.tell_many({number: 0.5 * (number % 2) for number in ids[:30]})
        experiment.tell(ids[30], refund=1)
        experiment.fail(ids[31], "gone")
    with closing(Store(f"sqlite:///{path}")) as store:
        create_token(store, "me", Role.VIEW)
    return path


def run_all(path: Path, *only: str) -> dict[str, str]:
    """What commands say of a store, all of them or some; fails at a traceback."""
    store = ["--store", f"sqlite:///{path}"]
    out = path.parent / "export.csv"
    known = {
        "list": ["experiment", "list", *store],
        **{
            name: ["experiment", name, "t", *store]
            for name in ("status", "recommend", "health", "log", "verify", "replay")
        },
        "export": ["experiment", "export", "t", "--out", str(out), *store],
        "ask": ["experiment", "ask", "t", "2", *store],
        "tell": ["experiment", "tell", "t", "33", "1", *store],
        "fail": ["experiment", "fail", "t", "34", *store],
        "stop": ["experiment", "stop", "t", *store],
        "tokens": ["token", "list", *store],
        "doctor": ["doctor", *store],
    }
    message = {}
    for name in only or known:
        code, *written = invoke(*known[name])
        message[name] = "".join(written)
        assert code in {0, 1, 2}, (name, written)
        assert "Traceback" not in message[name], name
    return message


BROKEN_TEXT = "CAST(x'fffe41' AS TEXT)"
DAMAGE = {
    "a document that is not in UTF-8": ("documents", f"document = {BROKEN_TEXT}", "status"),
    "a description that is not in UTF-8": ("experiments", f"description = {BROKEN_TEXT}", "list"),
    "a name that is not in UTF-8": ("experiments", f"name = {BROKEN_TEXT}", "list"),
    "an event that is not in UTF-8": ("events", f"data = {BROKEN_TEXT}", "log"),
    "a plan that is not in UTF-8": ("plans", f"plan = {BROKEN_TEXT}", "ask"),
    "a token that is not in UTF-8": ("tokens", f"name = {BROKEN_TEXT}", "tokens"),
    "a list for a document": ("documents", "document = '[]'", "status"),
    "a document without an end": ("documents", f"document = '{NESTED}'", "status"),
    "a word for options": (
        "documents",
        "document = json_set(document, '$.options', 'x')",
        "status",
    ),
    "a word for the seed": ("documents", "document = json_set(document, '$.seed', 'x')", "ask"),
    "a number for the policy": (
        "documents",
        "document = json_set(document, '$.policy', 7)",
        "status",
    ),
    "a number for the labels": (
        "documents",
        "document = json_set(document, '$.source_labels', 7)",
        "status",
    ),
    "one bound": (
        "documents",
        "document = json_set(document, '$.traits.bounds', json('[1]'))",
        "status",
    ),
    "a list for an event": ("events", "data = '[]'", "log"),
    "a number for a summary": ("summaries", "summary = '7'", "recommend"),
    "a list for a plan": ("plans", "plan = '[]'", "ask"),
    "an endless plan": ("plans", f"plan = '{NESTED}'", "ask"),
    "a value of no guardrail": ("values", "guardrail = 7", "export"),
    "a value of the guardrail before the first": ("values", "guardrail = -1", "export"),
    "a role that there is not": ("tokens", "role = 9", "tokens"),
}


@pytest.mark.parametrize(("table", "change", "command"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_store(made: Path, tmp_path: Path, table: str, change: str, command: str) -> None:
    path = tmp_path / "store.db"
    shutil.copy(made, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE bestarm_{table} SET {change}")
    message = run_all(path, "list", "status", "verify", "ask", "tell", command)[command]
    assert "Restore" in message or "restore" in message or "cannot be read" in message, message
    assert "can be made again" not in message  # nothing that would help


def test_a_store_whose_bytes_were_changed(made: Path, tmp_path: Path) -> None:
    """SQLite then quotes what it cannot read, and that need not be a text either."""
    path, words = tmp_path / "store.db", b"CREATE TABLE bestarm_"
    path.write_bytes(made.read_bytes().replace(words, b"\xff" * len(words)))
    assert "bestarm:" in run_all(path)["status"]


def test_a_store_that_was_cut_short(made: Path, tmp_path: Path) -> None:
    data, path = made.read_bytes(), tmp_path / "store.db"
    for share in (0.01, 0.5, 0.95):
        path.write_bytes(data[: int(share * len(data))])
        run_all(path)


COMMANDS = (
    "experiment create x",
    "experiment create x --problem",
    "experiment tell t --from",
    "design",
    "check",
)
CONTENTS = {
    "not UTF-8": b"id,reward\n\xff\xfe,1\n",
    "UTF-16": "id,reward\n0,1\n".encode("utf-16"),
    "zeros": b"\0" * 300,
    "an endless field": b'"' + b"x" * 200_000,
    "nested": b"a = " + b"[" * 5000,
    "JSON": b'{"a": [1, 2]}',
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_what_was_asked_for(
    made: Path, folder: Path, command: str, content: bytes
) -> None:
    shutil.copy(made, folder / "bestarm.db")
    (folder / "given.csv").write_bytes(content)
    (folder / "arms.csv").write_text("old\nnew\n", encoding="utf-8")
    refused(*command.split(), "given.csv")


@pytest.mark.parametrize("settings", ["[]", "7", "null", '"x"', NESTED, "\udcff", "{"])
def test_a_replication_whose_settings_are_damaged(tmp_path: Path, settings: str) -> None:
    folder = tmp_path / "out"
    (folder / "journal").mkdir(parents=True)
    (folder / "settings.json").write_bytes(settings.encode("utf-8", "surrogateescape"))
    for more in ([], ["--resume"]):
        arguments = ["reproduce", "small-gap", "--runs", "1", "--out", str(folder), *more]
        assert "cannot be read" in refused(*arguments)
