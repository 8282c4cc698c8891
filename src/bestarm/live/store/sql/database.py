"""A database: connections, transactions, versions, and its errors in our words."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    event,
    exc,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import Pool

from bestarm.errors import (
    InvalidInputError,
    MissingDependencyError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from bestarm.live.store.damage import damaged
from bestarm.live.store.sql.files import Change, WatchedFile
from bestarm.live.store.sql.schema import VERSION_TABLE
from bestarm.live.store.sql.statements import SERVER_TIME

__all__ = ["VERSION", "Store"]

VERSION = "1"  # of the tables

_PATIENCE = 60  # seconds that one waits for others to finish writing
_NAP = 5  # milliseconds that SQLite itself waits for them
_LOCK = 0x62657374  # what PostgreSQL's processes lock while the tables are made


class Store:
    """A database that holds experiments.

    Args:
        url: `sqlite:///trial.db` for a file, `postgresql://user@host/name` for a server.
    """

    def __init__(self, url: str) -> None:
        self.url = _checked(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._engine: Engine = create_engine(self.url, **_options(self.sqlite))
        self._process = os.getpid()
        self._abandoned: list[Pool] = []  # of a parent process: nothing must close its connections
        self._file = WatchedFile(self.url) if self.sqlite else None
        self._reopening = Lock()
        self._generation = 0
        self._change: Change | None = None
        event.listen(self._engine, "connect", _set_up_file if self.sqlite else _set_up_session)
        if self._file is not None:
            file = self._file
            event.listen(self._engine, "connect", lambda *_: file.note_open())
            event.listen(self._engine, "close", lambda closed, _: file.note_close(closed))
            event.listen(self._engine, "begin", _begin)

    @property
    def place(self) -> str:
        """The URL without its password."""
        url = self.url.set(drivername=self.url.get_backend_name())
        return url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Let go of all connections."""
        self._own().dispose()

    @property
    def generation(self) -> int:
        """Changes when a SQLite file was replaced: what was opened before is not in this one."""
        return self._generation

    def check_file(self) -> None:
        """See whether a SQLite file is still the one that was opened. If it was replaced, go on
        with what is there, as another generation.

        Raises:
            StoreUnavailableError: it is not there.
        """
        change = None if self._file is None else self._file.change()
        if self._file is None or change is None:
            return
        if change in _REFUSED:
            raise StoreUnavailableError(
                f"{change.value}: {self.place}.",
                field="url",
                value=self.place,
                remedy=_REFUSED[change],
            )
        with self._reopening:
            if self._file.change() is change:  # nobody else has seen to it meanwhile
                self._generation, self._change = self._generation + 1, change
                self._own().dispose()
                self._file.forget()

    def check_generation(self, generation: int) -> None:
        """Refuse to go on with what was opened in a file that is not the present one.

        Raises:
            StoreUnavailableError: it was replaced.
        """
        if generation != self._generation and self._change is not None:
            raise StoreUnavailableError(
                f"{self._change.value}: {self.place}.",
                field="url",
                value=self.place,
                remedy="This call is not on record, and others that were acknowledged may not be "
                "either. Open the experiment again, and verify it.",
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction in which all that is read belongs to one moment."""
        self.check_file()
        with self._said(), self._own().connect() as connection:
            options = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
            with connection.execution_options(**options).begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is there whole or not at all; SQLite has one of them at a time."""
        self.check_file()
        generation = self._generation
        with self._said(), self._own().connect() as connection:
            options = {"bestarm_writing": True} if self.sqlite else {}
            with connection.execution_options(**options).begin() as transaction:
                yield connection
                transaction.commit()
            if self._file is not None:
                # Nobody is told that something is on disk which is in a file without a name.
                self._file.note_log(connection.connection.dbapi_connection)
                self.check_file()
                self.check_generation(generation)

    def _own(self) -> Engine:
        if self._process != os.getpid():
            # A forked child must not speak on its parent's connections, nor close them.
            self._abandoned.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._process = os.getpid()
            if self._file is not None:
                self._file.forget_connections()
        return self._engine

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            raise self._error(error.orig, isinstance(error, _UNAVAILABLE)) from error
        except sqlite3.Error as error:  # as rows are fetched
            raise self._error(error, isinstance(error, sqlite3.OperationalError)) from error
        except UnicodeDecodeError as error:  # SQLite quotes what it cannot read
            raise damaged(f"The store {self.place} cannot be read.", self.place) from error
        except exc.TimeoutError as error:
            raise StoreUnavailableError(
                f"No connection to {self.place} became free.", field="url", value=self.place
            ) from error

    def _error(self, error: BaseException | None, unavailable: bool) -> StoreError:
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, sqlite3.OperationalError) and code is None:
            # Python's own: SQLite keeps any bytes as a text, and these cannot be decoded.
            return damaged(f"The store {self.place} holds a text that is not in UTF-8.", self.place)
        state = getattr(error, "sqlstate", None) if code is None else code & 0xFF
        remedies = [_REMEDIES[state]] if state in _REMEDIES else []
        said = " ".join(str(error).split()).rstrip(".")
        kind: type[StoreError] = StoreError
        wrong = f"The store {self.place} refused: {said}."
        if unavailable:
            kind = StoreUnavailableError
            wrong = f"The store {self.place} cannot be used now: {said}."
            remedies.append("Nothing acknowledged is lost, and the same call can be made again.")
        remedy = " ".join(remedies) or "Nothing was changed."
        return kind(wrong, field="url", value=self.place, remedy=remedy)

    def now(self) -> float:
        """The time in seconds since 1970: by the server's clock; for a file, by this process's."""
        if self.sqlite:
            return time.time()
        with self.reading() as connection:
            return float(SERVER_TIME(connection).scalar_one())

    def version(self) -> str | None:
        """The version of its tables, or None where there are none.

        Raises:
            StoreVersionError: they are of another version than this one.
        """
        self.check_file()
        if self._file is not None and not os.path.exists(self._file.path):
            return None  # to look must neither make nor change it
        if self._file is not None and _of_somebody_else(Path(self._file.path)):
            return None
        with self.reading() as connection:
            if not inspect(connection).has_table(VERSION_TABLE):
                return None
            found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        if found not in {None, VERSION}:
            raise StoreVersionError(
                f"The tables of {self.place} are of version {found}; this bestarm uses version "
                f"{VERSION}.",
                field="url",
                value=self.place,
                remedy="Use the bestarm that made them, or another database. Nothing was changed.",
            )
        return found

    def prepare(self) -> None:
        """Make the tables unless they are there. Safe to call at once from many processes."""
        if self.version() == VERSION:
            return
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        with self._making_tables() as connection:
            config = Config()
            config.set_main_option("script_location", "bestarm.live.store.sql:migrations")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def make_tables(self, metadata: MetaData) -> None:
        """Make other tables beside those of experiments, unless they are there."""
        with self._making_tables() as connection:
            metadata.create_all(connection)

    def has_table(self, table: Table) -> bool:
        """Whether a table is there."""
        if self.version() is None:
            return False
        with self.reading() as connection:
            return bool(inspect(connection).has_table(table.name))

    @contextmanager
    def _making_tables(self) -> Iterator[Connection]:
        with self.writing() as connection:
            if not self.sqlite:
                connection.execute(select(text(f"pg_advisory_xact_lock({_LOCK})")))
            yield connection


