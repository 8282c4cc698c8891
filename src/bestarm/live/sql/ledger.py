"""One experiment's books in a database."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    Float,
    Row,
    Select,
    and_,
    bindparam,
    column,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects import sqlite as lite

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.geometry import Array
from bestarm.live.events import canonical, plan_data, summary_data
from bestarm.live.ledger import ROW, Entry, Event, Head, Ids, Opened, Request, Rows
from bestarm.live.sql import schema as s
from bestarm.live.sql.store import Store
from bestarm.records import Plan, Summary

__all__ = ["SqlLedger"]

_PIECE = 50_000  # rows read at a time
_COUNTERS = [f.name for f in fields(Head)]
_UNSET = {"lowest": math.inf, "highest": -math.inf, "oldest": math.inf, "at": -math.inf}


class SqlLedger:
    """The books of one experiment of a store.

    Args:
        store: the database.
        number: the experiment's number there.
    """

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self._number = number

    @classmethod
    def create(
        cls, store: Store, name: str, document: str, head: Head, created: Event
    ) -> SqlLedger:
        """Begin the books of a new experiment, with its first event.

        Raises:
            ExperimentExistsError: there is one of this name.
        """
        store.prepare()
        with store.writing() as connection:
            row = {"name": name, "created": head.at, "document": document}
            row |= _columns(head)
            statement = _insert(store, s.experiments).values(row).on_conflict_do_nothing()
            statement = statement.execution_options(preserve_rowcount=True)
            if not connection.execute(statement).rowcount:
                raise ExperimentExistsError(
                    f"There is an experiment {name!r} in {store.place} already.",
                    field="name",
                    value=name,
                    remedy="Open it, or choose another name.",
                )
            found = select(s.experiments.c.id).where(s.experiments.c.name == name)
            number = connection.execute(found).scalar_one()
            _Writing(connection, number, store).add_event(created)
        return cls(store, number)

    @classmethod
    def open(cls, store: Store, name: str) -> tuple[SqlLedger, str]:
        """The books of an experiment, and its document.

        Raises:
            UnknownExperimentError: there is none of this name.
        """
        names: list[str] = []
        if store.version() is not None:
            store.prepare()
            with store.reading() as connection:
                table = s.experiments.c
                wanted = select(table.id, table.document).where(table.name == name)
                row = connection.execute(wanted).one_or_none()
                if row is not None:
                    return cls(store, row.id), row.document
                some = select(table.name).order_by(table.id.desc()).limit(10)
                names = [repr(each) for each in connection.execute(some).scalars()]
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {', '.join(names)}." if names else "It holds none yet.",
        )

    @contextmanager
    def reading(self) -> Iterator[_Reading]:
        """A transaction that sees one state of the books."""
        with self._store.reading() as connection:
            yield _Reading(connection, self._number)

    @contextmanager
    def writing(self) -> Iterator[_Writing]:
        """A transaction that others wait for; on an exception nothing of it remains."""
        with self._store.writing() as connection:
            tx = _Writing(connection, self._number, self._store)
            yield tx
            tx.save()

    def close(self) -> None:
        """Let go of connections."""
        self._store.close()


class _Reading:
    def __init__(self, connection: Connection, number: int, *, lock: bool = False) -> None:
        self._connection = connection
        self._number = number
        wanted = select(*(s.experiments.c[name] for name in _COUNTERS))
        wanted = wanted.where(s.experiments.c.id == number)
        row = connection.execute(wanted.with_for_update() if lock else wanted).one()
        self.head = _head(row)

    def _of(self, table: Any) -> Any:
        return table.c.experiment == self._number

    def opened(self, phase: int) -> Opened:
        """A phase's plan."""
        wanted = select(s.phases.c.plan, s.phases.c.first)
        row = self._connection.execute(
            wanted.where(self._of(s.phases), s.phases.c.phase == phase)
        ).one()
        return Opened(_plan(row.plan), row.first)

    def request(self, name: str) -> Request | None:
        """The named ask, if there was one."""
        table = s.requests.c
        wanted = select(
            table.name, table.count, table.first, table.size, table.phase, table.waiting
        ).where(self._of(s.requests), table.name == name)
        row = self._connection.execute(wanted).one_or_none()
        return None if row is None else Request(*row)

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """Assignments with what became of them, in order of id, in pieces."""
        given, told, lost = s.assignments.c, s.outcomes.c, s.losses.c
        wanted = (
            select(
                given.number,
                given.phase,
                given.arm,
                given.probability,
                given.asked,
                told.reward,
                told.told,
                told.late,
                lost.at,
            )
            .select_from(self._settled())
            .where(self._of(s.assignments))
            .where(given.number >= bindparam("start"), given.number < bindparam("end"))
            .order_by(given.number)
        )
        for start in range(first, end, _PIECE):
            found = self._connection.execute(
                wanted, {"start": start, "end": min(end, start + _PIECE)}
            ).all()
            rows = np.empty(len(found), dtype=ROW)
            for name, values in zip(ROW.names or (), zip(*found, strict=True), strict=False):
                if rows[name].dtype == bool:
                    rows[name] = [bool(value) for value in values]
                else:
                    rows[name] = values  # None becomes NaN
            yield rows

    def _settled(self) -> Any:
        given, told, lost = s.assignments.c, s.outcomes.c, s.losses.c
        with_outcome = s.assignments.outerjoin(
            s.outcomes, and_(told.experiment == given.experiment, told.number == given.number)
        )
        return with_outcome.outerjoin(
            s.losses, and_(lost.experiment == given.experiment, lost.number == given.number)
        )

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards on record of these assignments."""
        wanted = select(s.outcomes.c.number, s.outcomes.c.reward)
        found = self._among(wanted, s.outcomes, ids)
        return {row.number: row.reward for row in found}

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments were given up."""
        return {row[0] for row in self._among(select(s.losses.c.number), s.losses, ids)}

    def _among(self, wanted: Select[Any], table: Any, ids: Ids) -> Iterator[Row[Any]]:
        """Rows whose number is among ids, a few hundred at a time: SQLite limits how many."""
        wanted = wanted.where(self._of(table))
        ordered = np.sort(ids)
        for begin in range(0, len(ordered), 500):
            part = ordered[begin : begin + 500].tolist()
            yield from self._connection.execute(wanted.where(table.c.number.in_(part)))

    def lost_arms(self, phase: int, start: int, count: int) -> NDArray[np.int64]:
        """The arms of a phase's lost assignments in the order of their loss, from one on."""
        given, lost = s.assignments.c, s.losses.c
        both = s.losses.join(
            s.assignments,
            and_(lost.experiment == given.experiment, lost.number == given.number),
        )
        wanted = select(given.arm).select_from(both).where(self._of(s.losses), lost.phase == phase)
        wanted = wanted.where(lost.place >= start, lost.place < start + count).order_by(lost.place)
        return np.array(self._connection.execute(wanted).scalars().all(), dtype=np.int64)

    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        """The ids in a range that are neither told nor lost, or the first of them alone."""
        given = s.assignments.c
        wanted = (
            select(given.number)
            .select_from(self._settled())
            .where(self._of(s.assignments), given.number >= start, given.number < end)
            .where(s.outcomes.c.number.is_(None), s.losses.c.number.is_(None))
            .order_by(given.number)
        )
        wanted = wanted.limit(1) if asked_by is None else wanted.where(given.asked <= asked_by)
        return np.array(self._connection.execute(wanted).scalars().all(), dtype=np.int64)

    def asked(self, number: int) -> float:
        """When an assignment was given out."""
        table = s.assignments.c
        wanted = select(table.asked).where(self._of(s.assignments), table.number == number)
        return float(self._connection.execute(wanted).scalar_one())

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The summaries told to the policy, from a number on."""
        table = s.entries.c
        wanted = select(s.entries).where(self._of(s.entries), table.number >= start)
        for row in self._connection.execute(wanted.order_by(table.number)):
            summary = Summary(**json.loads(row.summary))
            yield Entry(
                row.number, row.phase, row.first, row.end, bool(row.late), summary, row.digest
            )

    def phases(self, start: int = 1) -> Iterator[Opened]:
        """The plans that were opened, from a phase on."""
        table = s.phases.c
        wanted = select(table.plan, table.first).where(self._of(s.phases), table.phase >= start)
        for row in self._connection.execute(wanted.order_by(table.phase)):
            yield Opened(_plan(row.plan), row.first)

    def events(self, start: int = 0) -> Iterator[Event]:
        """The log, from a number on."""
        table = s.events.c
        wanted = select(s.events).where(self._of(s.events), table.number >= start)
        for row in self._connection.execute(wanted.order_by(table.number)):
            yield Event(row.number, row.at, row.kind, json.loads(row.data), row.hash)


class _Writing(_Reading):
    def __init__(self, connection: Connection, number: int, store: Store) -> None:
        super().__init__(connection, number, lock=not store.sqlite)
        self._store = store

    def save(self) -> None:
        """Write the counters."""
        statement = update(s.experiments).where(s.experiments.c.id == self._number)
        self._connection.execute(statement.values(_columns(self.head)))

    def give(
        self, arms: NDArray[np.int64], probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the open phase, from the head's `given` on."""
        first, phase = self.head.given, self.head.phase
        self._add_many(
            s.assignments,
            {"phase": phase, "asked": at},
            number=np.arange(first, first + len(arms)),
            arm=arms,
            probability=probabilities,
        )
        if request is not None:
            row = {"experiment": self._number, "at": at, **vars(request)}
            self._connection.execute(insert(s.requests), row)

    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; gives how many were added."""
        flags = late.astype(np.int64)
        return self._add_many(s.outcomes, {"told": at}, number=ids, reward=rewards, late=flags)

    def _add_many(self, table: Any, same: dict[str, Any], **columns: Any) -> int:
        """Add rows, except those that are there: a few values the same in all, others by column."""
        same = {"experiment": self._number, **same}
        statement: Any = _insert(self._store, table)
        if self._store.sqlite:
            lists = [values.tolist() for values in columns.values()]
            binds: dict[str, Any] = {name: bindparam(name) for name in (*same, *columns)}
            compiled = (
                statement.values(binds)
                .on_conflict_do_nothing()
                .compile(dialect=self._connection.dialect)
            )
            order = compiled.positiontup
            assert order is not None
            by_name = dict(zip(columns, lists, strict=True))
            size = len(lists[0])
            rows = zip(
                *(by_name[name] if name in by_name else [same[name]] * size for name in order),
                strict=True,
            )
            result = self._connection.exec_driver_sql(str(compiled), list(rows))
        else:
            kinds = {name: _array_type(values) for name, values in columns.items()}
            given = (
                func.unnest(
                    *(
                        bindparam(f"all_{name}", values.tolist(), type_=kinds[name])
                        for name, values in columns.items()
                    )
                )
                .table_valued(*columns)
                .render_derived()
            )
            wanted = select(
                *(bindparam(name, value, type_=table.c[name].type) for name, value in same.items()),
                *(column(name, table.c[name].type) for name in columns),
            ).select_from(given)
            statement = statement.from_select([*same, *columns], wanted).on_conflict_do_nothing()
            result = self._connection.execute(statement.execution_options(preserve_rowcount=True))
        return int(result.rowcount)

    def lose(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Record that outcomes will not come, in the order given."""
        lost, given = s.losses.c, s.assignments.c
        wanted = select(given.number, given.phase)
        found = self._among(wanted, s.assignments, np.asarray(ids, dtype=np.int64))
        phases: dict[int, int] = {row.number: row.phase for row in found}
        places: dict[int, int] = {}
        for phase in set(phases.values()):
            count = select(func.count()).select_from(s.losses)
            count = count.where(self._of(s.losses), lost.phase == phase)
            places[phase] = int(self._connection.execute(count).scalar_one())
        rows = []
        for number in ids:
            phase = phases[number]
            rows.append(
                {
                    "experiment": self._number,
                    "number": number,
                    "phase": phase,
                    "place": places[phase],
                    "reason": reason,
                    "at": at,
                }
            )
            places[phase] += 1
        if rows:
            self._connection.execute(insert(s.losses), rows)

    def add_entry(self, entry: Entry) -> None:
        """Add a summary."""
        row = {**vars(entry), "summary": canonical(summary_data(entry.summary))}
        self._connection.execute(insert(s.entries), {"experiment": self._number, **row})

    def open_phase(self, opened: Opened) -> None:
        """Add a plan."""
        row = {
            "experiment": self._number,
            "phase": opened.plan.phase,
            "first": opened.first,
            "plan": canonical(plan_data(opened.plan)),
        }
        self._connection.execute(insert(s.phases), row)

    def add_event(self, event: Event) -> None:
        """Add to the log."""
        row = {**vars(event), "data": canonical(event.data)}
        self._connection.execute(insert(s.events), {"experiment": self._number, **row})


def _insert(store: Store, table: Any) -> lite.Insert | pg.Insert:
    return lite.insert(table) if store.sqlite else pg.insert(table)


def _array_type(values: Any) -> ARRAY[Any]:
    return ARRAY(BigInteger() if values.dtype.kind == "i" else Float(53))


def _columns(head: Head) -> dict[str, Any]:
    """The counters as columns; infinities are left empty, for SQLite to be able to sort them."""
    values = {name: getattr(head, name) for name in _COUNTERS}
    return {name: None if value == _UNSET.get(name) else value for name, value in values.items()}


def _head(row: Row[Any]) -> Head:
    values = dict(zip(_COUNTERS, row, strict=True))
    for name, unset in _UNSET.items():
        if values[name] is None:
            values[name] = unset
    return Head(**values)


def _plan(text: str) -> Plan:
    data = json.loads(text)
    if data["counts"] is not None:
        return Plan.fixed(data["counts"], phase=data["phase"])
    return Plan.randomised(
        data["weights"], data["pulls"], phase=data["phase"], open=data["open"], most=data["most"]
    )
