"""A signal that comes while runs are made ends a simulation, and keeps the runs that have ended."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import data, run

from bestarm import AnytimeBAI, environments
from bestarm.planning import worker
from bestarm.policies.anytime.group import AnytimeGroup
from bestarm.simulation import simulate

PLANNING = "--gap", "0.9", "--policy", "anytime", "--runs", "12"
PLAN = {"source": [[1, 0], [0, 1]], "gap": 0.9, "policies": ["anytime"], "runs": 12}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of a program in a terminal."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Ended:
    """Runs of the anytime rule side by side; a signal comes when the first has ended.

    Not in the first `batches` groups of runs.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = signal.SIGINT
        self.batches = 0
        groups: list[AnytimeGroup] = []
        carry_out = AnytimeGroup._carry_out

        def carry_out_interrupted(group: AnytimeGroup, *given: Any) -> None:
            if not any(each is group for each in groups):
                groups.append(group)
            if len(groups) > self.batches and not group.running.all():
                signal.raise_signal(self.number)
            carry_out(group, *given)

        monkeypatch.setattr(AnytimeGroup, "_carry_out", carry_out_interrupted)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Ended:
    return Ended(monkeypatch)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_while_runs_stand_side_by_side_gives_back_those_that_have_ended() -> None:
    world = environments.small_gap(declared_baseline=2)
    part = simulate(partial(AnytimeBAI, mean_bound=2), world, runs=5)
    assert part.interrupted
    assert 0 < part.runs < 5


@pytest.mark.usefixtures("interrupted")
def test_a_comparison_keeps_the_finished_runs() -> None:
    found = data("compare", "--method", "anytime:mean_bound=2", "--runs", "5", code=130)
    (row,) = found["methods"]
    assert 0 < row["runs"] < 5


@pytest.mark.usefixtures("interrupted")
def test_a_leaderboard_keeps_the_finished_runs(tmp_path: Path) -> None:
    columns = "--only", "anytime", "--instance", "six-means", "--drift", "none", "--runs", "5"
    options = (*columns, "--workers", "1", "--out", str(tmp_path / "board"))
    message = run("leaderboard", *options, code=130)[1]
    assert "interrupted; finished runs are kept." in message
    (journal,) = (tmp_path / "board" / "journal").iterdir()
    _, *runs = journal.read_text().splitlines()
    assert 0 < len(runs) < 5


@pytest.fixture
def options(tmp_path: Path) -> str:
    (tmp_path / "options.csv").write_text("old,1,0\nnew,0,1\n", encoding="utf-8")
    return str(tmp_path / "options.csv")


def test_a_plan_keeps_the_batches_that_finished(options: str, interrupted: Ended) -> None:
    """Runs that end first are the shortest: those of the second batch do not count."""
    interrupted.batches = 1
    (forecast,) = data("plan", options, *PLANNING, code=130)["forecasts"]
    assert forecast["runs"] == 6


@pytest.mark.usefixtures("interrupted")
def test_a_plan_says_so_if_too_little_was_simulated(options: str) -> None:
    message = run("plan", options, *PLANNING, code=130)[1]
    assert "interrupted before enough experiments had been simulated." in message


def test_a_plan_for_the_server_ends_with_its_time(
    interrupted: Ended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = json.dumps(PLAN | {"delta": 0.05, "seed": 0, "seconds": 600})
    interrupted.number, interrupted.batches = signal.SIGALRM, 1
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(request))
    worker.main()
    *_, last = capsys.readouterr().out.splitlines()
    plan = json.loads(last)["plan"]
    assert (plan["interrupted"], plan["timed_out"]) == (False, True)
    assert plan["forecasts"][0]["runs"] == 6
