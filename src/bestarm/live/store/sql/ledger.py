"""Experiments in a database: each is a ledger; `bestarm.live.store.contract` documents the methods.

Statements come first, then the transactions on one experiment, then the ledger that begins them,
and last how experiments are listed.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from bestarm.errors import (
    BestArmError,
    DamagedStoreError,
    ExperimentExistsError,
    UnknownExperimentError,
)
from bestarm.live.store.contract import (
    ALL,
    ROW,
    UNREADABLE,
    Change,
    Event,
    GuardrailValue,
    Head,
    Ids,
    PlanRecord,
    R,
    Record,
    Report,
    Request,
    Rows,
    Snapshot,
    SummaryRecord,
    T,
    Transaction,
    UnitCounts,
    UnitKey,
    UnitRecord,
    as_data,
    canonical,
    damaged,
    id_ranges,
)
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import SERVER_TIME, Store
from bestarm.live.store.sql.session import DuplicateKeyError, PostgresSession, Query, Row, Session
from bestarm.live.values import ExperimentListing
from bestarm.numerics.geometry import Array
from bestarm.records import BlockPlan, Plan, Rounds, Summary, as_blocks

Data = TypeVar("Data")

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
_READ_HEAD_AND_TIME = _READ_HEAD.add_columns(SERVER_TIME)
_locked = _READ_HEAD.with_for_update().subquery("head")
_LOCK_HEAD_AND_TIME = sa.select(*_locked.columns, SERVER_TIME)


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


# --- Transactions on one experiment -------------------------------------------------------------


class SqlSnapshot(Snapshot):
    """A snapshot of one experiment, in a transaction that the session has begun.

    Attributes:
        session: that transaction, for statements on other tables.
    """

    _head_and_time = _READ_HEAD_AND_TIME

    def __init__(self, session: Session, number: int) -> None:
        self.session, self._number = session, number
        self._time: float | None = None  # by the server's clock, where there is a server
        on_server = isinstance(session, PostgresSession)
        found = session.select(self._head_and_time if on_server else _READ_HEAD, experiment=number)
        if not found:
            raise damaged("The counters of the experiment are missing.")
        if on_server:
            self._time = found[0][-1]
        self.head = Head(*found[0][: len(s.COUNTERS)])
        self._saved = vars(self.head).copy()

    def now(self) -> float:
        """The time by the server's clock as the head was read; for a file, by this process's."""
        return time.time() if self._time is None else self._time

    def _select(self, statement: Query, **values: Any) -> list[Row]:
        return self.session.select(statement, experiment=self._number, **values)

    def _columns(self, statement: sa.Select[Any], **values: Any) -> list[NDArray[Any]]:
        """Columns of numbers, as whole numbers where all of a column are; NaN for NULL."""
        found = self.session.fetch(statement, experiment=self._number, **values)
        try:
            return [_numbers(column) for column in zip(*found, strict=True)]
        except (ValueError, TypeError, OverflowError) as error:
            raise _unreadable(str(error).rstrip(".")) from error

    def _ids(self, statement: sa.Select[Any], **values: Any) -> Ids:
        """The first column of whole numbers."""
        columns = self._columns(statement, **values)
        return _whole(columns[0]) if columns else np.empty(0, dtype=np.int64)

    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        known = _KINDS[kind]
        while start < end:
            found = self._select(known.in_order, start=start, end=end, size=_PAGE)
            for row in found:
                record: R = known.read(*row)
                yield record
                start = record.number + 1
            if len(found) < _PAGE:
                return

    def records_of(self, kind: type[T], ids: Sequence[int]) -> Sequence[T]:
        known, wanted, found = _KINDS[kind], set(ids), list[T]()
        assert known.by_assignment is not None
        for run in id_ranges(np.array(ids, dtype=np.int64)):
            near = {"start": int(run[0]), "end": int(run[-1]) + 1, "size": ALL}
            records = itertools.starmap(known.read, self._select(known.by_assignment, **near))
            found += (record for record in records if record.assignment in wanted)
        return sorted(found, key=lambda record: record.number)

    def request(self, name: str) -> Request | None:
        found = (Request(*row) for row in self._select(_REQUESTS_FROM, name=name))
        return next((each for each in found if each.name == name), None)

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        while first < end:
            columns = self._columns(_ASSIGNMENTS, start=first, end=end, size=_PIECE)
            if not columns:
                return
            rows = np.empty(len(columns[0]), dtype=ROW)
            for name, column in zip(_DRAWN, columns, strict=True):
                rows[name] = _whole(column) if ROW[name].kind == "i" else column
            if np.isnan(rows["probability"]).any() or np.isnan(rows["asked"]).any():
                raise _unreadable("a number is missing")
            end_of_piece = int(rows["id"][-1]) + 1
            rows["reward"] = rows["told"] = rows["lost"] = np.nan
            rows["late"] = False
            for statement, names in ((_OUTCOMES, ("reward", "told", "late")), (_LOSSES, ("lost",))):
                found = self._columns(statement, start=first, end=end_of_piece, size=ALL)
                _join(rows, names, found)
            yield rows
            first = end_of_piece

    def settlements(self, ids: Sequence[int]) -> tuple[dict[int, float], set[int]]:
        wanted, near = set(ids), {"start": min(ids, default=0), "end": max(ids, default=0) + 1}
        if near["end"] - near["start"] > len(wanted) + _PIECE:
            return super().settlements(ids)
        told = self._select(_REWARDS, **near, size=ALL)
        lost = self._select(_LOST, **near, size=ALL) if self.head.losses else []
        rewards = {number: reward for number, reward in told if number in wanted}
        return rewards, wanted & {number for (number,) in lost}

    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
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
        return self._ids(_ROUNDS_OF, unit=unit)

    def unit_counts(self) -> UnitCounts:
        found = self._select(_UNIT_COUNTS)
        return UnitCounts(*map(int, found[0])) if found else UnitCounts()

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        ids = self._ids(_LOST_OF_PHASE, phase=phase, start=start, size=count)
        return self._rows_of_lost(ids)["arm"]

    def _rows_of_lost(self, ids: Ids) -> Rows:
        """The assignments that are lost, in this order."""
        rows = self.rows_of(ids)
        if len(rows) < len(ids):
            raise damaged("Some of the assignments that are lost are missing.")
        return rows[np.searchsorted(rows["id"], ids)]

    def first_outstanding(self, start: int, end: int) -> int | None:
        pieces = self._outstanding(start, end, _FEW)
        return next((int(ids[0]) for ids, _ in pieces if ids.size), None)

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        pieces = self._outstanding(start, end, _PIECE)
        found = [ids[asked <= asked_by] for ids, asked in pieces]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def _outstanding(self, start: int, end: int, size: int) -> Iterator[tuple[Ids, Array]]:
        """The outstanding ids and when each was asked for, of `size` assignments, then of twice as
        many, and so on up to the size of a piece."""
        while columns := self._columns(_ASKED, start=start, end=end, size=size):
            ids, asked = _whole(columns[0]), columns[1]
            near = {"start": start, "end": int(ids[-1]) + 1, "size": ALL}
            settled = np.concatenate([self._ids(each, **near) for each in (_TOLD, _LOST)])
            left = ~np.isin(ids, settled)
            yield ids[left], asked[left]
            start, size = near["end"], min(2 * size, _PIECE)

    def deferrals(
        self, first: int = 0, end: int = ALL, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        read = _WAITING if waiting else _DEFERRALS
        columns = self._columns(read, start=first, end=end, size=ALL)
        ids, covered_by = map(_whole, columns or [np.empty(0, dtype=np.int64)] * 2)
        return ids, covered_by

    def arrivals(self) -> Ids:
        waiting, _ = self.deferrals(waiting=True)
        rewards, lost = self.settlements(waiting.tolist())
        return np.array(sorted(rewards.keys() | lost), dtype=np.int64)


class SqlTransaction(SqlSnapshot, Transaction):
    """A transaction that writes."""

    _head_and_time = _LOCK_HEAD_AND_TIME

    def save_head(self) -> None:
        """Write the counters that have changed."""
        now, saved = vars(self.head), self._saved
        new = {name: now[name] for name in s.COUNTERS if now[name] != saved[name]}
        if new:
            values = {f"new_{name}": value for name, value in new.items()}
            mine = {"experiment": self._number}
            self.session.execute_at_commit(_save(tuple(new)), **mine, **values)

    def _insert(self, table: sa.Table, **values: Any) -> None:
        self.session.insert(table, {"experiment": self._number, **values})

    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        forecasts: Array | None = None,
    ) -> None:
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

    def add(self, *records: Record) -> None:
        if records:
            rows = [_row(record) for record in records]
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            self._insert(_KINDS[type(records[0])].table, **columns)

    def erase_units(self, rounds: Ids) -> None:
        rows = [{"of": self._number, "erased": each} for each in rounds.tolist()]
        self.session.execute_many(_ERASE, rows)

    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        flags = [int(each) for each in late]
        self._insert(s.outcomes, number=list(ids), reward=list(rewards), told=at, late=flags)

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        every = np.asarray(ids, dtype=np.int64)
        phases = self._rows_of_lost(every)["phase"]
        places = self.head.losses + np.arange(len(every))
        self._insert(s.losses, number=every, phase=phases, place=places, reason=reason, at=at)

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        rows = {"experiment": self._number, "number": ids, "reward": rewards, "at": at}
        return self.session.insert(s.refusals, rows, or_ignore=True)

    def add_deferrals(self, ids: Ids) -> None:
        self._insert(s.deferrals, number=ids, summary=-1)

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        rows = [
            {"of": self._number, "deferred": each, "covering": summary} for each in ids.tolist()
        ]
        self.session.execute_many(_COVER, rows)


def _numbers(column: Sequence[Any]) -> NDArray[Any]:
    numbers = np.array(column)
    return numbers if numbers.dtype.kind == "i" else np.array(column, dtype=float)


def _join(rows: Rows, names: Sequence[str], columns: Sequence[NDArray[Any]]) -> None:
    """Set columns of rows from those of another table, whose first has the ids."""
    if columns:
        ids = _whole(columns[0])
        places = np.searchsorted(rows["id"], ids)
        known = rows["id"][places] == ids
        for name, column in zip(names, columns[1:], strict=True):
            rows[name][places[known]] = column[known] > 0 if name == "late" else column[known]


def _whole(column: NDArray[Any]) -> Ids:
    if column.dtype.kind != "i":
        raise _unreadable("a whole number is missing")
    return column


def _unreadable(why: str) -> DamagedStoreError:
    return damaged(f"The record of assignments, outcomes or losses cannot be read ({why}).")


def _row(record: Record) -> dict[str, Any]:
    """A record as its table has it: plans, summaries and what is not a single value as JSON."""
    row: dict[str, Any] = {"phase": record.number} if isinstance(record, PlanRecord) else {}
    for name, value in vars(record).items():
        part = as_data(value) if isinstance(value, (Plan, Summary)) else value
        row[name] = canonical(part) if isinstance(part, (dict, tuple)) else part
    if isinstance(record, Report):
        row["late"] = int(record.late)
    return row


def _read_plan(phase: int, text: str, first: int, number: int, values: int) -> PlanRecord:
    plan = _parsed(_plan, text, what := f"the plan of phase {phase}")
    if plan.phase != phase:
        raise damaged(f"The record of {what} cannot be read (it is one of phase {plan.phase}).")
    return PlanRecord(plan, first, number, values)


def _plan(data: dict[str, Any]) -> Plan:
    if "blocks" in data:
        plan: Plan = BlockPlan(**data)
    elif data["counts"] is not None:
        plan = Plan.fixed(data["counts"], phase=data["phase"], center=data["center"])
    else:
        plan = Plan.randomised(**{name: data[name] for name in data if name != "counts"})
    if as_data(plan) != data:
        raise ValueError("it contradicts itself")
    return plan


def _read_summary(number: int, *parts: Any) -> SummaryRecord:
    phase, first, end, late, text, digest, plain = parts
    what = f"summary {number}"
    summary = _parsed(_summary, text, what)
    told = None if plain is None else _parsed(_summary, plain, what)
    return SummaryRecord(number, phase, first, end, late, summary, digest, told)


def _summary(data: dict[str, Any]) -> Summary:
    if "kinds" in data:
        return Rounds.read(as_blocks(data.pop("blocks"), data["arms"]), **data)
    return Summary(forecast_sum=data.pop("foreseen"), **data)


def _read_report(number: int, assignment: int, reward: float, told: float, late: int) -> Report:
    return Report(number, assignment, reward, told, bool(late))


def _read_change(number: int, *parts: Any) -> Change:
    phase, kind, label, reason, text, made_by, at = parts
    features = None
    if text is not None:
        try:
            features = tuple(map(float, json.loads(text)))
        except UNREADABLE as error:
            what = f"The features of option {label!r} cannot be read ({error})."
            raise damaged(what, label) from error
    return Change(number, phase, kind, label, reason, features, made_by, at)


def _read_event(number: int, at: float, kind: str, text: str, hashed: str) -> Event:
    return Event(number, at, kind, _parsed(dict, text, f"event {number}"), hashed)


def _parsed(read: Callable[[dict[str, Any]], Data], text: str, what: str) -> Data:
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError("it is not an object")
        return read(data)
    except (*UNREADABLE, BestArmError) as error:
        why = str(error).rstrip(".")
        raise damaged(f"The record of {what} cannot be read ({why}).", what) from error


class _Kind(NamedTuple):
    """How records of a kind are kept and read."""

    table: sa.Table
    read: Callable[..., Any]  # a record from a row
    in_order: sa.Select[Any]  # by number
    by_assignment: sa.Select[Any] | None = None

    @classmethod
    def of(cls, table: sa.Table, read: Callable[..., Any], *, key: str = "number") -> _Kind:
        """A kind whose records have their number in the column `key`."""
        about = _in_order(table, key="assignment") if "assignment" in table.c else None
        return cls(table, read, _in_order(table, key=key), about)


_KINDS: dict[type, _Kind] = {
    PlanRecord: _Kind.of(s.plans, _read_plan, key="phase"),
    SummaryRecord: _Kind.of(s.summaries, _read_summary),
    Event: _Kind.of(s.events, _read_event),
    Change: _Kind.of(s.changes, _read_change),
    Request: _Kind.of(s.requests, Request, key="first"),
    UnitRecord: _Kind.of(s.units, UnitRecord, key="round"),
    Report: _Kind.of(s.reports, _read_report),
    GuardrailValue: _Kind.of(s.values, GuardrailValue),
}


# --- Experiments of a database ------------------------------------------------------------------

_column = s.experiments.c
_named = _column.name == sa.bindparam("name")
_NUMBER = sa.select(_column.id).where(_named)
_NAMED = (
    sa.select(_column.id, s.documents.c.document, _column.description)
    .outerjoin_from(s.experiments, s.documents, s.documents.c.experiment == _column.id)
    .where(_named)
)
_SOME = sa.select(_column.name).order_by(_column.id.desc()).limit(10)
_limit: sa.BindParameter[int] = sa.bindparam("limit")
_LISTED = sa.select(
    _column.name,
    _column.description,
    _column.created,
    *(_column[name] for name in s.COUNTERS),
).limit(_limit)
_HEADS = sa.select(_column.name, *(_column[name] for name in s.COUNTERS)).order_by(_column.id)
_after = sa.select(_column.id).where(_column.name == sa.bindparam("after")).scalar_subquery()
_ALL_FOLLOWING = _LISTED.where(_column.id > sa.func.coalesce(_after, 0)).order_by(_column.id)
_shown = _column.archived == sa.false()
_FOLLOWING = _ALL_FOLLOWING.where(_shown)
_rank = sa.case((_column.state == "running", 0), (_column.state == "paused", 1), else_=2)
_order = (_rank, _column.created.desc(), _column.id.desc())


def _page(*conditions: sa.ColumnElement[bool]) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Statements for the number of experiments under conditions, and for a page of them.

    Their ids are sorted first: to sort all columns of all of them would take four times as long.
    """
    ids = sa.select(_column.id).where(*conditions).order_by(*_order).limit(_limit)
    some = ids.offset(sa.bindparam("first")).subquery().select()
    count = sa.select(sa.func.count()).select_from(s.experiments).where(*conditions)
    return count, _LISTED.where(_column.id.in_(some)).order_by(*_order)


