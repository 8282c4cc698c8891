"""The sessions of a store: kept open, each used by one thread at a time."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, get_ident
from typing import Any

from sqlalchemy import Engine

from bestarm.live.store.sql.files import WatchedFile
from bestarm.live.store.sql.sessions import Session
from bestarm.live.store.sql.sqlite import SqliteSession
from bestarm.live.store.sql.turns import Turn

_MOST = 15  # at a time
_PATIENCE = 30.0  # seconds to wait for one of them
_FORKING = 1.0  # seconds that a fork waits for those in use
_TAKING = 0.05  # seconds that it waits for one that is being taken
_LOOK = 0.001  # seconds between looks


class NoSessionError(Exception):
    """No connection became free."""

    def __init__(self) -> None:
        super().__init__("no connection became free")


class SessionPool:
    """Sessions on connections that an engine makes, to a SQLite file if there is one.

    Attributes:
        turn: the turns in which the file is written.
    """

    def __init__(self, engine: Engine, file: WatchedFile | None) -> None:
        self._engine, self._file = engine, file
        self._idle: deque[Session] = deque()
        self._used: set[Session] = set()
        self._free: SimpleQueue[None] = SimpleQueue()  # as long as there are more to be taken
        for _ in range(_MOST):
            self._free.put(None)
        self.turn = Turn("" if file is None else file.line)
        self._lock = Lock()  # held while sessions become used, idle or closed
        self._process, self._forking = os.getpid(), False
        if file is not None:
            _pools_of_files.add(self)
        # Those of a store that nobody closed; but never those of a parent process.
        weakref.finalize(self, _close_all, self._idle, os.getpid())

    def take(self) -> Session:
        """A session that nobody else uses, until it is given back.

        Raises:
            NoSessionError: others did not give theirs back in time.
        """
        if self._forking:
            self._wait_for_fork()
        if not self._free.qsize() and len(self._used) < _MOST:
            # Somebody was interrupted between taking one and noting it, and gives none back.
            self._free.put(None)
        try:
            self._free.get(timeout=_PATIENCE)
        except Empty:
            raise NoSessionError from None
        return self._take()

    def take_spare(self) -> Session | None:
        """The same, unless few are left: who holds one and waits for another needs those."""
        with self._lock:
            if self._free.qsize() <= _MOST // 2:
                return None
            try:
                self._free.get(block=False)
            except Empty:
                return None
        return self._take()

    def _take(self) -> Session:
        try:
            with self._lock:
                used = self._used  # those that `close` knows of
                session = self._idle.pop() if self._idle else None
                if session is not None:
                    session.thread = get_ident()
                    used.add(session)
            if session is None:
                session = self._connect()
                session.thread = get_ident()
                used.add(session)
        except BaseException:
            self._free.put(None)
            raise
        return session

    def _connect(self) -> Session:
        made = self._engine.raw_connection()
        raw: Any = made.driver_connection
        made.detach()
        if self._engine.dialect.name == "sqlite":
            return SqliteSession(raw, turn=self.turn)
        from bestarm.live.store.sql.postgresql import PostgresSession  # noqa: PLC0415

        return PostgresSession(raw)

    def give(self, session: Session, *, sound: bool) -> None:
        """Give a session back; unless it is sound, it is closed."""
        kept = False
        try:
            with self._lock:
                if sound and session in self._used:
                    self._idle.append(session)
                    kept = True
                self._used.discard(session)
        finally:
            if self._free.qsize() + len(self._used) < _MOST:
                self._free.put(None)
            if not kept and session not in self._idle:  # it may be, after an interrupt
                self._close(session)

    def begin_fork(self) -> None:
        """Before the process forks: wait for what other threads are at, and close all sessions.

        No thread begins anything until `end_fork`. A transaction that takes too long, or is of the
        thread that forks, stays open.
        """
        self._forking = True
        start = time.monotonic()
        while (waited := time.monotonic() - start) < _FORKING and (
            self._used_by_others() or (self._being_taken() and waited < _TAKING)
        ):
            time.sleep(_LOOK)
        self._close_idle()

    def end_fork(self) -> None:
        """The process has forked."""
        self._forking = False

    def _wait_for_fork(self) -> None:
        """Wait while the process forks, unless the fork waits for this thread."""
        end, me = time.monotonic() + 2 * _FORKING, get_ident()
        while self._forking and all(each.thread != me for each in list(self._used)):
            if time.monotonic() > end:
                return
            time.sleep(_LOOK)

    def _used_by_others(self) -> bool:
        return any(each.thread != get_ident() for each in list(self._used))

    def _being_taken(self) -> bool:
        return self._free.qsize() + len(self._used) < _MOST

    def _close_idle(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                while self._idle:
                    self._close(self._idle.pop())
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close all sessions; those in use once they are given back."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
            self._used = set()
        for session in idle:
            self._close(session)

    def _close(self, session: Session) -> None:
        if self._file is not None:
            self._file.note_close(session.raw)
        session.close()


def _close_all(idle: deque[Session], process: int) -> None:
    while idle and process == os.getpid():
        idle.pop().close()


_pools_of_files: weakref.WeakSet[SessionPool] = weakref.WeakSet()


def _begin_fork() -> None:
    """Close what is open of SQLite files: in a forked process SQLite would take locks for its own
    that the parent holds, and the parent could take away the log that the child writes to."""
    for pool in _own_pools():
        with suppress(Exception):
            pool.begin_fork()


def _end_fork() -> None:
    for pool in _own_pools():
        pool.end_fork()


def _own_pools() -> list[SessionPool]:
    return [each for each in list(_pools_of_files) if each._process == os.getpid()]


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork)
