"""Every ledger keeps the contract, and one broken in any one place is caught for that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.live.events import next_event
from bestarm.live.store.contract import (
    ALL,
    Event,
    Head,
    Ids,
    Ledger,
    PlanRecord,
    R,
    Record,
    Request,
    Rows,
    SummaryRecord,
    UnitKey,
    UnitRecord,
)
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.store.sql import SqlLedger, Store
from bestarm.live.store.sql import ledger as sql_ledger
from bestarm.numerics.geometry import Array
from bestarm.testing import check_store
from bestarm.testing.store_samples import lost_of, rewards_of

NAMES = (f"offer {number}" for number in count())
OPENED: dict[int, str] = {}


def make_stored(url: str) -> SqlLedger:
    name, head = next(NAMES), Head(last_time=0.0)
    created = next_event(head, "created", 0.0)
    ledger = SqlLedger.create(
        Store(url), name, document="{}", description="", head=head, created=created
    )
    OPENED[id(ledger)] = name
    return ledger


def reopen(url: str) -> Callable[[Ledger], Ledger]:
    return lambda ledger: SqlLedger.open(Store(url), OPENED[id(ledger)])


def test_a_ledger_in_memory_keeps_the_contract() -> None:
    check_store(MemoryLedger)


def test_a_ledger_in_a_database_keeps_the_contract(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fiftieth of what is read at a time, so that a fiftieth of the rows is read in pieces too.
    for size in ("_PIECE", "_PAGE"):
        monkeypatch.setattr(sql_ledger, size, getattr(sql_ledger, size) // 50)
    made: list[SqlLedger] = []

    def make() -> SqlLedger:
        made.append(make_stored(store_url))
        return made[-1]

    check_store(make, reopen=reopen(store_url), many=1_101)
    for ledger in made:
        ledger.close()


def test_numbers_may_be_larger_than_any_experiment(store_url: str) -> None:
    """Ids beyond 32 and 53 bits are found and not confused."""
    ledger = make_stored(store_url)
    for start in (2**31 - 1, 2**53, 2**62):
        ids = np.arange(start, start + 3)
        with ledger.transaction() as tx:
            tx.head.assigned = start
            tx.add_assignments(np.array([0, 1, 2]), np.ones(3), at=1.0)
            tx.head.assigned = start + 3
            tx.add_outcomes([start + 2, start], [2.0, 0.5], at=2.0, late=[False, False])
            assert tx.first_outstanding(start, start + 3) == start + 1
            tx.add_losses([start + 1], reason="", at=3.0)
            tx.head.losses += 1
        with ledger.snapshot() as snapshot:
            assert rewards_of(snapshot, ids) == {start: 0.5, start + 2: 2.0}
            assert lost_of(snapshot, ids) == {start + 1}
            (rows,) = snapshot.rows(start, start + 3)
            assert rows["id"].tolist() == ids.tolist()
    with ledger.snapshot() as snapshot:
        every = np.array([2**62, 2**31, 2**53 + 2, 2**53 + 1])
        assert rewards_of(snapshot, every) == {2**62: 0.5, 2**53 + 2: 2.0}
        assert lost_of(snapshot, every) == {2**31, 2**53 + 1}
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


@breaks("what is written is there", words="its summaries read")
class ForgetsSummaries(MemoryLedger):
    def add(self, *records: Record) -> None:
        super().add(*(each for each in records if not isinstance(each, SummaryRecord)))


@breaks("plans are kept", words="its plans read")
class ForgetsThatPlansAreOpen(MemoryLedger):
    def add(self, *records: Record) -> None:
        plans = [each for each in records if isinstance(each, PlanRecord)]
        super().add(
            *([replace(each, plan=replace(each.plan, most=None)) for each in plans] or records)
        )


@breaks("an exception leaves no assignments", words="after asking and RuntimeError")
class KeepsTheCounters(MemoryLedger):
    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        with self._lock:
            try:
                with super().transaction():
                    yield self
                    head = replace(self.head)
            except BaseException:
                self.head = replace(self.head, last_hash="f" * 64)
                raise
            self.head = head


@breaks("an interruption is an exception", words="and KeyboardInterrupt in one transaction")
class MindsExceptionsOnly(MemoryLedger):
    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        stopped: list[BaseException] = []
        with super().transaction():
            try:
                yield self
            except KeyboardInterrupt as error:
                stopped.append(error)
        if stopped:
            raise stopped[0]


@breaks("an exception leaves no outcome", words="after telling and RuntimeError")
class CommitsAtOnce(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        super().add_outcomes(ids, rewards, **known)
        self._undo.pop()


@breaks("an exception leaves no request", words="after asking and RuntimeError")
class RemembersRequests(MemoryLedger):
    def add(self, *records: Record) -> None:
        super().add(*records)
        if isinstance(records[0], Request):
            del self._undo[-len(records) :]


@breaks("a snapshot sees one state", words="within one snapshot")
class LetsReadersLookOn(MemoryLedger):
    @contextmanager
    def snapshot(self) -> Iterator[MemoryLedger]:
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
    def snapshot(self) -> Iterator[MemoryLedger]:
        yield deepcopy(self)


@breaks("an outcome is not replaced", words="a second outcome of an assignment is taken")
class OverwritesOutcomes(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        self._rows["reward"][list(ids)] = np.nan
        super().add_outcomes(ids, rewards, **known)


@breaks("an outcome is not passed over", words="a second outcome of an assignment is taken")
class PassesOverKnownOutcomes(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        if np.isnan(self._rows["reward"][list(ids)]).all():
            super().add_outcomes(ids, rewards, **known)


@breaks("a late outcome stays late", words="its rows read")
class ForgetsThatItWasLate(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        super().add_outcomes(ids, rewards, at=known["at"], late=[False] * len(ids))


@breaks("losses keep their order", words="the arms lost in phase 1")
class SortsLosses(MemoryLedger):
    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        super().add_losses(sorted(ids), reason=reason, at=at)


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


@breaks("the time asked for counts itself", words="by 10 are")
class IsAMomentLate(MemoryLedger):
    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        return super().outstanding(start, end, asked_by=asked_by - 1e-9)


@breaks("a lost assignment has no reward", words="its answers read")
class UsesLateOutcomes(MemoryLedger):
    def answers(self, first: int, end: int) -> Iterator[Rows]:
        (made,) = super().answers(first, end)
        made["reward"] = self._rows["reward"][first:end]
        yield made


@breaks("a lost assignment was never told", words="its answers read")
class TellsWhenTheLostCame(MemoryLedger):
    def answers(self, first: int, end: int) -> Iterator[Rows]:
        (made,) = super().answers(first, end)
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
    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        found = list(super().records(kind, start, end))
        yield from reversed(found) if kind is Request else found


@breaks("an exception leaves no deferral", words="after deferring and RuntimeError")
class RemembersDeferrals(MemoryLedger):
    def add_deferrals(self, ids: Ids) -> None:
        super().add_deferrals(ids)
        self._undo.clear()


@breaks("arrivals are settled", words="its arrivals read")
class DoesNotWaitForArrivals(MemoryLedger):
    def arrivals(self) -> Ids:
        waiting, _ = self.deferrals(waiting=True)
        return waiting


@breaks("what was lost has arrived", words="after losing 5 and 0, within")
class AwaitsAnOutcomeOfTheLost(MemoryLedger):
    def arrivals(self) -> Ids:
        waiting, _ = self.deferrals(waiting=True)
        told: NDArray[np.bool_] = ~np.isnan(self._rows["reward"][waiting])
        return waiting[told]


@breaks(
    "a lost assignment stays deferred", words="after losing 5 and 0, within the transaction, the"
)
class ForgetsDeferralsOfTheLost(MemoryLedger):
    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        super().add_losses(ids, reason=reason, at=at)
        self._rows["summary"][list(ids)] = -2


@breaks(
    "deferrals are read by range", words="after deferring, within the transaction, the deferred"
)
class ReadsAllDeferrals(MemoryLedger):
    def deferrals(self, *_: Any, waiting: bool = False, **__: Any) -> tuple[Ids, Ids]:
        return super().deferrals(waiting=waiting)


@breaks("an exception leaves a deferral uncovered", words="after covering and RuntimeError")
class RemembersWhatCovers(MemoryLedger):
    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        super().settle_deferrals(ids, summary=summary)
        self._undo.pop()


@breaks("many are deferred", words="of 5101 deferred assignments 5000 are read")
class ReadsOnePageOfDeferrals(MemoryLedger):
    def deferrals(self, *args: Any, **kwargs: Any) -> tuple[Ids, Ids]:
        ids, covered_by = super().deferrals(*args, **kwargs)
        return ids[:5_000], covered_by[:5_000]


@breaks("a refusal counts once", words="refusals of [0, 1, 2] are counted as 3")
class CountsEveryAttempt(MemoryLedger):
    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        super().add_refusals(ids, rewards, at=at)
        return len(ids)


@breaks("an exception leaves no refusal", words="after a rollback of one, two refusals")
class RemembersRefusals(MemoryLedger):
    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        added = super().add_refusals(ids, rewards, at=at)
        self._undo.pop()
        return added


@breaks("ranges of events end", words="events 0 up to 1 are")
class KnowsNoEnd(MemoryLedger):
    def events(self, start: int = 0, end: int = ALL) -> Iterator[Event]:
        return super().events(start)


@breaks("what was lost is not awaited", words="outstanding from")
class AwaitsTheLost(MemoryLedger):
    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        lost = self._rows["lost"].copy()
        self._rows["lost"] = np.nan
        try:
            return super().outstanding(start, end, asked_by=asked_by)
        finally:
            self._rows["lost"] = lost


@breaks("what was lost and told is settled once", words="the first awaited is None, not 693")
class CountsTheLostTwice(MemoryLedger):
    def first_outstanding(self, start: int, end: int) -> int | None:
        rows = self._rows[start:end]
        settled = (~np.isnan(rows["reward"])).sum() + (~np.isnan(rows["lost"])).sum()
        if len(rows) > 256 and settled >= len(rows):
            return None
        return super().first_outstanding(start, end)


@breaks("covariates are kept with their rounds", words="its units read")
class ForgetsCovariates(MemoryLedger):
    def add(self, *records: Record) -> None:
        units = [each for each in records if isinstance(each, UnitRecord)]
        super().add(*([replace(each, covariates=None) for each in units] or records))


@breaks("units are told apart by case", words="units by name read")
class FoldsNames(MemoryLedger):
    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        units = self.records(UnitRecord, -ALL)
        every = {each.unit.casefold().strip(): each for each in units if each.unit}
        found = {key: every.get(key.unit.casefold().strip()) for key in keys}
        return {
            key: each
            for key, each in found.items()
            if each is not None and each.decision_point == key.decision_point
        }


@breaks("a unit has one round per decision point", words="a second round of a unit is taken")
class TakesUnitsTwice(MemoryLedger):
    def add(self, *records: Record) -> None:
        try:
            super().add(*records)
        except DamagedStoreError:
            if not isinstance(records[0], UnitRecord):
                raise


@breaks("what is erased is gone", words="its units read")
class KeepsCovariatesOfTheErased(MemoryLedger):
    def erase_units(self, rounds: Ids) -> None:
        units = self._records[UnitRecord]
        kept = {number: units[number].salt for number in rounds.tolist()}
        super().erase_units(rounds)
        for number, salt in kept.items():
            units[number] = replace(units[number], salt=salt)


@breaks("an exception undoes an erasure", words="after erasing and RuntimeError")
class ErasesForGood(MemoryLedger):
    def erase_units(self, rounds: Ids) -> None:
        undo = list(self._undo)
        super().erase_units(rounds)
        self._undo = undo


@breaks("forecasts are kept to the last bit", words="its rows read")
class RoundsForecasts(MemoryLedger):
    def add_assignments(self, arms: Any, probabilities: Array, **known: Any) -> None:
        if known.get("forecasts") is not None:
            known["forecasts"] = np.array([float(f"{each:.15g}") for each in known["forecasts"]])
        super().add_assignments(arms, probabilities, **known)


@breaks("numbers are kept to the last bit", words="the numbers of probability read")
class RoundsProbabilities(MemoryLedger):
    def add_assignments(self, arms: Any, probabilities: Array, **known: Any) -> None:
        kept = np.array([float(f"{each:.16g}") for each in probabilities])
        super().add_assignments(arms, kept, **known)


@breaks("small numbers are kept", words="the numbers of reward read [0.0, 0.0")
class FlushesToZero(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        kept = [0.0 if abs(each) < 1e-307 else each for each in rewards]
        super().add_outcomes(ids, kept, **known)


@breaks("counters are kept whole", words="the counters read")
class HasNarrowCounters(MemoryLedger):
    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        with super().transaction():
            yield self
        self.head.refusals = int(float(self.head.refusals))


@breaks("nobody is overwritten", words="told by turns are counted as")
class TakesItsOwnCountersForTheLast(MemoryLedger):
    def __init__(self) -> None:
        super().__init__()
        self._last: Head | None = None

    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        with super().transaction():
            before = self.head.copy()
            if self._last is not None and self.head.outcomes == 7:
                self.head = self._last
            yield self
            self._last = before


@breaks("what is unset stays unset", words="its head read")
class SetsTheTime(MemoryLedger):
    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        with super().transaction():
            yield self
        self.head.last_time = max(self.head.last_time, 0.0)


@breaks("names are told apart", words="the request 'A ' is found as")
class TrimsNames(MemoryLedger):
    def request(self, name: str) -> Request | None:
        return super().request(name.strip())


@breaks("texts are kept", words="an event of 'é' is read back as")
class KnowsAsciiOnly(MemoryLedger):
    def add(self, *records: Record) -> None:
        super().add(*map(_in_ascii, records))


def _in_ascii(record: Record) -> Record:
    if not isinstance(record, Event) or "text" not in record.data:
        return record
    ascii_only = str(record.data["text"]).encode("ascii", "replace").decode()
    return replace(record, data={**record.data, "text": ascii_only})


SHARED: dict[str, Request] = {}


@breaks("ledgers are apart", words="after those of another experiment")
class SharesRequests(MemoryLedger):
    def request(self, name: str) -> Request | None:
        return SHARED.get(name) or super().request(name)

    def add(self, *records: Record) -> None:
        super().add(*records)
        requests = (each for each in records if isinstance(each, Request))
        SHARED.update({each.name: each for each in requests if each.name in {"a", "b"}})


@breaks("pieces join", words="of rows 0 to 5101 are others")
class LosesARowBetweenPieces(MemoryLedger):
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        for (rows,) in (super().rows(first, end),):
            yield rows[:5_000]
            yield rows[5_001:]


@breaks("a large batch is kept", words="the first awaited is")
class KeepsTwelveBits(MemoryLedger):
    def add_outcomes(self, ids: Any, rewards: Any, **known: Any) -> None:
        some = slice(0, 2**12 - 1)
        super().add_outcomes(ids[some], rewards[some], at=known["at"], late=known["late"][some])


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.law)
def test_a_broken_ledger_fails_for_the_right_reason(broken: Broken) -> None:
    SHARED.clear()
    with pytest.raises(AssertionError) as caught:
        check_store(broken.ledger, many=5_101)
    assert broken.words in str(caught.value)
    assert str(caught.value).startswith("The ledger breaks its contract")
