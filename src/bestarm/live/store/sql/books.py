"""Experiments in a database: each is a ledger of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import case, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live.store.contract import Event, Head
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.records import LISTED, OPENED, head_columns, read_head
from bestarm.live.store.sql.transactions import SqlReading, SqlWriting
from bestarm.live.values import Listed, Status

__all__ = ["SqlLedger"]

_LISTED = select(
    s.experiments.c.name,
    s.experiments.c.description,
    s.experiments.c.created,
    *(s.experiments.c[name] for name in s.COUNTERS),
)


class SqlLedger:
    """One experiment of a database.

    Args:
        store: the database.
        number: the experiment's number there.
        name: its name there.
        document: what it is made of, as text.
        description: what it is about, in words.
    """

    def __init__(
        self, store: Store, number: int, *, name: str, document: str, description: str
    ) -> None:
        self._store = store
        self._number = number
        self._generation = store.generation
        self.name = name
        self.document = document
        self.description = description

    @property
    def place(self) -> str:
        """The URL of its database, without the password."""
        return self._store.place

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
        """Add a new experiment with its first event.

        Raises:
            ExperimentExistsError: there is one of this name.
        """
        store.prepare()
        row = {"name": name, "document": document, "description": description}
        insert = sqlite.insert if store.sqlite else postgresql.insert
        columns = row | {"created": head.last_time} | head_columns(head)
        statement = insert(s.experiments).values(columns).on_conflict_do_nothing()
        statement = statement.execution_options(preserve_rowcount=True)
        with store.writing() as connection:
            if not connection.execute(statement).rowcount:
                raise ExperimentExistsError(
                    f"There is an experiment {name!r} in {store.place} already.",
                    field="name",
                    value=name,
                    remedy="Open it, or choose another name.",
                )
            found = select(s.experiments.c.id).where(s.experiments.c.name == name)
            number = connection.execute(found).scalar_one()
            SqlWriting(connection, number).add_event(created)
        return cls(store, number, **row)

    @classmethod
    def open(cls, store: Store, name: str) -> SqlLedger:
        """The experiment of a name.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreVersionError: the tables are of another version than this one.
        """
        names: list[str] = []
        if store.version() is not None:
            table = s.experiments.c
            wanted = select(*(table[name] for name in ("id", "name", "document", "description")))
            some = select(table.name).order_by(table.id.desc()).limit(10)
            with store.reading() as connection:
                row = connection.execute(wanted.where(table.name == name)).one_or_none()
                if row is not None:
                    number, name, document, about = OPENED(row, f"the experiment {name!r}")
                    return cls(store, number, name=name, document=document, description=about)
                names = [repr(each) for each in connection.execute(some).scalars()]
        raise UnknownExperimentError(
            f"There is no experiment {name!r} in {store.place}.",
            field="name",
            value=name,
            remedy=f"There is {', '.join(names)}." if names else "It holds none yet.",
        )

    @staticmethod
    def list(
        store: Store, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Listed]:
        """The experiments of a database, oldest first.

        Args:
            store: the database.
            limit: the largest number to return, or None for all.
            after: the name of the last one before these.

        Raises:
            UnknownExperimentError: there is no experiment `after`.
        """
        there = store.version() is not None
        if not there and after is None:
            return []
        table = s.experiments.c
        wanted = _LISTED.order_by(table.id).limit(limit)
        if there:
            with store.reading() as connection:
                last: int | None = 0
                if after is not None:
                    number = select(table.id).where(table.name == after)
                    last = connection.execute(number).scalar_one_or_none()
                if last is not None:
                    found = connection.execute(wanted.where(table.id > last)).all()
                    return _read_listed(found)
        raise UnknownExperimentError(
            f"There is no experiment {after!r} to continue after.",
            field="after",
            value=after,
            remedy="Give the name of the last experiment of the part before.",
        )

    @staticmethod
    def states(store: Store) -> Sequence[tuple[str, str]]:
        """The name and the state of every experiment, oldest first: quick, however many."""
        if store.version() is None:
            return []
        table = s.experiments.c
        with store.reading() as connection:
            found = connection.execute(select(table.name, table.state).order_by(table.id)).all()
        return [(name, state) for name, state in found]

    @staticmethod
    def search(store: Store, text: str, *, first: int, limit: int) -> tuple[Sequence[Listed], int]:
        """Some of the experiments that a text is found in, and the number of all of them.

        Running experiments come first, and among them the newest.

        Args:
            store: the database.
            text: a part of their name or description, in letters of either case.
            first: the number of experiments to skip.
            limit: the largest number to return.
        """
        if store.version() is None:
            return [], 0
        table = s.experiments.c
        place = case((table.state == "running", 0), (table.state == "paused", 1), else_=2)
        wanted = _LISTED.order_by(place, table.created.desc(), table.id.desc())
        count = select(func.count()).select_from(s.experiments)
        if text:
            fits = or_(
                *(
                    func.lower(column).contains(text.lower(), autoescape=True)
                    for column in (table.name, table.description)
                )
            )
            wanted, count = wanted.where(fits), count.where(fits)
        with store.reading() as connection:
            total = int(connection.execute(count).scalar_one())
            found = connection.execute(wanted.offset(first).limit(limit)).all()
        return _read_listed(found), total

    @contextmanager
    def reading(self) -> Iterator[SqlReading]:
        """A transaction that sees one state."""
        with self._store.reading() as connection:
            self._store.check_generation(self._generation)
            yield SqlReading(connection, self._number)

    @contextmanager
    def writing(self) -> Iterator[SqlWriting]:
        """A transaction that waits for its turn; after an exception nothing of it remains."""
        with self._store.writing() as connection:
            self._store.check_generation(self._generation)
            tx = SqlWriting(connection, self._number, lock=not self._store.sqlite)
            yield tx
            tx.save()

    def close(self) -> None:
        """Release connections."""
        self._store.close()


def _read_listed(rows: Sequence[Any]) -> Sequence[Listed]:
    found = []
    for row in rows:
        (name, description, created), head = LISTED(row[:3], "an experiment"), read_head(row[3:])
        found.append(Listed(name, description, created, Status.of(head), head.revision))
    return found
