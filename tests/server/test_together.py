"""Those who ask and tell at the same time: one transaction for many, an answer for each."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest
import uvicorn
from databases import wait_until
from recorded import told
from served import HANG_TIMEOUT, Served, create, in_thread, outcomes, wrong

from bestarm import AnytimeBAI, Problem
from bestarm.errors import (
    ConflictingOutcomeError,
    StoreUnavailableError,
    UnknownAssignmentError,
    UnknownExperimentError,
)
from bestarm.live import Experiment
from bestarm.live.ask import Ask
from bestarm.live.engine import Engine
from bestarm.live.store import Store
from bestarm.live.tell import Tell
from bestarm.records import Summary
from bestarm.server.experiments import OpenExperiments
from bestarm.server.tokens import Role, revoke_token, token_number

Telling = Callable[[dict[int, float]], "asyncio.Task[Any]"]


class Gate:
    """Commits that wait until they are let through, and the ids of each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.let = Event(), Event()
        self.groups: list[list[int]] = []
        self.error: Exception | None = None
        commit = Engine.commit

        def gated(engine: Engine, calls: Sequence[Ask | Tell]) -> Sequence[Any]:
            told = [call for call in calls if isinstance(call, Tell)]
            if not told:
                return commit(engine, calls)
            self.groups.append([number for call in told for number in call.ids])
            self.begun.set()
            assert self.let.wait(HANG_TIMEOUT)
            if self.error is not None and len(calls) > 1:
                raise self.error
            return commit(engine, calls)

        patch.setattr(Engine, "commit", gated)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def experiments(sqlite_url: str) -> Iterator[OpenExperiments]:
    opened = OpenExperiments(Store(sqlite_url))
    settings: dict[str, Any] = {"policy_options": {"bounds": [0, 1]}, "seed": 0}
    opened.create("offer", Problem([[1, 0], [0, 1]]), **settings).ask(40)
    yield opened
    opened.close()


@pytest.fixture
def tell(experiments: OpenExperiments) -> Telling:
    def start(rewards: dict[int, float]) -> asyncio.Task[Any]:
        call = Tell(list(rewards), list(rewards.values()))
        return asyncio.create_task(experiments.tell("offer", call))

    return start


async def happened(event: Event) -> None:
    assert await asyncio.to_thread(event.wait, HANG_TIMEOUT)


async def let_through(gate: Gate, tell: Telling, *each: dict[int, float]) -> list[Any]:
    """The answers to calls, all but the first of which come while the first is at work."""
    first = tell(each[0])
    await happened(gate.begun)
    others = [tell(rewards) for rewards in each[1:]]
    await asyncio.sleep(0)
    gate.let.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


@pytest.mark.anyio
async def test_what_comes_in_during_a_transaction_is_recorded_in_the_next_in_order(
    experiments: OpenExperiments, tell: Telling, gate: Gate
) -> None:
    receipts = await let_through(gate, tell, *({number: 1.0} for number in (5, 3, 9, 1)))
    assert [receipt.recorded for receipt in receipts] == [1] * 4
    assert told(experiments.open("offer")) == dict.fromkeys((1, 3, 5, 9), 1.0)
    assert gate.groups == [[5], [3, 9, 1]]


@pytest.mark.anyio
async def test_an_error_is_for_its_caller_alone(
    experiments: OpenExperiments, tell: Telling, gate: Gate
) -> None:
    found = await let_through(gate, tell, {0: 1.0}, {0: 0.0}, {99: 1.0}, {1: 1.0}, {0: 1.0})
    assert isinstance(found[1], ConflictingOutcomeError)
    assert isinstance(found[2], UnknownAssignmentError)
    assert (found[0].recorded, found[3].recorded, found[4].repeated) == (1, 1, 1)
    assert told(experiments.open("offer")) == {0: 1.0, 1: 1.0}
    assert len(gate.groups) == 2


@pytest.mark.anyio
async def test_a_transaction_that_fails_fails_for_its_group_and_no_other(
    experiments: OpenExperiments, tell: Telling, gate: Gate
) -> None:
    gate.error = StoreUnavailableError("The disk is full.", field="url")
    found = await let_through(gate, tell, {0: 1.0}, {1: 1.0}, {2: 1.0})
    assert found[0].recorded == 1
    assert [type(each) for each in found[1:]] == [StoreUnavailableError] * 2
    assert (await tell({1: 0.5})).recorded == 1
    assert told(experiments.open("offer")) == {0: 1.0, 1: 0.5}


@pytest.mark.anyio
async def test_one_who_has_gone_while_waiting_is_left_out(
    experiments: OpenExperiments, tell: Telling, gate: Gate
) -> None:
    first = tell({0: 1.0})
    await happened(gate.begun)
    gone, other = tell({1: 1.0}), tell({2: 1.0})
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    gate.let.set()
    await asyncio.gather(first, other)
    assert told(experiments.open("offer")) == {0: 1.0, 2: 1.0}
    assert gate.groups == [[0], [2]]


