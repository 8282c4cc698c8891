"""The sessions of a store: kept open, each used by one thread at a time."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Lock, get_ident
from typing import Any

from sqlalchemy import Engine

from bestarm.live.store.sql.files import Identity, WatchedFile
from bestarm.live.store.sql.forks import forks
from bestarm.live.store.sql.sessions import Session
from bestarm.live.store.sql.sqlite import SqliteSession
from bestarm.live.store.sql.turns import Turn

_MOST = 15  # at a time
_PATIENCE = 30.0  # seconds to wait for one of them


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
        self.process = os.getpid()
        if file is not None:
            forks.add(self)
        # Those of a store that nobody closed; but never those of a parent process.
        weakref.finalize(self, _close_all, self._idle, os.getpid())

    def take(self) -> Session:
        """A session that nobody else uses, until it is given back.

        Raises:
            NoSessionError: others did not give theirs back in time.
        """
        while True:
            if not self._free.qsize() and len(self._used) < _MOST:
                # Somebody was interrupted between taking one and noting it, and gives none back.
                self._free.put(None)
            try:
                self._free.get(timeout=_PATIENCE)
            except Empty:
                raise NoSessionError from None
            # A fork that begins after this waits for the session.
            if self._file is None or not forks.has_to_wait():
                return self._take()
            self._free.put(None)
            forks.wait()

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
        kept, session.thread = False, get_ident()
        try:
            with self._lock:
                if sound and session in self._used:
                    self._idle.append(session)
                    kept = True
                self._used.discard(session)
        finally:
            lost = not kept and self._remove(session)
            if self.being_taken():
                self._free.put(None)
            if lost:
                self._close(session)

    def _remove(self, session: Session) -> bool:
        """Whether a session was not put back; after an interrupt it may be, and be used again."""
        with self._lock:
            lost = session not in self._idle and session.thread == get_ident()
            if lost:
                self._used.discard(session)
            return lost

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Until the block ends this thread uses a connection of its own: forks wait for it."""
        if self._file is None:
            yield
            return
        session = self.take()
        try:
            yield
        finally:
            self.give(session, sound=True)

    @property
    def identity(self) -> Identity | None:
        """The file that the connections are to."""
        return None if self._file is None else self._file.identity()

    def users(self) -> set[int]:
        """The threads that use a session."""
        return {session.thread for session in list(self._used)}

    def being_taken(self) -> bool:
        """Whether a thread takes a session, or was interrupted as it did."""
        return self._free.qsize() + len(self._used) < _MOST

    def make_up(self) -> None:
        """Nobody takes a session any more: whoever was about to was interrupted."""
        while self.being_taken():
            self._free.put(None)

    def close_idle(self) -> bool:
        """Close the sessions that nobody uses, and return whether none of them is left."""
        if self._lock.acquire(blocking=False):
            try:
                while self._idle:
                    self._close(self._idle.pop())
            finally:
                self._lock.release()
        return not self._idle

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
