"""Checks whether a database is safe for experiments: its build, disk, settings and locks."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from bestarm.errors import BestArmError, StoreUnavailableError
from bestarm.live.store.sql import Store
from bestarm.live.values import Check, Checks

Connection = Any  # psycopg's, an optional dependency

_MOUNTS = Path("/proc/self/mounts")
_LOCAL = "Keep the file on a local disk, or use PostgreSQL."
_LASTING = "Keep the file on a disk that lasts."
_MAY_LACK = "which may not keep locks and shared memory as SQLite needs"
_NO_LOCKS = (
    "a network file system: processes do not see each other's locks there, and the file will be "
    "damaged"
)
_DANGERS = {  # level, reason and action by file systems; those of users are `fuse` or `fuse.…`
    "nfs nfs4 cifs smb3 smbfs smbnetfs 9p afs ceph coda davfs davfs2 glusterfs beegfs gpfs lustre "
    "ncpfs sshfs s3fs rclone gcsfuse curlftpfs": ("alarm", _NO_LOCKS, _LOCAL),
    "fuse virtiofs vboxsf prl_fs vmhgfs drvfs": ("warning", _MAY_LACK, _LOCAL),
    "tmpfs ramfs overlay": ("warning", "which may be empty after a restart", _LASTING),
}
_SERVER = "SELECT current_setting('server_version'), current_setting('server_encoding')"
_POOLER_TIMEOUT = 5  # seconds that a pooler may take to find a connection
_ROUNDS = 8  # looks at whether a pooler shares sessions
_TRY_LOCK = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(7)
"""


def check_database(url: str) -> Checks:
    """Check whether a database is safe to use.

    Nothing is left behind; an existing SQLite file is opened as an experiment would open it.

    Raises:
        InvalidInputError: this is not the URL of a database.
    """
    store = Store(url)
    try:
        return Checks(_sqlite(store) if store.sqlite else _postgres(store))
    finally:
        store.close()


def _sqlite(store: Store) -> Iterator[Check]:
    yield _build(sqlite3.sqlite_version_info)
    assert store.file is not None
    path = Path(store.file.path)
    mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace") if _MOUNTS.exists() else ""
    yield _file_system(path.resolve(), mounts)
    writable = _writable(path)
    yield writable
    if writable.level == "ok":
        yield _space(shutil.disk_usage(path.parent).free)
        yield from _probe(path.parent)
        tables = _tables(store)
        yield tables
        if tables.level == "ok" and store.version():  # the file of another program is left alone
            yield _content(store)


def _build(version: tuple[int, ...]) -> Check:
    # https://www.sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2, mended in 3.44.6 and 3.50.7 too.
    mended = {44: (3, 44, 6), 50: (3, 50, 7)}.get(version[1], (3, 51, 3))
    name = f"SQLite {'.'.join(map(str, version))}"
    newer = "Use a Python with SQLite 3.51.3 or later"
    if version < (3, 35, 0):
        return Check("build", "alarm", f"{name} is too old for bestarm.", f"{newer}.")
    if version < mended:
        return Check(
            "build",
            "warning",
            f"{name} has a bug (WAL reset) that may, very rarely, damage a file that several "
            "processes write to.",
            f"{newer}, or PostgreSQL; until then keep backups (some systems mend it without "
            "changing the number).",
        )
    return Check("build", "ok", f"{name} has no known bug that damages files.")


def _file_system(path: Path, mounts: str) -> Check:
    kind = _kind_of(path, mounts)
    if kind is None:
        unknown = "The file system is unknown; a local disk is safe, a network disk is not."
        return Check("file-system", "ok", unknown)
    base, _, name = kind.partition(".")
    for known in (name or base, base):
        for names, (level, reason, action) in _DANGERS.items():
            if known in names.split():
                return Check("file-system", level, f"The file is on {kind}, {reason}.", action)
    return Check("file-system", "ok", f"The file is on a local disk ({kind}).")


