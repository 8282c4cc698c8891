"""A ledger: one experiment in a database, or in memory, as it is read and written.

A `Ledger` holds one experiment: a `Head` of counters, and rows that are only ever added. Everything
an experiment does is a short transaction on its ledger: a `Snapshot`, which only reads, or a
`Transaction`, which writes too.

Threads and processes:
    Any number of threads may use a ledger at once, and so may any number of processes that have
    opened it in its database. A snapshot or transaction belongs to the thread that began it.

Consistency:
    Everything read in one snapshot or transaction belongs to one state: what others commit
    meanwhile is not in it. Whatever begins after a commit reads what was committed. Writers take
    turns: a `Transaction` begins once no other one on the same experiment is active, so that its
    head is the latest. Numbers are read back to the bit and texts to the letter.

Atomicity:
    A `Transaction` is committed as a whole, with its head, when its `with` block ends without an
    exception. After an exception, or when the process is killed, everything is as it was before.
    In a database the rows are on disk when the block has ended.

Errors:
    Any method raises `StoreUnavailableError` where the database cannot be reached or written to
    (nothing was changed, and the call can be repeated), and any method that reads raises
    `DamagedStoreError` where a record cannot be read. `Raises` below names what else a method
    raises.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live.store import schema as s
from bestarm.live.store.database import Store
from bestarm.live.store.head import Head
from bestarm.live.store.memory import Memory
from bestarm.live.store.rows import (
    ALL,
    ROW,
    Change,
    Event,
    GuardrailValue,
    Ids,
    PlanRecord,
    R,
    Record,
    Report,
    Request,
    Rows,
    SummaryRecord,
    T,
    UnitCounts,
    UnitKey,
    UnitRecord,
    answers_of,
    as_row,
    damaged,
    id_ranges,
    read_change,
    read_event,
    read_plan,
    read_report,
    read_summary,
)
from bestarm.live.store.session import DuplicateKeyError, Query, Row, Session
from bestarm.numerics.geometry import Array

_PIECE = 20_000  # assignments read at a time
_FEW = 50  # of which the first outstanding one is looked for first
_NAMED_AT_A_TIME = 50  # units found by one statement
_PAGE = 5_000  # records read at a time

# --- Statements on one experiment ---------------------------------------------------------------


def _mine(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.experiment == sa.bindparam("experiment")


def _in_order(table: sa.Table, *columns: str, key: str = "number") -> sa.Select[Any]:
    """Rows of an experiment with a key from `start` up to `end`, in order of it, `size` of them."""
    wanted = sa.select(*([table.c[name] for name in columns] or list(table.c)[1:])).where(
        _mine(table), table.c[key] >= sa.bindparam("start"), table.c[key] < sa.bindparam("end")
    )
    return wanted.order_by(table.c[key]).limit(sa.bindparam("size"))


_READ_HEAD = sa.select(*(s.experiments.c[name] for name in s.COUNTERS)).where(
    s.experiments.c.id == sa.bindparam("experiment")
)
# On a server its own clock counts for all who share it. A select of its own around the one that
# locks: the clock is read once the lock is there, however long that took.
_READ_HEAD_AND_TIME = _READ_HEAD.add_columns(s.SERVER_TIME)
_locked = _READ_HEAD.with_for_update().subquery("head")
_LOCK_HEAD_AND_TIME = sa.select(*_locked.columns, s.SERVER_TIME)


@cache
def _save(names: tuple[str, ...]) -> sa.Update:
    """The statement that writes some counters."""
    mine = s.experiments.c.id == sa.bindparam("experiment")
    new: dict[str, sa.BindParameter[Any]] = {name: sa.bindparam(f"new_{name}") for name in names}
    return sa.update(s.experiments).where(mine).values(new)


# For one name alone PostgreSQL, without statistics, may look at all requests of the experiment.
_REQUESTS_FROM = (
    sa.select(*list(s.requests.c)[1:])
    .where(_mine(s.requests), s.requests.c.name >= sa.bindparam("name"))
    .order_by(s.requests.c.name)
    .limit(1)
)

# Outcomes and losses are joined to their assignments here and not by the database: of a new
# experiment PostgreSQL has no statistics yet, and compares every row of one table with every row of
# the other.
_DRAWN = ("id", "round", "phase", "arm", "probability", "asked", "forecast")  # columns of ROW
_ASSIGNMENTS = _in_order(s.assignments, "number", *_DRAWN[1:])
_OUTCOMES = _in_order(s.outcomes, "number", "reward", "told", "late")
_LOSSES = _in_order(s.losses, "number", "at")
_REWARDS = _in_order(s.outcomes, "number", "reward")
_TOLD = _in_order(s.outcomes, "number")
_LOST = _in_order(s.losses, "number")
_ASKED = _in_order(s.assignments, "number", "asked")
_ROUNDS_OF = sa.select(s.units.c.round).where(
    _mine(s.units), s.units.c.unit == sa.bindparam("unit")
)
_rounds_of_each = (
    sa.select(sa.func.count().label("rounds"), sa.func.max(s.units.c.round).label("last"))
    .where(_mine(s.units), s.units.c.unit.is_not(None), s.units.c.round >= 0)
    .group_by(s.units.c.unit)
    .subquery()
)
_UNIT_COUNTS = sa.select(
    sa.func.count().over(),
    sa.func.sum(_rounds_of_each.c.rounds).over(),
    _rounds_of_each.c.rounds,
    _rounds_of_each.c.last,
)
_UNIT_COUNTS = _UNIT_COUNTS.order_by(
    _rounds_of_each.c.rounds.desc(), _rounds_of_each.c.last.desc()
).limit(1)
_ERASE = (
    sa.update(s.units)
    .where(s.units.c.experiment == sa.bindparam("of"), s.units.c.round == sa.bindparam("erased"))
    .values(dict.fromkeys(("salt", "unit", "decision_point", "covariates"), sa.null()))
)


@cache
def _units_named(size: int) -> sa.CompoundSelect[Any]:
    """The statement for the rounds of so many units, each found in the index by itself."""
    return sa.union_all(
        *(
            sa.select(*list(s.units.c)[1:]).where(
                _mine(s.units),
                s.units.c.unit == sa.bindparam(f"unit_{place}"),
                s.units.c.decision_point == sa.bindparam(f"decision_point_{place}"),
            )
            for place in range(size)
        )
    )


_LOST_OF_PHASE = (
    sa.select(s.losses.c.number)
    .where(_mine(s.losses), s.losses.c.phase == sa.bindparam("phase"))
    .order_by(s.losses.c.place)
    .offset(sa.bindparam("start"))
    .limit(sa.bindparam("size"))
)
_DEFERRALS = _in_order(s.deferrals, "number", "summary")
_WAITING = _DEFERRALS.where(s.deferrals.c.summary == sa.literal_column("-1"))
# Without the condition on the summary PostgreSQL may look at all rows of the experiment.
_COVER = (
    sa.update(s.deferrals)
    .where(
        s.deferrals.c.experiment == sa.bindparam("of"),
        s.deferrals.c.number == sa.bindparam("deferred"),
        s.deferrals.c.summary == sa.literal_column("-1"),
    )
    .values(summary=sa.bindparam("covering"))
)


class _Kind(NamedTuple):
    """How records of a kind are kept and read."""

    table: sa.Table
    read: Callable[..., Any]  # a record from a row
    in_order: sa.Select[Any]  # by number
    total: sa.Select[Any]  # how many there are
    by_assignment: sa.Select[Any] | None = None

    @classmethod
    def of(cls, table: sa.Table, read: Callable[..., Any], *, key: str = "number") -> _Kind:
        """A kind whose records have their number in the column `key`."""
        about = _in_order(table, key="assignment") if "assignment" in table.c else None
        total = sa.select(sa.func.count()).select_from(table).where(_mine(table))
        return cls(table, read, _in_order(table, key=key), total, about)


_KINDS: dict[type, _Kind] = {
    PlanRecord: _Kind.of(s.plans, read_plan, key="phase"),
    SummaryRecord: _Kind.of(s.summaries, read_summary),
    Event: _Kind.of(s.events, read_event),
    Change: _Kind.of(s.changes, read_change),
    Request: _Kind.of(s.requests, Request, key="first"),
    UnitRecord: _Kind.of(s.units, UnitRecord, key="round"),
    Report: _Kind.of(s.reports, read_report),
    GuardrailValue: _Kind.of(s.values, GuardrailValue),
}


# --- Transactions -------------------------------------------------------------------------------

_this = s.experiments.c.id == sa.bindparam("experiment")
_DESCRIPTION = sa.select(s.experiments.c.description).where(_this)
_DESCRIBE = sa.update(s.experiments).where(_this).values(description=sa.bindparam("text"))


class Snapshot:
    """The state of an experiment at one moment, to read, in a transaction of the session.

    Attributes:
        head: the counters. In a `Transaction`, change them in place.
        session: the transaction, for statements on other tables.
    """

    _head_and_time = _READ_HEAD_AND_TIME

    def __init__(self, session: Session, number: int) -> None:
        self.session, self._number = session, number
        statement = self._head_and_time if session.on_server else _READ_HEAD
        found = session.select(statement, experiment=number)
        if not found:
            raise damaged("The counters of the experiment are missing.")
        self.head = Head(*found[0][: len(s.COUNTERS)])
        self._saved = vars(self.head).copy()
        self._time: float | None = found[0][-1] if session.on_server else None

    @property
    def description(self) -> str:
        """What the experiment is about, in words."""
        ((text,),) = self._select(_DESCRIPTION)
        return str(text)

    def now(self) -> float:
        """The time in seconds since 1970, by the one clock of all who share the ledger.

        For a database server that is the server's clock, read once a `Transaction` has begun; for a
        file, and in memory, it is this process's.
        """
        return time.time() if self._time is None else self._time

    def _select(self, statement: Query, **values: Any) -> list[Row]:
        return self.session.select(statement, experiment=self._number, **values)

    def _columns(self, statement: sa.Select[Any], **values: Any) -> list[NDArray[Any]]:
        """Columns of numbers: the tables take no others."""
        found = self.session.fetch(statement, experiment=self._number, **values)
        return [np.array(column) for column in zip(*found, strict=True)]

    def _ids(self, statement: sa.Select[Any], **values: Any) -> Ids:
        """The first column of whole numbers."""
        columns = self._columns(statement, **values)
        return columns[0] if columns else np.empty(0, dtype=np.int64)

    # --- records ---

    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        """The records of a kind with numbers from `start` up to `end`, in order of number."""
        known = _KINDS[kind]
        while start < end:
            found = self._select(known.in_order, start=start, end=end, size=_PAGE)
            for row in found:
                record: R = known.read(*row)
                yield record
                start = record.number + 1
            if len(found) < _PAGE:
                return

    def count(self, kind: type[Record]) -> int:
        """How many records of a kind there are, whatever their numbers."""
        ((number,),) = self._select(_KINDS[kind].total)
        return int(number)

    def records_of(self, kind: type[T], ids: Sequence[int]) -> Sequence[T]:
        """The reports of these assignments, or the values of guardrails, in order of number."""
        known, wanted, found = _KINDS[kind], set(ids), list[T]()
        assert known.by_assignment is not None
        for run in id_ranges(np.array(ids, dtype=np.int64)):
            near = {"start": int(run[0]), "end": int(run[-1]) + 1, "size": ALL}
            records = itertools.starmap(known.read, self._select(known.by_assignment, **near))
            found += (record for record in records if record.assignment in wanted)
        return sorted(found, key=lambda record: record.number)

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on."""
        return self.records(PlanRecord, start)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on."""
        return self.records(SummaryRecord, start)

    def events(self, start: int = 0, end: int = ALL) -> Iterator[Event]:
        """The events with numbers from `start` up to `end`."""
        return self.records(Event, start, end)

    def changes(self, start: int = 0) -> Iterator[Change]:
        """The changes of options from a number on."""
        return self.records(Change, start)

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase.

        Raises:
            DamagedStoreError: the phase has no plan.
        """
        found = next(self.records(PlanRecord, phase, phase + 1), None)
        if found is None:
            raise damaged(f"The plan of phase {phase} cannot be read (it is missing).", phase)
        return found

    def request(self, name: str) -> Request | None:
        """The request of exactly this name, or None."""
        found = (Request(*row) for row in self._select(_REQUESTS_FROM, name=name))
        return next((each for each in found if each.name == name), None)

    # --- units ---

    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        """The rounds about these units at these decision points, as far as there are any."""
        records, size = list[UnitRecord](), 1 if len(keys) == 1 else _NAMED_AT_A_TIME
        for begin in range(0, len(keys), size):
            part = [*keys[begin : begin + size]]
            part += part[-1:] * (size - len(part))  # one statement for any number
            values = {
                f"{name}_{place}": value
                for place, key in enumerate(part)
                for name, value in key._asdict().items()
            }
            records += itertools.starmap(UnitRecord, self._select(_units_named(size), **values))
        return {UnitKey(str(each.unit), str(each.decision_point)): each for each in records}

    def rounds_of(self, unit: str) -> Ids:
        """The numbers of the rounds about a unit, in no order."""
        return self._ids(_ROUNDS_OF, unit=unit)

    def unit_counts(self) -> UnitCounts:
        """How many rounds were about units, where something was drawn."""
        found = self._select(_UNIT_COUNTS)
        return UnitCounts(*map(int, found[0])) if found else UnitCounts()

    # --- assignments and outcomes ---

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ROW, in order of id, in pieces.

        Ids that were never assigned are left out.
        """
        while first < end:
            columns = self._columns(_ASSIGNMENTS, start=first, end=end, size=_PIECE)
            if not columns:
                return
            rows = np.empty(len(columns[0]), dtype=ROW)
            for name, column in zip(_DRAWN, columns, strict=True):
                rows[name] = column
            end_of_piece = int(rows["id"][-1]) + 1
            rows["reward"] = rows["told"] = rows["lost"] = np.nan
            rows["late"] = False
            for statement, names in ((_OUTCOMES, ("reward", "told", "late")), (_LOSSES, ("lost",))):
                found = self._columns(statement, start=first, end=end_of_piece, size=ALL)
                _join(rows, names, found)
            yield rows
            first = end_of_piece

    def rows_of(self, ids: Ids) -> Rows:
        """These assignments as ROW, in order of id, as far as there are any."""
        found = []
        for run in id_ranges(ids):
            first, end = int(run[0]), int(run[-1]) + 1
            pieces, dense = self.rows(first, end), end - first == len(run)
            found += [rows if dense else rows[np.isin(rows["id"], run)] for rows in pieces]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=ROW), *found])

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ANSWER, in order of id, in pieces.

        Raises:
            DamagedStoreError: an id was never assigned.
        """
        for rows in self.rows(first, end):
            if np.any(rows["id"] != np.arange(first, first + len(rows))):
                break
            first += len(rows)
            yield answers_of(rows)
        if first < end:
            raise damaged(f"Some of the assignments {first} to {end - 1} are missing.", first)

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for.

        Raises:
            DamagedStoreError: the id was never assigned.
        """
        return float(next(self.answers(number, number + 1))["asked"][0])

    def settlements(self, ids: Sequence[int]) -> tuple[dict[int, float], set[int]]:
        """Of these assignments, the rewards of those that have one, and those that are lost."""
        wanted, rewards, lost = set(ids), dict[int, float](), set[int]()
        parts: Iterable[Sequence[int] | Ids] = [ids] if ids else []
        if ids and max(ids) - min(ids) > len(wanted) + _PIECE:
            parts = id_ranges(np.array(ids, dtype=np.int64), gap=_PIECE)
        for part in parts:
            near = {"start": int(min(part)), "end": int(max(part)) + 1, "size": ALL}
            told = self._select(_REWARDS, **near)
            rewards |= {number: reward for number, reward in told if number in wanted}
            if self.head.losses:
                lost |= wanted & {number for (number,) in self._select(_LOST, **near)}
        return rewards, lost

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of `count` lost assignments of a phase, in the order of loss, from number
        `start` on; fewer where there are fewer."""
        ids = self._ids(_LOST_OF_PHASE, phase=phase, start=start, size=count)
        return self._rows_of_lost(ids)["arm"]

    def _rows_of_lost(self, ids: Ids) -> Rows:
        """The assignments that are lost, in this order."""
        rows = self.rows_of(ids)
        if len(rows) < len(ids):
            raise damaged("Some of the assignments that are lost are missing.")
        return rows[np.searchsorted(rows["id"], ids)]

    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id from `start` up to `end`, or None."""
        pieces = self._outstanding(start, end, _FEW)
        return next((int(ids[0]) for ids, _ in pieces if ids.size), None)

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids from `start` up to `end` that were asked for by a time, in order."""
        pieces = self._outstanding(start, end, _PIECE)
        found = [ids[asked <= asked_by] for ids, asked in pieces]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def _outstanding(self, start: int, end: int, size: int) -> Iterator[tuple[Ids, Array]]:
        """The outstanding ids and when each was asked for, of `size` assignments, then of twice as
        many, and so on up to the size of a piece."""
        while columns := self._columns(_ASKED, start=start, end=end, size=size):
            ids, asked = columns
            near = {"start": start, "end": int(ids[-1]) + 1, "size": ALL}
            settled = np.concatenate([self._ids(each, **near) for each in (_TOLD, _LOST)])
            left = ~np.isin(ids, settled)
            yield ids[left], asked[left]
            start, size = near["end"], min(2 * size, _PIECE)

    # --- deferrals ---

    def deferrals(
        self, first: int = 0, end: int = ALL, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        """The deferred assignments, which were outstanding when their phase closed, in order of id,
        and the number of the summary that covers each, or −1.

        Args:
            first: the least id.
            end: the id after the last.
            waiting: only those that no summary covers.
        """
        read = _WAITING if waiting else _DEFERRALS
        columns = self._columns(read, start=first, end=end, size=ALL)
        ids, covered_by = columns or [np.empty(0, dtype=np.int64)] * 2
        return ids, covered_by

    def arrivals(self) -> Ids:
        """Deferred assignments that are settled and that no summary covers, in order of id."""
        waiting, _ = self.deferrals(waiting=True)
        rewards, lost = self.settlements(waiting.tolist())
        return np.array(sorted(rewards.keys() | lost), dtype=np.int64)


class Transaction(Snapshot):
    """A transaction that writes; the head is saved when it ends.

    Rows that it has added can be read in it. What should be new and is on record raises a
    `DamagedStoreError` as the transaction ends, and nothing of it is kept.
    """

    _head_and_time = _LOCK_HEAD_AND_TIME

    def save_head(self) -> None:
        """Write the counters that have changed."""
        now, saved = vars(self.head), self._saved
        new = {name: now[name] for name in s.COUNTERS if now[name] != saved[name]}
        if new:
            values = {f"new_{name}": value for name, value in new.items()}
            mine = {"experiment": self._number}
            self.session.execute_at_commit(_save(tuple(new)), **mine, **values)

    def describe(self, text: str) -> None:
        """Change what the experiment is about, in words."""
        self.session.execute(_DESCRIBE, experiment=self._number, text=text)

    def _insert(self, table: sa.Table, **values: Any) -> None:
        self.session.insert(table, {"experiment": self._number, **values})

    def add(self, *records: Record) -> None:
        """Add records of one kind, each with a number of its own.

        Requests have names of their own too; rounds a unit at a decision point; and values an
        assignment and a guardrail.
        """
        if records:
            rows = [as_row(record) for record in records]
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            self._insert(_KINDS[type(records[0])].table, **columns)

    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        forecasts: Array | None = None,
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on.

        They come in rounds of the head's `size`, numbered from the head's `rounds` on.

        Args:
            arms: one per assignment.
            probabilities: of the arms to be in their round.
            at: the time.
            forecasts: one per assignment, or None.
        """
        head, order = self.head, np.arange(len(arms))
        optional = {} if forecasts is None else {"forecast": forecasts}
        self._insert(
            s.assignments,
            number=head.assigned + order,
            round=head.rounds + order // head.size,
            phase=head.phase,
            arm=arms,
            probability=probabilities,
            asked=at,
            **optional,
        )

    def erase_units(self, rounds: Ids) -> None:
        """Erase what is known of rounds, but for its digest: the one change of what was added."""
        rows = [{"of": self._number, "erased": each} for each in rounds.tolist()]
        self.session.execute_many(_ERASE, rows)

    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        """Add outcomes of assignments that have none."""
        flags = [int(each) for each in late]
        self._insert(s.outcomes, number=list(ids), reward=list(rewards), told=at, late=flags)

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Add losses, in this order, after as many as the head's `losses`."""
        every = np.asarray(ids, dtype=np.int64)
        phases = self._rows_of_lost(every)["phase"]
        places = self.head.losses + np.arange(len(every))
        self._insert(s.losses, number=every, phase=phases, place=places, reason=reason, at=at)

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Add refused rewards, unless the assignment has one; return the number added."""
        rows = {"experiment": self._number, "number": ids, "reward": rewards, "at": at}
        return self.session.insert(s.refusals, rows, or_ignore=True)

    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes."""
        self._insert(s.deferrals, number=ids, summary=-1)

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""
        rows = [
            {"of": self._number, "deferred": each, "covering": summary} for each in ids.tolist()
        ]
        self.session.execute_many(_COVER, rows)


def _join(rows: Rows, names: Sequence[str], columns: Sequence[NDArray[Any]]) -> None:
    """Set columns of rows from those of another table, whose first has the ids."""
    if columns:
        ids = columns[0]
        places = np.searchsorted(rows["id"], ids)
        known = rows["id"][places] == ids
        for name, column in zip(names, columns[1:], strict=True):
            rows[name][places[known]] = column[known] > 0 if name == "late" else column[known]


# --- Ledgers ------------------------------------------------------------------------------------

_column = s.experiments.c
_named = _column.name == sa.bindparam("name")
_NUMBER = sa.select(_column.id).where(_named)
_NAMED = (
    sa.select(_column.id, s.documents.c.document)
    .outerjoin_from(s.experiments, s.documents, s.documents.c.experiment == _column.id)
    .where(_named)
)
_SOME = sa.select(_column.name).order_by(_column.id.desc()).limit(10)


@dataclass(frozen=True, eq=False)
class Ledger:
    """One experiment of a database, or in memory; `document` says what it is made of, as text."""

    store: Store | Memory
    number: int
    name: str
    document: str

    @classmethod
    def create(
        cls,
        store: Store | Memory,
        name: str,
        *,
        document: str,
        description: str,
        head: Head,
        created: Event,
    ) -> Ledger:
        """Add a new experiment with its first event: see `Experiment.create`.

        Raises:
            ExperimentExistsError: there is one of this name.
        """
        store.prepare()
        row = {"name": name, "description": description, "created": head.last_time}
        try:
            with store.transaction() as session:
                session.insert(s.experiments, row | vars(head))
                ((number,),) = session.fetch(_NUMBER, name=name)
                session.insert(s.documents, {"experiment": number, "document": document})
                session.insert(s.events, {"experiment": number, **as_row(created)})
        except DuplicateKeyError:
            raise ExperimentExistsError(
                f"There is an experiment {name!r} in {store.place} already.",
                field="name",
                value=name,
                remedy="Open it, or choose another name.",
            ) from None
        return cls(store, number, name, document)

    @classmethod
    def open(cls, store: Store, name: str) -> Ledger:
        """The experiment of a name.

        Raises:
            UnknownExperimentError: there is none.
        """
        found, others = store.select((_NAMED, {"name": name}), (_SOME, {}))
        for number, document in found:
            return cls(store, number, name, document)
        names = ", ".join(repr(other) for (other,) in others)
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {names}." if names else store.why_empty,
        )

    def delete(self) -> None:
        """Remove all that is on record of it, from the file as well."""
        with self.store.transaction() as session:
            for table in reversed(s.metadata.sorted_tables):
                if table is not s.version:
                    key = table.c.id if table is s.experiments else table.c.experiment
                    session.execute(
                        sa.delete(table).where(key == sa.bindparam("of")), of=self.number
                    )
        self.purge()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Begin a snapshot of the committed state.

        Raises:
            StoreUnavailableError: the database cannot be reached, or its file was replaced.
        """
        with self.store.snapshot() as session:
            yield Snapshot(session, self.number)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction, once other writers are done; it is rolled back on an exception.

        Raises:
            StoreUnavailableError: the database cannot be reached or written to, its file was
                replaced, or other writers did not finish in time.
            DamagedStoreError: what should be new is on record.
        """
        try:
            with self.store.transaction() as session:
                tx = Transaction(session, self.number)
                yield tx
                tx.save_head()
        except DuplicateKeyError as error:
            what = f"The table {error.table} holds rows that the counters do not know of."
            raise damaged(what, error.table) from error

    def purge(self) -> None:
        """Remove what was erased from files, as far as there are any.

        Raises:
            StoreUnavailableError: another program reads the file, and keeps it there.
        """
        self.store.purge()

    def close(self) -> None:
        """Release connections and files. What is in memory stays as long as its experiment."""
        self.store.close()
