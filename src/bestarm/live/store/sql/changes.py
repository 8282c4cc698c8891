"""Which experiments of a database have changed since somebody looked last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select, text

from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.session import Session

_SHELF = 100  # experiments whose counters are added up together
# Counters that only grow, and one of them whenever anything is recorded.
_RECORDED = "assigned + outcomes + losses + late + refusals + events"
_OVER = "state IN ('stopped', 'finished')"
_OVERDUE = (
    f"CASE WHEN lease IS NOT NULL AND oldest + lease <= :now AND NOT {_OVER} THEN 1 ELSE 0 END"
)
_TOTALS = select(
    text(
        f"id / {_SHELF}, count(*), sum({_RECORDED}), sum({_OVERDUE}) FROM {s.experiments} "
        f"GROUP BY id / {_SHELF}"
    )
)
_EACH = select(
    text(
        f"name, {_OVER}, {_OVERDUE}, {_RECORDED} FROM {s.experiments} "
        "WHERE id >= :first AND id < :end ORDER BY id DESC"
    )
)


class ChangedExperiment(NamedTuple):
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
        self._shelves: dict[int, dict[str, _Known]] = {}

    @property
    def running(self) -> list[str]:
        """The experiments that were not over at the last call of `read`."""
        shelves = self._shelves.values()
        return [name for shelf in shelves for name, known in shelf.items() if not known.over]

    def read(self, *, now: float) -> tuple[Sequence[ChangedExperiment], set[str]]:
        """Experiments that changed since the last call or are overdue, running ones first and the
        newest of these first; and the names of those that are gone."""
        if self._store.version() is None:
            return [], set()
        with self._store.reading() as session:
            if self._generation != self._store.generation:
                self._forget()  # another file
            return self._read(session, now)

    def _read(self, session: Session, now: float) -> tuple[Sequence[ChangedExperiment], set[str]]:
        every = session.fetch(_TOTALS, now=now)
        totals = {shelf: counts for shelf, *counts, _ in every}
        late = {shelf for shelf, *_, overdue in every if overdue}
        shelves = totals.keys() | self._totals.keys()
        new = {each for each in shelves if totals.get(each) != self._totals.get(each)}
        self._totals = totals
        changes, gone = list[ChangedExperiment](), set[str]()
        for shelf in sorted(late | new, reverse=True):
            part = {"first": shelf * _SHELF, "end": (shelf + 1) * _SHELF}
            before, self._shelves[shelf] = self._shelves.get(shelf, {}), dict[str, _Known]()
            for name, over, overdue, recorded in session.fetch(_EACH, now=now, **part):
                known = self._shelves[shelf][name] = _Known(bool(over), recorded)
                if overdue or before.get(name) != known:
                    changes.append(ChangedExperiment(name, bool(over), bool(overdue)))
            gone |= before.keys() - self._shelves[shelf].keys()
        return sorted(changes, key=lambda each: each.over), gone
