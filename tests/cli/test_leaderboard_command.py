"""`bestarm leaderboard` from the outside: its folder, one's own method, its refusals."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bestarm.cli.app import app

pytest.importorskip("jinja2")
FEW = ("--only", "lucb", "--only", "uniform", "--instance", "six-means", "--drift", "none")


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without pictures, which take longer than all the runs."""
    monkeypatch.setattr("bestarm.studies.report.draw_section", lambda *_: [])


def leaderboard(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["leaderboard", *map(str, arguments)])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix}


@pytest.mark.usefixtures("quick_workers")
def test_results_do_not_depend_on_workers_and_can_be_resumed(tmp_path: Path) -> None:
    one = leaderboard(*FEW, "--runs", 4, "--workers", 1, "--out", tmp_path / "one", "--json")
    assert one.exit_code == 0, one.output
    two = leaderboard(*FEW, "--runs", 4, "--workers", 2, "--out", tmp_path / "two")
    assert two.exit_code == 0, two.output
    assert files(tmp_path / "one") == files(tmp_path / "two")
    cells = json.loads(one.stdout)["cells"]
    assert [(cell["method"], cell["goal"], cell["rank"]) for cell in cells] == [
        ("lucb", "confidence", 1),
        ("uniform", "budget", 1),
    ]
    # Resumed with fewer runs known, it makes the others.
    journal = tmp_path / "two" / "journal" / "six-means.none.lucb.csv"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]) + b"3,1")
    assert leaderboard(*FEW, "--runs", 4, "--workers", 1, "--out", tmp_path / "two").exit_code == 2
    again = leaderboard(*FEW, "--runs", 4, "--workers", 1, "--out", tmp_path / "two", "--resume")
    assert again.exit_code == 0, again.output
    assert files(tmp_path / "one") == files(tmp_path / "two")


@pytest.mark.usefixtures("no_pictures")
def test_a_method_of_ones_own_stands_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text(
        "from bestarm.policies import LUCB\n\n\nclass Mine(LUCB):\n    pass\n"
    )
    made = leaderboard(*FEW, "--method", "my_rules:Mine:sigma=0.5", "--runs", 2, "--workers", 1)
    assert made.exit_code == 0, made.output
    assert "my_rules:Mine:sigma=0.5" in (tmp_path / "leaderboard" / "report.md").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_a_method_of_ones_own_gets_the_column_s_budget_and_is_judged_by_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_budgets.py").write_text(
        "from bestarm.policies import Uniform\n\n\n"
        "def spend(problem, *, seed, budget):\n"
        "    return Uniform(problem, budget=budget, seed=seed)\n"
    )
    methods = ("my_budgets:spend", "uniform:budget=6", "lucb:max_pulls=10")
    options = [part for method in methods for part in ("--method", method)]
    made = leaderboard(*FEW, *options, "--runs", 4, "--workers", 1, "--json")
    assert made.exit_code == 0, made.output
    cells = {cell["method"]: cell for cell in json.loads(made.stdout)["cells"]}
    assert {name: cell["goal"] for name, cell in cells.items()} == {
        "lucb": "confidence",
        "lucb:max_pulls=10": "confidence",
        "uniform": "budget",
        "my_budgets:spend": "budget",
        "uniform:budget=6": "budget",
    }
    assert cells["my_budgets:spend"]["pulls"] == cells["uniform"]["pulls"] == 500
    assert cells["uniform:budget=6"]["pulls"] == 6
    assert cells["uniform:budget=6"]["errors"] > cells["uniform"]["errors"]
    assert (cells["lucb"]["rank"], cells["lucb:max_pulls=10"]["rank"]) == (1, 2)
    assert cells["lucb:max_pulls=10"]["cut"] == 4


GIVES_UP = """
from bestarm.policies import LUCB


class Mine(LUCB):
    def __init__(self, problem, *, seed, max_pulls=None):
        super().__init__(problem, max_pulls={pulls})
"""


