"""Plain requests that come together: each is answered for itself, and no role is forgotten."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest
from databases import wait_until
from sent_by_hand import HEAD, request
from served import ARMS, PATIENCE, Served, in_thread, wrong
from starlette.types import Scope

from bestarm.errors import InvalidInputError, UnknownExperimentError
from bestarm.live import Batch, Experiment, Receipt
from bestarm.live.store.sql import Store
from bestarm.problem import Problem
from bestarm.server.api.short_way import ShortWay
from bestarm.server.experiments import OpenExperiments
from bestarm.server.security.limits import Limits
from bestarm.server.security.tokens import Role, create_token, revoke_token, token_number


@pytest.fixture
def served(store_url: str) -> Iterator[Served]:
    with in_thread(store_url) as running, running.client() as client:
        client.post("/experiments", json={"name": "offer", **ARMS}).raise_for_status()
        yield running


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
    body = {"name": "taste", "source_labels": ["tea", "coffee", "water"], "options": options}
    with served.client() as client:
        client.post("/experiments", json=body).raise_for_status()
        batches = ask_together(client, "taste", callers=50)
    rounds = [{each["round"] for each in batch["assignments"]} for batch in batches]
    assert sorted(number for of_one in rounds for number in of_one) == list(range(50))
    for batch in batches:
        assert sorted(each["label"] for each in batch["assignments"]) == ["coffee", "tea", "water"]


def test_where_a_phase_has_fewer_left_the_others_wait(store_url: str) -> None:
    problem = Problem([[1, 0], [0, 1]])
    Experiment.create(store_url, "offer", problem, policy="uniform", options={"budget": 4}).close()
    experiments = OpenExperiments(Store(store_url), limits=Limits())

    async def ask() -> list[Batch]:
        first = experiments.ask_one("offer")  # the others gather meanwhile
        return await asyncio.gather(first, *(experiments.ask_one("offer") for _ in range(6)))

    batches = asyncio.run(ask())
    experiments.store.close()
    assert [list(batch.ids) for batch in batches] == [[0], [1], [2], [3], [], [], []]
    assert [batch.waiting for batch in batches] == [0, 0, 0, 0, 4, 4, 4]


def test_a_token_that_is_known_must_still_allow_it(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        for what, body in (("tell", {"outcomes": []}), ("ask", {"count": 1})):
            for _ in range(2):  # as a stranger, and known
                refused = client.post(f"/experiments/offer/{what}", json=body)
                assert wrong(refused, 403, "forbidden")["value"] == "view"
        assert client.get("/experiments/offer").json()["pulls"] == 0


def test_each_is_refused_for_itself(store_url: str) -> None:
    """One whose token does not allow it is told so, even where there is no such experiment."""
    store = Store(store_url)
    may, may_not = (create_token(store, role.word, role) for role in (Role.TELL, Role.VIEW))
    Experiment.create(store, "offer", Problem([[1, 0], [0, 1]])).ask(3)
    experiments = OpenExperiments(store, limits=Limits())

    async def tell(name: str) -> list[Receipt | BaseException]:
        tokens = (may, may_not, may, "made up")
        told = (experiments.tell(name, [(i % 3, 1.0)], token) for i, token in enumerate(tokens))
        return await asyncio.gather(*told, return_exceptions=True)

    first, second, third, fourth = asyncio.run(tell("offer"))
    assert first == third == Receipt(1, 0, 0)
    assert [getattr(each, "status_code", None) for each in (second, fourth)] == [403, 401]
    first, second, third, fourth = asyncio.run(tell("nothing"))
    assert isinstance(first, UnknownExperimentError)
    assert isinstance(third, UnknownExperimentError)
    assert [getattr(each, "status_code", None) for each in (second, fourth)] == [403, 401]
    store.close()


TELL = b'{"outcomes": [{"id": %d, "reward": 1}]}'


def telling(served: Served, number: int, *lines: str) -> bytes:
    body = TELL % number
    length = f"Content-Length: {len(body)}"
    return request(served, "Content-Type: application/json", length, *lines) + body


def exchange(served: Served, *parts: bytes) -> bytes:
    """What is answered to parts that are sent one after the other, each read before the next."""
    with served.connect() as connection:
        for part in parts:
            connection.sendall(part)
            if part is not parts[-1]:
                ended = served.raw(HEAD + b"Connection: close\r\n\r\n")
                assert ended.startswith(b"HTTP/1.1 200 ")  # it has read the part
        raw = b""
        while piece := connection.recv(65536):
            raw += piece
    return raw


@pytest.fixture
def known(served: Served) -> Served:
    """A server that knows the token, and has given out assignments."""
    with served.client(Role.TELL) as client:
        client.post("/experiments/offer/ask", json={"count": 100}).raise_for_status()
    return served


def heads(raw: bytes) -> list[tuple[bytes, set[bytes]]]:
    """Status lines, and headers without those that differ from one answer to the next."""
    found = []
    for answer in raw.split(b"HTTP/1.1 ")[1:]:
        status, *lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
        kept = {line for line in lines if not line.startswith((b"date:", b"content-length:"))}
        found.append((status, kept))
    return found


def test_the_short_way_answers_like_the_long_one(
    known: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, taken, begin = "Connection: close", list[bool](), ShortWay.begin

    def note(way: ShortWay, scope: Scope, body: bytearray) -> tuple[Any, Any] | None:
        taken.append((found := begin(way, scope, body)) is not None)
        return found

    monkeypatch.setattr(ShortWay, "begin", note)
    short = exchange(known, telling(known, 0, last))
    long = exchange(known, telling(known, 1, last, "X-Forwarded-For: 10.0.0.1"))
    assert taken == [True, False]
    assert heads(short) == heads(long)
    assert short.endswith(b'\r\n\r\n{"recorded":1,"repeated":0,"late":0}')
    assert [raw.count(b"content-length: 36\r\n") for raw in (short, long)] == [1, 1]


def test_requests_that_come_before_their_turn_are_answered_in_order(known: Served) -> None:
    """Plain ones and others, all in one piece: the long way takes longer."""
    wrong_one = telling(known, 4000)
    other = telling(known, 1, "Idempotency-Key: a")
    sent = [telling(known, 0), wrong_one, other, telling(known, 0), telling(known, 2)]
    raw = exchange(known, b"".join([*sent, telling(known, 3, "Connection: close")]))
    assert [status for status, _ in heads(raw)] == [
        b"200 OK",
        b"404 Not Found",
        *[b"200 OK"] * 4,
    ]
    bodies = [part.partition(b"HTTP/1.1")[0] for part in raw.split(b"\r\n\r\n")[1:]]
    assert [b'"repeated":1' in body for body in bodies] == [False, False, False, True, False, False]


@pytest.mark.parametrize("split", [30, -len(TELL % 0), -3])
def test_a_request_in_two_parts_is_answered_once(known: Served, split: int) -> None:
    sent = telling(known, 0, "Connection: close")
    raw = exchange(known, sent[:split], sent[split:])
    assert raw.count(b"HTTP/1.1 ") == raw.count(b"HTTP/1.1 200 OK") == 1
    assert raw.endswith(b'{"recorded":1,"repeated":0,"late":0}')


def test_what_one_tells_who_goes_away_is_recorded(known: Served) -> None:
    for number in range(20):
        with known.connect() as connection:
            connection.sendall(telling(known, number))
    with known.client(Role.TELL) as client:

        def recorded() -> bool:
            return bool(client.get("/experiments/offer").json()["outstanding"] == 80)

        wait_until(recorded)


def test_the_short_way_is_in_the_log(known: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bestarm.access"):
        exchange(known, telling(known, 0, "Connection: close"))
        forwarded = "X-Forwarded-For: 10.0.0.1"  # which the long way understands
        exchange(known, telling(known, 1, "Connection: close", forwarded))
    lines = [record.getMessage().rsplit(" ", 2)[0] for record in caplog.records]
    logged = "POST /api/v1/experiments/offer/tell 200"
    assert lines == [f"127.0.0.1 {logged}", f"10.0.0.1 {logged}"]


@pytest.mark.parametrize("error", [None, ValueError("odd")])
def test_what_is_done_for_one_who_went_away_is_in_the_log(
    known: Served,
    error: Exception | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, let, tell_each = Event(), Event(), Experiment.tell_each

    def tell_later(experiment: Experiment, *told: Any, **options: Any) -> Any:
        begun.set()
        assert let.wait(PATIENCE)
        if error is not None:
            raise error
        return tell_each(experiment, *told, **options)

    monkeypatch.setattr(Experiment, "tell_each", tell_later)
    with caplog.at_level(logging.INFO, "bestarm"):
        with known.connect() as connection:
            connection.sendall(telling(known, 0))
            assert begun.wait(PATIENCE)
        exchange(known, HEAD + b"Connection: close\r\n\r\n")  # it has seen that the other is gone
        let.set()
        status = 200 if error is None else 500
        wait_until(lambda: f"POST /api/v1/experiments/offer/tell {status}" in caplog.text)
    assert ("Unforeseen error" in caplog.text) == (error is not None)


def test_the_log_says_how_long_an_error_took(
    known: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_later(*_: Any, **__: Any) -> Any:
        time.sleep(0.5)
        raise InvalidInputError("odd", field="id")

    monkeypatch.setattr(Experiment, "tell_each", refuse_later)
    with caplog.at_level(logging.INFO, "bestarm.access"):
        exchange(known, telling(known, 0, "Connection: close"))
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("127.0.0.1 POST /api/v1/experiments/offer/tell 422 ")
    assert float(line.split()[-2]) >= 500


def test_a_token_that_is_revoked_holds_no_longer_on_the_short_way(known: Served) -> None:
    token = known.token(Role.TELL)
    store = Store(known.url)
    with known.client(Role.TELL) as client:
        path, body = "/experiments/offer/tell", {"outcomes": [{"id": 0, "reward": 1}]}
        assert client.post(path, json=body).is_success
        revoke_token(store, token_number(token) or 0)
        wrong(client.post(path, json=body), 401, "unauthorized")
        wrong(client.post("/experiments/offer/ask", json={"count": 1}), 401, "unauthorized")
    store.close()
