"""Which experiments of a database have changed since somebody looked last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import Store

_SHELF = 100  # experiments whose counters are added up together
# Counters that only grow, and one of them whenever anything is recorded.
_RECORDED = "assigned + outcomes + losses + late + refusals + events"
_OVER = "state IN ('stopped', 'finished')"
_OVERDUE = (
    f"CASE WHEN lease IS NOT NULL AND oldest + lease <= :now AND NOT {_OVER} THEN 1 ELSE 0 END"
)
_TOTALS = text(
    f"SELECT id / {_SHELF}, count(*), sum({_RECORDED}), sum({_OVERDUE}) FROM {s.experiments} "
    f"GROUP BY id / {_SHELF}"
)
_EACH = text(
    f"SELECT id, name, {_OVER}, {_OVERDUE}, {_RECORDED} FROM {s.experiments} "
    f"WHERE id / {_SHELF} IN :shelves ORDER BY {_OVER}, id DESC"
).bindparams(bindparam("shelves", expanding=True))


class Change(NamedTuple):
    """An experiment that has changed, or has a lease that may have run out.

    Attributes:
        name: its name.
        over: whether nothing more will be assigned.
        overdue: whether a lease may have run out.
    """

    name: str
    over: bool
    overdue: bool


class _Known(NamedTuple):
    name: str
    over: bool
    recorded: int


class Changes:
    """Finds what is new among many experiments: one query that returns one row per hundred of them,
    and another for the hundreds in which something is new."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forget()

    def _forget(self) -> None:
        self._generation = self._store.generation
        self._totals: dict[int, Any] = {}
        self._known: dict[int, _Known] = {}

    @property
    def running(self) -> list[str]:
        """The experiments that were not over at the last call of `read`."""
        return [each.name for each in self._known.values() if not each.over]

    def read(self, *, now: float) -> tuple[Sequence[Change], set[str]]:
        """Experiments that changed since the last call or are overdue, running ones first and the
        newest of these first; and the names of those that are gone."""
        if self._store.version() is None:
            return [], set()
        with self._store.reading() as connection:
            if self._generation != self._store.generation:
                self._forget()  # another file
            return self._read(connection, now)

    def _read(self, connection: Connection, now: float) -> tuple[Sequence[Change], set[str]]:
        every = connection.execute(_TOTALS, {"now": now}).all()
        totals = {shelf: counts for shelf, *counts, _ in every}
        wanted = {
            shelf for shelf, *counts, late in every if late or counts != self._totals.get(shelf)
        }
        wanted |= self._totals.keys() - totals.keys()
        self._totals = totals
        if not wanted:
            return [], set()
        before = {n: each for n, each in self._known.items() if n // _SHELF in wanted}
        after, changes = dict[int, _Known](), []
        values = {"now": now, "shelves": list(wanted)}
        for number, name, over, overdue, recorded in connection.execute(_EACH, values):
            after[number] = _Known(name, bool(over), recorded)
            if overdue or before.get(number) != after[number]:
                changes.append(Change(name, bool(over), bool(overdue)))
        gone = before.keys() - after.keys()
        self._known = {n: each for n, each in self._known.items() if n not in gone} | after
        return changes, {before[number].name for number in gone}
