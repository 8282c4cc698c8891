"""A ledger in memory, for experiments that begin and end within one program."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from bestarm.live.store.contract import (
    ALL,
    ROW,
    GuardrailValue,
    Head,
    Ids,
    R,
    Record,
    Report,
    Request,
    Rows,
    T,
    Transaction,
    UnitCounts,
    UnitKey,
    UnitRecord,
    damaged,
    is_outstanding,
)
from bestarm.numerics.geometry import Array

K = TypeVar("K")
V = TypeVar("V")

_PIECE = 4096  # rows searched at a time
# With the number of the summary that covers a deferral, −1 for none; −2 if it is not a deferral.
_STORED = np.dtype([*ROW.descr, ("refused", bool), ("summary", np.int64)])


class MemoryLedger(Transaction):
    """A ledger in memory, safe for threads. It is its own transaction.

    A forked process must not use it: another thread may have been in a transaction.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self.head = Head()
        self._rows = np.empty(0, dtype=_STORED)
        self._used = 0
        self._losses: dict[int, list[int]] = {}  # ids by phase
        self._records: defaultdict[type, dict[int, Any]] = defaultdict(dict)  # by number
        self._numbers: defaultdict[type, list[int]] = defaultdict(list)  # of these, in order
        self._by_key: dict[Hashable, Any] = {}  # see `_keys`
        self._groups: dict[Hashable, list[int]] = {}  # numbers
        self._undo: list[Callable[[], object]] = []  # the steps of the transaction

    @contextmanager
    def snapshot(self) -> Iterator[MemoryLedger]:
        with self._lock:
            yield self

    @contextmanager
    def transaction(self) -> Iterator[MemoryLedger]:
        with self._lock:
            head, self._undo = self.head.copy(), []
            try:
                yield self
            except BaseException:
                for undo in reversed(self._undo):
                    undo()
                self.head = head
                raise

    def purge(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """Nothing is held."""

    def now(self) -> float:
        return time.time()

    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        known, numbers = self._records[kind], self._numbers[kind]
        wanted = numbers[bisect_left(numbers, start) : bisect_left(numbers, end)]
        yield from (known[number] for number in wanted)

    def records_of(self, kind: type[T], ids: Sequence[int]) -> Sequence[T]:
        numbers = (number for each in set(ids) for number in self._groups.get((kind, each), ()))
        return [self._records[kind][number] for number in sorted(numbers)]

    def request(self, name: str) -> Request | None:
        found: Request | None = self._by_key.get((Request, name))
        return found

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        yield self._rows[first : min(end, self._used)][list(ROW.names or ())].astype(ROW)

    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        found = {key: self._by_key.get((UnitRecord, key)) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def rounds_of(self, unit: str) -> Ids:
        return np.array(self._groups.get((UnitRecord, unit), ()), dtype=np.int64)

    def unit_counts(self) -> UnitCounts:
        rounds = [
            [number for number in numbers if number >= 0]
            for group, numbers in self._groups.items()
            if isinstance(group, tuple) and group[0] is UnitRecord
        ]
        drawn = [(len(each), max(each)) for each in rounds if each]
        if not drawn:
            return UnitCounts()
        return UnitCounts(len(drawn), sum(size for size, _ in drawn), *max(drawn))

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        ids = self._losses.get(phase, [])[start : start + count]
        return np.asarray(self._rows["arm"][ids], dtype=np.int64)

    def first_outstanding(self, start: int, end: int) -> int | None:
        for begin in range(start, end, _PIECE):
            found = self.outstanding(begin, min(end, begin + _PIECE))
            if found.size:
                return int(found[0])
        return None

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        rows = self._rows[start:end]
        return start + np.flatnonzero(is_outstanding(rows) & (rows["asked"] <= asked_by))

    def deferrals(
        self, first: int = 0, end: int = ALL, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        covered_by = self._rows["summary"][first : min(end, self._used)]
        places = np.flatnonzero(covered_by == -1 if waiting else covered_by >= -1)
        return first + places, covered_by[places]

    def arrivals(self) -> Ids:
        ids, _ = self.deferrals(waiting=True)
        return ids[~is_outstanding(self._rows[ids])]

    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        forecasts: Array | None = None,
    ) -> None:
        first, end, used = self.head.assigned, self.head.assigned + len(arms), self._used
        if end > len(self._rows):
            grown = np.empty(max(end, 2 * len(self._rows)), dtype=_STORED)
            grown[:used] = self._rows[:used]
            self._rows = grown
        rows = self._rows[first:end]
        rows["id"], rows["phase"], rows["arm"] = np.arange(first, end), self.head.phase, arms
        rows["round"] = self.head.rounds + np.arange(len(arms)) // self.head.size
        rows["probability"], rows["asked"] = probabilities, at
        rows["forecast"] = np.nan if forecasts is None else forecasts
        rows["reward"] = rows["told"] = rows["lost"] = np.nan
        rows["late"], rows["refused"], rows["summary"] = False, False, -2
        self._used = end
        self._undo.append(lambda: setattr(self, "_used", used))

    def add(self, *records: Record) -> None:
        for record in records:
            kind, number = type(record), record.number
            key, group = _keys(record)
            if number in self._records[kind] or key in self._by_key:
                raise damaged("A record that should be new is on record.")
            self._put(self._records[kind], number, record)
            numbers = self._numbers[kind]
            place = bisect_left(numbers, number)
            numbers.insert(place, number)
            self._undo.append(partial(numbers.pop, place))
            if key is not None:
                self._put(self._by_key, key, record)
            if group is not None:
                self._append(self._groups.setdefault(group, []), number)

    def erase_units(self, rounds: Ids) -> None:
        for number in rounds.tolist():
            record = self._records[UnitRecord][number]
            self._put(self._records[UnitRecord], number, record.erased())
            key, group = _keys(record)
            if key is not None:
                self._remove(self._by_key, key)
                left = [each for each in self._remove(self._groups, group) if each != number]
                if left:
                    self._put(self._groups, group, left)

    def _put(self, known: MutableMapping[K, V], key: K, new: V) -> None:
        undo = partial(known.__setitem__, key, known[key]) if key in known else None
        self._undo.append(undo or partial(known.pop, key))
        known[key] = new

    def _remove(self, known: MutableMapping[K, V], key: K) -> V:
        self._undo.append(partial(known.__setitem__, key, known[key]))
        return known.pop(key)

    def _append(self, known: list[V], new: V) -> None:
        known.append(new)
        self._undo.append(known.pop)

    def _set(self, ids: Ids, **columns: Any) -> None:
        before = self._rows[ids]
        for name, values in columns.items():
            self._rows[name][ids] = values
        self._undo.append(lambda: self._rows.__setitem__(ids, before))

    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        places = np.asarray(ids, dtype=np.int64)
        if not np.isnan(self._rows["reward"][places]).all():
            raise damaged("An outcome that should be new is on record.")
        self._set(places, reward=rewards, told=at, late=late)

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:  # noqa: ARG002
        """Add losses, in this order. Nobody asks for the reasons of an experiment in memory."""
        self._set(np.asarray(ids, dtype=np.int64), lost=at)
        for number in ids:
            self._append(self._losses.setdefault(int(self._rows["phase"][number]), []), number)

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:  # noqa: ARG002
        new = ids[~self._rows["refused"][ids]]
        self._set(new, refused=True)
        return len(new)

    def add_deferrals(self, ids: Ids) -> None:
        self._set(ids, summary=-1)

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        self._set(ids, summary=summary)


def _keys(record: Record) -> tuple[Hashable, Hashable]:
    """What no other record has, and what several may have; None where there is none."""
    kind = type(record)
    match record:
        case Request(name):
            return (kind, name), None
        case UnitRecord(unit=str(unit), decision_point=str(point)):
            return (kind, UnitKey(unit, point)), (kind, unit)
        case Report(assignment=number):
            return None, (kind, number)
        case GuardrailValue(assignment=number, guardrail=guardrail):
            return (kind, number, guardrail), (kind, number)
        case _:
            return None, None
