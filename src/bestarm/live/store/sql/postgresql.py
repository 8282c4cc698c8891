"""Transactions on a PostgreSQL server, with as few messages to it as possible.

Statements that an outcome needs are prepared once per connection. A transaction of one experiment
begins and reads the counters in one message, and what it writes last goes with its end in another.
Where nobody else writes, one message does: it changes the counters if they are as this connection
left them, and adds the rows of one table if so.
"""

from __future__ import annotations

import select
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import Delete, Insert, Select, Table, Update

from bestarm.live.store.contract import ChangedMeanwhileError
from bestarm.live.store.sql import statements as sql
from bestarm.live.store.sql.schema import COUNTERS, parse_counters
from bestarm.live.store.sql.sessions import Columns, KnownRowError, Row, Session, no_counters

_FEW = 8  # rows that are added one by one, with the end of their transaction
_PATIENCE = 5.0  # seconds in which the server should have stopped
_MOMENT = 1.0  # seconds for which the server's clock is not read again


@dataclass(frozen=True)
class _Known:
    """The counters of an experiment as this connection last knew them.

    Attributes:
        saved_by: the number of the transaction that wrote them.
        clock: the server's, and this machine's two, as they were read.
    """

    experiment: int
    counters: dict[str, Any]
    saved_by: str
    clock: tuple[float, float, float]

    def time(self) -> float | None:
        """The server's time, never later than it is; None if its clock was read too long ago."""
        read, monotonic, wall = self.clock
        passed = time.monotonic() - monotonic
        # One of the two goes on where a machine sleeps.
        return read + passed if max(passed, time.time() - wall) < _MOMENT else None


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
        self._numbers = count()  # no name is used again, even after an interrupt
        self._waiting: list[str] = []  # statements to be sent with the next
        self._known: _Known | None = None
        self._alone = True  # nobody else has written lately to what this connection writes to
        # Rows to be added by a transaction that has not begun on the server, by table.
        self._postponed: list[tuple[Table, Columns]] | None = None
        self._changed: Mapping[str, Any] = {}  # counters that the transaction writes

    def begin(
        self, *, writing: bool, experiment: int | None = None, assume_unchanged: bool = False
    ) -> None:
        self._changed = {}
        if writing and assume_unchanged and self._alone:
            known = self._known
            now = known.time() if known is not None and known.experiment == experiment else None
            if known is not None and now is not None:
                self.counters, self.time, self._postponed = known.counters, now, []
                return
        self._waiting = ["BEGIN" if writing else "BEGIN ISOLATION LEVEL REPEATABLE READ"]
        if experiment is None:
            self._send()
        elif writing:
            self._lock_counters(experiment)
        else:
            self._read_counters(experiment, sql.READ_COUNTERS)

    def _lock_counters(self, experiment: int) -> None:
        before = self._known
        saved_by = self._read_counters(experiment, sql.LOCK_COUNTERS)
        assert self.time is not None
        clock = self.time, time.monotonic(), time.time()
        self._known = _Known(experiment, self.counters, saved_by, clock)
        if before is not None and before.experiment == experiment:
            self._alone = before.saved_by == saved_by

    def _read_counters(self, experiment: int, statement: Select[Any]) -> str:
        """Begin and read the counters; what is read beside them, as a text."""
        self._waiting.append(self._call(sql.numbered(statement), [experiment]))
        found = self._send()[-1]
        if not found.ntuples:
            raise no_counters()
        *values, now = (found.get_value(0, place) for place in range(found.nfields))
        self.counters, self.time = parse_counters(values[: len(COUNTERS)]), float(now or b"nan")
        return b"".join(filter(None, values[len(COUNTERS) :])).decode()

    def _begin_now(self) -> None:
        """Begin on the server, if that was put off: one statement does not do."""
        if self._postponed is None:
            return
        known, postponed, self._postponed = self._known, self._postponed, None
        assert known is not None
        assert self.time is not None
        changed, stamped = self._changed, self.time
        with self._unless_ended():
            self.begin(writing=True, experiment=known.experiment)
        if not self._alone or self.time > stamped + _MOMENT:  # or it has waited for long
            raise ChangedMeanwhileError
        for table, columns in postponed:
            self.add(table, columns)
        if changed:
            self.save(known.experiment, changed)

    @contextmanager
    def _unless_ended(self) -> Iterator[None]:
        """Let the caller begin again on another connection, if this one turns out to be dead.

        Only as long as nothing is written: whether what was sent last is kept cannot be known.
        """
        try:
            yield
        except psycopg.OperationalError as error:
            if self.broken:
                raise ChangedMeanwhileError from error
            raise

    def _catch_up(self) -> None:
        """Have all that was put off done, before something else is."""
        self._begin_now()
        self._send()

    def _call(self, statement: str, values: Iterable[Any]) -> str:
        """A statement with its values as a text, to be sent together with others."""
        name = self._prepared.get(statement)
        if name is None:
            # Behind a pooler the server may hold another client's statement of the same number.
            name = f"bestarm_{next(self._numbers)}_{zlib.crc32(statement.encode()):08x}"
            self._prepare(name, statement)
        return f"EXECUTE {name} ({', '.join(map(_literal, values))})"

    def _prepare(self, name: str, statement: str) -> None:
        waiting, self._waiting = self._waiting, []
        self._send(f"PREPARE {name} AS {statement}")
        self._waiting = waiting
        self._prepared[statement] = name

    def _send(self, *more: str) -> list[PGresult]:
        """Send the statements that wait, and return their results.

        After an error none behind it is carried out. This takes a third of the time of psycopg's
        cursors, which do more for a statement.
        """
        message, self._waiting = "; ".join((*self._waiting, *more)), []
        results: list[PGresult] = []
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
                results.append(found)
        return results

    def _receive(self) -> PGresult | None:
        connection = self.raw.pgconn
        while connection.is_busy():
            self._wait()
            connection.consume_input()
        found: PGresult | None = connection.get_result()
        return found

    def _wait(self, *, writable: bool = False, seconds: float | None = None) -> bool:
        """Wait until the server has sent something, or can be sent more; Ctrl-C ends it.

        Returns whether that is so, at the latest after so many seconds.
        """
        socket = self.raw.pgconn.socket
        if not hasattr(select, "poll"):  # as on Windows, where `select` takes any socket
            return any(select.select([socket], [socket] if writable else [], [], seconds))
        poll = select.poll()
        poll.register(socket, select.POLLIN | select.POLLOUT if writable else select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def _is_readable(self) -> bool:
        """Whether the server has sent something that nobody asked for."""
        return self.broken or self._wait(seconds=0)

    def commit(self) -> None:
        if self._postponed is not None and len(self._postponed) == 1 and self._changed:
            self._commit_at_once(*self._postponed[0])
            return
        self._begin_now()
        *before, ended = self._send("COMMIT")
        if ended.command_status != b"COMMIT":
            # So the server answers where a statement before had failed.
            raise psycopg.OperationalError("the transaction was rolled back")
        if before and self._changed:
            self._note_saved(before[-1])

    def _commit_at_once(self, table: Table, columns: Columns) -> None:
        known, rows = self._known, list(zip(*columns.values(), strict=True))
        assert known is not None
        statement = sql.save_if_unchanged(tuple(self._changed), table, tuple(columns), len(rows))
        values = (*self._changed.values(), known.experiment, *chain(*rows), known.saved_by)
        self._postponed = None
        with self._unless_ended():
            call = self._call(statement, values)
        # Too long ago, or the server has ended the connection: nothing was sent yet.
        if known.time() is None or self._is_readable():
            raise ChangedMeanwhileError
        found = self._send(call)[-1]
        if not found.ntuples:
            self._known, self._alone = None, False
            raise ChangedMeanwhileError
        self._note_saved(found)

    def _note_saved(self, found: PGresult) -> None:
        """Note the counters that were written, and the number of the transaction that did it."""
        if self._known is not None:
            saved_by = (found.get_value(0, 0) or b"").decode()
            counters = {**self.counters, **self._changed}
            self._known = replace(self._known, counters=counters, saved_by=saved_by)

    def rollback(self) -> None:
        self._waiting, self._postponed, self._changed = [], None, {}
        status = self.raw.pgconn.transaction_status
        if status == TransactionStatus.ACTIVE:
            # Interrupted: a statement that commits by itself must not go on without us.
            self.raw.cancel_safe(timeout=_PATIENCE)
        if status != TransactionStatus.IDLE:
            self._send("ROLLBACK")

    def fetch(self, statement: Select[Any], **values: Any) -> list[Row]:
        self._catch_up()
        known = sql.written(statement, "postgresql")
        return self._cursor.execute(known.text, known.constants | values).fetchall()

    def fetch_one(self, text: str, values: Sequence[Any]) -> Row:
        self._catch_up()
        # Bytes as they are, not as a text of twice the size.
        row = self._cursor.execute(text, values, binary=True).fetchone()
        assert row is not None
        return row

    def change(self, statement: Insert | Update | Delete, *rows: Mapping[str, Any]) -> int:
        self._catch_up()
        known = sql.written(statement, "postgresql")
        self._cursor.executemany(known.text, [{**known.constants, **row} for row in rows])
        return self._cursor.rowcount

    def add(self, table: Table, columns: Columns) -> None:
        if self._postponed is not None and len(columns["experiment"]) <= _FEW:
            self._postponed.append((table, columns))
            return
        self._begin_now()
        rows = list(zip(*columns.values(), strict=True))
        if len(rows) <= _FEW:
            statement = sql.insert_row(table, tuple(columns))
            self._waiting += [self._call(statement, row) for row in rows]
            return
        try:
            self._add_many(sql.insert_rows(table, tuple(columns)), columns)
        except psycopg.errors.UniqueViolation as error:
            raise KnownRowError(table.name) from error

    def add_unknown(self, table: Table, columns: Columns) -> int:
        return self._add_many(sql.insert_rows(table, tuple(columns)) + sql.UNLESS_KNOWN, columns)

    def _add_many(self, statement: str, columns: Columns) -> int:
        self._catch_up()
        return self._cursor.execute(statement, list(columns.values())).rowcount

    def settle(self, experiment: int, numbers: list[int], *, summary: int) -> None:
        self._catch_up()
        self._cursor.execute(sql.SETTLE_MANY, [summary, experiment, numbers])

    def save(self, experiment: int, changed: Mapping[str, Any]) -> None:
        self._changed = changed
        if self._postponed is None:
            statement = sql.save_counters(tuple(changed), mark="$") + sql.SAVED_BY
            self._waiting.append(self._call(statement, [*changed.values(), experiment]))

    def has_table(self, name: str) -> bool:
        self._catch_up()
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
