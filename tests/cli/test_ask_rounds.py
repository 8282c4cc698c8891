"""`bestarm experiment ask` where a round has several options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestarm import Experiment
from bestarm.cli.app import app

CREATE = ("arms.csv", "--bounds", "0", "1", "--option", "block=2", "--seed", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BESTARM_STORE", raising=False)
    arms = "name,f1,f2\ntea,1,0\ncoffee,0,1\nwater,0.6,0.8\n"
    (tmp_path / "arms.csv").write_text(arms, encoding="utf-8")


def run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["experiment", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_every_line_says_the_round() -> None:
    run("create", "pairs", *CREATE)
    lines, _ = run("ask", "pairs", "2")
    with Experiment.open("sqlite:///bestarm.db", "pairs") as experiment:
        labels = experiment.assignments()["label"].tolist()
    wanted = [f"round {place // 2}  {place}  {label}" for place, label in enumerate(labels)]
    assert lines.splitlines() == wanted
    asked = json.loads(run("ask", "pairs", "--json")[0])
    assert [each["round"] for each in asked["assignments"]] == [2, 2]
    assert "6 assignments in 3 rounds" in run("status", "pairs")[0]


def test_where_fewer_rounds_are_made_it_says_so() -> None:
    run("create", "few", *CREATE, "--option", "max_pulls=7")
    made, why = run("ask", "few", "5")
    assert len(made.splitlines()) == 6
    assert "3 of 5 rounds made" in why
