"""Phases close after those who told are answered: one call at a time, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import json
from threading import Event
from typing import Any

import pytest
from sent_by_hand import request
from served import ARMS, PATIENCE, in_thread

from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment, Receipt
from bestarm.live.store.sql import Store
from bestarm.problem import Problem
from bestarm.server.closing import Closings
from bestarm.server.experiments import OpenExperiments
from bestarm.server.security.limits import Limits
from bestarm.server.security.tokens import Role
from bestarm.server.streams import StatusStreams

UNIFORM: dict[str, Any] = {"policy": "uniform", "options": {"budget": 4}}


class Phases:
    """Closes phases, once it is let."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.let = asyncio.Semaphore(0)
        self.error: Exception | None = None
        self.more = False

    async def close(self, name: str) -> bool:
        self.closed.append(name)
        await self.let.acquire()
        if self.error is not None:
            raise self.error
        return self.more


@pytest.fixture
def long_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestarm.server.closing._REST", 1e9)
    monkeypatch.setattr("bestarm.server.closing._LONGEST", 1e9)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_becomes_due_meanwhile_is_left_to_one_more_call() -> None:
    async def run() -> None:
        phases = Phases()
        closings = Closings(phases.close)
        await closings.done("a")  # nothing is due
        closings.add("a")
        first = asyncio.create_task(closings.done("a"))
        await settled()
        for _ in range(3):
            closings.add("a")
        closings.add("b")
        second = asyncio.create_task(closings.done("a"))
        await settled()
        assert phases.closed == ["a", "b"]
        phases.let.release()
        await first
        await settled()
        assert phases.closed == ["a", "b", "a"]
        assert not second.done()  # the call that it waits for has only begun
        phases.let.release()
        phases.let.release()
        await second
        await closings.finish()
        assert phases.closed == ["a", "b", "a"]

    asyncio.run(run())


@pytest.mark.usefixtures("long_rests")
def test_what_was_due_is_done_to_the_end_and_what_is_new_is_left_to_the_next_call() -> None:
    async def run() -> None:
        phases = Phases()
        phases.more = True
        closings = Closings(phases.close)
        closings.add("a")
        waiting = asyncio.create_task(closings.done("a"))
        await settled()
        phases.let.release()
        await settled()
        assert phases.closed == ["a", "a"]
        assert not waiting.done()
        closings.add("a")
        phases.let.release()
        await waiting
        await settled()
        assert phases.closed == ["a", "a"]  # it rests
        phases.more = False
        phases.let.release()
        await closings.finish()
        assert phases.closed == ["a", "a", "a"]

    asyncio.run(run())


@pytest.mark.usefixtures("long_rests")
def test_between_two_calls_there_is_a_rest_unless_somebody_waits() -> None:
    async def run() -> None:
        phases = Phases()
        closings = Closings(phases.close)
        closings.add("a")
        await settled()
        closings.add("a")
        phases.let.release()
        await settled()
        closings.add("a")  # two that are due while it rests are one
        await settled()
        assert phases.closed == ["a"]
        reading = asyncio.create_task(closings.done("a", patience=PATIENCE))
        await settled()
        assert phases.closed == ["a", "a"]
        assert not reading.done()
        phases.let.release()
        await reading
        await closings.done("a")  # nothing is due, though it rests
        closings.add("a")
        phases.let.release()
        async with asyncio.timeout(PATIENCE):  # who finishes does not rest
            await closings.finish()
        assert phases.closed == ["a", "a", "a"]

    asyncio.run(run())


def test_who_only_reads_does_not_wait_for_long() -> None:
    async def run() -> None:
        phases = Phases()
        closings = Closings(phases.close)
        closings.add("a")
        await settled()
        closings.add("a")
        await closings.done("a", patience=0.0)
        assert phases.closed == ["a"]  # it is still at work
        patient = asyncio.create_task(closings.done("a", patience=1e6))
        phases.let.release()
        await settled()
        assert not patient.done()
        phases.let.release()
        await patient
        await closings.finish()

    asyncio.run(run())


