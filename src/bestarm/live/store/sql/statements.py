"""Every statement on an experiment's tables, built once.

SQLAlchemy writes each of them once in the dialect of the database; after that only values change.
To build a statement for every call took several times as long as SQLite takes to run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    Float,
    Insert,
    Integer,
    Select,
    Table,
    Update,
    bindparam,
    column,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.live.store.sql import schema as s

__all__ = ["Adding", "Prepared"]


class Prepared:
    """A statement whose values are given by name each time it is run."""

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        self._statement = statement
        self._written: dict[str, tuple[str, list[str] | None]] = {}

    def __call__(self, connection: Connection, **values: Any) -> CursorResult[Any]:
        """Run it."""
        text, order = self.written(connection)
        ordered = values if order is None else tuple(values[name] for name in order)
        return connection.exec_driver_sql(text, ordered)

    def for_each(self, connection: Connection, many: list[dict[str, Any]]) -> None:
        """Run it for each of these values."""
        text, order = self.written(connection)
        rows = many if order is None else [tuple(one[name] for name in order) for one in many]
        connection.exec_driver_sql(text, rows)

    def fetch(self, connection: Connection, **values: Any) -> list[Any]:
        """Run it, and return plain tuples: rows of SQLAlchemy take long to make."""
        result = self(connection, **values)
        assert result.cursor is not None
        rows = list(result.cursor.fetchall())
        result.close()
        return rows

    def stream(self, connection: Connection, size: int, **values: Any) -> Iterator[Any]:
        """Run it once, and yield its rows as they are read, `size` at a time."""
        text, order = self.written(connection)
        ordered = values if order is None else tuple(values[name] for name in order)
        options = {"stream_results": True, "yield_per": size}
        result = connection.exec_driver_sql(text, ordered, execution_options=options)
        try:
            yield from result
        finally:
            if not connection.closed:  # the reader may stop half-way, and end after it
                result.close()

    def written(self, connection: Connection) -> tuple[str, list[str] | None]:
        """Its text, and the order of its values where they are given by position."""
        dialect = connection.dialect
        if dialect.name not in self._written:
            compiled = self._statement.compile(dialect=dialect)
            order = compiled.positiontup if compiled.positional else None
            self._written[dialect.name] = str(compiled), order
        return self._written[dialect.name]


class Adding:
    """Adds many rows at once, except those that are on record.

    Args:
        table: where.
        same: columns whose value is the same in all rows.
        columns: columns that are given as arrays.
    """

    def __init__(self, table: Table, *, same: list[str], columns: list[str]) -> None:
        self._same = same
        values: dict[str, Any] = {name: bindparam(name) for name in (*same, *columns)}
        self._one_by_one = Prepared(sqlite.insert(table).values(values).on_conflict_do_nothing())
        arrays = func.unnest(*(bindparam(n, type_=ARRAY(_kind(table, n))) for n in columns))
        rows = arrays.table_valued(*columns).render_derived()
        every = select(
            *(bindparam(name, type_=table.c[name].type) for name in same),
            *(column(name) for name in columns),
        ).select_from(rows)
        adding = postgresql.insert(table).from_select([*same, *columns], every)
        self._at_once = Prepared(adding.on_conflict_do_nothing())

    def __call__(self, connection: Connection, **values: Any) -> int:
        """Add rows, and return the number added."""
        lists = {n: v if n in self._same else v.tolist() for n, v in values.items()}
        if connection.dialect.name != "sqlite":
            return int(self._at_once(connection, **lists).rowcount)
        text, order = self._one_by_one.written(connection)
        size = max(len(v) for n, v in lists.items() if n not in self._same)
        assert order is not None
        rows = zip(
            *([lists[n]] * size if n in self._same else lists[n] for n in order), strict=True
        )
        return int(connection.exec_driver_sql(text, list(rows)).rowcount)


def _kind(table: Table, name: str) -> BigInteger | Float[float]:
    return Float(53) if isinstance(table.c[name].type, Float) else BigInteger()


def _found(table: Table, *names: str) -> Select[Any]:
    wanted = select(*(table.c[name] for name in names))
    return wanted.where(table.c.experiment == bindparam("experiment"))


def _between(table: Table, *names: str) -> Prepared:
    number = table.c.number
    return Prepared(
        _found(table, *names)
        .where(number >= bindparam("start"), number < bindparam("end"))
        .order_by(number)
    )


def _counted(table: Table, *conditions: ColumnElement[bool]) -> Prepared:
    number = table.c.number
    return Prepared(
        select(func.count())
        .select_from(table)
        .where(table.c.experiment == bindparam("experiment"))
        .where(number >= bindparam("start"), number < bindparam("end"), *conditions)
    )


def _span(table: Table, name: str) -> Prepared:
    """How many values there are in a range, the least and the largest."""
    number, value = table.c.number, table.c[name]
    wanted = select(*[func.count(), func.min(value), func.max(value)])
    wanted = wanted.where(table.c.experiment == bindparam("experiment"))
    return Prepared(wanted.where(number >= bindparam("start"), number < bindparam("end")))


def _from(table: Table, key: str, *names: str, where: tuple[Any, ...] = ()) -> Prepared:
    place = table.c[key]
    found = _found(table, *names).where(place >= bindparam("start"), *where).order_by(place)
    return Prepared(found.limit(bindparam("size", type_=Integer)).offset(literal_column("0")))


def _new(table: Table) -> Prepared:
    values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
    return Prepared(insert(table).values(values))


# The columns of small records, in the order in which their values are read.
PLAN_COLUMNS = ("phase", "plan", "first")
SUMMARY_COLUMNS = ("number", "phase", "first", "end", "late", "summary", "digest")
EVENT_COLUMNS = ("number", "at", "kind", "data", "hash")
REQUEST_COLUMNS = ("name", "count", "first", "size", "phase")

_one = s.experiments.c.id == bindparam("experiment")
_counters = select(*(s.experiments.c[name] for name in s.COUNTERS)).where(_one)
READ_HEAD = Prepared(_counters)

# On a server its own clock counts for all who share it. A select of its own around the one that
# locks: the clock is read once the lock is there, however long that took.
_now: ColumnElement[float] = literal_column(
    "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
)
_locked = _counters.with_for_update().subquery("head")
SERVER_TIME = Prepared(select(_now))
READ_HEAD_AND_TIME = Prepared(_counters.add_columns(_now))
LOCK_HEAD_AND_TIME = Prepared(select(*_locked.columns, _now))
SAVE_HEAD = Prepared(
    update(s.experiments).where(_one).values({name: bindparam(name) for name in s.COUNTERS})
)

ADD_ASSIGNMENTS = Adding(
    s.assignments,
    same=["experiment", "phase", "asked"],
    columns=["number", "arm", "probability"],
)
ADD_OUTCOMES = Adding(s.outcomes, same=["experiment", "told"], columns=["number", "reward", "late"])
ADD_LOSSES = Adding(
    s.losses,
    same=["experiment", "phase", "reason", "at"],
    columns=["number", "place"],
)
ADD_DEFERRALS = Adding(s.deferrals, same=["experiment", "summary"], columns=["number"])
ADD_REFUSALS = Adding(s.refusals, same=["experiment", "at"], columns=["number", "reward"])
ADD_PLAN = _new(s.plans)
ADD_SUMMARY = _new(s.summaries)
ADD_EVENT = _new(s.events)
ADD_REQUEST = _new(s.requests)

ASSIGNMENTS = _between(s.assignments, "number", "phase", "arm", "probability", "asked")
OUTCOMES = _between(s.outcomes, "number", "reward", "told", "late")
LOSSES = _between(s.losses, "number", "at")
NEXT_ASSIGNMENT = _from(s.assignments, "number", "number")
ARMS = _between(s.assignments, "arm")
REWARDS = _between(s.outcomes, "number", "reward")
VALUES = _between(s.outcomes, "reward")
ASKED_TIMES = _between(s.assignments, "asked")
TOLD_TIMES = _between(s.outcomes, "told")
ASKED_SPAN = _span(s.assignments, "asked")
TOLD_SPAN = _span(s.outcomes, "told")
TOLD_NUMBERS = _between(s.outcomes, "number")
LOST_NUMBERS = _between(s.losses, "number")
ASKED_NUMBERS = _between(s.assignments, "number", "asked", "phase", "arm")

_lost = s.losses.c
LOST_IN_ORDER = Prepared(
    _found(s.losses, "number")
    .where(_lost.phase == bindparam("phase"))
    .where(_lost.place >= bindparam("start"), _lost.place < bindparam("end"))
    .order_by(_lost.place)
)
TOLD_COUNT = _counted(s.outcomes)
LOST_UNTOLD_COUNT = _counted(
    s.losses,
    ~exists().where(
        s.outcomes.c.experiment == _lost.experiment, s.outcomes.c.number == _lost.number
    ),
)
LOST_OF_PHASE = Prepared(
    select(func.count())
    .select_from(s.losses)
    .where(_lost.experiment == bindparam("experiment"), _lost.phase == bindparam("phase"))
)

_deferred = s.deferrals.c
_waits = _deferred.summary == literal_column("-1")
DEFERRALS = _from(s.deferrals, "number", "number", "summary")
WAITING = _from(s.deferrals, "number", "number", "summary", where=(_waits,))
ARRIVALS = Prepared(
    _found(s.deferrals, "number")
    .where(_waits)
    .where(
        or_(
            *(
                exists().where(
                    table.c.experiment == _deferred.experiment, table.c.number == _deferred.number
                )
                for table in (s.outcomes, s.losses)
            )
        )
    )
    .order_by(_deferred.number)
)
SETTLE_DEFERRAL = Prepared(
    update(s.deferrals)
    .where(_deferred.experiment == bindparam("experiment"))
    .where(_deferred.number == bindparam("id"))
    .values(summary=bindparam("of"))
)

PLAN = Prepared(_found(s.plans, *PLAN_COLUMNS).where(s.plans.c.phase == bindparam("phase")))
PLANS = _from(s.plans, "phase", *PLAN_COLUMNS)
SUMMARIES = _from(s.summaries, "number", *SUMMARY_COLUMNS)
EVENTS = _from(s.events, "number", *EVENT_COLUMNS)
REQUEST = Prepared(
    _found(s.requests, *REQUEST_COLUMNS).where(s.requests.c.name == bindparam("name"))
)
REQUESTS = Prepared(_found(s.requests, *REQUEST_COLUMNS).order_by(s.requests.c.first))
