"""Whose turn it is to write to a SQLite file, which has one writer at a time."""

from __future__ import annotations

import sqlite3
from threading import Lock

from bestarm.live.store.sql import connections


class Turn:
    """The turn of one thread of this process."""

    def __init__(self) -> None:
        self._lock = Lock()

    def take(self) -> None:
        """Wait for the other threads.

        Raises:
            sqlite3.OperationalError: they did not finish in time.
        """
        if not self._lock.acquire(timeout=connections.PATIENCE):
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    def give(self) -> None:
        """End the turn."""
        self._lock.release()
