"""Every ledger keeps the contract, and one broken in any one place is caught for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.live.events import record
from bestarm.live.store.contract import (
    Entry,
    Event,
    Head,
    Ids,
    Ledger,
    Opened,
    Request,
    Rows,
    Sizes,
)
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.store.sql import SqlLedger, Store
from bestarm.testing import check_store

NAMES = (f"trial {number}" for number in count())
OPENED: dict[int, str] = {}


def make_stored(url: str) -> SqlLedger:
    name, head = next(NAMES), Head(at=0.0)
    created = record(head, "created", 0.0)
    ledger = SqlLedger.create(
        Store(url), name, document="{}", description="", head=head, created=created
    )
    OPENED[id(ledger)] = name
    return ledger


def reopen(url: str) -> Callable[[Ledger], Ledger]:
    return lambda ledger: SqlLedger.open(Store(url), OPENED[id(ledger)])[0]


def test_books_in_memory_keep_the_contract() -> None:
    check_store(MemoryLedger)


def test_books_in_a_database_keep_the_contract(store_url: str) -> None:
    made: list[SqlLedger] = []

    def make() -> SqlLedger:
        made.append(make_stored(store_url))
        return made[-1]

    check_store(make, reopen=reopen(store_url))
    for ledger in made:
        ledger.close()


def test_numbers_may_be_larger_than_any_trial(store_url: str) -> None:
    """Ids beyond 32 and 53 bits are found and not confused."""
    ledger = make_stored(store_url)
    for start in (2**31 - 1, 2**53, 2**62):
        ids = np.arange(start, start + 3)
        with ledger.writing() as tx:
            tx.head.given = start
            tx.give(np.array([0, 1, 2]), np.ones(3), at=1.0, request=None)
            tx.head.given = start + 3
            assert tx.tell(ids[[2, 0]], np.array([2.0, 0.5]), at=2.0, late=np.zeros(2, bool)) == 2
            assert tx.unsettled(start, start + 3).tolist() == [start + 1]
            tx.lose([start + 1], reason="", at=3.0)
        with ledger.reading() as books:
            assert books.rewards(ids) == {start: 0.5, start + 2: 2.0}
            assert books.lost(ids) == {start + 1}
            (rows,) = books.rows(start, start + 3)
            assert rows["id"].tolist() == ids.tolist()
    with ledger.reading() as books:
        every = np.array([2**62, 2**31, 2**53 + 2, 2**53 + 1])
        assert books.rewards(every) == {2**62: 0.5, 2**53 + 2: 2.0}
        assert books.lost(every) == {2**31, 2**53 + 1}
    ledger.close()


@dataclass(frozen=True)
class Broken:
    """A law, a ledger that breaks it and the words the contract finds for that."""

    law: str
    ledger: Callable[[], Ledger]
    words: str


BROKEN: list[Broken] = []


def breaks(law: str, *, words: str) -> Callable[[type[MemoryLedger]], type[MemoryLedger]]:
    def register(ledger: type[MemoryLedger]) -> type[MemoryLedger]:
        BROKEN.append(Broken(law, ledger, words))
        return ledger

    return register


@breaks("what is written is there", words="its entries read")
class ForgetsSummaries(MemoryLedger):
    def add_entry(self, entry: Entry) -> None:
        pass


@breaks("plans are kept", words="its phases read")
class ForgetsThatPlansAreOpen(MemoryLedger):
    def open_phase(self, opened: Opened) -> None:
        super().open_phase(Opened(replace(opened.plan, most=None), opened.first))


@breaks("an exception leaves no assignments", words="after asking and RuntimeError")
class KeepsTheCounters(MemoryLedger):
    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        with self._lock:
            try:
                with super().writing():
                    yield self
                    head = replace(self.head)
            except BaseException:
                self.head = replace(self.head, tip="f" * 64)
                raise
            self.head = head


@breaks("an interruption is an exception", words="and KeyboardInterrupt in one transaction")
class MindsExceptionsOnly(MemoryLedger):
    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        stopped: list[BaseException] = []
        with super().writing():
            try:
                yield self
            except KeyboardInterrupt as error:
                stopped.append(error)
        if stopped:
            raise stopped[0]


@breaks("an exception leaves no outcome", words="after telling and RuntimeError")
class CommitsAtOnce(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        added = super().tell(ids, rewards, at=at, late=late)
        self._told.clear()
        return added


@breaks("an exception leaves no request", words="after asking and RuntimeError")
class RemembersRequests(MemoryLedger):
    def give(self, arms: Any, probabilities: Array, *, at: float, request: Request | None) -> None:
        super().give(arms, probabilities, at=at, request=request)
        self._named.clear()


@breaks("a reading sees one state", words="within one reading")
class LetsReadersLookOn(MemoryLedger):
    @contextmanager
    def reading(self) -> Iterator[MemoryLedger]:
        yield self


class NoLock:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@breaks("one writes at a time", words="threads that wrote at once")
class LetsTwoWrite(MemoryLedger):
    def __init__(self) -> None:
        super().__init__()
        self._lock = NoLock()  # type: ignore[assignment]

    @contextmanager
    def reading(self) -> Iterator[MemoryLedger]:
        yield deepcopy(self)


@breaks("known outcomes are passed over", words="an outcome that was told has changed")
class OverwritesOutcomes(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        added = super().tell(ids, rewards, at=at, late=late)
        self._rows["reward"][ids] = rewards
        return added


@breaks("only new outcomes are counted", words="are counted")
class CountsAll(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        super().tell(ids, rewards, at=at, late=late)
        return len(ids)


@breaks("a late outcome stays late", words="whether an outcome was late changed")
class ForgetsThatItWasLate(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        self._rows["late"][ids[late]] = True
        return super().tell(ids, rewards, at=at, late=late)


@breaks("losses keep their order", words="the arms lost in phase 1")
class SortsLosses(MemoryLedger):
    def lose(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        super().lose(sorted(ids), reason=reason, at=at)


@breaks("losses are by phase", words="its lost arms read {1: [1], 2: [1]}")
class MixesPhases(MemoryLedger):
    def lost_arms(self, phase: int, start: int, count: int) -> NDArray[np.int64]:
        if phase == 2:
            phase = 1
        return super().lost_arms(phase, start, count)


@breaks("a range ends before its end", words="the rows from")
class GoesTooFar(MemoryLedger):
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        return super().rows(first, end + 1)


@breaks("the time asked for counts itself", words="asked for by")
class IsAMomentLate(MemoryLedger):
    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        by = None if asked_by is None else asked_by - 1e-9
        return super().unsettled(start, end, asked_by=by)


@breaks("what was lost has no reward", words="though it came late")
class UsesLateOutcomes(MemoryLedger):
    def answers(self, first: int, end: int) -> Iterator[tuple[Ids, Array]]:
        rows = self._rows[first:end]
        yield rows["arm"], rows["reward"]


@breaks("what was lost was never told", words="its times read")
class TellsWhenTheLostCame(MemoryLedger):
    def times(self, first: int, end: int) -> Iterator[Rows]:
        (made,) = super().times(first, end)
        made["told"] = self._rows["told"][first:end]
        yield made


@breaks("the time is in seconds", words="the time is told in seconds since 1970")
class TellsMilliseconds(MemoryLedger):
    def now(self) -> float:
        return 1e3 * super().now()


@breaks("the time goes forward", words="the time goes from")
class CountsDown(MemoryLedger):
    def now(self) -> float:
        self._asked = getattr(self, "_asked", 0) + 1
        return super().now() - 3600 * self._asked


@breaks("requests are in order", words="its asked read")
class SortsRequestsBackwards(MemoryLedger):
    def requests(self) -> Iterator[Request]:
        yield from reversed(list(super().requests()))


@breaks("every row is counted", words="its sizes read")
class CountsNoLosses(MemoryLedger):
    def sizes(self) -> Sizes:
        return replace(super().sizes(), losses=0)


@breaks("a refusal counts once", words="and 3 are counted")
class CountsEveryAttempt(MemoryLedger):
    def refuse(self, ids: Ids, rewards: Array, *, at: float) -> int:
        super().refuse(ids, rewards, at=at)
        return len(ids)


@breaks("an exception leaves no refusal", words="after refusing and RuntimeError")
class RemembersRefusals(MemoryLedger):
    def refuse(self, ids: Ids, rewards: Array, *, at: float) -> int:
        added = super().refuse(ids, rewards, at=at)
        self._refused.clear()
        return added


@breaks("events end at the limit", words="1 events from 0 on are")
class KnowsNoLimit(MemoryLedger):
    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        return super().events(start)


@breaks("what was lost is not awaited", words="the unsettled from")
class AwaitsTheLost(MemoryLedger):
    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        lost = self._rows["lost"].copy()
        self._rows["lost"] = np.nan
        try:
            return super().unsettled(start, end, asked_by=asked_by)
        finally:
            self._rows["lost"] = lost


@breaks("what was lost and told is settled once", words="the first awaited is []")
class CountsTheLostTwice(MemoryLedger):
    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        rows = self._rows[start:end]
        settled = (~np.isnan(rows["reward"])).sum() + (~np.isnan(rows["lost"])).sum()
        if asked_by is None and len(rows) > 256 and settled >= len(rows):
            return np.empty(0, dtype=np.int64)
        return super().unsettled(start, end, asked_by=asked_by)


@breaks("numbers are kept to the last bit", words="is read back as")
class RoundsProbabilities(MemoryLedger):
    def give(self, arms: Any, probabilities: Array, *, at: float, request: Request | None) -> None:
        kept = np.array([float(f"{each:.16g}") for each in probabilities])
        super().give(arms, kept, at=at, request=request)


@breaks("small numbers are kept", words="a reward of 5e-324 is read back as 0.0")
class FlushesToZero(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        return super().tell(ids, np.where(np.abs(rewards) < 1e-307, 0, rewards), at=at, late=late)


@breaks("counters are kept whole", words="the counters")
class HasNarrowCounters(MemoryLedger):
    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        with super().writing():
            yield self
        self.head.refused = int(float(self.head.refused))


@breaks("what is unset stays unset", words="its head read")
class SetsTheTime(MemoryLedger):
    @contextmanager
    def writing(self) -> Iterator[MemoryLedger]:
        with super().writing():
            yield self
        self.head.at = max(self.head.at, 0.0)


@breaks("names are told apart", words="the request 'A ' is found as")
class TrimsNames(MemoryLedger):
    def request(self, name: str) -> Request | None:
        return super().request(name.strip())


@breaks("texts are kept", words="an event of 'é' is read back")
class KnowsAsciiOnly(MemoryLedger):
    def add_event(self, event: Event) -> None:
        text = str(event.data.get("text", ""))
        data = {**event.data, "text": text.encode("ascii", "replace").decode()}
        super().add_event(replace(event, data=data) if text else event)


SHARED: dict[str, Request] = {}


@breaks("books are apart", words="after somebody else's")
class SharesRequests(MemoryLedger):
    def __init__(self) -> None:
        super().__init__()
        self._requests = SHARED

    def give(self, arms: Any, probabilities: Array, *, at: float, request: Request | None) -> None:
        super().give(arms, probabilities, at=at, request=request)
        if request is not None and request.name in {"a", "b"}:
            self._named.append(request.name) if request.name != "a" else None


@breaks("pieces join", words="others")
class LosesARowBetweenPieces(MemoryLedger):
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        for (rows,) in (super().rows(first, end),):
            yield rows[:50_000]
            yield rows[50_001:]


@breaks("a large batch is counted", words="50100 outcomes are counted as 17332")
class CountsInSixteenBits(MemoryLedger):
    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        return super().tell(ids, rewards, at=at, late=late) % 2**15


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.law)
def test_a_broken_ledger_fails_for_the_right_reason(broken: Broken) -> None:
    SHARED.clear()
    with pytest.raises(AssertionError) as caught:
        check_store(broken.ledger)
    assert broken.words in str(caught.value)
    assert str(caught.value).startswith("The ledger breaks its contract")
