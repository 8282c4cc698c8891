"""Experiments in a database: each is a ledger of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, case, func, select

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live.store.contract import Event, Head
from bestarm.live.store.records import damaged
from bestarm.live.store.sql import schema as s
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.session import DuplicateKeyError, Row
from bestarm.live.store.sql.transactions import SqlReading, SqlWriting, event_row
from bestarm.live.values import ExperimentListing, Status

_column = s.experiments.c
_named = _column.name == bindparam("name")
_NUMBER = select(_column.id).where(_named)
_NAMED = (
    select(_column.id, s.documents.c.document, _column.description)
    .outerjoin_from(s.experiments, s.documents, s.documents.c.experiment == _column.id)
    .where(_named)
)
_SOME = select(_column.name).order_by(_column.id.desc()).limit(10)
_limit: BindParameter[int] = bindparam("limit")
_LISTED = select(
    _column.name,
    _column.description,
    _column.created,
    *(_column[name] for name in s.COUNTERS),
).limit(_limit)
_after = select(_column.id).where(_column.name == bindparam("after")).scalar_subquery()
_FOLLOWING = _LISTED.where(_column.id > func.coalesce(_after, 0)).order_by(_column.id)
_place = case((_column.state == "running", 0), (_column.state == "paused", 1), else_=2)
_order = (_place, _column.created.desc(), _column.id.desc())


def _page(*conditions: ColumnElement[bool]) -> tuple[Select[Any], Select[Any]]:
    """The number of experiments under conditions, and a page of them.

    Their ids are sorted first: to sort all columns of all of them would take four times as long.
    """
    ids = select(_column.id).where(*conditions).order_by(*_order).limit(_limit)
    some = ids.offset(bindparam("first")).subquery().select()
    count = select(func.count()).select_from(s.experiments).where(*conditions)
    return count, _LISTED.where(_column.id.in_(some)).order_by(*_order)


_words = func.lower(_column.name + "\n" + _column.description)
_EVERY = _page()
_FITTING = _page(_words.like(bindparam("pattern"), escape="/"))
_ALL = 2**62


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
        row = {"name": name, "description": description}
        every = row | {"created": head.last_time} | vars(head)
        try:
            with store.writing() as session:
                session.add(s.experiments, {key: [value] for key, value in every.items()})
                ((number,),) = session.fetch(_NUMBER, name=name)
                of = {"experiment": number}
                for table, rest in (
                    (s.documents, {"document": document}),
                    (s.events, event_row(created)),
                ):
                    session.add(table, {key: [value] for key, value in {**of, **rest}.items()})
        except DuplicateKeyError:
            raise ExperimentExistsError(
                f"There is an experiment {name!r} in {store.place} already.",
                field="name",
                value=name,
                remedy="Open it, or choose another name.",
            ) from None
        return cls(store, number, **row, document=document, generation=store.generation)

    @classmethod
    def open(cls, store: Store, name: str) -> SqlLedger:
        """The experiment of a name: see `Experiment.open`."""
        found, others = _read(store, (_NAMED, {"name": name}), (_SOME, {}))
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
    ) -> Sequence[ExperimentListing]:
        """The experiments of a database, oldest first: see `Experiment.list`."""
        start = {"after": after, "limit": _ALL if limit is None else limit}
        known, found = _read(store, (_NUMBER, {"name": after}), (_FOLLOWING, start))
        if after is not None and not known:
            raise UnknownExperimentError(
                f"There is no experiment {after!r} to continue after.",
                field="after",
                value=after,
                remedy="Give the name of the last experiment of the part before.",
            )
        return [_listed(*row) for row in found]

    @staticmethod
    def search(
        store: Store, text: str, *, first: int, limit: int
    ) -> tuple[Sequence[ExperimentListing], int]:
        """Up to `limit` experiments after the `first` ones, and the number of all of them.

        They have a text in their name or description, in letters of either case. Running
        experiments come first, and among them the newest.
        """
        fits = {"pattern": "%" + re.sub(r"[%_/]", r"/\g<0>", text.lower()) + "%"} if text else {}
        count, some = _FITTING if text else _EVERY
        part = fits | {"first": first, "limit": limit}
        totals, found = _read(store, (count, fits), (some, part))
        return [_listed(*row) for row in found], sum(total for (total,) in totals)

    @contextmanager
    def reading(self) -> Iterator[SqlReading]:
        """A transaction that sees one state."""
        with self.store.reading(self.generation) as session:
            yield SqlReading(session, self.number)

    @contextmanager
    def writing(self) -> Iterator[SqlWriting]:
        """A transaction that waits for other writers; after an exception nothing of it remains."""
        try:
            with self.store.writing(self.generation) as session:
                tx = SqlWriting(session, self.number)
                yield tx
                tx.save_head()
        except DuplicateKeyError as error:
            what = f"The table {error.table} holds rows that the counters do not know of."
            raise damaged(what, error.table) from error

    def close(self) -> None:
        """Release connections."""
        self.store.close()


def _read(store: Store, *wanted: tuple[Select[Any], dict[str, Any]]) -> list[list[Row]]:
    """The rows of statements with their values, of one state; none where there are no tables."""
    if store.version() is None:
        return [[] for _ in wanted]
    with store.reading() as session:
        return [session.select(statement, **values) for statement, values in wanted]


def _listed(name: str, description: str, created: float, *counters: Any) -> ExperimentListing:
    head = Head(*counters)
    return ExperimentListing(name, description, created, Status.of(head), head.revision)
