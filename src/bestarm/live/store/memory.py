"""A ledger in memory, for experiments that begin and end within one program."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.live.store.contract import (
    ROW,
    VALUE,
    Change,
    Event,
    Head,
    Ids,
    PlanRecord,
    Report,
    Request,
    Rows,
    SummaryRecord,
    Transaction,
    UnitKey,
    UnitRecord,
    damaged,
)
from bestarm.numerics.geometry import Array

K = TypeVar("K")
T = TypeVar("T")

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
        self._units: dict[int, UnitRecord] = {}  # by round
        self._rounds_of: dict[str, dict[str, int]] = {}  # by unit and decision point
        self._losses: dict[int, list[int]] = {}  # ids by phase
        self._requests: dict[str, Request] = {}
        self._reports_of: dict[int, list[Report]] = {}
        self._values = np.empty(0, dtype=VALUE)
        self._values_of: dict[int, list[int]] = {}  # numbers by assignment
        kinds = (PlanRecord, SummaryRecord, Event, Change, Report)
        self._records: dict[type, list[Any]] = {kind: [] for kind in kinds}
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

    def records(self, kind: type[T], start: int = 0, *, limit: int | None = None) -> Iterator[T]:
        known = self._records[kind]
        first = max(0, start - known[0].number) if known else 0
        yield from known[first : None if limit is None else first + limit]

    def request(self, name: str) -> Request | None:
        return self._requests.get(name)

    def requests(self) -> Iterator[Request]:
        yield from self._requests.values()

    def reports_of(self, ids: Sequence[int]) -> Iterator[Report]:
        for number in ids:
            yield from self._reports_of.get(number, ())

    def values(self, start: int = 0, end: int = 2**62) -> Iterator[Rows]:
        yield self._values[start : min(end, self.head.values)].copy()

    def values_of(self, ids: Sequence[int]) -> Rows:
        numbers = sorted(each for number in ids for each in self._values_of.get(number, ()))
        return self._values[numbers]

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        yield self._rows[first : min(end, self._used)][list(ROW.names or ())].astype(ROW)

    def units(self, first: int, end: int) -> Iterator[UnitRecord]:
        known = self._units
        near = range(first, end) if end - first < len(known) else sorted(known)
        yield from (known[each] for each in near if first <= each < end and each in known)

    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        found = {key: self._rounds_of.get(key.unit, {}).get(key.decision_point) for key in keys}
        return {key: self._units[number] for key, number in found.items() if number is not None}

    def rounds_of(self, unit: str) -> Ids:
        return np.array([*self._rounds_of.get(unit, {}).values()], dtype=np.int64)

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
        return start + np.flatnonzero(~_settled(rows) & (rows["asked"] <= asked_by))

    def deferrals(
        self, first: int = 0, end: int = 2**62, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        covered_by = self._rows["summary"][first : min(end, self._used)]
        places = np.flatnonzero(covered_by == -1 if waiting else covered_by >= -1)
        return first + places, covered_by[places]

    def arrivals(self) -> Ids:
        ids, _ = self.deferrals(waiting=True)
        return ids[_settled(self._rows[ids])]

    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        request: Request | None,
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
        if request is not None:
            self._requests[request.name] = request
            self._undo.append(lambda: self._requests.pop(request.name))

    def add_units(self, records: Sequence[UnitRecord]) -> None:
        for record in records:
            unit, point = record.unit, record.decision_point
            points = {} if unit is None else self._rounds_of.setdefault(unit, {})
            if record.round in self._units or point in points:
                raise damaged("What should be new of a round is on record.")
            self._put(self._units, record.round, record)
            if point is not None:
                self._put(points, point, record.round)

    def erase_units(self, rounds: Ids) -> None:
        for number in rounds.tolist():
            record = self._units[number]
            erased = replace(record, salt=None, unit=None, decision_point=None, covariates=None)
            self._put(self._units, number, erased)
            if record.unit is not None and record.decision_point is not None:
                points = self._rounds_of.pop(record.unit)
                left = {point: each for point, each in points.items() if each != number}
                self._rounds_of |= {record.unit: left} if left else {}
                self._undo.append(partial(self._rounds_of.__setitem__, record.unit, points))

    def _put(self, known: dict[K, T], key: K, new: T) -> None:
        undo = partial(known.__setitem__, key, known[key]) if key in known else None
        self._undo.append(undo or partial(known.pop, key))
        known[key] = new

    def _append(self, known: list[T], new: T) -> None:
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

    def add_reports(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        for number, each in enumerate(zip(ids, rewards, late, strict=True), self.head.reports):
            report = Report(number, each[0], each[1], at, each[2])
            self._append(self._records[Report], report)
            self._append(self._reports_of.setdefault(report.assignment, []), report)

    def add_values(self, values: Rows) -> None:
        first, end = self.head.values, self.head.values + len(values)
        known = self.values_of(values["id"].tolist())[["id", "guardrail"]].tolist()
        if not set(known).isdisjoint(values[["id", "guardrail"]].tolist()):
            raise damaged("A value that should be new is on record.")
        if end > len(self._values):
            grown = np.empty(max(end, 2 * len(self._values)), dtype=VALUE)
            grown[:first] = self._values[:first]
            self._values = grown
        self._values[first:end] = values
        for number, assignment in zip(values["number"], values["id"].tolist(), strict=True):
            self._append(self._values_of.setdefault(assignment, []), int(number))

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

    def add(self, record: PlanRecord | SummaryRecord | Change | Event) -> None:
        known = self._records[type(record)]
        if known and record.number != known[-1].number + 1:
            raise damaged("A record that should be new is on record.")
        self._append(known, record)


def _settled(rows: Rows) -> NDArray[np.bool_]:
    settled: NDArray[np.bool_] = ~(np.isnan(rows["reward"]) & np.isnan(rows["lost"]))
    return settled