def _kind_of(path: Path, mounts: str) -> str | None:
    """The file system that a path is on, by a table of mounts; the last match counts."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) >= 3:
            place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1])
            if path.is_relative_to(place) and len(place) >= best:
                best, kind = len(place), fields[2]
    return kind


def _writable(path: Path) -> Check:
    """Whether the file could be written to, by its permissions.

    It is not opened: closing it would end the locks that SQLite holds on it in this process.
    """
    folder, action = path.parent, "Name another file, or change the permissions."
    if not os.access(folder, os.W_OK | os.X_OK):
        log = f"The folder {str(folder)!r}, where SQLite keeps its log,"
        return Check("writable", "alarm", f"{log} is not there or cannot be written to.", action)
    if not path.exists():
        return Check("writable", "ok", "The file can be made.")
    if path.is_file() and os.access(path, os.R_OK | os.W_OK):
        return Check("writable", "ok", "The file can be written.")
    finding = f"The file {str(path)!r} cannot be read and written."
    return Check("writable", "alarm", finding, action)


def _space(free: int) -> Check:
    finding = f"{free / 1e9:.1f} GB are free on its disk."
    if free >= 1e9:
        return Check("space", "ok", finding)
    action = "Make room: a million outcomes need about 100 MB."
    return Check("space", "alarm" if free < 1e8 else "warning", finding, action)


def _probe(folder: Path) -> Iterator[Check]:
    """Try locks and journal with a file of its own in the same folder."""
    with tempfile.TemporaryDirectory(prefix=".bestarm-", dir=folder) as place:
        store = Store(f"sqlite:///{place}/probe.db")
        try:
            with store.transaction() as session:
                ((mode,),) = session.raw.execute("PRAGMA journal_mode")
                command = [sys.executable, "-I", "-S", "-c", _TRY_LOCK, f"{place}/probe.db"]
                tried = subprocess.run(command, check=False, capture_output=True, timeout=60)
        except StoreUnavailableError as error:
            yield Check("journal", "alarm", error.message, _LOCAL)
            return
        finally:
            store.close()
    kept = Check(
        "journal", "ok", "A write-ahead log is kept, and is on disk before a call returns."
    )
    other = f"The journal mode is {mode!r} where 'wal' was asked for: there is no shared memory."
    yield kept if mode == "wal" else Check("journal", "alarm", other, _LOCAL)
    locked = Check("locks", "ok", "While one process writes, another waits.")
    both = "Two processes were allowed to write at once: the file would be damaged."
    yield locked if tried.returncode == 7 else Check("locks", "alarm", both, _LOCAL)


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


def _postgres(store: Store) -> Iterator[Check]:
    import psycopg

    def connect() -> Connection:
        address = store.url.set(drivername="postgresql").render_as_string(hide_password=False)
        settings: dict[str, Any] = {"connect_timeout": 10, "client_encoding": "utf8"}
        return psycopg.connect(address, autocommit=True, prepare_threshold=None, **settings)

    try:
        with connect() as connection:
            ((version, encoding),) = connection.execute(_SERVER)
            pooler, shared = _pooler(connection, connect)
        settings, create = _settings(store, connect, shared=shared)
    except (psycopg.Error, StoreUnavailableError) as error:
        reason = str(getattr(error, "message", error)).partition("\n")[0].rstrip(".")
        action = "Check the address, the name and the server."
        yield Check("server", "alarm", f"{reason[:1].upper()}{reason[1:]}.", action)
        return
    yield _server(version, encoding)
    yield _durability(settings)
    yield _may_write(read_only=settings["transaction_read_only"] == "on", create=create)
    yield _tables(store)
    yield pooler


def _server(version: str, encoding: str) -> Check:
    name = f"PostgreSQL {version}"
    if encoding == "UTF8":
        return Check("server", "ok", f"{name} was reached.")
    finding = f"{name} keeps text as {encoding}, which lacks some letters."
    if encoding == "SQL_ASCII":
        finding = (
            f"{name} does not know the encoding of its text (SQL_ASCII): other programs may read "
            "other letters than bestarm writes."
        )
    return Check("server", "warning", finding, "Use a database with the encoding UTF8.")


def _pooler(connection: Connection, connect: Callable[[], Connection]) -> tuple[Check, bool]:
    """What is between us and the server, and whether it shares sessions: transaction mode.

    When a connection begins, a server tells the number of its process, and a pooler makes one up.
    Two connections that use the same process, or one that uses two, share sessions. Where others
    use the pooler too, it may take a few rounds to see.
    """
    if _process(connection) == connection.info.backend_pid:
        return Check("pooler", "ok", "Connections lead to the server, without a pooler."), False
    with connect() as second:
        for _ in range(_ROUNDS):
            before, after = _process(connection), _process(connection)
            with _close_after_timeout(connection):
                other = _process(second)
            if connection.closed:
                finding = f"The pooler gave us no second connection within {_POOLER_TIMEOUT} s."
                action = "Raise its pool size, or choose transaction mode."
                return Check("pooler", "warning", finding, action), False
            if before != after or after == other:
                finding = "Connections go through a pooler in transaction mode, which is safe: "
                finding += "every transaction sets its durability."
                return Check("pooler", "ok", finding), True
    return Check("pooler", "ok", "Connections go through a pooler in session mode."), False


def _process(connection: Connection) -> int:
    ((number,),) = connection.execute("SELECT pg_backend_pid()")
    return int(number)


@contextmanager
def _close_after_timeout(connection: Connection) -> Iterator[None]:
    """Close a connection if the block takes long: it may wait for what the connection holds."""
    timer = Timer(_POOLER_TIMEOUT, connection.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _settings(
    store: Store, connect: Callable[[], Connection], *, shared: bool
) -> tuple[dict[str, str], bool]:
    """The settings of a transaction that writes, and whether the user may create tables.

    Where connections share sessions they are read once more, while another connection holds the
    session of the first time: what was set for that session alone is missing then.
    """
    with store.transaction() as session:
        found = session.raw.execute("SELECT name, setting FROM pg_settings").fetchall()
        may_create = "SELECT has_schema_privilege(current_schema(), 'CREATE')"
        ((create,),) = session.raw.execute(may_create)
    if not shared:
        return {name: str(setting) for name, setting in found}, bool(create)
    with connect() as other, other.transaction(), _close_after_timeout(other):
        other.execute("SELECT 1")
        return _settings(store, connect, shared=False)


def _durability(settings: Mapping[str, str]) -> Check:
    why = {
        "fsync": "a crash of the machine may damage everything",
        "full_page_writes": "a crash of the machine may damage pages",
        "synchronous_commit": "a crash may lose outcomes that were acknowledged",
    }
    off = [name for name in why if settings[name] == "off"]
    if not off:
        return Check("durability", "ok", "What is acknowledged is on disk.")
    finding = "; ".join(f"{name} is off: {why[name]}" for name in off) + "."
    return Check("durability", "alarm", finding, f"Switch {' and '.join(off)} on.")


def _may_write(*, read_only: bool, create: bool) -> Check:
    if read_only:
        finding = "The server accepts no writes: it is a replica, or set to read-only."
        return Check("writable", "alarm", finding, "Use the address of the primary server.")
    if not create:
        finding = "This user may not create tables: the first experiment needs it."
        return Check("writable", "warning", finding, "Have the owner grant CREATE on the schema.")
    return Check("writable", "ok", "Tables can be created and written.")
