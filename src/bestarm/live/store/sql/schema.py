"""The tables. Rows are only ever added, except for one row of counters per experiment.

Rows of large tables are found by experiment and number, so in SQLite they need no other row id.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    TypeDecorator,
)

from bestarm.live.store.contract import Head
from bestarm.live.store.damage import damaged

VERSION_TABLE = "bestarm_version"

metadata = MetaData()


class _Checked(TypeDecorator[Any]):
    """A column whose values are checked as they are read: SQLite takes a text for a number."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any, place: str) -> None:
        super().__init__()
        self.impl, self.place = kind, place
        self._flag = isinstance(kind, Boolean)
        self._kinds = (int, float) if isinstance(kind, Float) else kind.python_type

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Instead of SQLAlchemy's own, which takes any text for true."""
        return self._checked

    def _checked(self, value: Any) -> Any:
        if self._flag and value in {0, 1}:
            return bool(value)
        if value is None or isinstance(value, self._kinds):
            return value
        what = f"The record of {self.place} cannot be read (it is {reprlib.repr(value)})."
        raise damaged(what, self.place)


_WHOLE, _REAL, _HASH = BigInteger(), Float(53), String(64)
_COUNTERS: dict[str, Any] = {"bool": Boolean(), "int": _WHOLE, "float": _REAL, "str": _HASH}


def _columns(table: str, **kinds: Any) -> list[Column[Any]]:
    return [
        Column(name, _Checked(kind, f"{table}.{name}"), nullable=False)
        for name, kind in kinds.items()
    ]


def _counters() -> Iterator[Column[Any]]:
    for field in dataclasses.fields(Head):
        kind, _, optional = str(field.type).partition(" | ")
        (column,) = _columns("experiments", **{field.name: _COUNTERS[kind]})
        column.nullable = bool(optional)
        yield column


def _table(name: str, *, key: str = "number", rowid: bool = False, **kinds: Any) -> Table:
    """A table whose rows are found by experiment and key.

    With `rowid` SQLite keeps rows apart from the key, as is better for long texts.
    """
    return Table(
        f"bestarm_{name}",
        metadata,
        Column("experiment", Integer, ForeignKey("bestarm_experiments.id"), primary_key=True),
        Column(
            key, String(200) if key == "name" else _WHOLE, primary_key=True, autoincrement=False
        ),
        *_columns(name, **kinds),
        sqlite_with_rowid=rowid,
    )


COUNTERS = [field.name for field in dataclasses.fields(Head)]

experiments = Table(
    "bestarm_experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    *_columns("experiments", created=_REAL, document=Text(), description=Text()),
    *_counters(),
)
assignments = _table("assignments", phase=_WHOLE, arm=Integer(), probability=_REAL, asked=_REAL)
outcomes = _table("outcomes", reward=_REAL, told=_REAL, late=SmallInteger())
losses = _table("losses", phase=_WHOLE, place=_WHOLE, reason=Text(), at=_REAL)
refusals = _table("refusals", reward=_REAL, at=_REAL)
deferrals = _table("deferrals", summary=_WHOLE)  # the number of the one that covers it, or −1
requests = _table("requests", key="name", count=_WHOLE, first=_WHOLE, size=_WHOLE, phase=_WHOLE)
plans = _table("plans", key="phase", rowid=True, plan=Text(), first=_WHOLE)
summaries = _table(
    "summaries",
    rowid=True,
    phase=_WHOLE,
    first=_WHOLE,
    end=_WHOLE,
    late=Boolean(),
    summary=Text(),
    digest=_HASH,
)
events = _table("events", rowid=True, at=_REAL, kind=String(40), data=Text(), hash=_HASH)

Index("bestarm_losses_in_order", losses.c.experiment, losses.c.phase, losses.c.place, unique=True)
Index("bestarm_deferrals_by_summary", deferrals.c.experiment, deferrals.c.summary)
Index("bestarm_requests_in_order", requests.c.experiment, requests.c.first)
