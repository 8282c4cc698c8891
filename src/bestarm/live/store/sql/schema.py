"""The tables. Rows are only ever added, except the one line of counters an experiment has.

Large ones are always found by experiment and number, so in SQLite they need no other row id.
"""

from __future__ import annotations

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

__all__ = [
    "VERSION_TABLE",
    "assignments",
    "deferrals",
    "entries",
    "events",
    "experiments",
    "losses",
    "metadata",
    "outcomes",
    "phases",
    "refusals",
    "requests",
    "tokens",
]

VERSION_TABLE = "bestarm_version"

metadata = MetaData()


def _experiment() -> Column[int]:
    return Column("experiment", Integer, ForeignKey("bestarm_experiments.id"), primary_key=True)


experiments = Table(
    "bestarm_experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("lease", Float(53)),
    Column("given", BigInteger, nullable=False),
    Column("told", BigInteger, nullable=False),
    Column("lost", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("lowest", Float(53)),
    Column("highest", Float(53)),
    Column("phase", BigInteger, nullable=False),
    Column("planned", Boolean, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("provisional", Boolean, nullable=False),
    Column("pulls", BigInteger, nullable=False),
    Column("most", BigInteger),
    Column("first", BigInteger, nullable=False),
    Column("phase_told", BigInteger, nullable=False),
    Column("phase_lost", BigInteger, nullable=False),
    Column("behind", BigInteger, nullable=False),
    Column("handed", BigInteger, nullable=False),
    Column("fresh", BigInteger, nullable=False),
    Column("amended", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False),
    Column("oldest", Float(53)),
    Column("summaries", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("tip", String(64), nullable=False),
    Column("requests", String(64), nullable=False),
    Column("at", Float(53)),
    Column("setback", Float(53), nullable=False),
)

assignments = Table(
    "bestarm_assignments",
    metadata,
    _experiment(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
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
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("reward", Float(53), nullable=False),
    Column("told", Float(53), nullable=False),
    Column("late", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

losses = Table(
    "bestarm_losses",
    metadata,
    _experiment(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("phase", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    UniqueConstraint("experiment", "phase", "place", name="bestarm_losses_in_order"),
    sqlite_with_rowid=False,
)

refusals = Table(
    "bestarm_refusals",
    metadata,
    _experiment(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("reward", Float(53), nullable=False),
    Column("at", Float(53), nullable=False),
    sqlite_with_rowid=False,
)

deferrals = Table(
    "bestarm_deferrals",
    metadata,
    _experiment(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", BigInteger, nullable=False),  # −1 while there is none
    Index("bestarm_deferrals_by_entry", "experiment", "entry"),
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
    Column("waiting", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    sqlite_with_rowid=False,
)

phases = Table(
    "bestarm_phases",
    metadata,
    _experiment(),
    Column("phase", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
)

entries = Table(
    "bestarm_summaries",
    metadata,
    _experiment(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
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
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("data", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)

tokens = Table(
    "bestarm_tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("role", SmallInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Float(53)),
)