_text = sa.func.lower(_column.name + "\n" + _column.description)
_EVERY = _page(_shown)
_MATCHING = _page(_shown, _text.like(sa.bindparam("pattern"), escape="/"))


@dataclass(frozen=True, eq=False)
class SqlLedger:
    """One experiment of a database; `document` says what it is made of, as text."""

    store: Store
    number: int
    name: str
    document: str
    description: str

    @property
    def place(self) -> str:
        """The URL of its database, without the password."""
        return self.store.place

    @classmethod
    def create(
        cls,
        store: Store,
        name: str,
        *,
        document: str,
        description: str,
        head: Head,
        created: Event,
    ) -> SqlLedger:
        """Add a new experiment with its first event: see `Experiment.create`."""
        store.prepare()
        row = {"name": name, "description": description, "created": head.last_time}
        try:
            with store.transaction() as session:
                session.insert(s.experiments, row | vars(head))
                ((number,),) = session.fetch(_NUMBER, name=name)
                session.insert(s.documents, {"experiment": number, "document": document})
                session.insert(s.events, {"experiment": number, **_row(created)})
        except DuplicateKeyError:
            raise ExperimentExistsError(
                f"There is an experiment {name!r} in {store.place} already.",
                field="name",
                value=name,
                remedy="Open it, or choose another name.",
            ) from None
        return cls(store, number, name, document, description)

    @classmethod
    def open(cls, store: Store, name: str) -> SqlLedger:
        """The experiment of a name: see `Experiment.open`."""
        found, others = _select(store, (_NAMED, {"name": name}), (_SOME, {}))
        for number, document, description in found:
            return cls(store, number, name, document, description)
        names = ", ".join(repr(other) for (other,) in others)
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {names}." if names else store.why_empty,
        )

    @staticmethod
    def list(
        store: Store,
        *,
        limit: int | None = None,
        after: str | None = None,
        archived: bool = False,
    ) -> Sequence[ExperimentListing]:
        """The experiments of a database, oldest first: see `Experiment.list`."""
        start = {"after": after, "limit": ALL if limit is None else limit}
        following = _ALL_FOLLOWING if archived else _FOLLOWING
        known, found = _select(store, (_NUMBER, {"name": after}), (following, start))
        if after is not None and not known:
            raise UnknownExperimentError(
                f"There is no experiment {after!r} to continue after.",
                field="after",
                value=after,
                remedy="Give the name of the last experiment of the part before.",
            )
        return [_listed(*row) for row in found]

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

    @staticmethod
    def heads(store: Store) -> Sequence[tuple[str, Head]]:
        """The name and the counters of every experiment, oldest first, in one query."""
        [found] = _select(store, (_HEADS, {}))
        return [(name, Head(*counters)) for name, *counters in found]

    @staticmethod
    def search(
        store: Store, text: str, *, first: int, limit: int
    ) -> tuple[Sequence[ExperimentListing], int]:
        """Up to `limit` experiments after the `first` ones, and the number of all of them.

        They have a text in their name or description, in letters of either case. Running
        experiments come first, and among them the newest.
        """
        values = {"pattern": "%" + re.sub(r"[%_/]", r"/\g<0>", text.lower()) + "%"} if text else {}
        count, page = _MATCHING if text else _EVERY
        part = values | {"first": first, "limit": limit}
        totals, found = _select(store, (count, values), (page, part))
        return [_listed(*row) for row in found], sum(total for (total,) in totals)

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        with self.store.snapshot() as session:
            yield SqlSnapshot(session, self.number)

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        try:
            with self.store.transaction() as session:
                tx = SqlTransaction(session, self.number)
                yield tx
                tx.save_head()
        except DuplicateKeyError as error:
            what = f"The table {error.table} holds rows that the counters do not know of."
            raise damaged(what, error.table) from error

    def purge(self) -> None:
        self.store.purge()

    def close(self) -> None:
        self.store.close()


def _select(store: Store, *wanted: tuple[sa.Select[Any], dict[str, Any]]) -> list[list[Row]]:
    """The rows of statements with their values, of one state; none where there are no tables."""
    if store.version() is None:
        return [[] for _ in wanted]
    with store.snapshot() as session:
        return [session.select(statement, **values) for statement, values in wanted]


def _listed(name: str, description: str, created: float, *counters: Any) -> ExperimentListing:
    head = Head(*counters)
    return ExperimentListing(name, description, created, head.status(), head.revision)
