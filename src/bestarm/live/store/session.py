"""One transaction on a driver's connection, which SQLAlchemy's pool lends.

SQLAlchemy compiles every statement once, and the driver executes it: executed by SQLAlchemy, one
durable outcome takes over four times as long as by the driver alone.
"""

from __future__ import annotations

import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.schema import CreateIndex, CreateTable

from bestarm.live.store.rows import damaged

T = TypeVar("T")
Row = tuple[Any, ...]
Query = sa.Select[Any] | sa.CompoundSelect[Any]

BUSY_TIMEOUT = 60.0  # seconds to wait for other writers, or for a connection
_BACKOFF = 0.001, 0.002  # seconds between two attempts: short and random pauses are fair


class DuplicateKeyError(Exception):
    """A row that should be new is on record: the transaction must not be kept."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


class _Compiled(NamedTuple):
    text: str
    constants: dict[str, Any]
    flags: tuple[int, ...]  # the places of columns that are true or false: SQLite has 0 and 1


class Session(ABC):
    """One transaction on a driver's connection.

    If it is not committed, whoever lent the connection rolls it back.

    Args:
        raw: the connection.
        info: what is known of it, for as long as it lasts.
    """

    dialect: ClassVar[sa.Dialect]
    on_server: ClassVar[bool]  # whether a server's clock counts for all who share it
    _find_table: ClassVar[str]
    _options: ClassVar[dict[str, Any]] = {}

    def __init__(self, raw: Any, info: dict[str, Any]) -> None:
        self.raw, self._info = raw, info

    @abstractmethod
    def begin(self, *, writing: bool) -> None:
        """Begin a transaction that sees one state; SQLite has one writer at a time."""

    def commit(self) -> None:
        """Keep all of the transaction; when this returns it is on disk."""
        self.raw.execute("COMMIT")

    def execute(self, statement: sa.Executable, **values: Any) -> Any:
        """Execute a statement, and return the driver's cursor."""
        compiled = _compile(statement, type(self))
        return self.raw.execute(compiled.text, {**compiled.constants, **values}, **self._options)

    def execute_at_commit(self, statement: sa.Executable, **values: Any) -> None:
        """Execute a statement whose result nobody needs, now or when the transaction is kept."""
        self.execute(statement, **values)

    def execute_many(self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a statement once per row of values."""
        self.raw.cursor().executemany(_compile(statement, type(self)).text, rows)

    def fetch(self, statement: Query, **values: Any) -> list[Row]:
        """Rows as the driver returns them.

        Raises:
            DamagedStoreError: there is a text among them that cannot be decoded.
        """
        try:
            found: list[Row] = self.execute(statement, **values).fetchall()
        except (sqlite3.OperationalError, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", None) is not None:
                raise
            # Python's own: SQLite, and a database without an encoding, keep any bytes as a text.
            raise damaged("A text that is not in UTF-8 cannot be read.") from error
        return found

    def select(self, statement: Query, **values: Any) -> list[Row]:
        """Rows with values of the types of their columns.

        Raises:
            DamagedStoreError: there is a text among them that cannot be decoded.
        """
        found, flags = self.fetch(statement, **values), _compile(statement, type(self)).flags
        if not flags:
            return found
        rows = [list(row) for row in found]
        for row in rows:
            for place in flags:
                row[place] = bool(row[place])
        return [tuple(row) for row in rows]

    def insert(self, table: sa.Table, values: Mapping[str, Any], *, or_ignore: bool = False) -> int:
        """Insert rows, and return their number.

        Args:
            table: where to.
            values: for each column an array or a list, with a value per row, or one value for all.
            or_ignore: leave out rows whose key is on record.

        Raises:
            DuplicateKeyError: a key is on record, unless such rows are left out.
        """
        lists = {
            name: each.tolist() if isinstance(each, np.ndarray) else each
            for name, each in values.items()
        }
        size = next((len(each) for each in lists.values() if isinstance(each, list)), 1)
        columns = [each if isinstance(each, list) else [each] * size for each in lists.values()]
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*columns, strict=True)]
        text = _compile_insert(table, tuple(lists), type(self), or_ignore)
        cursor = self.raw.cursor()
        try:
            if len(rows) == 1:
                cursor.execute(text, rows[0])
            else:
                cursor.executemany(text, rows)
        except self.raw.IntegrityError as error:
            raise DuplicateKeyError(table.name) from error
        return int(cursor.rowcount)

    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""
        return bool(self.raw.execute(self._find_table, (name,)).fetchall())

    def create_tables(self, metadata: sa.MetaData) -> None:
        """Make tables with their indexes, unless they are there."""
        for table in metadata.sorted_tables:
            if not self.has_table(table.name):
                parts: list[sa.DDLElement] = [CreateTable(table), *map(CreateIndex, table.indexes)]
                for part in parts:
                    self.raw.execute(str(part.compile(dialect=self.dialect)))


class SqliteSession(Session):
    """A connection to a SQLite file, or to a database in memory."""

    dialect = sqlite.dialect(paramstyle="named")
    on_server = False
    _find_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"

    def begin(self, *, writing: bool) -> None:
        if writing:
            if not self._info.get("bestarm_wal"):
                self.set_up_writing()
                self._info["bestarm_wal"] = True
            # IMMEDIATE waits for the write lock now: later in the transaction it could not wait.
            retry_on_busy(lambda: self.raw.execute("BEGIN IMMEDIATE"))
        else:
            self.raw.execute("BEGIN")
            # The snapshot is taken by the first read; it waits while another recovers the log.
            retry_on_busy(lambda: self.raw.execute("PRAGMA data_version").fetchall())

    def set_up_writing(self) -> None:
        """Have the file write ahead; only before the first write, as reading must not change it.

        From then on only the beginning of a transaction waits for others, in its own way.
        """
        ((mode,),) = retry_on_busy(lambda: self.raw.execute("PRAGMA journal_mode=WAL").fetchall())
        if mode == "wal":
            self.raw.execute("PRAGMA busy_timeout=0")

    def empty_log(self) -> bool:
        """Move the log into the file and empty it, once nobody reads from it; False if that took
        too long."""
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:
            ((busy, *_),) = self.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if not busy or time.monotonic() >= deadline:
                return not busy
            time.sleep(random.uniform(*_BACKOFF))


class PostgresSession(Session):
    """A connection to a PostgreSQL server, or to a pooler in front of it.

    All settings are of one transaction: behind a pooler the next one may have another session.
    """

    dialect = psycopg.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
    on_server = True
    _options: ClassVar[dict[str, Any]] = {"binary": True}  # numbers to the bit, whatever is set
    # From the catalog itself: what another transaction made meanwhile is not in caches yet.
    _find_table = (
        "SELECT 1 FROM pg_catalog.pg_class WHERE relname = %s AND "
        "pg_catalog.pg_table_is_visible(oid)"
    )

    def __init__(self, raw: Any, info: dict[str, Any]) -> None:
        super().__init__(raw, info)
        self._last: list[tuple[sa.Executable, dict[str, Any]]] = []

    def begin(self, *, writing: bool) -> None:
        milliseconds = f"{1000 * BUSY_TIMEOUT:.0f}"
        self.raw.execute(_BEGIN_WRITING.format(milliseconds) if writing else _BEGIN_READING)

    def execute_at_commit(self, statement: sa.Executable, **values: Any) -> None:
        self._last.append((statement, values))

    def commit(self) -> None:
        with self.raw.pipeline() if self._last else nullcontext():  # one round trip for all
            for statement, values in self._last:
                self.execute(statement, **values)
            committed = self.raw.execute("COMMIT")
        if committed.statusmessage != "COMMIT":
            # This is the answer where a statement before it had failed.
            raise self.raw.OperationalError("the transaction was rolled back")


_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# An outcome is on disk when its commit returns, whatever the server, the database or the role has
# set; `remote_apply`, which waits for standbys as well, is kept. A process that hangs, or whose
# machine is gone, must not block all others. Whoever waited for a lock sees what was written
# meanwhile.
_BEGIN_WRITING = """
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
    set_config('lock_timeout', '{0}', true),
    set_config('idle_in_transaction_session_timeout', '1min', true)
"""


@cache
def _compile(statement: Any, kind: type[Session]) -> _Compiled:
    """A statement in the SQL of a database; its values are named."""
    compiled = statement.compile(dialect=kind.dialect)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    columns = enumerate(getattr(statement, "exported_columns", ()))
    flags = tuple(place for place, column in columns if isinstance(column.type, sa.Boolean))
    return _Compiled(str(compiled), constants, flags)


@cache
def _compile_insert(
    table: sa.Table, names: tuple[str, ...], kind: type[Session], or_ignore: bool
) -> str:
    statement = sa.insert(table).values({name: sa.bindparam(name) for name in names})
    ending = " ON CONFLICT DO NOTHING" if or_ignore else ""
    return f"{statement.compile(dialect=kind.dialect)}{ending}"


def retry_on_busy(attempt: Callable[[], T]) -> T:
    """Try again until SQLite no longer reports that another connection writes, up to a timeout.

    SQLite's own waits grow longer, so that the process that came last is the likeliest to be next.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(*_BACKOFF))
