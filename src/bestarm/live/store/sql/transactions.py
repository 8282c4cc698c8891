"""Transactions on one experiment in a database; `Reading` and `Writing` document the methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, CursorResult

from bestarm.errors import StoreError
from bestarm.geometry import Array
from bestarm.live.events import as_data, canonical
from bestarm.live.store.contract import (
    ANSWER,
    ROW,
    Event,
    Ids,
    PlanRecord,
    Request,
    Rows,
    SummaryRecord,
)
from bestarm.live.store.sql import records
from bestarm.live.store.sql import statements as sql

__all__ = ["SqlReading", "SqlWriting"]

T = TypeVar("T")

_PIECE = 50_000  # rows read at a time
_PAGE = 5_000  # plans, summaries or events read at a time
_FEW = 256  # ids: so many are read, more are counted where one is looked for
_FAR = 1000  # ids farther apart than this are looked up apart


class SqlReading:
    """A transaction that reads.

    Args:
        connection: of the transaction.
        number: the experiment's number in the database.
        lock: keep other writers waiting until it ends.
    """

    def __init__(self, connection: Connection, number: int, *, lock: bool = False) -> None:
        self._connection = connection
        self._number = number
        self._time: float | None = None
        if connection.dialect.name == "sqlite":
            self.head = records.read_head(sql.READ_HEAD(connection, experiment=number).one())
        else:
            read = sql.LOCK_HEAD_AND_TIME if lock else sql.READ_HEAD_AND_TIME
            row = tuple(read(connection, experiment=number).one())
            self.head, self._time = records.read_head(row[:-1]), row[-1]

    def now(self) -> float:
        """The time by the server's clock as the head was read; for a file, by this process's."""
        return time.time() if self._time is None else self._time

    def _run(self, statement: sql.Prepared, **values: Any) -> CursorResult[Any]:
        return statement(self._connection, experiment=self._number, **values)

    def _fetch(self, statement: sql.Prepared, **values: Any) -> list[Any]:
        return statement.fetch(self._connection, experiment=self._number, **values)

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase."""
        row = self._run(sql.PLAN, phase=phase).one_or_none()
        if row is None:
            raise records.missing(f"the plan of phase {phase}")
        return records.read_plan(row)

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on."""
        return self._records(sql.PLANS, records.read_plan, start)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on."""
        return self._records(sql.SUMMARIES, records.read_summary, start)

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The events from a number on, up to a limit."""
        return self._records(sql.EVENTS, records.read_event, start, limit)

    def _records(
        self,
        statement: sql.Prepared,
        read: Callable[[Sequence[Any]], T],
        start: int,
        limit: int | None = None,
    ) -> Iterator[T]:
        """Records from a number on, which is in their first column, up to a limit."""
        left = 2**62 if limit is None else limit
        while left and (found := self._fetch(statement, start=start, size=min(left, _PAGE))):
            yield from map(read, found)
            start, left = found[-1][0] + 1, left - len(found)

    def request(self, name: str) -> Request | None:
        """The request of this name, or None."""
        row = self._run(sql.REQUEST, name=name).one_or_none()
        return None if row is None else records.read_request(row)

    def requests(self) -> Iterator[Request]:
        """All named requests, in the order made."""
        rows = sql.REQUESTS.stream(self._connection, _PAGE, experiment=self._number)
        return map(records.read_request, rows)

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments of a range, in pieces."""
        start: int | None = first
        while start is not None and start < end:
            piece = {"start": start, "end": min(end, start + _PIECE)}
            found = self._fetch(sql.ASSIGNMENTS, **piece)
            rows = np.empty(len(found), dtype=ROW)
            rows["reward"] = rows["told"] = rows["lost"] = np.nan
            rows["late"] = False
            _fill(rows, slice(None), found, "id", "phase", "arm", "probability", "asked")
            gaps = len(rows) < piece["end"] - start  # an audit reads what others refuse
            numbers = set(rows["id"].tolist()) if gaps else set()
            for statement, names in (
                (sql.OUTCOMES, ("reward", "told", "late")),
                (sql.LOSSES, ("lost",)),
            ):
                found = self._fetch(statement, **piece)
                found = [row for row in found if row[0] in numbers] if gaps else found
                with records.numbers():
                    at = np.searchsorted(rows["id"], [row[0] for row in found])
                _fill(rows, at, found, "", *names)
            yield rows
            start = piece["end"] if len(rows) else self._next_after(piece["end"])

    def _next_after(self, start: int) -> int | None:
        """The first assignment from a number on: a wrong counter may leave a wide gap."""
        found = self._fetch(sql.NEXT_ASSIGNMENT, start=start, size=1)
        return int(found[0][0]) if found else None

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments of a range as ANSWER, in pieces, read column by column."""
        for start in range(first, end, _PIECE):
            piece = {"start": start, "end": min(end, start + _PIECE)}
            rows = np.empty(piece["end"] - start, dtype=ANSWER)
            arms = records.column(self._fetch(sql.ARMS, **piece), np.int64)
            if len(arms) != len(rows):
                raise records.missing(f"some of the assignments {start} to {piece['end'] - 1}")
            rows["arm"] = arms
            rows["asked"] = self._times(sql.ASKED_SPAN, sql.ASKED_TIMES, piece)
            rewards = records.column(self._fetch(sql.VALUES, **piece), float)
            told = self._times(sql.TOLD_SPAN, sql.TOLD_TIMES, piece)
            at: NDArray[Any] | slice = slice(None)
            if len(rewards) < len(rows):
                rows["reward"] = rows["told"] = np.nan
                at = records.column(self._fetch(sql.TOLD_NUMBERS, **piece), np.int64) - start
            rows["reward"][at], rows["told"][at] = rewards, told
            rows["lost"] = np.nan
            lost = self._fetch(sql.LOSSES, **piece)
            if lost:
                at = np.array([number for number, _ in lost]) - start
                rows["reward"][at] = rows["told"][at] = np.nan
                _fill(rows, at, lost, "", "lost")
            yield rows

    def _times(self, span: sql.Prepared, every: sql.Prepared, piece: dict[str, int]) -> Array:
        """Times in order of id. That many are equal is found without reading them."""
        size = piece["end"] - piece["start"]
        if size > _FEW:
            count, first, last = self._fetch(span, **piece)[0]
            if count == size and first == last:
                return np.full(size, first)
        return records.column(self._fetch(every, **piece), float)

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards of those of these assignments that have an outcome."""
        return {row[0]: row[1] for row in self._among(sql.REWARDS, ids)}

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments are lost."""
        return {row[0] for row in self._among(sql.LOST_NUMBERS, ids)}

    def _among(self, statement: sql.Prepared, ids: Ids) -> Iterator[Any]:
        """Rows whose number is among ids, one range after the other."""
        if not len(ids):
            return
        ordered, wanted = np.sort(ids), set(ids.tolist())
        for run in np.split(ordered, np.flatnonzero(np.diff(ordered) > _FAR) + 1):
            for row in self._fetch(statement, start=int(run[0]), end=int(run[-1]) + 1):
                if row[0] in wanted:
                    yield row

    def _known(self, ids: Ids, place: int) -> list[Any]:
        """The time, the phase or the arm of each of these assignments."""
        known = {row[0]: row[place] for row in self._among(sql.ASKED_NUMBERS, ids)}
        return records.values_of(known, ids)

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of lost assignments of a phase, in the order of loss."""
        found = self._fetch(sql.LOST_IN_ORDER, phase=phase, start=start, end=start + count)
        return np.array(self._known(records.column(found, np.int64), 3), dtype=np.int64)

    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id of a range, or None.

        Long ranges are only counted, ever longer ones, and halved where one is outstanding.
        """
        size = _FEW
        while start < end:
            stop = min(end, start + size)
            if stop - start > _FEW and self._count_settled(start, stop) < stop - start:
                end, size = stop, max(_FEW, (stop - start) // 2)
                continue
            if stop - start <= _FEW:
                found = self._unsettled(start, stop)
                if found.size:
                    return int(found[0])
            start, size = stop, 4 * size
        return None

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids of a range that were asked for by a time."""
        found: list[Ids] = [np.empty(0, dtype=np.int64)]
        for begin in range(start, end, _PIECE):
            ids = self._unsettled(begin, min(end, begin + _PIECE))
            if ids.size:
                found.append(ids[np.array(self._known(ids, 1)) <= asked_by])
        return np.concatenate(found)

    def _unsettled(self, start: int, end: int) -> Ids:
        unsettled = np.ones(end - start, dtype=bool)
        for statement in (sql.TOLD_NUMBERS, sql.LOST_NUMBERS):
            known = self._fetch(statement, start=start, end=end)
            unsettled[records.column(known, np.int64) - start] = False
        return start + np.flatnonzero(unsettled)

    def _count_settled(self, start: int, end: int) -> int:
        counted = (sql.TOLD_COUNT, sql.LOST_UNTOLD_COUNT)
        return sum(self._fetch(each, start=start, end=end)[0][0] for each in counted)

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for."""
        return float(self._known(np.array([number]), 1)[0])

    def deferrals(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """The assignments that were outstanding when their phase closed, in pieces."""
        start, statement = 0, sql.WAITING if waiting else sql.DEFERRALS
        while found := self._fetch(statement, start=start, size=_PAGE):
            ids, summaries = np.array(found, dtype=np.int64).T
            yield ids, summaries
            start = int(ids[-1]) + 1

    def arrivals(self) -> Ids:
        """Those of them that are settled and that no summary covers."""
        return records.column(self._fetch(sql.ARRIVALS), np.int64)


class SqlWriting(SqlReading):
    """A transaction that writes."""

    def save(self) -> None:
        """Write the counters."""
        self._run(sql.SAVE_HEAD, **records.head_columns(self.head))

    def _add(self, statement: sql.Adding, **values: Any) -> int:
        return statement(self._connection, experiment=self._number, **values)

    def add_assignments(
        self, arms: Ids, probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on."""
        first, phase = self.head.assigned, self.head.phase
        ids = np.arange(first, first + len(arms))
        drawn = {"arm": arms, "probability": probabilities}
        added = self._add(sql.ADD_ASSIGNMENTS, phase=phase, asked=at, number=ids, **drawn)
        _check_new(added, len(arms), "assignments")
        if request is not None:
            self._run(sql.ADD_REQUEST, **vars(request))

    def add_outcomes(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; return the number added."""
        flags = late.astype(np.int64)
        return self._add(sql.ADD_OUTCOMES, told=at, number=ids, reward=rewards, late=flags)

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Add losses, in this order."""
        every = np.asarray(ids, dtype=np.int64)
        phases = np.array(self._known(every, 2), dtype=np.int64)
        for phase in np.unique(phases).tolist():
            lost = every[phases == phase]
            before = int(self._run(sql.LOST_OF_PHASE, phase=phase).scalar_one())
            places = np.arange(before, before + len(lost))
            why = {"reason": reason, "at": at}
            added = self._add(sql.ADD_LOSSES, phase=phase, number=lost, place=places, **why)
            _check_new(added, len(lost), "losses")

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Add refused rewards, except where one is on record; return the number added."""
        return self._add(sql.ADD_REFUSALS, at=at, number=ids, reward=rewards)

    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes."""
        _check_new(self._add(sql.ADD_DEFERRALS, summary=-1, number=ids), len(ids), "deferrals")

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""
        same = {"experiment": self._number, "of": summary}
        many = [{**same, "id": number} for number in ids.tolist()]
        sql.SETTLE_DEFERRAL.for_each(self._connection, many)

    def add_summary(self, record: SummaryRecord) -> None:
        """Add a summary."""
        text = canonical(as_data(record.summary))
        self._run(sql.ADD_SUMMARY, **{**vars(record), "summary": text})

    def add_plan(self, record: PlanRecord) -> None:
        """Add a plan."""
        text = canonical(as_data(record.plan))
        self._run(sql.ADD_PLAN, phase=record.plan.phase, first=record.first, plan=text)

    def add_event(self, event: Event) -> None:
        """Add an event."""
        self._run(sql.ADD_EVENT, **{**vars(event), "data": canonical(event.data)})


def _check_new(added: int, size: int, rows: str) -> None:
    if added != size:
        raise StoreError(
            f"There are {rows} on record that the experiment's counters do not know of.",
            field="store",
            remedy="Was the database edited, or restored in part? Restore the whole of it.",
        )


def _fill(rows: Rows, at: NDArray[Any] | slice, found: Sequence[Any], *names: str) -> None:
    """Set columns of some rows to what was found; a column without a name is left out."""
    if len(found):
        with records.numbers():
            for name, values in zip(names, zip(*found, strict=True), strict=True):
                if name:
                    rows[name][at] = values
