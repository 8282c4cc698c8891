"""A database in memory, for an experiment that begins and ends within one program."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from bestarm.errors import StoreUnavailableError
from bestarm.live.store import schema
from bestarm.live.store.session import Session, SqliteSession


class Memory:
    """SQLite in memory: one connection, which threads use in turns.

    What is read while the same thread writes belongs to its transaction.
    """

    place = "memory"

    def __init__(self) -> None:
        self._lock, self._process = RLock(), os.getpid()
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, connection.close)
        self._session = SqliteSession(connection, {})

    def check_process(self) -> None:
        """Refuse a forked process: another thread may have been writing.

        Raises:
            StoreUnavailableError: this process was forked since.
        """
        if self._process != os.getpid():
            raise StoreUnavailableError(
                "This process was forked from one that has the experiment in memory.",
                field="process",
                remedy="Make an experiment of its own in every process, or keep it in a database.",
            )

    def prepare(self) -> None:
        """Make the tables."""
        self._session.create_tables(schema.metadata)

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Keep others from writing while one state is read."""
        with self._lock:
            yield self._session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A transaction that is committed as a whole or rolled back.

        Raises:
            DuplicateKeyError: see `Session.insert`.
        """
        with self._lock, self._session.raw:  # which commits, or rolls back
            self._session.raw.execute("BEGIN")
            yield self._session

    def now(self) -> float:
        """The time in seconds since 1970, by this process's clock."""
        return time.time()

    def purge(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """It ends with the object."""
