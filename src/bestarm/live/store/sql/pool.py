"""The sessions of a store: kept open, each used by one thread at a time."""

from __future__ import annotations

import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy import Engine

from bestarm.live.store.sql.files import WatchedFile
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
    """Sessions on connections that an engine makes, to a SQLite file if there is one."""

    def __init__(self, engine: Engine, file: WatchedFile | None) -> None:
        self._engine, self._file = engine, file
        self._idle: deque[Session] = deque()
        self._used: set[Session] = set()
        self._free: SimpleQueue[None] = SimpleQueue()  # as long as there are more to be taken
        for _ in range(_MOST):
            self._free.put(None)
        self._turn = Turn()
        weakref.finalize(self, _close_all, self._idle)  # of a store that nobody closed

    def take(self) -> Session:
        """A session that nobody else uses, until it is given back.

        Raises:
            NoSessionError: others did not give theirs back in time.
        """
        try:
            self._free.get(timeout=_PATIENCE)
        except Empty:
            raise NoSessionError from None
        try:
            try:
                session = self._idle.pop()
            except IndexError:
                session = self._connect()
            self._used.add(session)
        except BaseException:
            self._free.put(None)
            raise
        return session

    def _connect(self) -> Session:
        made = self._engine.raw_connection()
        raw: Any = made.driver_connection
        made.detach()
        if self._engine.dialect.name == "sqlite":
            return SqliteSession(raw, turn=self._turn)
        from bestarm.live.store.sql.postgresql import PostgresSession  # noqa: PLC0415

        return PostgresSession(raw)

    def give(self, session: Session, *, sound: bool) -> None:
        """Give a session back; unless it is sound, it is closed."""
        kept = sound and session in self._used
        self._used.discard(session)
        if kept:
            self._idle.append(session)
        else:
            self._close(session)
        self._free.put(None)

    def close(self) -> None:
        """Close all sessions; those in use once they are given back."""
        self._used = set()
        while self._idle:
            self._close(self._idle.pop())

    def _close(self, session: Session) -> None:
        if self._file is not None:
            self._file.note_close(session.raw)
        session.close()


def _close_all(idle: deque[Session]) -> None:
    while idle:
        idle.pop().close()
