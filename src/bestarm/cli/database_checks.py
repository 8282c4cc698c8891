"""Checks whether a database is safe for experiments: reachable, durable, whole, with a clock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from bestarm.errors import BestArmError, StoreError
from bestarm.live.store import Store, listing
from bestarm.live.values import Check, Checks

_SETBACK = 60.0  # seconds by which two clocks may differ
_DURABLE = {  # settings of PostgreSQL, and what may happen where one is off
    "fsync": "a crash of the machine may damage everything",
    "full_page_writes": "a crash of the machine may damage pages",
    "synchronous_commit": "a crash may lose outcomes that were acknowledged",
}
_NAMES = ("transaction_read_only", *_DURABLE)
_SETTINGS = f"""SELECT has_schema_privilege(current_schema(), 'CREATE'),
    {", ".join(f"current_setting('{name}')" for name in _NAMES)}"""


def check_database(url: str) -> Checks:
    """Check whether a database is safe to use.

    Nothing is left behind; an existing SQLite file is opened as an experiment would open it.

    Raises:
        InvalidInputError: this is not the URL of a database.
    """
    store = Store(url)
    try:
        return Checks(_file(store) if store.sqlite else _server(store))
    finally:
        store.close()


def _file(store: Store) -> Iterator[Check]:
    assert store.file is not None
    yield (reachable := _reachable(Path(store.file.path)))
    if reachable.level == "alarm":
        return
    yield (tables := _tables(store))
    if tables.level == "ok" and store.version():  # the file of another program is left alone
        with store.snapshot() as session:
            ((mode,),) = session.raw.execute("PRAGMA journal_mode").fetchall()
        yield _journal(mode)
        yield _content(store)
        yield _clock(store)


def _reachable(path: Path) -> Check:
    """Whether the file could be written to, by its permissions.

    It is not opened: closing it would end the locks that SQLite holds on it in this process.
    """
    folder, action = path.parent, "Name another file, or change the permissions."
    if not os.access(folder, os.W_OK | os.X_OK):
        log = f"The folder {str(folder)!r}, where SQLite keeps its log,"
        return Check("reachable", "alarm", f"{log} is not there or cannot be written to.", action)
    if not path.exists():
        return Check("reachable", "ok", "The file can be made.")
    if path.is_file() and os.access(path, os.R_OK | os.W_OK):
        return Check("reachable", "ok", "The file can be written.")
    finding = f"The file {str(path)!r} cannot be read and written."
    return Check("reachable", "alarm", finding, action)


def _tables(store: Store) -> Check:
    try:
        version = store.version()
    except BestArmError as error:
        return Check("tables", "alarm", error.message, error.remedy)
    if store.file_missing:
        action = "Check its name and its folder: the first experiment would make it."
        return Check("tables", "warning", store.why_empty, action)
    present = f"Its tables are of version {version}, the present one."
    return Check("tables", "ok", present if version else store.why_empty)


def _journal(mode: str) -> Check:
    if mode == "wal":
        kept = "A write-ahead log is kept, and is on disk before a call returns."
        return Check("durability", "ok", kept)
    finding = f"The journal mode is {mode!r} where 'wal' was asked for: there is no shared memory."
    return Check(
        "durability", "alarm", finding, "Keep the file on a local disk, or use PostgreSQL."
    )


def _content(store: Store) -> Check:
    """Whether SQLite finds the pages of the file in order. It reads all of them."""
    try:
        with store.snapshot() as session:
            ((found,),) = session.raw.execute("PRAGMA quick_check(1)").fetchall()
    except BestArmError as error:
        found = error.message
    reason = str(found).splitlines()[-1]
    if reason == "ok":
        return Check("content", "ok", "SQLite finds all of its pages in order.")
    action = "Stop what uses it, keep a copy, and restore it from a backup."
    return Check("content", "alarm", f"The file is damaged: {reason}.", action)


def _clock(store: Store) -> Check:
    """Whether the clock that counts is not behind what is on record: leases would end late."""
    try:
        now, heads = store.now(), listing.heads(store)
    except BestArmError as error:
        return Check("clock", "alarm", error.message, error.remedy)
    behind = max((head.last_time for _, head in heads), default=now) - now
    if behind <= _SETBACK:
        return Check("clock", "ok", "The clock is not behind the last record.")
    finding = f"The clock is {behind:,.0f} s behind the last record."
    return Check("clock", "warning", finding, "Set it, and have it kept right (NTP).")


def _server(store: Store) -> Iterator[Check]:
    try:
        with store.transaction() as session:
            create, *found = session.raw.execute(_SETTINGS).fetchone()
    except StoreError as error:
        yield Check("reachable", "alarm", error.message, error.remedy)
        return
    settings = dict(zip(_NAMES, found, strict=True))
    yield _may_write(read_only=settings["transaction_read_only"] == "on", create=bool(create))
    yield (tables := _tables(store))
    yield _durability(settings)
    if tables.level == "ok" and store.version():
        yield _clock(store)


def _may_write(*, read_only: bool, create: bool) -> Check:
    if read_only:
        finding = "The server accepts no writes: it is a replica, or set to read-only."
        return Check("reachable", "alarm", finding, "Use the address of the primary server.")
    if not create:
        finding = "This user may not create tables: the first experiment needs it."
        return Check("reachable", "warning", finding, "Have the owner grant CREATE on the schema.")
    return Check("reachable", "ok", "Tables can be created and written.")


def _durability(settings: Mapping[str, str]) -> Check:
    off = [name for name in _DURABLE if settings[name] == "off"]
    if not off:
        return Check("durability", "ok", "What is acknowledged is on disk.")
    finding = "; ".join(f"{name} is off: {_DURABLE[name]}" for name in off) + "."
    return Check("durability", "alarm", finding, f"Switch {' and '.join(off)} on.")