def rewrite(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a module as if in a new process."""
    path = Path(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("no_pictures")
def test_runs_of_two_versions_of_a_method_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite("my_changes", GIVES_UP.format(pulls=50), monkeypatch)
    own = ("--method", "my_changes:Mine", "--workers", 1, "--json")
    assert leaderboard(*FEW, *own, "--runs", 2).exit_code == 0
    journals = {path.name: path.read_bytes() for path in Path("leaderboard/journal").iterdir()}
    rewrite("my_changes", GIVES_UP.format(pulls=500), monkeypatch)
    refused = leaderboard(*FEW, *own, "--runs", 4, "--resume")
    assert refused.exit_code == 2
    assert "The code of the method has changed" in refused.stderr
    # Nothing ran before, not even methods that have not changed.
    assert journals == {
        path.name: path.read_bytes() for path in Path("leaderboard/journal").iterdir()
    }
    # Another method beside it changes nothing.
    rewrite("my_changes", GIVES_UP.format(pulls=50), monkeypatch)
    rewrite("my_others", GIVES_UP.format(pulls=70), monkeypatch)
    again = leaderboard(*FEW, *own, "--method", "my_others:Mine", "--runs", 4, "--resume")
    assert again.exit_code == 0, again.output
    pulls = {cell["method"]: cell["pulls"] for cell in json.loads(again.stdout)["cells"]}
    assert (pulls["my_changes:Mine"], pulls["my_others:Mine"]) == (50, 70)


@pytest.mark.usefixtures("no_pictures")
def test_methods_of_similar_names_have_journals_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite("my_pack_inner", GIVES_UP.format(pulls=50), monkeypatch)
    rewrite("my_pack.inner", GIVES_UP.format(pulls=500), monkeypatch)
    monkeypatch.delitem(sys.modules, "my_pack", raising=False)
    names = [f"{module}:Mine" for module in ("my_pack_inner", "my_pack.inner")]
    names += ["lucb:sigma=1.5", "lucb:sigma=1_5"]
    options = [part for name in names for part in ("--method", name)]
    made = leaderboard(*FEW, *options, "--runs", 2, "--workers", 1, "--json")
    assert made.exit_code == 0, made.output
    pulls = {cell["method"]: cell["pulls"] for cell in json.loads(made.stdout)["cells"]}
    assert [pulls[name] for name in names[:2]] == [50, 500]
    assert len(list(Path("leaderboard/journal").iterdir())) == 2 + len(names)
    resumed = leaderboard(*FEW, *options, "--runs", 2, "--workers", 1, "--json", "--resume")
    assert resumed.stdout == made.stdout


@pytest.mark.usefixtures("no_pictures")
def test_a_damaged_journal_is_named_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert leaderboard(*FEW, "--runs", 2, "--workers", 1, "--out", out).exit_code == 0
    journal = out / "journal" / "six-means.none.uniform.csv"
    content = b"#" + journal.read_bytes()
    journal.write_bytes(content)
    refused = leaderboard(*FEW, "--runs", 3, "--workers", 1, "--out", out, "--resume")
    assert refused.exit_code == 2
    assert "The first line of" in refused.stderr
    assert str(journal) in refused.stderr
    assert journal.read_bytes() == content
    assert len((out / "journal" / "six-means.none.lucb.csv").read_text().splitlines()) == 3


@pytest.mark.usefixtures("no_pictures")
def test_a_method_that_is_entered_twice_plays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rewrite("my_doubles", GIVES_UP.format(pulls=50), monkeypatch)
    twice = ("my_doubles:Mine", "lucb:sigma=2,max_pulls=90")
    again = ("LUCB", "uniform", "my_doubles:Mine", "lucb:max_pulls=90, sigma=2")
    options = [part for method in (*twice, *again) for part in ("--method", method)]
    made = leaderboard(*FEW, *options, "--runs", 2, "--workers", 1, "--json")
    assert made.exit_code == 0, made.output
    cells = json.loads(made.stdout)["cells"]
    assert [cell["method"] for cell in cells] == ["lucb", *twice, "uniform"]
    assert "fixed means, no drift" in (tmp_path / "leaderboard" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--method", "anytime:top=2"), "names 2 targets"),
        (("--method", "anytime:forecasts=True"), "needs a forecast"),
        (("--method", "lucb:sigma=-1"), "cannot be made"),
        (("--only", "lucbb"), "lucbb"),
        (("--drift", "storm"), "storm"),
        (("--runs", 1), "runs"),
        (("--method", "nowhere:Mine"), "nowhere"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(
    arguments: tuple[object, ...], sentence: str, tmp_path: Path
) -> None:
    few = (*FEW, "--runs", 2)
    refused = leaderboard(*few, *arguments, "--workers", 1, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert sentence in refused.stderr
    assert "Traceback" not in refused.output
    assert not (tmp_path / "out").exists()
