"""The folder of a replication keeps finished runs whatever happens, and only what belongs in it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.environments import small_gap
from bestarm.errors import InvalidInputError
from bestarm.policies import LUCB
from bestarm.problem import Problem
from bestarm.simulation import Outcome
from bestarm.simulation.folder import Journal, open_folder, simulate_into

RUNS = [Outcome(i, 100 + i, i % 3 > 0, i % 2 > 0, i > 3, i % 5, 1 + i, 100 + i) for i in range(6)]
SETTINGS: dict[str, object] = {"version": "1", "seed": 0}


@settings(deadline=None)
@given(cut=st.integers(0, 200), recipe=st.text(max_size=20))
def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(
    cut: int, recipe: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("journal") / "row.csv"
    journal = Journal(path, recipe)
    assert journal.read() == []
    journal.add(RUNS[:2])
    journal.add(RUNS[2:4])
    content = path.read_bytes()
    path.write_bytes(content[:cut])
    kept = Journal(path, recipe).read()
    first = content.index(b"\n") + 1
    whole = content[first : max(cut, first)].count(b"\n")
    assert kept == RUNS[:whole]
    again = Journal(path, recipe)
    again.add(RUNS[4:])
    assert Journal(path, recipe).read() == RUNS[:whole] + RUNS[4:]


@pytest.mark.parametrize(
    ("recipe", "version", "message"),
    [
        ("another", "mine 1", "runs of something else: one, not another"),
        ("one", "mine 2", "has changed since .* it was mine 1, and is mine 2"),
        ("one", "", "has changed since .* it was mine 1, and is built in"),
    ],
)
def test_a_journal_of_something_else_is_refused_and_kept(
    recipe: str, version: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "row.csv"
    journal = Journal(path, "one", "mine 1")
    journal.read()
    journal.add(RUNS)
    content = path.read_bytes()
    other = Journal(path, recipe, version)
    for look in (other.check, other.read):
        with pytest.raises(InvalidInputError, match=message) as raised:
            look()
        assert (raised.value.field, raised.value.value) == ("out", str(path))
        assert "another folder" in raised.value.remedy
    assert path.read_bytes() == content
    assert Journal(path, "one", "mine 1").read() == RUNS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["row.csv"]


@pytest.mark.parametrize(
    "first",
    [b'# "onf\n', b"", b"\n", b'# "one"\r\n', b'# "one', b"# 5\n", b"# [1, 2]\n", b"\xff\xfe\n"],
)
def test_a_damaged_first_line_is_reported_and_its_runs_are_kept(
    first: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "row.csv"
    journal = Journal(path, "one")
    journal.read()
    journal.add(RUNS)
    content = first + path.read_bytes().partition(b"\n")[2]
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="first line") as raised:
        Journal(path, "one").read()
    assert "delete this file" in raised.value.remedy
    assert path.read_bytes() == content


def method_with(problem: Problem, *, rule: object) -> LUCB:
    return LUCB(problem, max_pulls=30)


def test_an_address_in_memory_is_not_part_of_what_a_journal_says(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    for rule in [object(), object()]:
        found = simulate_into(
            tmp_path,
            "row",
            partial(method_with, rule=rule),
            small_gap(),
            runs=2,
            seed=0,
            delta=0.1,
        )
        assert found.runs == 2


@pytest.mark.parametrize(
    "line",
    [
        "3,-5,1,1,0,1,5",
        "-1,5,1,1,0,1,5",
        "3,5,7,1,0,1,5",
        f"3,{10**23},1,1,0,1,5",
        "3,5,1,1,0",
        "3,many,1,1,0,1,5",
        "",
    ],
)
def test_a_line_that_cannot_be_a_run_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "row.csv"
    journal = Journal(path, "one")
    journal.read()
    journal.add(RUNS[:3])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InvalidInputError, match="Line 5"):
        Journal(path, "one").read()


def test_a_folder_is_resumed_only_when_asked_and_only_with_its_settings(
    tmp_path: Path,
) -> None:
    out = tmp_path / "a" / "b"
    with open_folder(out, SETTINGS, resume=False):
        pass
    with pytest.raises(InvalidInputError, match="Resume them"):
        open_folder(out, SETTINGS, resume=False).__enter__()
    with pytest.raises(InvalidInputError, match="seed: 0, not 1"):
        open_folder(out, SETTINGS | {"seed": 1}, resume=True).__enter__()
    with open_folder(out, SETTINGS, resume=True):
        pass
    (out / "settings.json").write_text("{")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        open_folder(out, SETTINGS, resume=True).__enter__()


def test_resuming_nothing_begins(tmp_path: Path) -> None:
    with open_folder(tmp_path / "new", SETTINGS, resume=True):
        assert json.loads((tmp_path / "new" / "settings.json").read_text()) == SETTINGS
    (tmp_path / "killed early" / "journal").mkdir(parents=True)
    with open_folder(tmp_path / "killed early", SETTINGS, resume=False):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(InvalidInputError, match="other things"):
            open_folder(tmp_path, SETTINGS, resume=resume).__enter__()
        with pytest.raises(InvalidInputError, match="is a file"):
            open_folder(tmp_path / "thesis.tex", SETTINGS, resume=resume).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="this system has no file locks of this kind")
    script = (
        "import sys; from pathlib import Path\n"
        "from bestarm.simulation.folder import open_folder\n"
        f"with open_folder(Path(sys.argv[1]), {SETTINGS!r}, resume=True): pass\n"
    )
    out = tmp_path / "out"
    with open_folder(out, SETTINGS, resume=False):
        other = subprocess.run(
            [sys.executable, "-c", script, str(out)], capture_output=True, text=True, check=False
        )
    assert other.returncode == 1
    assert "Another process is writing" in other.stderr
    with open_folder(out, SETTINGS, resume=True):
        pass
