"""Plain requests that come together: each is answered for itself, and no role is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from served import ARMS, Served, in_thread, wrong

from bestarm.errors import UnknownExperimentError
from bestarm.live import Batch, Experiment, Receipt
from bestarm.live.store.sql import Store
from bestarm.problem import Problem
from bestarm.server.experiments import OpenExperiments
from bestarm.server.security.limits import Limits
from bestarm.server.security.tokens import Role, create_token


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
