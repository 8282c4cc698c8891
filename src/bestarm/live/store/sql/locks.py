"""Locks that a process holds for long, beside the transactions of a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from bestarm.files import locked
from bestarm.live.store.sql.connections import connect
from bestarm.live.store.sql.database import Store


@contextmanager
def hold(store: Store, name: str) -> Iterator[bool]:
    """Whether no other process holds the lock of this name; if so, it is held until the block ends.

    The lock of a process that dies ends with it. With SQLite it is on a hidden file beside the
    database, with PostgreSQL it is of a connection.
    """
    digest = hashlib.sha256(f"bestarm {name}".encode()).digest()
    if store.file is not None:
        path = Path(store.file.path).resolve()
        with locked(path.with_name(f".{path.name}.{digest[:6].hex()}.lock")) as alone:
            yield alone
        return
    engine = connect(store.url)
    number = int.from_bytes(digest[:8], "big", signed=True)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            held = text("SELECT pg_try_advisory_lock(:number)").bindparams(number=number)
            yield bool(connection.execute(held).scalar_one())
    finally:
        engine.dispose()
