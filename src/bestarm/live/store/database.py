"""A database: its connections, transactions and tables, and its errors as errors of ours."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import URL

from bestarm.errors import (
    InvalidInputError,
    MissingDependencyError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
)
from bestarm.files import locked
from bestarm.live.store import schema
from bestarm.live.store.schema import VERSION
from bestarm.live.store.session import (
    BUSY_TIMEOUT,
    PostgresSession,
    Query,
    Row,
    Session,
    SqliteSession,
)

E = TypeVar("E", bound=StoreError)

_VERSION_NUMBER: sa.Select[tuple[str]] = sa.select(schema.version.c.version_num)
_TABLES_LOCK = 0x62657374  # what PostgreSQL's processes lock while the tables are made
_POSTGRESQL = "postgresql+psycopg"
_DRIVERS = {"sqlite": "sqlite", "sqlite+pysqlite": "sqlite"}
_DRIVERS |= dict.fromkeys(("postgres", "postgresql", _POSTGRESQL), _POSTGRESQL)


def check_url(url: object) -> URL:
    """A database's URL with its driver.

    Raises:
        InvalidInputError: it names neither a SQLite file nor a PostgreSQL database.
        MissingDependencyError: the driver is not installed.
    """
    try:
        read = sa.make_url(url)  # type: ignore[arg-type]
        read = read.set(drivername=_DRIVERS[read.drivername])
    except (exc.ArgumentError, ValueError, LookupError):
        shown = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))
        raise InvalidInputError(
            f"`url` must name a SQLite file or a PostgreSQL database; got {shown!r}.",
            field="url",
            value=shown,
            remedy=f"Did you mean sqlite:///{shown}?"
            if shown.endswith((".db", ".sqlite", ".sqlite3")) and ":" not in shown
            else "For example sqlite:///store.db, or postgresql://user@host/name.",
        ) from None
    in_memory = read.database in {None, "", ":memory:"} or "memory" in read.query.get("mode", "")
    if read.drivername == "sqlite" and in_memory:
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


_KEPT = 5  # connections that stay open while nobody uses them
_CONNECT_SQLITE = {"timeout": BUSY_TIMEOUT, "check_same_thread": False, "isolation_level": None}
_CONNECT_POSTGRESQL = {
    "autocommit": True,
    "client_encoding": "UTF8",  # whatever the database or the environment says
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "prepare_threshold": None,  # a pooler may give every transaction another session
}


# --- The file of a SQLite database --------------------------------------------------------------

Identity = tuple[int, int]
Log = tuple[Identity, Identity]
Content = tuple[int, int, int, int]

# In the pool's record of a connection: the log that it holds, and whether it was used before.
_LOG, _USED = "bestarm_log", "bestarm_used"


class DatabaseFile:
    """A SQLite file, and the log beside it while connections hold it.

    A process that holds a file open can keep writing to it after the file was removed or replaced.
    Nobody would ever read what is written there, so nothing of it may be acknowledged.

    A forked process must not use a file that its parent has open: SQLite would take the locks of
    the parent for its own.
    """

    # Files that are open, and in which process: what a forked process finds here is its parent's.
    _open: ClassVar[dict[DatabaseFile, int]] = {}

    def __init__(self, url: URL) -> None:
        name = str(url.database)
        if name.startswith("file:"):
            name = unquote(name.removeprefix("file:").partition("?")[0])
        self.path = self._real = os.path.abspath(name)
        self.opened: Identity | None = None

    def is_open_in_parent(self) -> bool:
        """Whether the process that this one was forked from had the file open."""
        found, process = _identity(self.path), os.getpid()
        return any(
            opener != process and each.opened == found for each, opener in [*self._open.items()]
        )

    def on_close(self) -> None:
        """Note that no connection is left."""
        self._open.pop(self, None)

    def on_connect(self, connection: sqlite3.Connection, _: object) -> None:
        """Set up a new connection, and note which file the first one has open."""
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        # SQLite's own knows the letters of ASCII alone.
        connection.create_function("lower", 1, str.lower, deterministic=True)
        if self.opened is None:
            self.opened = _identity(self.path)
            self._real = os.path.realpath(self.path)  # SQLite keeps logs where a link leads
        self._open[self] = os.getpid()

    def change(self, log: Log | None) -> str | None:
        """What happened to the file since it was opened, or to the log of a connection, or None."""
        found = _identity(self.path)
        if found != self.opened and self.opened is not None:
            return "The file is gone" if found is None else "The file was replaced by another"
        if log is not None and log != self.log():
            return "The file's log (-wal) or its index (-shm) was removed or replaced"
        return None

    def log(self) -> Log | None:
        """The log beside the file, and its index."""
        log, index = _identity(f"{self._real}-wal"), _identity(f"{self._real}-shm")
        return None if log is None or index is None else (log, index)

    def content(self) -> Content | None:
        """A mark that every write changes; None without a file, or if part of it is in its log."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        log = Path(f"{os.path.realpath(self.path)}-wal")
        in_log = log.exists() and log.stat().st_size > 0
        return None if in_log else (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# --- The database -------------------------------------------------------------------------------

_SERVER_TIME = sa.select(schema.SERVER_TIME)
_CONNECTING = (
    "Check the host, the user, the password and the name of the database in its URL, and that the "
    "server runs. Nothing acknowledged is lost."
)
_NO_LOG = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}  # whoever opens a file makes one
_REMEDIES: dict[object, str] = {  # by the code of SQLite, or the state of PostgreSQL
    sqlite3.SQLITE_FULL: "Free some space on its disk.",
    sqlite3.SQLITE_IOERR: "Check its disk.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable.",
    sqlite3.SQLITE_CANTOPEN: "Check that the folder exists and can be written to.",
    sqlite3.SQLITE_BUSY: "Wait until the other program that writes to the file is done.",
    sqlite3.SQLITE_NOTADB: "The file is not a SQLite database, or is damaged.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore it from a backup.",
    "53100": "Free some space on its disk.",
    "55P03": "Wait until the other program that uses the experiment is done.",
    "25006": "This server takes no writes: use the primary one.",
}


