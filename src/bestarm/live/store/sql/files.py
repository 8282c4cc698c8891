"""Whether a SQLite file in use is still the one that was opened.

A process that holds a file open can keep reading and writing it after the file was removed or
replaced. Nobody would ever read what is written there.
"""

from __future__ import annotations

import os
from enum import Enum
from threading import Lock
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
        self.path = os.path.abspath(name)
        self._real = self.path
        self._lock = Lock()
        self._opened: Identity | None = None
        self._held: dict[int, Logs] = {}
        self._logs_held: set[Logs] = set()

    @property
    def line(self) -> str:
        """The path of a hidden file beside it, by which writers stand in line."""
        folder, name = os.path.split(os.path.realpath(self.path))
        return os.path.join(folder, f".{name}.line")

    def identity(self) -> Identity | None:
        """The file that connections have open, or the one that the next would open."""
        return self._opened or _identity(self.path)

    def note_open(self) -> None:
        """Note which file it is that connections have open, unless that is known."""
        with self._lock:
            if self._opened is None:
                self._opened = _identity(self.path)
                self._real = os.path.realpath(self.path)  # SQLite keeps logs where a link leads

    def note_log(self, connection: object, *, written: bool = False) -> None:
        """Note which log a connection reads or has written to: it stays until the last is closed.

        Before the first that writes there may be none.
        """
        if id(connection) not in self._held:
            logs = self._logs()
            if written or None not in logs:
                with self._lock:
                    self._held[id(connection)] = logs
                    self._logs_held = set(self._held.values())

    def note_close(self, connection: object) -> None:
        """Note that a connection is closed."""
        with self._lock:
            self._held.pop(id(connection), None)
            self._logs_held = set(self._held.values())

    def forget(self) -> None:
        """Note that no connection is in use any more: the next opens what is there then."""
        with self._lock:
            self._opened = None
            self._held, self._logs_held = {}, set()

    def forget_connections(self) -> None:
        """Note that this is a forked process, which has no connections yet."""
        self._lock = Lock()  # the parent may have held it
        self._held, self._logs_held = {}, set()

    def change(self) -> Change | None:
        """What happened to the file since it was opened, or None."""
        opened, held = self._opened, self._logs_held
        if opened is None:
            return None
        found = _identity(self.path)
        if found is None:
            return Change.GONE
        if found != opened:
            mixed = {log for log, _ in held} - {None}
            return Change.MIXED if mixed and self._log_in_use() in mixed else Change.REPLACED
        return Change.LOG if held and held != {self._logs()} else None

    def _logs(self) -> Logs:
        return _identity(f"{self._real}-wal"), _identity(f"{self._real}-shm")

    def _log_in_use(self) -> Identity | None:
        """The log that SQLite would read with the file that is there now."""
        log = f"{os.path.realpath(self.path)}-wal"
        return _identity(log) if os.path.exists(log) and os.path.getsize(log) else None


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
