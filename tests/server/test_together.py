"""Those who ask and tell at the same time: each is answered for itself, by its own token."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest
from databases import wait_until
from served import HANG_TIMEOUT, Served, create, in_thread, outcomes, wrong

from bestarm.live import Experiment
from bestarm.live.experiment import Tell
from bestarm.live.store.sql import Store
from bestarm.server.tokens import Role, revoke_token, token_number


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
        create(client, "taste", source_labels=["tea", "coffee", "water"], options=options)
        batches = ask_together(client, "taste", callers=50)
    rounds = [{each["round"] for each in batch["assignments"]} for batch in batches]
    assert sorted(number for of_one in rounds for number in of_one) == list(range(50))
    for batch in batches:
        assert sorted(each["label"] for each in batch["assignments"]) == ["coffee", "tea", "water"]


def test_where_a_phase_has_fewer_left_the_others_wait(served: Served) -> None:
    with served.client() as client:
        create(client, "short", source=[[1, 0], [0, 1]], policy="uniform", options={"budget": 4})
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
                expected = {"recorded": 1 - repeated, "repeated": repeated, "late": 0, "held": 0}
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
    sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let, commit = Event(), Event(), Experiment.commit_tells

    def commit_later(experiment: Experiment, calls: Sequence[Tell]) -> Any:
        begun.set()
        assert let.wait(HANG_TIMEOUT)
        return commit(experiment, calls)

    monkeypatch.setattr(Experiment, "commit_tells", commit_later)
    body = json.dumps(outcomes(dict.fromkeys(range(4), 1))).encode()
    with caplog.at_level(logging.INFO, "bestarm"), in_thread(sqlite_url) as served:
        with served.client() as client:
            client.post(f"{create(client)}/ask", json={"count": 4}).raise_for_status()
            lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
            with served.connect() as connection:
                connection.sendall(served.post(*lines) + body)
                assert begun.wait(HANG_TIMEOUT)
            client.get("/experiments").raise_for_status()  # it has seen that the other is gone
        let.set()
        wait_until(lambda: "POST /api/v1/experiments/offer/tell 200" in caplog.text)
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert experiment.status().outstanding == 0