def _of_somebody_else(path: Path) -> bool:
    """Whether a SQLite file with a log beside it holds no experiments.

    Whoever opens such a file to write, and is the last to close it, moves the log into it.
    """
    log = Path(f"{path}-wal")
    try:
        if not log.exists() or not log.stat().st_size:
            return False
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    except (OSError, sqlite3.Error):
        return False  # that is said where it is opened
    return (VERSION_TABLE,) not in tables


_REFUSED = {
    Change.GONE: "Put it back where it was, and make the same call again.",
    Change.MIXED: "Stop every program that uses the file, remove what lies beside it and ends in "
    "-wal or -shm, and make the same call again.",
}
_UNAVAILABLE = (exc.OperationalError, exc.InterfaceError, exc.InternalError)
_REMEDIES: dict[object, str] = {  # by the code of SQLite, or the state of PostgreSQL
    sqlite3.SQLITE_FULL: "Free some space on its disk.",
    sqlite3.SQLITE_IOERR: "Check its disk.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable.",
    sqlite3.SQLITE_CANTOPEN: "Check that the folder exists and can be written to.",
    sqlite3.SQLITE_BUSY: "Another program holds the file open for writing.",
    sqlite3.SQLITE_NOTADB: "The file is not a SQLite database, or is damaged.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it from a backup.",
    "53100": "Free some space on its disk.",
    "55P03": "Another program keeps the experiment to itself.",
    "25006": "This server takes no writes now; is it a standby?",
}

