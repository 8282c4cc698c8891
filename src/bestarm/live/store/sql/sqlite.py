"""Transactions on a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Delete, Insert, Select, Table, Update

from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.columns import Slots
from bestarm.live.store.sql.connections import patiently
from bestarm.live.store.sql.schema import read_counters
from bestarm.live.store.sql.sessions import Columns, KnownRowError, Row, Session, no_counters
from bestarm.live.store.sql.turns import Turn

T = TypeVar("T")

_MOST = 64  # rows per statement: older versions of SQLite take 999 values


class SqliteSession(Session):
    """A connection to a SQLite file; `turn` lets one thread of this process write at a time."""

    dialect = "sqlite"

    def __init__(self, raw: sqlite3.Connection, *, turn: Turn) -> None:
        self.raw = raw
        self._turn = turn
        self._held: list[Any] = []  # its turn, while it has it
        self._waits_itself = True
        self.counters = {}
        # The counters that this connection wrote last, of which experiment, and the number by which
        # SQLite tells whether another has written since.
        self._kept: tuple[int, int, dict[str, Any]] | None = None
        self._read: tuple[int, int] | None = None
        self.slots = Slots(raw)

    def begin(
        self,
        *,
        writing: bool,
        experiment: int | None = None,
        assume_unchanged: bool = False,  # noqa: ARG002  (SQLite says at once whether it is so)
    ) -> None:
        if writing:
            self._turn.take(self._held)
            if self._waits_itself:
                self._stop_waiting()
            self._turn.begin(self._begin_immediate)
        else:
            self.raw.execute("BEGIN")
            patiently(self._version)  # it begins with this, unless somebody mends the log
        self._read = None
        if experiment is not None:
            self._read_counters(experiment)

    def _begin_immediate(self) -> None:
        self.raw.execute("BEGIN IMMEDIATE")

    def _version(self) -> int:
        ((version,),) = self.raw.execute("PRAGMA data_version")
        return int(version)

    def _read_counters(self, experiment: int) -> None:
        version = self._version()
        self._read = experiment, version
        if self._kept is not None and self._kept[:2] == self._read:
            self.counters = self._kept[2]
            return
        row = self.raw.execute(sql.COUNTERS, (experiment,)).fetchone()
        if row is None:
            raise no_counters()
        self.counters = read_counters(row)

    def _stop_waiting(self) -> None:
        """Let SQLite report at once that it is busy: it waits ever longer between its attempts.

        Only where there is a log does nothing but the beginning of a transaction wait.
        """
        # Only now: reading a file must not change it. Of several processes that do this to a new
        # file at once, some are refused without a wait.
        ((mode,),) = patiently(lambda: self.raw.execute("PRAGMA journal_mode=WAL").fetchall())
        if mode == "wal":
            self.raw.execute("PRAGMA busy_timeout=0")
        self._waits_itself = False

    def commit(self) -> None:
        self.raw.execute("COMMIT")
        self._kept = None if self._read is None else (*self._read, self.counters)
        self._give_turn()

    def rollback(self) -> None:
        self._kept = None
        try:
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
        finally:
            self._give_turn()

    def _give_turn(self) -> None:
        self._turn.give(self._held)

    def fetch(self, statement: Select[Any], **values: Any) -> list[Row]:
        known = sql.written(statement, "sqlite")
        found: list[Row] = self.raw.execute(known.text, known.constants | values).fetchall()
        return found

    def fetch_one(self, text: str, values: Sequence[Any]) -> Row:
        row: Row = self.raw.execute(text, values).fetchone()
        return row

    def change(self, statement: Insert | Update | Delete, *rows: Mapping[str, Any]) -> int:
        known = sql.written(statement, "sqlite")
        every = ({**known.constants, **row} for row in rows)
        return int(self.raw.executemany(known.text, every).rowcount)

    def add(self, table: Table, columns: Columns) -> None:
        try:
            self._insert(table, columns)
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode in _KNOWN:
                raise KnownRowError(table.name) from error
            raise

    def add_unknown(self, table: Table, columns: Columns) -> int:
        return self._insert(table, columns, sql.UNLESS_KNOWN)

    def _insert(self, table: Table, columns: Columns, condition: str = "") -> int:
        names, rows = tuple(columns), list(zip(*columns.values(), strict=True))
        if len(rows) == 1:  # the most frequent by far
            text = sql.insert_several(table, names, 1) + condition
            return int(self.raw.execute(text, rows[0]).rowcount)
        added = 0
        for part in _parts(rows):
            text = sql.insert_several(table, names, len(part)) + condition
            added += self.raw.execute(text, tuple(chain.from_iterable(part))).rowcount
        return added

    def settle(self, experiment: int, numbers: list[int], *, summary: int) -> None:
        for part in _parts(numbers):
            self.raw.execute(sql.settle_several(len(part)), (summary, experiment, *part))

    def save(self, experiment: int, changed: Mapping[str, Any]) -> None:
        self.raw.execute(sql.save_counters(tuple(changed), "?"), (*changed.values(), experiment))
        self.counters = {**self.counters, **changed}

    def has_table(self, name: str) -> bool:
        tables = self.raw.execute("SELECT name FROM sqlite_master WHERE name = ?", (name,))
        return bool(tables.fetchall())

    def close(self) -> None:
        try:
            self.raw.close()
        finally:
            self._give_turn()


def _parts(rows: list[T]) -> Iterator[list[T]]:
    """Rows for one statement each. Python lets other threads go first after every row of several,
    and each of these may compute for a while.

    The lengths are powers of two, so that few statements are prepared.
    """
    start = 0
    while left := len(rows) - start:
        end = start + min(1 << left.bit_length() - 1, _MOST)
        yield rows[start:end]
        start = end


_KNOWN = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE}