def test_an_unknown_experiment_is_an_error_and_leaves_nothing_behind(
    experiments: OpenExperiments,
) -> None:
    with pytest.raises(UnknownExperimentError):
        asyncio.run(experiments.tell("nothing", Tell([0], [1.0])))
    assert list(experiments._open) == ["offer"]


class SlowSteps:
    """Steps of a policy that wait until they are let through: closing a phase, then the next."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.closing, self.close, self.amending, self.amend = (Event() for _ in range(4))
        update, amend = AnytimeBAI.update, AnytimeBAI.amend

        def updated(policy: AnytimeBAI, summary: Summary) -> None:
            self.closing.set()
            assert self.close.wait(HANG_TIMEOUT)
            update(policy, summary)

        def amended(policy: AnytimeBAI, summary: Summary, *, phase: int) -> None:
            self.amending.set()
            assert self.amend.wait(HANG_TIMEOUT)
            amend(policy, summary, phase=phase)

        patch.setattr(AnytimeBAI, "update", updated)
        patch.setattr(AnytimeBAI, "amend", amended)


@pytest.mark.anyio
async def test_tells_are_answered_while_a_step_is_taken(
    experiments: OpenExperiments, tell: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that left it pending waits for it, and not for those that others leave pending."""
    slow = SlowSteps(monkeypatch)
    try:
        closing = tell(dict.fromkeys(range(35), 0.5))
        await happened(slow.closing)
        for number in range(35, 40):
            assert (await tell({number: 0.5})).recorded == 1
        assert not closing.done()
        slow.close.set()
        await happened(slow.amending)
        assert (await tell({0: 0.5})).repeated == 1
        assert (await closing).recorded == 35
    finally:
        slow.close.set()
        slow.amend.set()
    await asyncio.to_thread(experiments.writing.pool.shutdown)
    experiment = experiments.open("offer")
    assert told(experiment) == dict.fromkeys(range(40), 0.5)
    with experiment.read() as snapshot:
        assert not snapshot.head.stage.is_pending
    assert experiment.verify().sound


@pytest.mark.anyio
async def test_one_who_tells_alone_is_answered_when_no_step_is_pending(
    experiments: OpenExperiments, tell: Telling
) -> None:
    """No thread is left behind that looks for steps, and that a later tell would not wait for."""
    for number in range(40):
        await tell({number: 0.5})
        with experiments.open("offer").read() as snapshot:
            assert not snapshot.head.stage.is_pending
        assert not experiments._tasks
    assert experiments.open("offer").phase > 1


