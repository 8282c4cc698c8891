"""The tables. Rows are only ever added, except for one row of counters per experiment; units can be
erased.

Rows of large tables are found by experiment and number, so in SQLite they need no other row id.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from bestarm.live.store.contract import Head, damaged

VERSION = "5"  # of the tables

metadata = sa.MetaData()


class Checked(sa.TypeDecorator[Any]):
    """A column whose values are checked as they are read: SQLite takes a text for a number."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, kind: Any, place: str) -> None:
        super().__init__()
        self.impl, self.place = kind, place
        self._flag = isinstance(kind, sa.Boolean)
        self._real = isinstance(kind, sa.Float)
        self._kinds = (int, float) if self._real else kind.python_type

    def check(self, value: Any) -> Any:
        """The value.

        Raises:
            DamagedStoreError: it is not of the column's kind.
        """
        if self._flag and value in {0, 1}:
            return bool(value)
        if value is None:
            return None
        # PostgreSQL keeps NaN in a column of numbers.
        if isinstance(value, self._kinds) and not (self._real and math.isnan(value)):
            return value
        what = f"The record of {self.place} cannot be read (it is {reprlib.repr(value)})."
        raise damaged(what, self.place)


_WHOLE, _REAL, _HASH = sa.BigInteger(), sa.Float(53), sa.String(64)
_OPTIONAL = {"forecast", "plain", "features", "salt", "unit", "decision_point", "covariates"}
_COUNTERS: dict[str, Any] = {"bool": sa.Boolean(), "int": _WHOLE, "float": _REAL, "str": _HASH}


def _columns(table: str, **kinds: Any) -> list[sa.Column[Any]]:
    return [
        sa.Column(name, Checked(kind, f"{table}.{name}"), nullable=name in _OPTIONAL)
        for name, kind in kinds.items()
    ]


def _counters() -> Iterator[sa.Column[Any]]:
    for field in dataclasses.fields(Head):
        kind, _, none = str(field.type).partition(" | ")
        (column,) = _columns("experiments", **{field.name: _COUNTERS[kind]})
        column.nullable = bool(none)
        yield column


def _table(name: str, *, key: str = "number", rowid: bool = False, **kinds: Any) -> sa.Table:
    """A table whose rows are found by experiment and key.

    With `rowid` SQLite keeps rows apart from the key, as is better for long texts.
    """
    return sa.Table(
        f"bestarm_{name}",
        metadata,
        sa.Column(
            "experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True
        ),
        sa.Column(
            key, sa.String(200) if key == "name" else _WHOLE, primary_key=True, autoincrement=False
        ),
        *_columns(name, **kinds),
        sqlite_with_rowid=rowid,
    )


# One row. The names are those that earlier versions used, so that their databases are recognised.
version = sa.Table(
    "bestarm_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True)
)

COUNTERS = tuple(field.name for field in dataclasses.fields(Head))

experiments = sa.Table(
    "bestarm_experiments",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    *_columns("experiments", created=_REAL, description=sa.Text()),
    *_counters(),
)
# What experiments are made of, apart from their counters: a row is written whole, however little of
# it changes.
documents = sa.Table(
    "bestarm_documents",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True),
    *_columns("documents", document=sa.Text()),
)
assignments = _table(
    "assignments",
    round=_WHOLE,
    phase=_WHOLE,
    arm=sa.Integer(),
    probability=_REAL,
    asked=_REAL,
    forecast=_REAL,
)
units = _table(
    "units",
    key="round",
    first=_WHOLE,
    size=_WHOLE,
    digest=_HASH,
    salt=sa.String(32),
    unit=sa.Text(),
    decision_point=sa.Text(),
    covariates=sa.Text(),
)
outcomes = _table("outcomes", reward=_REAL, told=_REAL, late=sa.SmallInteger())
reports = _table("reports", assignment=_WHOLE, reward=_REAL, told=_REAL, late=sa.SmallInteger())
values = _table(
    "values", assignment=_WHOLE, phase=_WHOLE, arm=_WHOLE, guardrail=_WHOLE, value=_REAL, told=_REAL
)
losses = _table("losses", phase=_WHOLE, place=_WHOLE, reason=sa.Text(), at=_REAL)
refusals = _table("refusals", reward=_REAL, at=_REAL)
deferrals = _table("deferrals", summary=_WHOLE)  # the number of the one that covers it, or −1
requests = _table("requests", key="name", count=_WHOLE, first=_WHOLE, size=_WHOLE, phase=_WHOLE)
plans = _table(
    "plans", key="phase", rowid=True, plan=sa.Text(), first=_WHOLE, round=_WHOLE, values=_WHOLE
)
summaries = _table(
    "summaries",
    rowid=True,
    phase=_WHOLE,
    first=_WHOLE,
    end=_WHOLE,
    late=sa.Boolean(),
    summary=sa.Text(),
    digest=_HASH,
    plain=sa.Text(),
)
changes = _table(
    "changes",
    phase=_WHOLE,
    kind=sa.String(40),
    label=sa.Text(),
    reason=sa.Text(),
    features=sa.Text(),
    made_by=sa.Text(),
    at=_REAL,
)
events = _table("events", rowid=True, at=_REAL, kind=sa.String(40), data=sa.Text(), hash=_HASH)

sa.Index(
    "bestarm_units_named", units.c.experiment, units.c.unit, units.c.decision_point, unique=True
)
sa.Index("bestarm_reports_of", reports.c.experiment, reports.c.assignment, reports.c.number)
_of = values.c.experiment, values.c.assignment, values.c.guardrail
sa.Index("bestarm_values_of", *_of, unique=True)
sa.Index(
    "bestarm_losses_in_order", losses.c.experiment, losses.c.phase, losses.c.place, unique=True
)
_in_order = deferrals.c.experiment, deferrals.c.summary, deferrals.c.number
sa.Index("bestarm_deferrals_by_summary", *_in_order)
sa.Index("bestarm_requests_in_order", requests.c.experiment, requests.c.first)
