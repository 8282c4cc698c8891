"""Locks that a process holds for long, beside the transactions of a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from sqlalchemy import text

from bestarm.files import locked
from bestarm.live.store.sql.connections import connect
from bestarm.live.store.sql.database import Store
from bestarm.live.store.sql.files import WatchedFile


@contextmanager
def hold(store: Store, name: str) -> Iterator[bool]:
    """Whether no other process holds the lock of this name; if so, it is held until the block ends.

    The lock of a process that dies ends with it. With SQLite it is on a hidden file beside the
    database, with PostgreSQL it is of a connection.
    """
    if store.file is not None:
        with locked(_lock_file(store.file, name)) as alone:
            yield alone
        return
    engine = connect(store.url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            held = text("SELECT pg_try_advisory_lock(:number)").bindparams(number=_number(name))
            yield bool(connection.execute(held).scalar_one())
    finally:
        engine.dispose()


@contextmanager
def claim(store: Store, name: str) -> Iterator[bool]:
    """The same for a short time, on a connection of the store's own.

    Where there can be no lock, everybody is told that it is theirs.
    """
    with ExitStack() as stack:
        alone = True
        if store.file is None:
            alone = stack.enter_context(store.claiming(_number(name)))
        else:
            with suppress(OSError):
                alone = stack.enter_context(locked(_lock_file(store.file, name)))
            if alone:
                stack.enter_context(store.hurrying())
        yield alone


def _lock_file(file: WatchedFile, name: str) -> Path:
    return _path_of_lock(file.path, name)


@lru_cache
def _path_of_lock(database: str, name: str) -> Path:
    path = Path(database).resolve()
    return path.with_name(f".{path.name}.{_digest(name)[:6].hex()}.lock")


def _number(name: str) -> int:
    return int.from_bytes(_digest(name)[:8], "big", signed=True)


def _digest(name: str) -> bytes:
    return hashlib.sha256(f"bestarm {name}".encode()).digest()
