"""Evaluations that nobody goes on with: no alarm, and not shown as running."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from judges import ITEMS, OPTIONS, score

from bestarm import Experiment, evaluate
from bestarm.live.store import Store
from bestarm.live.values import worst
from bestarm.live.watch.overview import Overview, overview
from bestarm.server.experiments import OpenExperiments
from bestarm.server.pages.panels import panels
from bestarm.server.pages.routes import listing

MINUTE, DAY = 60.0, 86_400.0


def judge_some(url: str, **options: Any) -> None:
    """Judge a few pairs; some that were asked for are left."""
    evaluate(score, OPTIONS, ITEMS, name="x", store=url, seed=3, max_cost=32, **options)


def kill(url: str, *, in_flight: int = 4) -> None:
    """Leave what a killed process leaves: a note that it judges, and no further one."""
    judge_some(url)
    with Experiment.open(url, "x") as experiment:
        experiment.note("Judging began, with 4 calls at a time.", in_flight=in_flight, lost=0)


def seen_after(url: str, seconds: float) -> Overview:
    now = time.time() + seconds
    with Experiment.open(url, "x", clock=lambda: now) as experiment:
        assert experiment.status().outstanding
        return overview(experiment)


def test_one_that_was_killed_is_not_an_alarm_but_interrupted(sqlite_url: str) -> None:
    kill(sqlite_url)
    soon = seen_after(sqlite_url, MINUTE)
    assert (soon.state, worst(soon.health)) == ("running", "ok")
    late = seen_after(sqlite_url, DAY)
    assert (late.state, worst(late.health)) == ("interrupted", "warning")
    [check] = [each for each in late.health if each.level != "ok"]
    assert check.name == "judging"
    assert check.action.startswith("To continue, start the same evaluation again")


def test_one_that_ended_for_now_is_interrupted_at_once_until_it_goes_on(sqlite_url: str) -> None:
    judge_some(sqlite_url)
    for seconds in (0, DAY):
        seen = seen_after(sqlite_url, seconds)
        assert (seen.state, worst(seen.health)) == ("interrupted", "warning")
    evaluate(score, OPTIONS, ITEMS, name="x", store=sqlite_url)
    with Experiment.open(sqlite_url, "x") as experiment:
        assert overview(experiment).state == "finished"
        assert "judging" not in [check.name for check in experiment.health()]


def test_one_that_was_paused_by_hand_is_paused(sqlite_url: str) -> None:
    judge_some(sqlite_url)
    with Experiment.open(sqlite_url, "x") as experiment:
        experiment.pause()
    seen = seen_after(sqlite_url, DAY)
    assert (seen.state, worst(seen.health)) == ("paused", "ok")


def test_what_was_in_flight_is_not_missing(sqlite_url: str) -> None:
    """More outcomes are outstanding than were told: they are judged when it goes on."""
    judge_some(sqlite_url)
    with Experiment.open(sqlite_url, "x") as experiment:
        for number in range(12):
            experiment.ask(unit=f"more {number}")
    found = {check.name: check.level for check in seen_after(sqlite_url, DAY).health}
    assert (found["missing"], found["overdue"]) == ("ok", "ok")


@pytest.mark.parametrize("killed", [True, False])
def test_list_and_page_show_it(killed: bool, sqlite_url: str) -> None:
    (kill if killed else judge_some)(sqlite_url)
    seen = seen_after(sqlite_url, DAY)
    assert ">interrupted</span>" in panels(seen)["verdict"]
    assert ">running</span>" not in panels(seen)["verdict"]
    store = Store(sqlite_url)
    _, part = listing(OpenExperiments(store), {}, {"x": seen.health}, None)
    store.close()
    assert part is not None
    assert part.rows[0][3] == "interrupted"


def test_an_experiment_that_draws_blocks_for_others_is_alarmed_as_ever(sqlite_url: str) -> None:
    with Experiment.create(
        sqlite_url, "x", OPTIONS, bounds=(0, 1), policy_options={"block": 3}
    ) as experiment:
        for assignment in experiment.ask(9)[:24]:
            experiment.tell(assignment.id, 0.5)
    seen = seen_after(sqlite_url, DAY)
    assert (seen.state, worst(seen.health)) == ("running", "alarm")


def test_the_page_says_how_many_options_a_round_tried_at_first_and_now(tmp_path: Path) -> None:
    """Where half of the options are ruled out, rounds are half as long."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    means = {"a": 0.9, "b": 0.88, "c": 0.86, "d": 0.1, "e": 0.1, "f": 0.1}

    def judge(option: str, item: str) -> float:
        return means[option]

    found = evaluate(judge, list(means), ITEMS, name="x", store=url, concurrency=1)
    assert found.state == "finished"
    with Experiment.open(url, "x") as experiment:
        seen = overview(experiment)
    assert seen.head.size < seen.block == 6
    [words] = re.findall(r"A round is [^.]*\.", panels(seen)["progress"])
    assert words == (
        "A round is one person, prompt or plate that tries 6 options, or those still possible: "
        f"{seen.head.size} at the end."
    )
