"""The statements of transactions, made once. SQLAlchemy writes them in the words of a database."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from bestarm.live.store.sql import schema as s

_POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


@cache
def insert_new(table: sa.Table, names: tuple[str, ...], *, arrays: bool) -> str:
    """A statement that adds rows, except those on record.

    It takes an array per column, for PostgreSQL, or else a row at a time, for SQLite.
    """
    values = f"VALUES ({', '.join('?' for _ in names)})"
    if arrays:
        kinds = (table.c[name].type.compile(_POSTGRESQL) for name in names)
        values = f"SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"
    return f"INSERT INTO {table} ({', '.join(names)}) {values} ON CONFLICT DO NOTHING"


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
READ_HEAD = {"sqlite": _head.add_columns(sa.null()), "postgresql": _head.add_columns(SERVER_TIME)}
LOCK_HEAD = sa.select(*_head.with_for_update().subquery("head").columns, SERVER_TIME)
# As text: SQLAlchemy would take as long to look at thirty values as SQLite takes to write them.
_SAVE = f"UPDATE {s.experiments} SET {{}} WHERE id = {{}}"
SAVE_HEAD = {
    dialect: _SAVE.format(", ".join(f'"{name}" = {mark}' for name in s.COUNTERS), mark)
    for dialect, mark in (("sqlite", "?"), ("postgresql", "%s"))
}

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
SETTLE_DEFERRAL = (
    sa.update(s.deferrals)
    .where(
        s.deferrals.c.experiment == sa.bindparam("of"), s.deferrals.c.number == sa.bindparam("id")
    )
    .values(summary=sa.bindparam("covered_by"))
)
