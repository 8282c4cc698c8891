"""Pending steps are taken although nobody asks, and one experiment that is broken stops nothing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import wait_until
from served import ARMS, get, in_thread
from served import create as post_experiment

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.server import experiments as server_experiments
from bestarm.server.experiments import Maintenance, OpenExperiments


def create(url: str, name: str, **settings: Any) -> Experiment:
    problem = Problem(np.eye(2), delta=0.05)
    return Experiment.create(
        url, name, problem, policy_options={"bounds": [0, 1]}, seed=0, **settings
    )


def create_overdue(url: str, *names: str) -> None:
    """Experiments with assignments whose leases have run out."""
    now = time.time()
    for name in names:
        with create(url, name, lease=5.0, clock=lambda: now - 100) as made:
            made.ask(4)


@pytest.fixture
def experiments(sqlite_url: str) -> Iterator[OpenExperiments]:
    opened = OpenExperiments(Store(sqlite_url))
    yield opened
    opened.store.close()


def test_leases_run_out_while_nobody_asks(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_experiments, "_EVERY", 0.05)
    with in_thread(sqlite_url) as served, served.client() as client:
        for name, lease in (("short", 0.2), ("long", 1000)):
            path = post_experiment(client, name, **ARMS, lease=lease)
            client.post(f"{path}/ask", json={"count": 3})
        wait_until(lambda: client.get("/experiments/short").json()["lost"] == 3)
        assert client.get("/experiments/long").json()["lost"] == 0


def test_the_list_says_what_is_wrong_with_an_experiment(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_experiments, "_EVERY", 0.05)
    with create(sqlite_url, "sound") as sound, create(sqlite_url, "losing") as losing:
        sound.tell_many([(each.id, 1.0) for each in sound.ask(200)])
        losing.fail_many(losing.ask(200).ids)
    with in_thread(sqlite_url) as served:
        wait_until(lambda: 'class="check alarm"' in get(served.base).text)
        page = get(served.base).text
        head, tail = page.split('href="/experiments/losing"')
        assert "200 of 200 outcomes" in tail.split("</li>")[0]
        assert page.count('class="check') == 1
        assert "<li" in head


def test_nothing_is_written_where_nothing_is_due(
    sqlite_url: str, experiments: OpenExperiments
) -> None:
    with create(sqlite_url, "a", lease=1000) as running, create(sqlite_url, "b") as ended:
        running.ask(5)
        ended.stop()
        keeper = Maintenance(experiments)
        before = running.revision, ended.revision
        for _ in range(3):
            keeper.run_once()
        assert (running.revision, ended.revision) == before
        assert set(keeper.checks) == {"a", "b"}


def test_an_error_of_somebody_elses_policy_stops_nothing(
    sqlite_url: str,
    experiments: OpenExperiments,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    create_overdue(sqlite_url, "failing", "sound")
    failing = experiments.open("failing")

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(failing, "expire", fail)
    Maintenance(experiments).run_once()
    assert experiments.open("sound").status().lost == 4
    assert "Maintenance skips an experiment" in caplog.text


def test_every_experiment_has_its_turn_and_what_is_new_comes_first(
    sqlite_url: str, experiments: OpenExperiments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is ours: a check takes a third of the time that a round has for them."""
    work, seen = 0.0, list[str]()
    monkeypatch.setattr(time, "thread_time", lambda: work)
    for number in range(7):
        with create(sqlite_url, f"over {number}") as made:
            made.stop()
    for number in range(5):
        create(sqlite_url, f"running {number}").close()
    keeper = Maintenance(experiments)

    def check(name: str) -> None:
        nonlocal work
        work += server_experiments._HEALTH / 2.5
        seen.append(name)

    monkeypatch.setattr(keeper, "_check", check)
    keeper.run_once()
    assert seen == ["running 4", "running 3", "running 2"]
    for _ in range(3):
        keeper.run_once()
    assert len(seen) == len(set(seen)) == 12
    seen.clear()
    keeper.run_once()  # nothing is new: those that run have another turn
    with Experiment.open(sqlite_url, "running 2") as changed:
        changed.ask(1)
    keeper.run_once()
    assert len(seen) == 6
    assert seen[3] == "running 2"
    assert set(seen) == {f"running {number}" for number in range(5)}


def test_what_is_gone_is_forgotten(
    sqlite_url: str, experiments: OpenExperiments, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        create(sqlite_url, name).close()
    keeper = Maintenance(experiments)
    keeper.run_once()
    assert set(keeper.checks) == {"a", "b"}
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("DELETE FROM bestarm_experiments WHERE name = 'a'")
    keeper.run_once()
    assert set(keeper.checks) == {"b"}


def test_an_experiment_that_cannot_be_read_keeps_no_other_from_being_seen_to(
    sqlite_url: str, experiments: OpenExperiments, tmp_path: Path
) -> None:
    create_overdue(sqlite_url, "broken", "sound")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        broken = "(SELECT id FROM bestarm_experiments WHERE name = 'broken')"
        change = f"UPDATE bestarm_documents SET document = 'x' WHERE experiment = {broken}"
        assert connection.execute(change).rowcount == 1
    Maintenance(experiments).run_once()
    assert experiments.open("sound").status().lost == 4
