"""Looking at databases from beside, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event, make_url

__all__ = ["name_of", "noted", "run_sql", "wait_until"]

_PATIENCE = 60  # seconds


def run_sql(url: str, *statements: str) -> list[Any]:
    """Run statements on a PostgreSQL database, and give the rows of the last one that has any."""
    rows: list[Any] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else rows
    return rows


def name_of(url: str) -> str:
    """The name of a database on its server."""
    return str(make_url(url).database)


@contextmanager
def noted(statement: str) -> Iterator[list[Any]]:
    """What a statement says at the beginning of every transaction of this process."""
    seen: list[Any] = []

    def note(connection: Connection) -> None:
        seen.append(connection.exec_driver_sql(statement).scalar_one())

    event.listen(Engine, "begin", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "begin", note)


def wait_until(happened: Callable[[], bool]) -> None:
    """Come back once something has happened; raise if it never does."""
    latest = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < latest, "it did not happen"
        time.sleep(0.01)