@pytest.mark.anyio
async def test_a_step_that_fails_is_an_error_of_the_tell_that_waits_for_it(
    experiments: OpenExperiments, tell: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr(AnytimeBAI, "update", fail)
    with pytest.raises(ArithmeticError):
        await tell(dict.fromkeys(range(40), 0.5))
    assert told(experiments.open("offer")) == dict.fromkeys(range(40), 0.5)


def test_a_server_that_stops_answers_those_who_wait(
    sqlite_url: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is at work and the others wait as it is told to stop."""
    waiting: list[Tell] = []
    tell, shutdown = OpenExperiments.tell, uvicorn.Server.shutdown

    async def tell_and_count(self: OpenExperiments, name: str, call: Tell) -> Any:
        waiting.append(call)
        return await tell(self, name, call)

    async def stop(self: uvicorn.Server, **options: Any) -> None:
        gate.let.set()
        await shutdown(self, **options)

    monkeypatch.setattr(OpenExperiments, "tell", tell_and_count)
    monkeypatch.setattr(uvicorn.Server, "shutdown", stop)
    with ThreadPoolExecutor(5) as pool:
        with in_thread(sqlite_url) as served, served.client() as client:
            offer = create(client)
            client.post(f"{offer}/ask", json={"count": 5}).raise_for_status()

            def post(number: int) -> httpx.Response:
                with served.client() as own:
                    return own.post(f"{offer}/tell", json=outcomes({number: 1}))

            answers = [pool.submit(post, 0)]
            assert gate.begun.wait(HANG_TIMEOUT)
            answers += [pool.submit(post, number) for number in range(1, 5)]
            wait_until(lambda: len(waiting) == 5)
            assert not any(each.done() for each in answers)
        assert [each.result().json()["recorded"] for each in answers] == [1] * 5
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert told(experiment) == dict.fromkeys(range(5), 1.0)


# --- over HTTP, each by its own token ------------------------------------------------------------


@pytest.fixture
def served(store_url: str) -> Iterator[Served]:
    with in_thread(store_url) as running, running.client() as client:
        create(client)
        yield running


@pytest.fixture
def known(served: Served) -> Served:
    """A server that knows the token, and has given out assignments."""
    with served.client(Role.TELL) as client:
        client.post("/experiments/offer/ask", json={"count": 400}).raise_for_status()
    return served


def ask_together(client: httpx.Client, name: str, *, callers: int) -> list[dict[str, Any]]:
    def ask(_: int) -> dict[str, Any]:
        answer = client.post(f"/experiments/{name}/ask", json={"count": 1})
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        return body

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, range(callers)))


def test_those_who_ask_together_get_one_each(served: Served) -> None:
    with served.client(Role.TELL) as client:
        batches = ask_together(client, "offer", callers=100)
        assert {len(batch["assignments"]) for batch in batches} == {1}
        given = [batch["assignments"][0] for batch in batches]
        assert sorted(each["id"] for each in given) == list(range(100))
        assert client.get("/experiments/offer").json()["outstanding"] == 100


def test_those_who_ask_together_get_whole_rounds(served: Served) -> None:
    options = {"bounds": [0, 1], "block": 3}
    with served.client() as client:
        create(client, "taste", options=["tea", "coffee", "water"], policy_options=options)
        batches = ask_together(client, "taste", callers=50)
    rounds = [{each["round"] for each in batch["assignments"]} for batch in batches]
    assert sorted(number for of_one in rounds for number in of_one) == list(range(50))
    for batch in batches:
        assert sorted(each["label"] for each in batch["assignments"]) == ["coffee", "tea", "water"]


def test_where_a_phase_has_fewer_left_the_others_wait(served: Served) -> None:
    with served.client() as client:
        create(
            client, "short", source=[[1, 0], [0, 1]], policy="uniform", policy_options={"budget": 4}
        )
        batches = ask_together(client, "short", callers=7)
    given = [(len(batch["assignments"]), batch["waiting"]) for batch in batches]
    assert sorted(given) == [(0, 4)] * 3 + [(1, 0)] * 4


def test_many_who_tell_at_once_are_each_answered_for_themselves(known: Served) -> None:
    """Of every ten, two contradict, one is out of bounds and one was never given out."""
    with known.client() as client:

        def tell(number: int) -> httpx.Response:
            further = {
                3: {number - 3: 0},
                5: {number - 5: 0},
                7: {number: 3},
                9: {4000 + number: 1},
            }
            rewards = {number: 1} | further.get(number % 10, {})
            return client.post("/experiments/offer/tell", json=outcomes(rewards))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(tell, range(0, 200, 10)))  # what will be contradicted
            answers = list(pool.map(tell, range(200)))
        for number, answer in enumerate(answers):
            kind = number % 10
            status = {3: 409, 5: 409, 7: 422, 9: 404}.get(kind, 200)
            assert answer.status_code == status, (number, answer.text)
            if status == 200:
                repeated = int(kind == 0)
                expected = {
                    "recorded": 1 - repeated,
                    "repeated": repeated,
                    "late": 0,
                    "held": 0,
                    "values": 0,
                    "served": 0,
                }
                assert answer.json() == expected
        assert client.get("/experiments/offer").json()["outstanding"] == 400 - 120


def test_a_token_that_is_known_must_still_allow_it(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        for what, body in (("tell", {"outcomes": []}), ("ask", {"count": 1})):
            for name in ("offer", "offer", "nothing"):  # as a stranger, known, and nowhere
                refused = client.post(f"/experiments/{name}/{what}", json=body)
                assert wrong(refused, 403, "forbidden")["value"] == "view"
        assert client.get("/experiments/offer").json()["pulls"] == 0


def test_a_token_that_is_revoked_allows_nothing_from_the_next_request_on(known: Served) -> None:
    token = known.token(Role.TELL)
    store = Store(known.url)
    with known.client(Role.TELL) as client:
        path, body = "/experiments/offer/tell", outcomes({0: 1})
        assert client.post(path, json=body).is_success
        revoke_token(store, token_number(token) or 0)
        wrong(client.post(path, json=body), 401, "unauthorized")
        wrong(client.post("/experiments/offer/ask", json={"count": 1}), 401, "unauthorized")
        wrong(client.post("/experiments/nothing/ask", json={"count": 1}), 401, "unauthorized")
    store.close()


def test_what_one_tells_who_goes_away_is_recorded_and_logged_before_the_server_stops(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, gate: Gate
) -> None:
    body = json.dumps(outcomes(dict.fromkeys(range(4), 1))).encode()
    with caplog.at_level(logging.INFO, "bestarm"), in_thread(sqlite_url) as served:
        with served.client() as client:
            client.post(f"{create(client)}/ask", json={"count": 4}).raise_for_status()
            lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
            with served.connect() as connection:
                connection.sendall(served.post(*lines) + body)
                assert gate.begun.wait(HANG_TIMEOUT)
            client.get("/experiments").raise_for_status()  # it has seen that the other is gone
        gate.let.set()
        wait_until(lambda: "POST /api/v1/experiments/offer/tell 200" in caplog.text)
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert experiment.status().outstanding == 0
