"""Told together, answered each for itself: nobody pays for another's mistake or leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from served import ARMS, Served, in_thread

from bestarm.errors import BestArmError, InvalidInputError, StoreUnavailableError
from bestarm.live import Receipt
from bestarm.server.experiments import Outcomes, TellQueue


class Books:
    """Writes down what it is given, once it is let."""

    def __init__(self) -> None:
        self.lots: list[list[Outcomes]] = []
        self.let = asyncio.Event()
        self.broken = False

    async def write(self, name: str, several: list[Outcomes]) -> Sequence[Receipt | BestArmError]:
        assert name == "t"
        self.lots.append(several)
        await self.let.wait()
        if self.broken:
            raise StoreUnavailableError("gone", field="url")
        return [self.one(outcomes) for outcomes in several]

    def one(self, outcomes: Outcomes) -> Receipt | BestArmError:
        if any(reward < 0 for _, reward in outcomes):
            return InvalidInputError(f"{outcomes[0][0]} is wrong", field="reward")
        return Receipt(len(outcomes), 0, 0)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_while_one_lot_is_written_the_next_gathers() -> None:
    async def run() -> None:
        books = Books()
        tellers = TellQueue(books.write)
        calls = [asyncio.create_task(tellers.tell("t", [(0, 1.0)]))]
        await settled()
        rewards = [1.0, -1.0, 1.0, -1.0]
        calls += [
            asyncio.create_task(tellers.tell("t", [(n, reward), (n + 10, 1.0)]))
            for n, reward in enumerate(rewards, start=1)
        ]
        await settled()
        books.let.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [len(lot) for lot in books.lots] == [1, 4]
        assert found[0] == Receipt(1, 0, 0)
        assert [each == Receipt(2, 0, 0) for each in found[1:]] == [True, False, True, False]
        assert [str(each).split()[0] for each in (found[2], found[4])] == ["2", "4"]
        assert await tellers.tell("t", [(9, 1.0)]) == Receipt(1, 0, 0)  # and again, from rest

    asyncio.run(run())


async def tell_again_and_again(tellers: TellQueue[Outcomes], number: int, times: int) -> None:
    for _ in range(times):
        assert await tellers.tell("t", [(number, 1.0)]) == Receipt(1, 0, 0)


def test_those_who_were_answered_together_are_waited_for() -> None:
    """Until all are there, so that the moment does not pass: it is an hour here."""

    async def run() -> None:
        books = Books()
        tellers = TellQueue(books.write, moment=3600)
        first = asyncio.create_task(tell_again_and_again(tellers, 0, 3))
        await settled()
        others = [asyncio.create_task(tell_again_and_again(tellers, n, 2)) for n in (1, 2)]
        await settled()
        books.let.set()
        await asyncio.wait_for(asyncio.gather(first, *others), 60)
        assert [len(lot) for lot in books.lots] == [1, 3, 3]
        await asyncio.wait_for(tellers.finish(), 60)  # it waits for nobody

    asyncio.run(run())


def test_who_does_not_come_again_is_waited_for_no_longer_than_a_moment() -> None:
    async def run() -> None:
        books = Books()
        books.let.set()
        tellers = TellQueue(books.write, moment=0.001)
        calls = [tell_again_and_again(tellers, n, 1 + n) for n in range(3)]
        await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert [len(lot) for lot in books.lots] == [3, 2, 1]
        await asyncio.wait_for(tellers.finish(), 60)
        assert await tellers.tell("t", [(9, 1.0)]) == Receipt(1, 0, 0)

    asyncio.run(run())


def test_who_goes_away_takes_nobody_along() -> None:
    async def run() -> None:
        books = Books()
        tellers = TellQueue(books.write)
        first, second, third = (
            asyncio.create_task(tellers.tell("t", [(n, 1.0)])) for n in range(3)
        )
        await settled()
        first.cancel()
        second.cancel()
        await settled()
        books.let.set()
        assert await third == Receipt(1, 0, 0)
        assert sum(map(len, books.lots)) == 3  # what was sent is written down all the same

    asyncio.run(run())


def test_what_befalls_the_books_is_said_to_all_of_the_lot_and_not_to_the_next() -> None:
    async def run() -> None:
        books = Books()
        books.broken = True
        tellers = TellQueue(books.write)
        calls = [asyncio.create_task(tellers.tell("t", [(n, 1.0)])) for n in range(3)]
        await settled()
        books.let.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, StoreUnavailableError) for each in found)
        books.broken = False
        assert await tellers.tell("t", [(9, 1.0)]) == Receipt(1, 0, 0)

    asyncio.run(run())


@pytest.fixture
def served(store_url: str) -> Iterator[Served]:
    with in_thread(store_url) as running, running.client() as client:
        client.post("/experiments", json={"name": "offer", **ARMS}).raise_for_status()
        client.post("/experiments/offer/ask", json={"count": 400}).raise_for_status()
        yield running


def test_many_who_tell_at_once_are_each_answered_for_themselves(served: Served) -> None:
    """Of every ten, one contradicts, one is out of bounds and one was never given out."""
    with served.client() as client:

        def tell(number: int) -> httpx.Response:
            kind = number % 10
            outcomes = [{"id": number, "reward": 1}]
            if kind == 3:
                outcomes.append({"id": number - 3, "reward": 0})
            elif kind == 5:
                outcomes.append({"id": number, "reward": 7})
            elif kind == 7:
                outcomes = [{"id": number, "reward": 3}]
            elif kind == 9:
                outcomes.append({"id": 4000 + number, "reward": 1})
            return client.post("/experiments/offer/tell", json={"outcomes": outcomes})

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(tell, range(0, 200, 10)))  # what will be contradicted
            answers = list(pool.map(tell, range(200)))
        for number, answer in enumerate(answers):
            kind = number % 10
            wrong = {3: 409, 5: 409, 7: 422, 9: 404}.get(kind, 200)
            assert answer.status_code == wrong, (number, answer.text)
            if wrong == 200:
                repeated = int(kind == 0)
                expected = {"recorded": 1 - repeated, "repeated": repeated, "late": 0}
                assert answer.json() == expected
        status = client.get("/experiments/offer").json()
        assert status["outstanding"] == 400 - 120