@pytest.mark.parametrize("error", [StoreUnavailableError("gone", field="url"), ValueError("odd")])
def test_a_call_that_fails_holds_nobody_up(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        phases = Phases()
        phases.error = error
        closings = Closings(phases.close)
        closings.add("a")
        waiting = asyncio.create_task(closings.done("a"))
        await settled()
        phases.let.release()
        await waiting
        assert closings.failed == {"a"}
        phases.error = None
        closings.add("a")
        phases.let.release()
        await closings.finish()
        assert phases.closed == ["a", "a"]
        assert not closings.failed

    asyncio.run(run())
    assert "A phase of 'a' is closed later" in caplog.text


def test_who_tells_is_answered_before_the_phase_closes_and_who_reads_after(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, let = Store(store_url), Event()
    Experiment.create(store, "offer", Problem([[1, 0], [0, 1]]), **UNIFORM).ask(4)
    advance = Experiment.advance

    def advance_later(experiment: Experiment) -> None:
        assert let.wait(PATIENCE)
        advance(experiment)

    monkeypatch.setattr(Experiment, "advance", advance_later)
    experiments = OpenExperiments(store, limits=Limits())

    async def run() -> tuple[Receipt, str, str]:
        receipt = await experiments.tell("offer", [(number, 0.5) for number in range(4)])
        with Experiment.open(store_url, "offer") as another:
            before = another.state
            assert another.status().answered == 4  # on record, though the phase is open
        reading = asyncio.create_task(experiments.read("offer", lambda each: each.state))
        await settled()
        assert not reading.done()
        let.set()
        after = await reading
        await experiments.closings.finish()
        return receipt, before, after

    assert asyncio.run(run()) == (Receipt(4, 0, 0), "running", "finished")
    store.close()


def test_a_server_that_stops_closes_first_what_is_due(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let, begun, advance = Event(), Event(), Experiment.advance

    def advance_later(experiment: Experiment) -> None:
        begun.set()
        assert let.wait(PATIENCE)
        advance(experiment)

    monkeypatch.setattr(Experiment, "advance", advance_later)
    finish = Closings.finish

    async def let_and_finish(closings: Closings) -> None:
        let.set()  # only now that the server stops
        await finish(closings)

    monkeypatch.setattr(Closings, "finish", let_and_finish)
    body = {"name": "offer", **ARMS, **UNIFORM}
    outcomes = [{"id": number, "reward": 1} for number in range(4)]
    with in_thread(sqlite_url) as served, served.client() as client:
        client.post("/experiments", json=body).raise_for_status()
        client.post("/experiments/offer/ask", json={"count": 4}).raise_for_status()
        told = client.post("/experiments/offer/tell", json={"outcomes": outcomes})
        assert told.json()["recorded"] == 4
        assert begun.wait(PATIENCE)
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert experiment.state == "finished"


def test_a_server_that_stops_finishes_what_one_told_who_went_away(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let, begun, tell_each = Event(), Event(), Experiment.tell_each

    def tell_later(experiment: Experiment, *told: Any, **options: Any) -> Any:
        begun.set()
        assert let.wait(PATIENCE)
        return tell_each(experiment, *told, **options)

    monkeypatch.setattr(Experiment, "tell_each", tell_later)
    stop = StatusStreams.stop

    def let_and_stop(streams: StatusStreams) -> None:
        let.set()  # only now that the server stops
        stop(streams)

    monkeypatch.setattr(StatusStreams, "stop", let_and_stop)
    body = json.dumps({"outcomes": [{"id": number, "reward": 1} for number in range(4)]}).encode()
    with in_thread(sqlite_url) as served, served.client() as client:
        client.post("/experiments", json={"name": "offer", **ARMS, **UNIFORM}).raise_for_status()
        with served.client(Role.TELL) as teller:
            teller.post("/experiments/offer/ask", json={"count": 4}).raise_for_status()
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        with served.connect() as connection:
            connection.sendall(request(served, *lines) + body)
            assert begun.wait(PATIENCE)
        client.get("/experiments").raise_for_status()  # it has seen that the other is gone
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert experiment.state == "finished"
