"""The lead over a control on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bestarm import AnytimeBAI, Experiment
from bestarm.cli.app import app

URL = "sqlite:///bestarm.db"


@pytest.fixture(autouse=True)
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BESTARM_STORE", raising=False)
    Path("names.csv").write_text("name\nold\nnew\n", encoding="utf-8")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["experiment", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def data(*arguments: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return read


def play(reward: Callable[[int, int], float], *options: str) -> None:
    given = [word for option in ("control=old", *options) for word in ("--option", option)]
    run("create", "t", "names.csv", "--bounds", "0", "1", "--seed", "1", *given)
    with Experiment.open(URL, "t") as experiment:
        while not experiment.finished:
            batch = experiment.ask(64)
            experiment.tell_many([(each.id, reward(each.id, each.arm)) for each in batch])


def test_status_and_recommend_say_by_how_much() -> None:
    play(lambda number, arm: float(number % 10 < 4 + 5 * arm), "expected_gap=0.5")
    told, effect = data("status", "t"), data("recommend", "t")["effect"]
    assert (effect["label"], effect["control"]) == ("old", 0)
    assert 0 < effect["lower"] < 0.5 < effect["upper"]
    lead = f"Its lead over the control ‘old’ is +{100 * effect['estimate']:.1f} points ("
    assert lead in told["verdict"]
    assert told["verdict"] in run("status", "t")
    words = run("recommend", "t")
    assert f"its lead over 'old', the control, is +{100 * effect['estimate']:.1f} points" in words
    rates = data("recommend", "t")["rates"]
    assert [each["label"] for each in rates] == ["old", "new"]
    assert rates[1]["estimate"] - rates[0]["estimate"] == pytest.approx(effect["estimate"])
    assert f"- new: {100 * rates[1]['estimate']:.1f} % (" in words
    assert "95 % for all intervals, at all times together" in words
    assert f"- new: {100 * rates[1]['estimate']:.1f} % (" in run("status", "t")


def test_another_version_of_the_policy_shows_what_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(lambda _, arm: float(arm))
    monkeypatch.setattr(AnytimeBAI, "version", AnytimeBAI.version + 1)
    assert data("status", "t")["verdict"].startswith("‘new’ is the best of 2 options, at 95 %")


def test_equivalent_is_said() -> None:
    play(lambda number, _: float(number % 10 < 5), "tolerance=0.3")
    assert data("recommend", "t")["reason"] == "equivalent"
    assert "No option is better than the control ‘old’ by more than 30 points" in run("status", "t")


def test_before_the_end_there_is_no_verdict() -> None:
    run("create", "t", "names.csv", "--bounds", "0", "1", "--option", "control=new")
    assert data("status", "t")["verdict"] is None
    assert data("recommend", "t")["effect"] is None
