"""`bestarm leaderboard` from the outside: its folder, one's own method, its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bestarm.cli.app import app

pytest.importorskip("jinja2")
FEW = ("--only", "lucb", "--only", "uniform", "--instance", "six-means", "--drift", "none")


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
    journal = tmp_path / "two" / "journal" / "lucb.six-means.none.csv"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]) + b"3,1")
    assert leaderboard(*FEW, "--runs", 4, "--workers", 1, "--out", tmp_path / "two").exit_code == 2
    again = leaderboard(*FEW, "--runs", 4, "--workers", 1, "--out", tmp_path / "two", "--resume")
    assert again.exit_code == 0, again.output
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_method_of_ones_own_stands_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text(
        "from bestarm.policies import LUCB\n\n\nclass Mine(LUCB):\n    pass\n"
    )
    made = leaderboard(*FEW, "--method", "my_rules:Mine:sigma=0.5", "--runs", 2, "--workers", 1)
    assert made.exit_code == 0, made.output
    assert "my_rules:Mine:sigma=0.5" in (tmp_path / "leaderboard" / "leaderboard.md").read_text()


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "lucbb"), "lucbb"),
        (("--drift", "storm"), "storm"),
        (("--runs", 1), "runs"),
        (("--method", "nowhere:Mine"), "nowhere"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(
    arguments: tuple[object, ...], said: str, tmp_path: Path
) -> None:
    refused = leaderboard(*arguments, "--workers", 1, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.output
