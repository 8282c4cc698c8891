"""`bestarm leaderboard` from the outside: its folder, one's own method, its refusals."""

from __future__ import annotations

import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import commands
import pytest
from terminal import start_command

pytest.importorskip("jinja2")
pytestmark = pytest.mark.usefixtures("folder")

FEW = ("--only", "lucb", "--only", "uniform", "--instance", "six-means", "--drift", "none")
run = partial(commands.run, "leaderboard", *FEW)
refused = partial(commands.refused, "leaderboard", *FEW)
HERE = ("--workers", "1")
JOURNAL = Path("leaderboard/journal")


def cells(*arguments: str, methods: tuple[str, ...] = ()) -> dict[str, Any]:
    """The cells of a leaderboard by method, with these methods of one's own."""
    own = [part for method in methods for part in ("--method", method)]
    found = commands.data("leaderboard", *FEW, *own, *HERE, *arguments)["cells"]
    return {cell["method"]: cell for cell in found}


def files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix}


@pytest.mark.usefixtures("no_pictures")
def test_it_can_be_resumed() -> None:
    found = cells("--runs", "4")
    assert [(name, cell["goal"], cell["rank"]) for name, cell in found.items()] == [
        ("lucb", "confidence", 1),
        ("uniform", "budget", 1),
    ]
    # Resumed with fewer runs known, it makes the others.
    whole = files("leaderboard")
    journal = JOURNAL / "six-means.none.lucb.csv"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]) + b"3,1")
    Path("leaderboard/cells.csv").unlink()
    refused("--runs", "4", *HERE)
    run("--runs", "4", *HERE, "--resume")
    assert files("leaderboard") == whole


def test_a_method_of_ones_own_gets_the_column_s_budget_and_is_judged_by_its_errors() -> None:
    Path("my_budgets.py").write_text(
        "from bestarm.policies import Uniform\n\n\n"
        "def spend(problem, *, budget):\n"
        "    return Uniform(problem, budget=budget)\n"
    )
    methods = ("my_budgets:spend", "uniform:budget=6", "lucb:max_pulls=10")
    found = cells("--runs", "4", methods=methods)
    assert {name: cell["goal"] for name, cell in found.items()} == {
        "lucb": "confidence",
        "lucb:max_pulls=10": "confidence",
        "uniform": "budget",
        "my_budgets:spend": "budget",
        "uniform:budget=6": "budget",
    }
    assert found["my_budgets:spend"]["pulls"] == found["uniform"]["pulls"] == 500
    assert found["uniform:budget=6"]["pulls"] == 6
    assert found["uniform:budget=6"]["errors"] > found["uniform"]["errors"]
    assert (found["lucb"]["rank"], found["lucb:max_pulls=10"]["rank"]) == (1, 2)
    assert found["lucb:max_pulls=10"]["cut"] == 4
    assert "my_budgets:spend" in Path("leaderboard/report.md").read_text()
    assert list(Path("leaderboard/figures").glob("*.png"))


GIVES_UP = """
from bestarm.policies import LUCB


class Mine(LUCB):
    def __init__(self, problem, *, seed, max_pulls=None):
        super().__init__(problem, max_pulls={pulls})
"""


def rewrite(name: str, pulls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a module whose method gives up after so many pulls, as if in a new process."""
    path = Path(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(GIVES_UP.format(pulls=pulls))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("no_pictures")
def test_runs_of_two_versions_of_a_method_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite("my_changes", 50, monkeypatch)
    own = ("--method", "my_changes:Mine", *HERE)
    run(*own, "--runs", "2")
    journals = {path.name: path.read_bytes() for path in JOURNAL.iterdir()}
    rewrite("my_changes", 500, monkeypatch)
    message = refused(*own, "--runs", "4", "--resume")
    assert "The code of the method has changed" in message
    # Nothing ran before, not even methods that have not changed.
    assert journals == {path.name: path.read_bytes() for path in JOURNAL.iterdir()}
    # Another method beside it changes nothing.
    rewrite("my_changes", 50, monkeypatch)
    rewrite("my_others", 70, monkeypatch)
    found = cells("--runs", "4", "--resume", methods=("my_changes:Mine", "my_others:Mine"))
    assert [found[name]["pulls"] for name in ("my_changes:Mine", "my_others:Mine")] == [50, 70]


@pytest.mark.usefixtures("no_pictures")
def test_methods_of_similar_names_have_journals_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite("my_pack_inner", 50, monkeypatch)
    rewrite("my_pack.inner", 500, monkeypatch)
    monkeypatch.delitem(sys.modules, "my_pack", raising=False)
    methods = ("my_pack_inner:Mine", "my_pack.inner:Mine", "lucb:sigma=1.5", "lucb:sigma=1_5")
    found = cells("--runs", "2", methods=methods)
    assert [found[name]["pulls"] for name in methods[:2]] == [50, 500]
    assert len(list(JOURNAL.iterdir())) == 2 + len(methods)
    assert cells("--runs", "2", "--resume", methods=methods) == found


@pytest.mark.usefixtures("no_pictures")
def test_a_damaged_journal_is_named_before_anything_runs() -> None:
    run("--runs", "2", *HERE)
    journal = JOURNAL / "six-means.none.uniform.csv"
    content = b"#" + journal.read_bytes()
    journal.write_bytes(content)
    message = refused("--runs", "3", *HERE, "--resume")
    assert "The first line of" in message
    assert str(journal) in message
    assert journal.read_bytes() == content
    assert len((JOURNAL / "six-means.none.lucb.csv").read_text().splitlines()) == 3


@pytest.mark.usefixtures("no_pictures")
def test_a_method_that_is_entered_twice_plays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite("my_doubles", 50, monkeypatch)
    twice = ("my_doubles:Mine", "lucb:sigma=2,max_pulls=90")
    again = ("LUCB", "uniform", "my_doubles:Mine", "lucb:max_pulls=90, sigma=2")
    assert [*cells("--runs", "2", methods=twice + again)] == ["lucb", *twice, "uniform"]
    assert "fixed means, no drift" in Path("leaderboard/report.md").read_text()


LOGS = """
import logging, time

from bestarm.policies import RAGE


class Mine(RAGE):
    def update(self, summary):
        logging.getLogger("bestarm.mine").info("A note.")
        time.sleep(0.01)
        super().update(summary)
"""


def test_lines_on_a_terminal_stand_above_the_bar_and_not_within_it() -> None:
    Path("my_notes.py").write_text(LOGS)
    options = ("--method", "my_notes:Mine", *FEW, "--runs", "200", *HERE)
    with start_command("leaderboard", *options) as running:
        running.wait_until_shown(r"(?s)(A note.*){3}")
        code, _, shown = running.interrupt()
    assert code == 130
    assert "Traceback" not in shown
    coloured = r"\x1b\[[0-9;?]*[a-zA-JL-Z]"  # all but what erases a line
    *before, last = re.sub(coloured, "", shown).split("bestarm: ")
    assert len(before) > 2
    assert all(text.endswith(("\n", "\x1b[2K")) for text in before)
    assert last.startswith("interrupted; finished runs are kept.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--method", "anytime:top=2"), "names 2 targets"),
        (("--method", "anytime:forecasts=True"), "needs a forecast"),
        (("--method", "lucb:sigma=-1"), "cannot be made"),
        (("--only", "lucbb"), "lucbb"),
        (("--drift", "storm"), "storm"),
        (("--runs", "1"), "runs"),
        (("--method", "nowhere:Mine"), "nowhere"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused("--runs", "2", *arguments, *HERE)
    assert not Path("leaderboard").exists()
