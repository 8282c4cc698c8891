"""The statements of transactions, made once. SQLAlchemy writes them in the words of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg

from bestarm.live.store.sql import schema as s

_DIALECTS: dict[str, sa.Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(paramstyle="pyformat"),  # type: ignore[no-untyped-call]
}
_NUMBERED: sa.Dialect = psycopg.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Written:
    """A statement in the words of a database, with its own values and checks of what it reads."""

    text: str
    constants: dict[str, Any]
    checks: tuple[Callable[[Any], Any] | None, ...]

    def checked(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows, each value checked."""
        return [
            tuple(
                value if check is None else check(value)
                for check, value in zip(self.checks, row, strict=True)
            )
            for row in rows
        ]


@cache
def written(statement: Any, dialect: str) -> Written:
    """A statement as text; its values are named."""
    compiled = statement.compile(dialect=_DIALECTS[dialect])
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    kinds = [column.type for column in statement.exported_columns]
    checks = tuple(kind.check if isinstance(kind, s.Checked) else None for kind in kinds)
    return Written(str(compiled), constants, checks)


@cache
def numbered(statement: sa.Select[Any]) -> str:
    """A statement for PostgreSQL to prepare; its values are numbered."""
    return str(statement.compile(dialect=_NUMBERED))


def _marks(mark: str, count: int) -> list[str]:
    """Places of values: `?`, or `$1`, `$2`, …"""
    return [mark] * count if mark == "?" else [f"{mark}{n}" for n in range(1, count + 1)]


@cache
def insert_row(table: sa.Table, names: tuple[str, ...]) -> str:
    """A statement for PostgreSQL to prepare that adds a row."""
    values = ", ".join(_marks("$", len(names)))
    return f"INSERT INTO {table} ({_quoted(names)}) VALUES ({values})"


@cache
def insert_several(table: sa.Table, names: tuple[str, ...], rows: int) -> str:
    """A statement for SQLite that adds so many rows."""
    row = f"({', '.join(_marks('?', len(names)))})"
    return f"INSERT INTO {table} ({_quoted(names)}) VALUES {', '.join([row] * rows)}"


@cache
def settle_several(rows: int) -> str:
    """A statement for SQLite that notes which summary covers so many deferrals."""
    return _SETTLE.format("?", f"IN ({', '.join('?' * rows)})")


@cache
def insert_rows(table: sa.Table, names: tuple[str, ...]) -> str:
    """A statement for PostgreSQL that adds rows, from an array per column."""
    kinds = (table.c[name].type.compile(_NUMBERED) for name in names)
    values = f"SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"
    return f"INSERT INTO {table} ({_quoted(names)}) {values}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


UNLESS_KNOWN = " ON CONFLICT DO NOTHING"


@cache
def save_counters(names: tuple[str, ...], mark: str) -> str:
    """A statement that writes some counters of an experiment."""
    *marks, number = _marks(mark, len(names) + 1)
    written = (f'"{name}" = {each}' for name, each in zip(names, marks, strict=True))
    return f"UPDATE {s.experiments} SET {', '.join(written)} WHERE id = {number}"


# PostgreSQL marks each state of a row with the number of the transaction that wrote it.
SAVED_BY = " RETURNING xmin"


@cache
def save_if_unchanged(
    names: tuple[str, ...], table: sa.Table, columns: tuple[str, ...], rows: int
) -> str:
    """A statement for PostgreSQL that writes counters and adds rows, or does neither.

    It does both if the row of counters is as a transaction left it, whose number comes last, and
    then returns its own. It waits for nobody: its time would be over by then.
    """
    kinds = [f"::{table.c[name].type.compile(_NUMBERED)}" for name in columns]
    first, last = len(names) + 2, len(names) + 1 + rows * len(columns)
    marks = (f"${number}" for number in range(first, last + 1))
    values = (", ".join(f"{next(marks)}{kind}" for kind in kinds) for _ in range(rows))
    number = f"id = ${len(names) + 1}"
    mine = f"SELECT 1 FROM {s.experiments} WHERE {number} AND xmin = ${last + 1}"
    mine += " FOR NO KEY UPDATE SKIP LOCKED"
    save = f"{save_counters(names, '$')} AND EXISTS (SELECT 1 FROM mine){SAVED_BY}"
    new = f"(VALUES {', '.join(f'({each})' for each in values)}) AS new"
    add = f"INSERT INTO {table} ({_quoted(columns)}) SELECT new.* FROM saved, {new}"
    return f"WITH mine AS ({mine}), saved AS ({save}), added AS ({add}) SELECT * FROM saved"


