"""Transactions on a PostgreSQL server, with as few messages to it as possible.

Statements that an outcome needs are prepared once per connection. A transaction of one experiment
begins and reads the counters in one message, and what it writes last goes with its end in another.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import Delete, Insert, Select, Table, Update

from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.schema import parse_counters
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
            found = self._send()
            if found is None or not found.ntuples:
                raise no_counters()
            *counters, now = (found.get_value(0, place) for place in range(found.nfields))
            self.counters, self.time = parse_counters(counters), float(now or b"nan")

    def _call(self, statement: str, values: Iterable[Any]) -> str:
        """A statement with its values as a text, to be sent together with others."""
        name = self._prepared.get(statement)
        if name is None:
            name = f"bestarm_{len(self._prepared)}"
            self._prepare(name, statement)
        return f"EXECUTE {name} ({', '.join(map(_literal, values))})"

    def _prepare(self, name: str, statement: str) -> None:
        waiting, self._waiting = self._waiting, []
        self._send(f"PREPARE {name} AS {statement}")
        self._waiting = waiting
        self._prepared[statement] = name

    def _send(self, *more: str) -> PGresult | None:
        """Send the statements that wait, and return the last result.

        After an error none behind it is carried out. This takes a third of the time of psycopg's
        cursors, which do more for a statement.
        """
        message, self._waiting = "; ".join((*self._waiting, *more)), []
        last: PGresult | None = None
        if message:
            connection = self.raw.pgconn
            connection.send_query(message.encode())
            while connection.flush():
                self._wait(writable=True)
                connection.consume_input()
            while (found := self._receive()) is not None:
                if found.status == ExecStatus.FATAL_ERROR:
                    error = _error(found)
                    while self._receive() is not None:
                        pass
                    raise error
                last = found
        return last

    def _receive(self) -> PGresult | None:
        connection = self.raw.pgconn
        while connection.is_busy():
            self._wait()
            connection.consume_input()
        found: PGresult | None = connection.get_result()
        return found

    def _wait(self, *, writable: bool = False) -> None:
        """Wait until the server has sent something, or can be sent more; Ctrl-C ends it."""
        socket = self.raw.pgconn.socket
        if not hasattr(select, "poll"):  # as on Windows, where `select` takes any socket
            select.select([socket], [socket] if writable else [], [])
            return
        poll = select.poll()
        poll.register(socket, select.POLLIN | select.POLLOUT if writable else select.POLLIN)
        poll.poll()

    def commit(self) -> None:
        ended = self._send("COMMIT")
        if ended is not None and ended.command_status != b"COMMIT":
            # So the server answers where a statement before had failed.
            raise psycopg.OperationalError("the transaction was rolled back")

    def rollback(self) -> None:
        self._waiting = []
        if self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self._send("ROLLBACK")

    def fetch(self, statement: Select[Any], **values: Any) -> list[Row]:
        self._send()
        known = sql.written(statement, "postgresql")
        return self._cursor.execute(known.text, known.constants | values).fetchall()

    def fetch_one(self, text: str, values: Sequence[Any]) -> Row:
        self._send()
        # Bytes as they are, not as a text of twice the size.
        row = self._cursor.execute(text, values, binary=True).fetchone()
        assert row is not None
        return row

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


def _error(result: PGresult) -> Exception:
    """The error that a result stands for."""
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    if state == psycopg.errors.UniqueViolation.sqlstate:
        return KnownRowError((result.error_field(DiagnosticField.TABLE_NAME) or b"").decode())
    said = (result.error_message or b"").decode("utf-8", "replace").strip()
    try:
        return psycopg.errors.lookup(state)(said)
    except KeyError:
        return psycopg.OperationalError(said)  # the connection is gone
