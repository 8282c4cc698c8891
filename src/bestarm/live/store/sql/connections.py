"""Connections to a database: their URL, their settings, and how their transactions begin."""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from bestarm.errors import InvalidInputError, MissingDependencyError

T = TypeVar("T")

PATIENCE = 60  # seconds to wait for other writers
_NAPS = 0.0002, 0.002  # seconds between attempts to write, at first and at most

_POSTGRESQL = "postgresql+psycopg"
_SQLITE = "sqlite"
_DRIVERS = dict.fromkeys((_SQLITE, "sqlite+pysqlite"), _SQLITE)
_DRIVERS |= dict.fromkeys(("postgres", "postgresql", _POSTGRESQL), _POSTGRESQL)


def check_url(url: object) -> URL:
    """A database's URL with its driver.

    Raises:
        InvalidInputError: it names neither a SQLite file nor a PostgreSQL database.
        MissingDependencyError: the driver is not installed.
    """
    try:
        read = make_url(url)  # type: ignore[arg-type]
        read = read.set(drivername=_DRIVERS[read.drivername])
    except (exc.ArgumentError, ValueError, LookupError):
        shown = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))
        raise InvalidInputError(
            f"`url` must name a SQLite file or a PostgreSQL database; got {shown!r}.",
            field="url",
            value=shown,
            remedy="For example sqlite:///store.db, or postgresql://user@host/name.",
        ) from None
    in_memory = read.database in {None, "", ":memory:"} or "memory" in read.query.get("mode", "")
    if read.drivername == _SQLITE and in_memory:
        raise InvalidInputError(
            "`url` names a database in memory, which would be lost.",
            field="url",
            value=url,
            remedy="Name a file, as in sqlite:///store.db; in memory, make an Experiment(policy).",
        )
    try:
        read.get_dialect().import_dbapi()
    except ImportError:
        raise MissingDependencyError.of("PostgreSQL", "psycopg", extra="postgres") from None
    return read


def connect(url: URL) -> Engine:
    """An engine whose connections wait for each other and for the disk.

    It keeps none of them, and its own transactions are for writing.
    """
    if url.get_backend_name() == "sqlite":
        arguments = {"timeout": PATIENCE, "check_same_thread": False}
        engine = create_engine(url, connect_args=arguments, poolclass=NullPool)
        event.listen(engine, "connect", _set_up_file)
        event.listen(engine, "begin", _take_turn)
    else:
        alive = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        arguments = {"connect_timeout": 10, **alive}
        engine = create_engine(url, connect_args=arguments, poolclass=NullPool)
        event.listen(engine, "connect", _set_up_session)
    return engine


def _take_turn(connection: Connection) -> None:
    """Begin a writing transaction, once there is no other.

    SQLite itself waits ever longer between attempts, so that the process that came last is the
    likeliest to be next, and one of eight may wait for seconds. Short waits are fair.
    """
    raw: Any = connection.connection.dbapi_connection
    raw.execute("PRAGMA busy_timeout=0")
    if not connection.info.get("bestarm_wal"):
        # Only now: reading a file must not change it. Of several processes that do this to a new
        # file at once, some are refused without a wait.
        patiently(lambda: raw.execute("PRAGMA journal_mode=WAL"))
        connection.info["bestarm_wal"] = True
    # IMMEDIATE waits for the write lock now: later in the transaction it could not wait.
    patiently(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    raw.execute(f"PRAGMA busy_timeout={1000 * PATIENCE:.0f}")


def patiently(attempt: Callable[[], T]) -> T:
    """Try again while SQLite reports that it is busy."""
    latest, nap = math.inf, _NAPS[0]
    while True:
        try:
            return attempt()
        except (sqlite3.OperationalError, exc.OperationalError) as error:
            now = time.monotonic()
            latest = min(latest, now + PATIENCE)
            if not is_busy(error) or now >= latest:
                raise
            time.sleep(nap)
            nap = min(1.2 * nap, _NAPS[1])


def is_busy(error: Exception) -> bool:
    """Whether SQLite reports that another connection writes."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
    return bool(code & 0xFF == sqlite3.SQLITE_BUSY)


# Set even where it is on: a session's own setting outlasts a change of the server's, the database's
# or the role's. `remote_apply` is kept, which waits for standbys to show the change as well.
_WAIT_FOR_DISK = """
SELECT set_config(
    'synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
        ELSE 'on' END,
    false
)
"""


def _set_up_session(connection: Any, _: object) -> None:
    # A process that hangs, or whose machine or network is gone, must not block all others.
    settings = {
        "lock_timeout": f"{1000 * PATIENCE:.0f}ms",
        "idle_in_transaction_session_timeout": "10min",  # a plan may take its time
        "standard_conforming_strings": "on",
        "client_encoding": "UTF8",  # whatever the database or the environment says
        "extra_float_digits": 3,  # numbers are sent to the bit
        # Whoever has waited for a turn sees what was written meanwhile.
        "default_transaction_isolation": "read committed",
        "tcp_keepalives_idle": 30,
        "tcp_keepalives_interval": 10,
        "tcp_keepalives_count": 3,
    }
    connection.autocommit = True
    connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
    connection.execute(_WAIT_FOR_DISK)
    connection.autocommit = False


def _set_up_file(connection: Any, _: object) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # transactions begin where we say, see `_begin`
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