_BACKENDS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "postgresql+psycopg": "postgresql",
}


def _checked(url: object) -> URL:
    try:
        read = make_url(url) if isinstance(url, (str, URL)) else None
    except (exc.ArgumentError, ValueError):
        read = None
    backend = None if read is None else _BACKENDS.get(read.drivername)
    if read is None or backend is None:
        shown = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))
        raise InvalidInputError(
            f"`url` must name a SQLite file or a PostgreSQL database; got {shown!r}.",
            field="url",
            value=shown,
            remedy="For example sqlite:///trial.db, or postgresql://user@host/name.",
        )
    kept = read.database not in {None, "", ":memory:"} and "memory" not in read.query.get(
        "mode", ""
    )
    if backend == "sqlite" and not kept:
        raise InvalidInputError(
            "`url` names a database in memory, which would be lost.",
            field="url",
            value=url,
            remedy="Name a file, as in sqlite:///trial.db; in memory, make an Experiment(policy).",
        )
    if backend == "postgresql":
        read = read.set(drivername="postgresql+psycopg")
        try:
            import psycopg  # noqa: F401, PLC0415
        except ImportError:
            raise MissingDependencyError(
                "PostgreSQL needs psycopg.",
                field="url",
                remedy="Run: pip install 'bestarm[postgres]'.",
            ) from None
    return read


def _options(sqlite: bool) -> dict[str, Any]:
    if sqlite:
        return {"connect_args": {"timeout": _PATIENCE, "check_same_thread": False}}
    alive = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
    return {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10, **alive}}


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("bestarm_writing"):
        _take_turn(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _take_turn(connection: Connection) -> None:
    """Begin a transaction that writes, once nobody else does.

    SQLite takes ever longer naps while it waits, so that whoever came last is the likeliest to be
    next, and one of eight processes may wait for seconds. Short naps are fair.
    """
    raw: Any = connection.connection.dbapi_connection
    raw.execute(f"PRAGMA busy_timeout={_NAP}")
    if not connection.info.get("bestarm_wal"):
        # Only now: whoever looks at a file must not change it. Of several who do this at once to
        # a new one, some are sent away without a wait.
        _patiently(lambda: raw.execute("PRAGMA journal_mode=WAL"))
        connection.info["bestarm_wal"] = True
    # IMMEDIATE waits for the write lock at once: half-way it could not be waited for.
    _patiently(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    raw.execute(f"PRAGMA busy_timeout={1000 * _PATIENCE:.0f}")


def _patiently(attempt: Callable[[], object]) -> None:
    """Try again while SQLite says that somebody else is at it."""
    latest = time.monotonic() + _PATIENCE
    while True:
        try:
            attempt()
        except (sqlite3.OperationalError, exc.OperationalError) as error:
            code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > latest:
                raise
            time.sleep(_NAP / 5000)
        else:
            return


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
    # Whose machine or network is gone, or who hangs, must not keep all others waiting for good.
    settings = {
        "lock_timeout": f"{1000 * _PATIENCE:.0f}ms",
        "idle_in_transaction_session_timeout": "10min",  # a plan may take its time
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
