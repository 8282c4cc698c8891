"""The tables. Rows are only ever added, except for one row of counters per experiment; units can be
erased.

Rows of large tables are found by experiment and number, so in SQLite they need no other row id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from bestarm.live.store.head import Head

VERSION = "7"  # of the tables

metadata = sa.MetaData()
SERVER_TIME: sa.ColumnElement[float] = sa.literal_column(
    "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
)


# The types of SQLite's strict tables, which take no other values, where they have other names.
_WHOLE = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
_REAL = sa.Float(53).with_variant(sa.REAL(), "sqlite")
_HASH, _WORD, _NAME = (sa.String(n).with_variant(sa.TEXT(), "sqlite") for n in (64, 40, 200))
_FLAG = sa.Boolean().with_variant(sa.INTEGER(), "sqlite")
_BIT = sa.SmallInteger().with_variant(sa.INTEGER(), "sqlite")
_OPTIONAL = {"forecast", "plain", "features", "salt", "unit", "decision_point", "covariates"}
_COUNTERS: dict[str, Any] = {"bool": _FLAG, "int": _WHOLE, "float": _REAL, "str": _HASH}


def _columns(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=name in _OPTIONAL) for name, kind in kinds.items()]


def _counters() -> Iterator[sa.Column[Any]]:
    for field in dataclasses.fields(Head):
        kind, _, none = str(field.type).partition(" | ")
        (column,) = _columns(**{field.name: _COUNTERS[kind]})
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
        sa.Column(key, _NAME if key == "name" else _WHOLE, primary_key=True, autoincrement=False),
        *_columns(**kinds),
        sqlite_with_rowid=rowid,
        sqlite_strict=True,
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
    sa.Column("name", _NAME, nullable=False, unique=True),
    *_columns(created=_REAL, description=sa.Text()),
    *_counters(),
    sqlite_autoincrement=True,  # whoever has one open that is deleted must not meet another
    sqlite_strict=True,
)
# What experiments are made of, apart from their counters: a row is written whole, however little of
# it changes.
documents = sa.Table(
    "bestarm_documents",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("bestarm_experiments.id"), primary_key=True),
    *_columns(document=sa.Text()),
    sqlite_strict=True,
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
    salt=_HASH,
    unit=sa.Text(),
    decision_point=sa.Text(),
    covariates=sa.Text(),
)
outcomes = _table("outcomes", reward=_REAL, told=_REAL, late=_BIT)
reports = _table("reports", assignment=_WHOLE, reward=_REAL, told=_REAL, late=_BIT)
values = _table(
    "values", assignment=_WHOLE, phase=_WHOLE, arm=_WHOLE, guardrail=_WHOLE, value=_REAL, told=_REAL
)
losses = _table("losses", phase=_WHOLE, place=_WHOLE, reason=sa.Text(), at=_REAL)
refusals = _table("refusals", reward=_REAL, at=_REAL)
deferrals = _table("deferrals", summary=_WHOLE)  # the number of the one that covers it, or −1
requests = _table("requests", key="name", count=_WHOLE, first=_WHOLE, size=_WHOLE, phase=_WHOLE)
plans = _table(
    "plans",
    key="phase",
    rowid=True,
    plan=sa.Text(),
    first=_WHOLE,
    round=_WHOLE,
    reports=_WHOLE,
    values=_WHOLE,
)
summaries = _table(
    "summaries",
    rowid=True,
    phase=_WHOLE,
    first=_WHOLE,
    end=_WHOLE,
    late=_FLAG,
    summary=sa.Text(),
    digest=_HASH,
    plain=sa.Text(),
)
changes = _table(
    "changes",
    phase=_WHOLE,
    kind=_WORD,
    label=sa.Text(),
    reason=sa.Text(),
    features=sa.Text(),
    made_by=sa.Text(),
    at=_REAL,
)
events = _table("events", rowid=True, at=_REAL, kind=_WORD, data=sa.Text(), hash=_HASH)

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
