"""Whether a SQLite file in use is still the one that was opened.

A process that holds a file open can keep reading and writing it after the file was removed or
replaced. Nobody would ever read what is written there.
"""

from __future__ import annotations

import os
from enum import Enum
from threading import RLock
from urllib.parse import unquote

from sqlalchemy.engine import URL

Identity = tuple[int, int]
Logs = tuple[Identity | None, Identity | None]


class Change(Enum):
    """What happened to a file in use."""

    GONE = "The file is gone"
    REPLACED = "The file was replaced by another"
    # SQLite would take the log for that of the new file, and write its pages there.
    MIXED = "The file was replaced by another, and the log (-wal) of the former one lies beside it"
    LOG = "The file's log (-wal) or its index (-shm) was removed or replaced"


class WatchedFile:
    """A SQLite file, and the log beside it while connections hold it."""

    def __init__(self, url: URL) -> None:
        name = str(url.database)
        if name.startswith("file:"):
            name = unquote(name.removeprefix("file:").partition("?")[0])
        self.path = self._real = os.path.abspath(name)
        self._opened: Identity | None = None
        self.forget_connections()

    def forget_connections(self) -> None:
        """Note that this process has no connections yet, as at first and when it was forked."""
        self._lock = RLock()  # a handler of a signal may fork while its thread holds it
        self._logs: dict[int, Logs | None] = {}  # by connection; None until it has used one

    def identity(self) -> Identity | None:
        """The file that connections have open, or the one that the next would open."""
        return self._opened or _identity(self.path)

    def note_open(self, connection: object) -> None:
        """Note a new connection, and which file it is that connections have open."""
        with self._lock:
            self._logs[id(connection)] = None
            if self._opened is None:
                self._opened = _identity(self.path)
                self._real = os.path.realpath(self.path)  # SQLite keeps logs where a link leads

    def note_log(self, connection: object, *, written: bool = False) -> None:
        """Note which log a connection reads or has written to: it stays until that is closed.

        Before the first that writes there may be none.
        """
        if self._logs.get(id(connection), ()) is None:
            logs = self._find_logs()
            if written or None not in logs:
                with self._lock:
                    self._logs[id(connection)] = logs

    def note_close(self, connection: object) -> None:
        """Note that a connection is closed."""
        with self._lock:
            self._logs.pop(id(connection), None)

    def forget(self) -> None:
        """Note that no connection is used any more: the next opens what is there then."""
        with self._lock:
            self._logs.clear()
            self._opened = None

    def change(self) -> Change | None:
        """What happened to the file since it was opened, or None."""
        with self._lock:
            opened, held = self._opened, {each for each in self._logs.values() if each}
        if opened is None:
            return None
        found = _identity(self.path)
        if found is None:
            return Change.GONE
        if found != opened:
            log = f"{os.path.realpath(self.path)}-wal"
            used = os.path.exists(log) and os.path.getsize(log) > 0
            mixed = used and _identity(log) in {each[0] for each in held}
            return Change.MIXED if mixed else Change.REPLACED
        return Change.LOG if held and held != {self._find_logs()} else None

    def _find_logs(self) -> Logs:
        return _identity(f"{self._real}-wal"), _identity(f"{self._real}-shm")


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
