"""Experiments in a database: each is a ledger of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, case, exc, func, insert, select

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live.store.contract import Event, Head
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.transactions import SqlReading, SqlWriting
from bestarm.live.values import Listed, Status

_column = s.experiments.c
_LISTED = select(
    _column.name,
    _column.description,
    _column.created,
    *(_column[name] for name in s.COUNTERS),
)


@dataclass(frozen=True, eq=False)
class SqlLedger:
    """One experiment of a database; `document` says what it is made of, as text."""

    store: Store
    number: int
    name: str
    document: str
    description: str
    generation: int  # of the store when it was opened

    @property
    def place(self) -> str:
        """The URL of its database, without the password."""
        return self.store.place

    @classmethod
    def create(
        cls,
        store: Store,
        name: str,
        *,
        document: str,
        description: str,
        head: Head,
        created: Event,
    ) -> SqlLedger:
        """Add a new experiment with its first event: see `Experiment.create`."""
        store.prepare()
        row = {"name": name, "document": document, "description": description}
        added = insert(s.experiments).returning(_column.id)
        with store.writing() as connection:
            try:
                every = row | {"created": head.last_time} | vars(head)
                number = connection.execute(added, every).scalar_one()
            except exc.IntegrityError:
                raise ExperimentExistsError(
                    f"There is an experiment {name!r} in {store.place} already.",
                    field="name",
                    value=name,
                    remedy="Open it, or choose another name.",
                ) from None
            SqlWriting(connection, number).add_event(created)
        return cls(store, number, **row, generation=store.generation)

    @classmethod
    def open(cls, store: Store, name: str) -> SqlLedger:
        """The experiment of a name: see `Experiment.open`."""
        wanted = select(_column.id, _column.document, _column.description)
        some = select(_column.name).order_by(_column.id.desc()).limit(10)
        found, others = _read(store, wanted.where(_column.name == name), some)
        for number, document, description in found:
            return cls(store, number, name, document, description, store.generation)
        names = ", ".join(repr(other) for (other,) in others)
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {names}." if names else "It holds none yet.",
        )

    @staticmethod
    def list(
        store: Store, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Listed]:
        """The experiments of a database, oldest first: see `Experiment.list`."""
        number = select(_column.id).where(_column.name == after)
        start = 0 if after is None else number.scalar_subquery()
        wanted = _LISTED.where(_column.id > start).order_by(_column.id).limit(limit)
        known, found = _read(store, number, wanted)
        if after is not None and not known:
            raise UnknownExperimentError(
                f"There is no experiment {after!r} to continue after.",
                field="after",
                value=after,
                remedy="Give the name of the last experiment of the part before.",
            )
        return [_listed(*row) for row in found]

    @staticmethod
    def search(store: Store, text: str, *, first: int, limit: int) -> tuple[Sequence[Listed], int]:
        """Up to `limit` experiments after the `first` ones, and the number of all of them.

        They have a text in their name or description, in letters of either case. Running
        experiments come first, and among them the newest.
        """
        place = case((_column.state == "running", 0), (_column.state == "paused", 1), else_=2)
        order = place, _column.created.desc(), _column.id.desc()
        ids, count = select(_column.id), select(func.count()).select_from(s.experiments)
        if text:
            words = func.lower(_column.name + "\n" + _column.description)
            fits = words.contains(text.lower(), autoescape=True)
            ids, count = ids.where(fits), count.where(fits)
        # Numbers first: sorting all columns of all experiments takes ten times as long.
        ids = ids.order_by(*order).offset(first).limit(limit)
        wanted = _LISTED.where(_column.id.in_(ids.subquery().select())).order_by(*order)
        totals, found = _read(store, count, wanted)
        return [_listed(*row) for row in found], sum(total for (total,) in totals)

    @contextmanager
    def reading(self) -> Iterator[SqlReading]:
        """A transaction that sees one state."""
        with self.store.reading() as connection:
            self.store.check_generation(self.generation)
            yield SqlReading(connection, self.number)

    @contextmanager
    def writing(self) -> Iterator[SqlWriting]:
        """A transaction that waits for its turn; after an exception nothing of it remains."""
        with self.store.writing() as connection:
            self.store.check_generation(self.generation)
            tx = SqlWriting(connection, self.number, lock=True)
            yield tx
            tx.save()

    def close(self) -> None:
        """Release connections."""
        self.store.close()


def _read(store: Store, *statements: Select[Any]) -> list[Sequence[Any]]:
    """The rows of each statement, all of one state; none where there are no tables."""
    if store.version() is None:
        return [[] for _ in statements]
    with store.reading() as connection:
        return [connection.execute(each).all() for each in statements]


def _listed(name: str, description: str, created: float, *counters: Any) -> Listed:
    head = Head(*counters)
    return Listed(name, description, created, Status.of(head), head.revision)