def _in_order(table: sa.Table, *columns: Any, key: str = "number") -> sa.Select[Any]:
    """Rows of an experiment with a key from `start` on, in order of it, `size` of them."""
    mine = table.c.experiment == sa.bindparam("experiment")
    wanted = sa.select(*(columns or list(table.c)[1:]))
    wanted = wanted.where(mine, table.c[key] >= sa.bindparam("start"))
    return wanted.order_by(table.c[key]).limit(sa.bindparam("size"))


def _same(one: sa.Table, other: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(one.c.experiment == other.c.experiment, one.c.number == other.c.number)


def _endings(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    """Whether an assignment has an outcome, and whether it is lost."""
    return [sa.exists().where(_same(each, table)) for each in (s.outcomes, s.losses)]


# On a server its own clock counts for all who share it. A select of its own around the one that
# locks: the clock is read once the lock is there, however long that took.
SERVER_TIME: sa.ColumnElement[float] = sa.literal_column(
    "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
)
_mine = s.experiments.c.id == sa.bindparam("experiment")
_head = sa.select(*(s.experiments.c[name] for name in s.COUNTERS)).where(_mine)
READ_COUNTERS = _head.add_columns(SERVER_TIME)
_locked = _head.add_columns(sa.literal_column("xmin")).with_for_update().subquery("head")
LOCK_COUNTERS = sa.select(*_locked.columns, SERVER_TIME)
COUNTERS = f"SELECT {_quoted(s.COUNTERS)} FROM {s.experiments} WHERE id = ?"  # for SQLite

VERSION_NUMBER: sa.Select[tuple[str]] = sa.select(sa.column("version_num")).select_from(
    sa.table(s.VERSION_TABLE)
)

PLANS = _in_order(s.plans, key="phase")
SUMMARIES = _in_order(s.summaries)
EVENTS = _in_order(s.events)
REQUESTS = _in_order(s.requests, key="first")
REQUEST = REQUESTS.where(s.requests.c.name == sa.bindparam("name"))

_end: sa.BindParameter[int] = sa.bindparam("end")
COVARIATES = _in_order(s.assignments, s.assignments.c.number, s.assignments.c.covariates).where(
    s.assignments.c.number < _end, s.assignments.c.covariates.is_not(None)
)
OUTSTANDING = _in_order(s.assignments, s.assignments.c.number).where(
    s.assignments.c.number < _end,
    s.assignments.c.asked <= sa.bindparam("asked_by"),
    *(~each for each in _endings(s.assignments)),
)
LOSS = sa.select(s.losses.c.number).where(
    s.losses.c.experiment == sa.bindparam("experiment"), s.losses.c.number == sa.bindparam("loss")
)
LOST_ARMS = (
    sa.select(s.assignments.c.arm)
    .select_from(s.losses.outerjoin(s.assignments, _same(s.assignments, s.losses)))
    .where(
        s.losses.c.experiment == sa.bindparam("experiment"),
        s.losses.c.phase == sa.bindparam("phase"),
    )
    .order_by(s.losses.c.place)
    .offset(sa.bindparam("start"))
    .limit(sa.bindparam("size"))
)

DEFERRALS = _in_order(s.deferrals).where(s.deferrals.c.number < _end)
WAITING = DEFERRALS.where(s.deferrals.c.summary == sa.literal_column("-1"))
ARRIVALS = WAITING.where(sa.or_(*_endings(s.deferrals)))
_SETTLE = f"UPDATE {s.deferrals} SET summary = {{0}} WHERE experiment = {{0}} AND number {{1}}"
# Without the condition on the summary PostgreSQL may look at all rows of the experiment.
SETTLE_MANY = _SETTLE.format("%s", "= ANY(%s)") + " AND summary = -1"
