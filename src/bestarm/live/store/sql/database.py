"""A database: its transactions, its tables, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, MetaData, Table, event, exc, select, text

from bestarm.errors import StoreError, StoreUnavailableError, StoreVersionError
from bestarm.live.store.damage import damaged
from bestarm.live.store.sql.connections import check_url, connect
from bestarm.live.store.sql.files import Change, WatchedFile
from bestarm.live.store.sql.forks import forks
from bestarm.live.store.sql.pool import NoSessionError, SessionPool
from bestarm.live.store.sql.schema import VERSION_TABLE
from bestarm.live.store.sql.sessions import Session
from bestarm.live.store.sql.statements import SERVER_TIME, VERSION_NUMBER

E = TypeVar("E", bound=StoreError)

VERSION = "2"  # of the tables

_LOCK = 0x62657374  # what PostgreSQL's processes lock while the tables are made


class Store:
    """A database that holds experiments.

    Args:
        url: `sqlite:///store.db` for a file, `postgresql://user@host/name` for a server.

    Attributes:
        url: with its driver.
        sqlite: whether it is a SQLite file.
        file: that file, or None.
        generation: changes when that file was replaced: what was opened before is not in this one.
    """

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.file = WatchedFile(self.url) if self.sqlite else None
        self._driver: Any = self.url.get_dialect().import_dbapi()
        self._failures = (self._driver.Error, exc.DBAPIError, NoSessionError, UnicodeDecodeError)
        self._engine = self._connect()
        _stores.add(self)
        self._abandoned: list[Any] = []  # of a parent process: nothing must close its connections
        self._reopening = Lock()
        self.generation = 0
        self._change: Change | None = None
        self._known: int | None = None  # the generation in which the tables were found

    def _connect(self) -> Engine:
        engine, file = connect(self.url), self.file
        if file is not None:
            event.listen(engine, "connect", lambda *_: file.note_open())
            event.listen(engine, "close", lambda closed, _: file.note_close(closed))
        self._pool = SessionPool(engine, file)
        self._process = os.getpid()  # last: other threads of a forked process look at it first
        return engine

    @property
    def place(self) -> str:
        """The URL without its password."""
        url = self.url.set(drivername=self.url.get_backend_name())
        return url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Release all connections."""
        if self._process == os.getpid():
            self._pool.close()
            self._engine.dispose()

    def check_file(self) -> None:
        """Check that a SQLite file is still the one that was opened; if it was replaced, open the
        new one as another generation.

        Raises:
            StoreUnavailableError: it is not there.
        """
        change = None if self.file is None else self.file.change()
        if change in _REFUSED:
            raise self._failure(StoreUnavailableError, change.value, _REFUSED[change])
        if self.file is not None and change is not None:
            with self._reopening:
                if self.file.change() is change:  # no other thread has reopened it
                    self.generation, self._change = self.generation + 1, change
                    self.close()
                    self.file.forget()

    def check_generation(self, generation: int) -> None:
        """Raise StoreUnavailableError where a SQLite file was replaced since a generation."""
        if generation != self.generation and self._change is not None:
            raise self._failure(
                StoreUnavailableError,
                self._change.value,
                "This call is not on record, and others that were acknowledged may not be either. "
                "Open the experiment again, and verify it.",
            )

    def reading(
        self, experiment: int | None = None, *, generation: int | None = None
    ) -> AbstractContextManager[Session]:
        """A transaction in which all that is read belongs to one state.

        Args:
            experiment: one whose counters are read as it begins.
            generation: the one that the experiment was opened in.
        """
        return self._transaction(experiment, generation, writing=False, assume_unchanged=False)

    def writing(
        self,
        experiment: int | None = None,
        *,
        generation: int | None = None,
        assume_unchanged: bool = False,
    ) -> AbstractContextManager[Session]:
        """A transaction that is kept whole or not at all; SQLite has one at a time.

        Args:
            experiment: one whose counters are read, once nobody else writes to it.
            generation: the one that the experiment was opened in.
            assume_unchanged: see `Ledger.writing`.

        Raises:
            KnownRowError: see `Session.add`.
            ChangedMeanwhileError: see `Ledger.writing`.
        """
        return self._transaction(
            experiment, generation, writing=True, assume_unchanged=assume_unchanged
        )

    @contextmanager
    def _transaction(
        self,
        experiment: int | None,
        generation: int | None,
        *,
        writing: bool,
        assume_unchanged: bool,
    ) -> Iterator[Session]:
        self.check_file()
        if generation is None:
            generation = self.generation
        self.check_generation(generation)
        try:
            pool = self._own()
            session = self._begin(
                pool, experiment, writing=writing, assume_unchanged=assume_unchanged
            )
            sound = False
            try:
                if self.file is not None:
                    self.file.note_log(session.raw)
                yield session
                session.commit()
                sound = True
            except BaseException:
                sound = self._rolled_back(session)
                raise
            finally:
                try:
                    if writing and sound and self.file is not None:
                        self.file.note_log(session.raw, written=True)
                finally:
                    pool.give(session, sound=sound)
        except self._failures as error:
            raise self._error(error) from error
        if writing:
            # Nothing is acknowledged that is only in a file without a name.
            self.check_file()
            self.check_generation(generation)

    @contextmanager
    def claiming(self, number: int) -> Iterator[bool]:
        """Whether no other connection to the server has claimed a number; if so, it is claimed
        until the block ends. Where that cannot be found out, everybody may.
        """
        try:
            pool = self._own()
            session = pool.take_spare()
        except self._failures:
            session = None
        if session is None:
            yield True
            return
        claimed, sound = None, False
        try:
            with suppress(self._driver.Error):
                ((claimed,),) = session.raw.execute("SELECT pg_try_advisory_lock(%s)", [number])
            yield claimed is not False
        finally:
            try:
                with suppress(self._driver.Error):
                    if claimed:
                        session.raw.execute("SELECT pg_advisory_unlock(%s)", [number])
                    sound = claimed is not None
            finally:
                pool.give(session, sound=sound)  # the claim ends with its connection

    def hurrying(self) -> AbstractContextManager[None]:
        """Until the block ends, transactions of this process wait for nobody who is only next."""
        return self._own().turn.hurry()

    def _begin(self, pool: SessionPool, experiment: int | None, **how: bool) -> Session:
        while True:
            session, sound = pool.take(), False
            try:
                session.begin(experiment=experiment, **how)
            except BaseException as error:
                try:
                    sound = self._rolled_back(session)
                finally:
                    pool.give(session, sound=sound)
                if session.fresh or sound or not isinstance(error, self._driver.Error):
                    raise
                pool.close()  # the server has gone since, and with it all connections
            else:
                session.fresh = False
                return session

    def _rolled_back(self, session: Session) -> bool:
        """Whether a connection is in order, after a transaction of which nothing is kept."""
        try:
            session.rollback()
        except self._driver.Error:
            return False
        return not session.broken

    def _own(self) -> SessionPool:
        if self.file is not None and not forks.allow(self.file):
            raise self._failure(
                StoreUnavailableError,
                "This process was forked while another thread, or the same one, used the file",
                "Start processes by another method (spawn or forkserver), or at another time.",
            )
        if self._process != os.getpid():
            # A forked child must neither use its parent's connections nor close them.
            self._abandoned.append((self._engine, self._pool))
            if self.file is not None:
                self.file.forget_connections()
            self._engine = self._connect()
        return self._pool

    def _error(self, error: Exception) -> StoreError:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        if isinstance(cause, (sqlite3.OperationalError, UnicodeDecodeError)) and code is None:
            # Python's own: SQLite keeps any bytes as a text, and these cannot be decoded.
            return damaged(f"The store {self.place} holds a text that is not in UTF-8.", self.place)
        state = getattr(cause, "sqlstate", None) if code is None else code & 0xFF
        said = " ".join(str(cause).split()).rstrip(".")
        remedy = _REMEDIES.get(state, "")
        driver = self._driver
        temporary = (driver.OperationalError, driver.InterfaceError, driver.InternalError)
        if not isinstance(cause, (*temporary, NoSessionError)):
            what = f"The database refused ({said})"
            return self._failure(StoreError, what, remedy or "Nothing was changed.")
        again = "Nothing acknowledged is lost, and the same call can be made again."
        what = f"The database cannot be used now ({said})"
        return self._failure(StoreUnavailableError, what, f"{remedy} {again}".lstrip())

    def _failure(self, kind: type[E], what: str, remedy: str) -> E:
        return kind(f"{what}: {self.place}.", field="url", value=self.place, remedy=remedy)

    def now(self) -> float:
        """The time in seconds since 1970: by the server's clock; for a file, by this process's."""
        if self.sqlite:
            return time.time()
        with self.reading() as session:
            ((now,),) = session.fetch(select(SERVER_TIME))
        return float(now)

    def version(self) -> str | None:
        """The version of its tables, or None where there are none.

        Raises:
            StoreVersionError: they are of another version than this one.
        """
        self.check_file()
        if self._known == self.generation:
            return VERSION
        path = None if self.file is None else Path(self.file.path)
        if path is not None and (not path.exists() or _of_somebody_else(path)):
            return None  # reading must neither make nor change it
        with self.reading() as session:
            if not session.has_table(VERSION_TABLE):
                return None
            found = next((version for (version,) in session.fetch(VERSION_NUMBER)), None)
        if found not in {None, VERSION}:
            raise self._failure(
                StoreVersionError,
                f"The tables are of version {found}; this bestarm uses version {VERSION}",
                "Use the bestarm that made them, or another database. Nothing was changed.",
            )
        self._known = self.generation if found else None
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
        with self.reading() as session:
            return session.has_table(table.name)

    @contextmanager
    def _making_tables(self) -> Iterator[Connection]:
        self.check_file()
        try:
            with self._own().busy(), self._engine.begin() as connection:
                if not self.sqlite:
                    connection.execute(select(text(f"pg_advisory_xact_lock({_LOCK})")))
                yield connection
        except self._failures as error:
            raise self._error(error) from error
        self.check_file()


_stores: WeakSet[Store] = WeakSet()


def _begin_in_fork() -> None:
    for store in _stores:
        store._reopening = Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_begin_in_fork)


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
