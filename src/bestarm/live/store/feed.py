"""Which experiments of a database have changed, in one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from bestarm.live.store import schema as s
from bestarm.live.store.database import Store

_OVER = "state IN ('stopped', 'finished')"
_LIMIT = 'COALESCE("window", lease)'
_CHANGES: sa.Select[tuple[str, bool, bool, int]] = sa.select(
    sa.text(
        f"name, {_OVER}, "
        f"{_LIMIT} IS NOT NULL AND oldest + {_LIMIT} <= :now AND NOT {_OVER}, "
        # Counters that only grow, and one of them whenever anything is recorded.
        'assigned + outcomes + reports + "values" + losses + late + refusals + events '
        f"FROM {s.experiments} ORDER BY id DESC"
    )
)


class ChangedExperiment(NamedTuple):
    """An experiment that has changed, or has a lease or a window that may have ended.

    Attributes:
        name: its name.
        over: whether nothing more will be assigned.
        overdue: whether a lease or a window may have ended.
    """

    name: str
    over: bool
    overdue: bool


class ChangeFeed:
    """Which experiments of a database have changed since it was read last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[bool, int]] = {}  # whether it is over, and what is recorded

    @property
    def running(self) -> list[str]:
        """The experiments that were not over at the last call of `read`."""
        return [name for name, (over, _) in self._known.items() if not over]

    def read(self, *, now: float) -> tuple[Sequence[ChangedExperiment], set[str]]:
        """Experiments that changed since the last call or are overdue, running ones first and the
        newest of these first; and the names of those that are gone."""
        if self._store.version() is None:
            return [], set()
        with self._store.snapshot() as session:
            found = session.fetch(_CHANGES, now=now)
        before = self._known
        self._known = {name: (bool(over), recorded) for name, over, _, recorded in found}
        changes = [
            ChangedExperiment(name, bool(over), bool(overdue))
            for name, over, overdue, _ in found
            if overdue or before.get(name) != self._known[name]
        ]
        gone = before.keys() - self._known.keys()
        return sorted(changes, key=lambda each: each.over), gone