class Store:
    """A database that holds experiments.

    Args:
        url: `sqlite:///store.db` for a file, `postgresql://user@host/name` for a server.
        connections: how many there are at most at a time; a thread that finds them all in use
            waits for one.

    Attributes:
        url: with its driver.
        sqlite: whether it is a SQLite file.
        file: that file, or None.
    """

    def __init__(self, url: str, *, connections: int = 15) -> None:
        self.url = check_url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.file = DatabaseFile(self.url) if self.sqlite else None
        self._driver: Any = self.url.get_dialect().import_dbapi()
        self._failures = (self._driver.Error, exc.DBAPIError, exc.TimeoutError)
        self._has_tables = False  # of this version
        self._process = os.getpid()
        self._engine = sa.create_engine(
            self.url,
            connect_args=_CONNECT_SQLITE if self.sqlite else _CONNECT_POSTGRESQL,
            pool_size=_KEPT,
            max_overflow=connections - _KEPT,
            pool_timeout=BUSY_TIMEOUT,
        )
        if self.file is not None:
            sa.event.listen(self._engine, "connect", self.file.on_connect)
        self._closing = RLock()  # held while the pool is closed, or takes a connection back
        weakref.finalize(self, _dispose, self._engine, self.file, self._process).atexit = False

    @property
    def place(self) -> str:
        """The URL without its password."""
        url = self.url.set(drivername=self.url.get_backend_name())
        return url.render_as_string(hide_password=True)

    @property
    def file_missing(self) -> bool:
        """Whether it is a SQLite file that does not exist."""
        return self.file is not None and not os.path.exists(self.file.path)

    @property
    def why_empty(self) -> str:
        """A sentence on why it holds no experiments."""
        if self.file is not None and self.file_missing:
            return f"The file {self.file.path!r} does not exist."
        return "It holds no experiments yet."

    def close(self) -> None:
        """Release all connections; those of a parent process are left to it."""
        if self._process == os.getpid():
            with self._closing:
                _dispose(self._engine, self.file, self._process)

    def snapshot(self) -> AbstractContextManager[Session]:
        """A transaction that only reads."""
        return self.transaction(writing=False)

    def check_process(self) -> None:
        """Refuse what a parent process has open.

        Raises:
            StoreUnavailableError: this process was forked since.
        """
        file = self.file
        if self._process != os.getpid() or (
            file is not None and file.opened is None and file.is_open_in_parent()
        ):
            raise self._failure(
                StoreUnavailableError,
                "This process was forked from one that had the database open",
                "Start processes by another method (spawn or forkserver), or before it is opened."
                if self.sqlite
                else "Open the experiment again in this process.",
            )

    @contextmanager
    def transaction(self, *, writing: bool = True) -> Iterator[Session]:
        """A transaction that is committed as a whole or rolled back; SQLite has one at a time.

        Raises:
            DuplicateKeyError: see `Session.insert`.
        """
        connected = False
        try:
            while not connected:
                with self._borrow(writing=writing) as (connection, content):
                    session = self._begin(connection, writing=writing)
                    if session is None:
                        continue
                    connected = True
                    yield session
                    self.check_process()
                    session.commit()
                    if self.file is not None:
                        self._check_file(self.file, connection, content)
        except self._failures as error:
            raise self._error(error, connected=connected) from error
        except (KeyboardInterrupt, SystemExit):
            # It may have come within the pool, which then counts a connection that nobody has.
            self.close()
            raise

    @contextmanager
    def _borrow(
        self, *, writing: bool
    ) -> Iterator[tuple[sa.PoolProxiedConnection, Content | None]]:
        """A connection, and the mark of a file that it reads without locks.

        It goes back to the pool, which rolls back what was not committed; or is closed, after a
        failure, or if the store was closed meanwhile. A forked process leaves it to its parent.
        """
        self.check_process()
        pool, content = self._engine.pool, None
        try:
            connection = self._engine.raw_connection()
        except self._failures as error:
            content = None if writing or self.file is None else self.file.content()
            if self.file is None or content is None or _state(error) not in _NO_LOG:
                raise
            connection = self._connect_without_log(self.file)
        _borrowed.add(connection)
        failed = False
        try:
            yield connection, content
        except self._failures:
            failed = True
            raise
        finally:
            if self._process == os.getpid():
                with self._closing:
                    try:
                        if connection.is_valid:
                            if failed or pool is not self._engine.pool:
                                connection.invalidate()
                            connection.close()
                    finally:
                        _borrowed.discard(connection)

    def _connect_without_log(self, file: DatabaseFile) -> sa.PoolProxiedConnection:
        """A connection for a single transaction that reads a file where nobody may write.

        SQLite makes a log even to read. Where it may not, and there is none, nobody writes either.
        """
        sealed = {"mode": "ro", "immutable": "1", "uri": "true"}
        engine = sa.create_engine(
            self.url.set(database=Path(file.path).as_uri(), query=sealed),
            connect_args=_CONNECT_SQLITE,
            poolclass=sa.NullPool,
        )
        sa.event.listen(engine, "connect", file.on_connect)
        return engine.raw_connection()

    def _begin(self, connection: sa.PoolProxiedConnection, *, writing: bool) -> Session | None:
        """A transaction that has begun; None where a server's connection has ended in the pool: to
        test it before would take a round trip more."""
        raw, info = connection.driver_connection, connection.info
        used_before = info.get(_USED, False)
        info[_USED] = True
        session = PostgresSession(raw, info) if self.file is None else SqliteSession(raw, info)
        try:
            if self.file is not None:
                self._check_file(self.file, connection)
            session.begin(writing=writing)
        except self._driver.OperationalError as error:
            if self.sqlite or not used_before:
                raise
            connection.invalidate(error)
            return None
        if self.file is not None and info.get(_LOG) is None:
            info[_LOG] = self.file.log()
        return session

    def _check_file(
        self,
        file: DatabaseFile,
        connection: sa.PoolProxiedConnection,
        content: Content | None = None,
    ) -> None:
        """Check before a transaction, and again after its commit, that a file and its log are those
        that were opened.

        Nothing may be acknowledged that is only in a file without a name; and one that was read
        without locks must not have been written to by then.
        """
        if (change := file.change(connection.info.get(_LOG))) is not None:
            raise self._failure(
                StoreUnavailableError,
                change,
                "This call may be on record or not, and so may others that were acknowledged. Put "
                "the file back, or open the experiment again and verify it.",
            )
        if content is not None and content != file.content():
            what = "The file was written to while it was read"
            raise self._failure(StoreUnavailableError, what, "Make the same call again.")

    @contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Whether no other process holds the lock of this name; if so, it is held until the block
        ends, or the process does.

        With SQLite it is on a hidden file beside the database, with PostgreSQL an advisory lock of
        a transaction, which a pooler keeps on one session.
        """
        digest = hashlib.sha256(f"bestarm {name}".encode()).digest()
        if self.file is not None:
            path = Path(self.file.path).resolve()
            with locked(path.with_name(f".{path.name}.{digest[:6].hex()}.lock")) as alone:
                yield alone
            return
        number = int.from_bytes(digest[:8], "big", signed=True)
        transaction = self.transaction()
        session = transaction.__enter__()
        try:
            session.raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            found = session.raw.execute("SELECT pg_try_advisory_xact_lock(%s)", (number,))
            yield bool(found.fetchone()[0])
        finally:
            with suppress(StoreError):  # the lock ended with its connection
                transaction.__exit__(None, None, None)

    def _error(self, error: Exception, *, connected: bool) -> StoreError:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        message = " ".join(str(cause).split()).rstrip(".")
        remedy = _REMEDIES.get(_state(error), "")
        driver = self._driver
        temporary = (driver.OperationalError, driver.InterfaceError, driver.InternalError)
        if not isinstance(cause, (*temporary, exc.TimeoutError)):
            what = f"The database refused ({message})"
            return self._failure(StoreError, what, remedy or "Nothing was changed.")
        if not connected and not self.sqlite and isinstance(cause, driver.OperationalError):
            what = f"Cannot connect to the database ({message})"
            return self._failure(StoreUnavailableError, what, _CONNECTING)
        again = "Nothing acknowledged is lost, and the same call can be made again."
        if remedy:
            again = "Then make the same call again: nothing acknowledged is lost."
        what = f"The database cannot be used now ({message})"
        return self._failure(StoreUnavailableError, what, f"{remedy} {again}".lstrip())

    def _failure(self, kind: type[E], what: str, remedy: str) -> E:
        return kind(f"{what}: {self.place}.", field="url", value=self.place, remedy=remedy)

    def purge(self) -> None:
        """Empty the log of a SQLite file, which has copies of what was erased from its tables.

        On a server that is left to VACUUM.

        Raises:
            StoreUnavailableError: other programs have read from the log all the time.
        """
        if not self.sqlite:
            return
        try:
            with self._borrow(writing=True) as (connection, _):
                emptied = SqliteSession(connection.driver_connection, connection.info).empty_log()
        except self._failures as error:
            raise self._error(error, connected=True) from error
        if not emptied:
            what = "The unit is erased, but the file's log (-wal) still has it"
            raise self._failure(StoreUnavailableError, what, "Erase it again when nobody reads.")

    def now(self) -> float:
        """The time in seconds since 1970: by the server's clock; for a file, by this process's."""
        if self.sqlite:
            return time.time()
        with self.snapshot() as session:
            ((now,),) = session.fetch(_SERVER_TIME)
        return float(now)

    def select(self, *wanted: tuple[Query, dict[str, Any]]) -> list[list[Row]]:
        """The rows of statements with their values, of one state; none without tables."""
        if self.version() is None:
            return [[] for _ in wanted]
        with self.snapshot() as session:
            return [session.select(statement, **values) for statement, values in wanted]

    def version(self) -> str | None:
        """The version of its tables, or None where there are none.

        Raises:
            StoreVersionError: they are of another version than this one.
        """
        if self._has_tables:
            return VERSION
        path = None if self.file is None else Path(self.file.path)
        if path is not None and (not path.exists() or _is_foreign_database(path)):
            return None  # reading must neither make nor change it
        with self.snapshot() as session:
            if not session.has_table(schema.version.name):
                return None
            found = next((version for (version,) in session.fetch(_VERSION_NUMBER)), "unknown")
        if found != VERSION:
            raise self._failure(
                StoreVersionError,
                f"The tables are of version {found}; this bestarm uses version {VERSION}",
                "Use the bestarm that made them, or another database. Nothing was changed.",
            )
        self._has_tables = True
        return VERSION

    def prepare(self) -> None:
        """Make the tables unless they are there. Safe to call at once from many processes."""
        if self.version() == VERSION:
            return
        with self._changing_schema() as session:
            if session.has_table(schema.version.name):
                return  # another process has made them meanwhile
            session.create_tables(schema.metadata)
            session.insert(schema.version, {"version_num": VERSION})

    def create_tables(self, metadata: sa.MetaData) -> None:
        """Make other tables beside those of experiments, unless they are there."""
        with self._changing_schema() as session:
            session.create_tables(metadata)

    def has_table(self, table: sa.Table) -> bool:
        """Whether a table is there."""
        if self.version() is None:
            return False
        with self.snapshot() as session:
            return session.has_table(table.name)

    @contextmanager
    def _changing_schema(self) -> Iterator[Session]:
        with self.transaction() as session:
            if not self.sqlite:
                session.raw.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
            yield session


def _state(error: Exception) -> object:
    """The code of an error of SQLite, or the state of one of PostgreSQL."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    return getattr(cause, "sqlstate", None) if code is None else code & 0xFF


@contextmanager
def connected(url: str | Store) -> Iterator[Store]:
    """A database.

    After an exception the connections of one that was made here are released; a `Store` that was
    given is its owner's, and others may be using it.
    """
    store = url if isinstance(url, Store) else Store(url)
    try:
        yield store
    except BaseException:
        if store is not url:
            store.close()
        raise


# Kept until they are given back: in a forked process, which lacks the threads that use them, they
# would be collected, and what the parent is writing be rolled back.
_borrowed: set[sa.PoolProxiedConnection] = set()


def _dispose(engine: sa.Engine, file: DatabaseFile | None, process: int) -> None:
    if process == os.getpid():
        engine.dispose()
        if file is not None:
            file.on_close()


def _is_foreign_database(path: Path) -> bool:
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
        return False  # opening it raises the error
    return (schema.version.name,) not in tables
