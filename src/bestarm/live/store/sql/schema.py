"""The tables. Rows are only ever added, except for one row of counters per experiment.

Rows of large tables are found by experiment and number, so in SQLite they need no other row id.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from bestarm.live.store.contract import Head

__all__ = [
    "COUNTERS",
    "VERSION_TABLE",
    "assignments",
    "deferrals",
    "events",
    "experiments",
    "losses",
    "metadata",
    "outcomes",
    "plans",
    "refusals",
    "requests",
    "summaries",
]

VERSION_TABLE = "bestarm_version"

metadata = MetaData()

_KINDS: dict[str, Any] = {
    "bool": Boolean(),
    "int": BigInteger(),
    "float": Float(53),
    "str": String(64),
}


def _experiment() -> Column[int]:
    return Column("experiment", Integer, ForeignKey("bestarm_experiments.id"), primary_key=True)


def _number(name: str = "number") -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _counter(field: dataclasses.Field[Any]) -> Column[Any]:
    """The column of a counter. An infinite one is left empty, for SQLite to be able to sort it."""
    kind, _, optional = str(field.type).partition(" | ")
    infinite = isinstance(field.default, float) and math.isinf(field.default)
    return Column(field.name, _KINDS[kind], nullable=bool(optional) or infinite)


COUNTERS = [field.name for field in dataclasses.fields(Head)]

experiments = Table(
    "bestarm_experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Column("description", Text, nullable=False),
    *(_counter(field) for field in dataclasses.fields(Head)),
)

assignments = Table(
    "bestarm_assignments",
    metadata,
    _experiment(),
    _number(),
    Column("phase", BigInteger, nullable=False),
    Column("arm", Integer, nullable=False),
    Column("probability", Float(53), nullable=False),
    Column("asked", Float(53), nullable=False),
    sqlite_with_rowid=False,
)

outcomes = Table(
    "bestarm_outcomes",
    metadata,
    _experiment(),
    _number(),
    Column("reward", Float(53), nullable=False),
    Column("told", Float(53), nullable=False),
    Column("late", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

losses = Table(
    "bestarm_losses",
    metadata,
    _experiment(),
    _number(),
    Column("phase", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),  # among the losses of the phase
    Column("reason", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    UniqueConstraint("experiment", "phase", "place", name="bestarm_losses_in_order"),
    sqlite_with_rowid=False,
)

refusals = Table(
    "bestarm_refusals",
    metadata,
    _experiment(),
    _number(),
    Column("reward", Float(53), nullable=False),
    Column("at", Float(53), nullable=False),
    sqlite_with_rowid=False,
)

deferrals = Table(
    "bestarm_deferrals",
    metadata,
    _experiment(),
    _number(),
    Column("summary", BigInteger, nullable=False),  # the number of the one that covers it, or −1
    Index("bestarm_deferrals_by_summary", "experiment", "summary"),
    sqlite_with_rowid=False,
)

requests = Table(
    "bestarm_requests",
    metadata,
    _experiment(),
    Column("name", String(200), primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("phase", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

plans = Table(
    "bestarm_plans",
    metadata,
    _experiment(),
    _number("phase"),
    Column("first", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
)

summaries = Table(
    "bestarm_summaries",
    metadata,
    _experiment(),
    _number(),
    Column("phase", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("late", Boolean, nullable=False),
    Column("summary", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)

events = Table(
    "bestarm_events",
    metadata,
    _experiment(),
    _number(),
    Column("at", Float(53), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("data", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)
