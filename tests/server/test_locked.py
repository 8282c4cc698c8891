"""One experiment that another program keeps locked: those who read, or write to others, go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg
import pytest
from databases import name_of, wait_until
from served import create, in_thread, outcomes

from bestarm.live.store.ledger import Ledger, Transaction
from bestarm.server import experiments
from bestarm.server.tokens import Role

_LOCK = "SELECT FROM bestarm_experiments WHERE name = 'offer' FOR UPDATE"
_FAILING, _ASKING = 40, 10  # calls at the same time


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Lock the experiment "offer"; on SQLite, the file."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(name_of(url), isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as connection:
            connection.execute(_LOCK)
            yield


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The experiment of each transaction that has begun to write, or waits to."""
    names: list[str] = []
    begin = Ledger.transaction

    def noted(ledger: Ledger) -> AbstractContextManager[Transaction]:
        names.append(ledger.name)
        return begin(ledger)

    monkeypatch.setattr(Ledger, "transaction", noted)
    return names


def test_one_locked_experiment_holds_up_no_other(store_url: str, begun: list[str]) -> None:
    with (
        in_thread(store_url) as served,
        served.client() as client,
        ThreadPoolExecutor(_FAILING + _ASKING + 1) as callers,
    ):
        for name in ("offer", "other"):
            path = create(client, name)
            client.post(f"{path}/ask", json={"count": _FAILING + 1}).raise_for_status()
        for role in (Role.TELL, Role.VIEW):
            served.token(role)  # made now: it is written
        begun.clear()

        def send(what: str, body: object) -> int:
            with served.client(Role.TELL) as own:
                return own.post(f"/experiments/offer/{what}", json=body).status_code

        with locked(store_url):
            waiting = [callers.submit(send, "tell", outcomes({_FAILING: 1}))]
            waiting += [callers.submit(send, "fail", {"ids": [each]}) for each in range(_FAILING)]
            waiting += [callers.submit(send, "ask", {"count": 1}) for _ in range(_ASKING)]
            wait_until(lambda: len(begun) > experiments._WRITING[1])
            with served.client(Role.VIEW) as looking:
                for name in ("offer", "other"):
                    for path in ("", "/events", "/recommendation"):
                        looking.get(f"/experiments/{name}{path}").raise_for_status()
                assert len(looking.get("/experiments").json()["experiments"]) == 2
            if not store_url.startswith("sqlite"):
                client.post("/experiments/other/tell", json=outcomes({0: 1})).raise_for_status()
                client.post("/experiments/other/ask", json={"count": 1}).raise_for_status()
                client.post("/experiments/other/pause").raise_for_status()
            # They give up after a minute: nobody has waited for that.
            assert not any(call.done() for call in waiting)
        assert {call.result() for call in waiting} == {200}
