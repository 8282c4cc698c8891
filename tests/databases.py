"""Looking at databases from beside, and waiting for them."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, make_url

from bestarm.live.store.session import PostgresSession, Session, SqliteSession

__all__ = [
    "end_connections",
    "name_of",
    "on_begin",
    "read_on_begin",
    "run_sql",
    "wait_until",
    "watch_statements",
]

_TIMEOUT = 120  # seconds


def run_sql(url: str, *statements: str) -> list[Any]:
    """Run statements on a PostgreSQL database; return the rows of the last one that has any."""
    rows: list[Any] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else rows
    return rows


def end_connections(url: str) -> None:
    """End all connections to a PostgreSQL database, and wait until they are gone."""
    others = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    run_sql(url, f"SELECT pg_terminate_backend(pid) FROM {others}")
    wait_until(lambda: run_sql(url, f"SELECT count(*) FROM {others}") == [(0,)])


def name_of(url: str) -> str:
    """The name of a database on its server."""
    return str(make_url(url).database)


@contextmanager
def on_begin(do: Callable[[Any], object]) -> Iterator[None]:
    """Do something at the beginning of every transaction of this process, on its connection; with
    PostgreSQL, of those that write."""

    def in_session(kind: type[Session]) -> Callable[..., None]:
        begin = kind.begin

        def begun(self: Session, *, writing: bool) -> None:
            begin(self, writing=writing)
            if writing or kind is SqliteSession:
                do(self.raw)

        return begun

    with pytest.MonkeyPatch.context() as patch:
        for kind in (SqliteSession, PostgresSession):
            patch.setattr(kind, "begin", in_session(kind))
        yield


@contextmanager
def read_on_begin(statement: str) -> Iterator[list[Any]]:
    """What a statement returns at the beginning of every transaction: see `on_begin`."""
    seen: list[Any] = []
    with on_begin(lambda raw: seen.extend(raw.execute(statement).fetchone())):
        yield seen


def watch_statements(before: Callable[[], object], *, rows: float = math.inf) -> Callable[[], None]:
    """Call something before every statement that this process has run from now on, and before the
    commit of every transaction, on connections that are opened from now on; returns what ends it.

    SQLite runs a statement that writes many rows once for each: it is called for the first `rows`.
    """

    def connected(raw: Any, _: object) -> None:
        if isinstance(raw, sqlite3.Connection):
            raw.set_trace_callback(_shown(before, rows))

    event.listen(Engine, "connect", connected)
    patch = pytest.MonkeyPatch()
    for kind, name in (
        *((psycopg.Cursor, name) for name in ("execute", "executemany")),
        (psycopg.Connection, "commit"),
    ):
        patch.setattr(kind, name, _announced(getattr(kind, name), before))

    def end() -> None:
        patch.undo()
        event.remove(Engine, "connect", connected)

    return end


def _shown(before: Callable[[], object], most: float) -> Callable[[str], None]:
    last, rows = [""], 0

    def shown(statement: str) -> None:
        nonlocal last, rows
        words = statement.split(maxsplit=3)[:3]  # INSERT INTO table, or UPDATE table SET
        rows = rows + 1 if words == last and words[0] in {"INSERT", "UPDATE"} else 1
        last = words
        if rows <= most:
            before()

    return shown


def _announced(method: Callable[..., Any], before: Callable[[], object]) -> Callable[..., Any]:
    @wraps(method)
    def announced(*arguments: Any, **settings: Any) -> Any:
        before()
        return method(*arguments, **settings)

    return announced


def wait_until(happened: Callable[[], bool]) -> None:
    """Come back once something has happened; raise if it never does."""
    latest = time.monotonic() + _TIMEOUT
    while not happened():
        assert time.monotonic() < latest, "it did not happen"
        time.sleep(0.01)
