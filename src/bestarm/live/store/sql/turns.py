"""Whose turn it is to write to a SQLite file, which has one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from bestarm.live.store.sql import connections

_NAP = 0.001  # seconds between looks whether one is first in the line


class Turn:
    """The turns of this process's threads, and its place in a line with other processes.

    SQLite itself has no line: everybody tries again and again, and those who try take the time of
    the one who writes. In the line only the first tries. Whoever finds the file free takes no
    place, and nothing rests on the line but time: where it cannot be made, everybody tries.

    Args:
        line: the path of the file that is locked by the first; it is made when somebody waits.
    """

    def __init__(self, line: str) -> None:
        self._lock = Lock()
        self._path = line
        self._file: int | None = None

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

    @contextmanager
    def first_in_line(self) -> Iterator[None]:
        """Be the one process that tries, or one that has waited for too long to become it."""
        try:
            import fcntl  # noqa: PLC0415 - not everywhere

            if self._file is None:
                self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
                weakref.finalize(self, os.close, self._file)
        except (ImportError, OSError):
            yield
            return
        latest = time.monotonic() + connections.PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > latest:
                    yield
                    return
                time.sleep(_NAP)
                continue
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            return
