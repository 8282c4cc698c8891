"""Transactions on a PostgreSQL server, with as few messages to it as possible.

Statements that an outcome needs are prepared once per connection. A transaction of one experiment
begins and reads the counters in one message, and what it writes last goes with its end in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Delete, Insert, Select, Table, Update

from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.schema import read_counters
from bestarm.live.store.sql.sessions import Columns, KnownRowError, Row, Session, no_counters

_FEW = 8  # rows that are added one by one, with the end of their transaction


class PostgresSession(Session):
    """A connection to a PostgreSQL server."""

    dialect = "postgresql"

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        raw.autocommit = True  # transactions begin where we say
        raw.prepare_threshold = None  # or psycopg would forget ours along with its own
        self.raw = raw
        self.counters = {}
        self._cursor = raw.cursor()
        self._prepared: dict[str, str] = {}  # names by statement
        self._waiting: list[str] = []  # statements to be sent with the next

    def begin(self, *, writing: bool, experiment: int | None = None) -> None:
        self._waiting = ["BEGIN" if writing else "BEGIN ISOLATION LEVEL REPEATABLE READ"]
        if experiment is None:
            self._send()
        else:
            read = sql.LOCK_COUNTERS if writing else sql.READ_COUNTERS
            self._waiting.append(self._call(sql.numbered(read), [experiment]))
            self._send()
            self._cursor.nextset()
            row = self._cursor.fetchone()
            if row is None:
                raise no_counters()
            *counters, self.time = row
            self.counters = read_counters(counters)

    def _call(self, statement: str, values: Iterable[Any]) -> str:
        """A statement with its values as a text, to be sent together with others."""
        name = self._prepared.get(statement)
        if name is None:
            name = f"bestarm_{len(self._prepared)}"
            self._cursor.execute(f"PREPARE {name} AS {statement}")
            self._prepared[statement] = name
        return f"EXECUTE {name} ({', '.join(map(_literal, values))})"

    def _send(self, *more: str) -> None:
        """Send the statements that wait; after an error none behind it is carried out."""
        message, self._waiting = "; ".join((*self._waiting, *more)), []
        if message:
            try:
                self._cursor.execute(message)
            except psycopg.errors.UniqueViolation as error:
                raise KnownRowError(str(error.diag.table_name)) from error

    def commit(self) -> None:
        self._send("COMMIT")

    def rollback(self) -> None:
        self._waiting = []
        if self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self._cursor.execute("ROLLBACK")

    def fetch(self, statement: Select[Any], **values: Any) -> list[Row]:
        self._send()
        known = sql.written(statement, "postgresql")
        return self._cursor.execute(known.text, known.constants | values).fetchall()

    def change(self, statement: Insert | Update | Delete, *rows: Mapping[str, Any]) -> int:
        self._send()
        known = sql.written(statement, "postgresql")
        self._cursor.executemany(known.text, [{**known.constants, **row} for row in rows])
        return self._cursor.rowcount

    def add(self, table: Table, columns: Columns) -> None:
        rows = list(zip(*columns.values(), strict=True))
        if len(rows) <= _FEW:
            statement = sql.insert_row(table, tuple(columns), mark="$")
            self._waiting += [self._call(statement, row) for row in rows]
            return
        try:
            self._add_many(sql.insert_rows(table, tuple(columns)), columns)
        except psycopg.errors.UniqueViolation as error:
            raise KnownRowError(table.name) from error

    def add_unknown(self, table: Table, columns: Columns) -> int:
        return self._add_many(sql.insert_rows(table, tuple(columns)) + sql.UNLESS_KNOWN, columns)

    def _add_many(self, statement: str, columns: Columns) -> int:
        self._send()
        return self._cursor.execute(statement, list(columns.values())).rowcount

    def save(self, experiment: int, changed: Mapping[str, Any]) -> None:
        statement = sql.save_counters(tuple(changed), mark="$")
        self._waiting.append(self._call(statement, [*changed.values(), experiment]))

    def has_table(self, name: str) -> bool:
        self._send()
        found = self._cursor.execute("SELECT to_regclass(%s)", [name]).fetchone()
        return found is not None and found[0] is not None

    def close(self) -> None:
        self.raw.close()

    @property
    def broken(self) -> bool:
        return bool(self.raw.closed)


def _literal(value: object) -> str:
    """A value as SQL; the server reads it as the column's kind, numbers to the bit."""
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
