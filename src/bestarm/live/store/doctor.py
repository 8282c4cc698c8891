"""Checks whether a database is safe for experiments: its build, disk, settings and locks."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlalchemy import text

from bestarm.errors import BestArmError, StoreUnavailableError
from bestarm.live.store.sql import Store
from bestarm.live.values import Check

__all__ = ["diagnose"]

_MOUNTS = Path("/proc/self/mounts")
_HEADER = b"SQLite format 3\0"
# Where several machines, or none, keep the memory that SQLite's processes share.
_REMOTE = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "coda", "davfs", "glusterfs"),
    *(
        "beegfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.gcsfuse",
    ),
    *("fuse.glusterfs", "fuse.ceph", "fuse.davfs2", "fuse.smbnetfs", "fuse.curlftpfs"),
}
_PASSING = {"tmpfs": "is gone after a restart", "ramfs": "is gone after a restart"}
_PASSING["overlay"] = "is gone with its container, unless it is on a volume"
_SHARED = {"virtiofs", "vboxsf", "prl_fs", "vmhgfs", "drvfs"}
_TRY_LOCK = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(7)
"""


def diagnose(url: str) -> tuple[Check, ...]:
    """Check whether a database is safe to use.

    Nothing is left behind; an existing SQLite file is opened as an experiment would open it.

    Raises:
        InvalidInputError: this is not the URL of a database.
    """
    store = Store(url)
    try:
        return tuple(_sqlite(store) if store.sqlite else _postgres(store))
    finally:
        store.close()


def _sqlite(store: Store) -> Iterator[Check]:
    yield _build(sqlite3.sqlite_version_info)
    yield _threads(sqlite3.threadsafety)
    path = Path(str(store.url.database).removeprefix("file:").partition("?")[0]).absolute()
    folder = path.parent
    mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace") if _MOUNTS.exists() else ""
    yield _file_system(path.resolve(), mounts)
    writable = _writable(path)
    yield writable
    if writable.level == "alarm":
        return
    yield _space(shutil.disk_usage(folder).free)
    yield from _probe(folder)
    yield _tables(store)


def _build(version: tuple[int, ...]) -> Check:
    said = f"SQLite {'.'.join(map(str, version))}"
    if version < (3, 24, 0):
        return Check(
            "build",
            "alarm",
            f"{said} is too old: it cannot skip rows that are on record.",
            "Use a Python with SQLite 3.51.3 or later.",
        )
    # https://www.sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2, mended in 3.44.6 and 3.50.7 too.
    mended = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51, 0)
    if not mended and not (3, 44, 6) <= version < (3, 45, 0):
        return Check(
            "build",
            "warning",
            f"{said} has a bug (WAL reset) that may, very rarely, damage a file that several "
            "processes write to.",
            "Use a Python with SQLite 3.51.3 or later, or PostgreSQL; until then keep backups "
            "(some systems mend it without changing the number).",
        )
    return Check("build", "ok", f"{said} has no known bug that damages files.")


def _threads(safety: int) -> Check:
    if safety == 0:
        return Check(
            "threads",
            "alarm",
            "SQLite was built for a single thread (THREADSAFE=0).",
            "Use another build of Python, or a single thread and no server.",
        )
    return Check("threads", "ok", "SQLite was built for threads.")


def _file_system(path: Path, mounts: str) -> Check:
    kind = _kind_of(path, mounts)
    if kind is None:
        return Check(
            "file-system",
            "ok",
            "The file system is unknown; a local disk is safe, a network disk is not.",
        )
    if kind in _REMOTE:
        return Check(
            "file-system",
            "alarm",
            f"The file is on {kind}, a network file system: processes do not see each other's "
            "locks there, and the file will be damaged.",
            "Keep the file on a local disk, or use PostgreSQL.",
        )
    if kind.startswith("fuse.") or kind == "fuse" or kind in _SHARED:
        return Check(
            "file-system",
            "warning",
            f"The file is on {kind}, which may not keep locks and shared memory as SQLite needs.",
            "Keep the file on a local disk, or use PostgreSQL.",
        )
    if kind in _PASSING:
        return Check(
            "file-system",
            "warning",
            f"The file is on {kind}: it {_PASSING[kind]}.",
            "Keep the file on a disk that lasts.",
        )
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
    folder = path.parent
    wrong = ""
    if not folder.is_dir():
        wrong = f"There is no folder {str(folder)!r}."
    elif not os.access(folder, os.W_OK | os.X_OK):
        wrong = f"The folder {str(folder)!r} cannot be written to, where SQLite keeps its log."
    elif path.is_dir():
        wrong = f"{str(path)!r} is a folder."
    elif path.exists() and not os.access(path, os.R_OK | os.W_OK):
        wrong = f"The file {str(path)!r} cannot be read and written."
    elif path.exists() and path.stat().st_size and not _is_sqlite(path):
        wrong = f"{str(path)!r} is not a SQLite file, or is damaged."
    if wrong:
        return Check("writable", "alarm", wrong, "Name another file, or change the permissions.")
    said = "The file can be written." if path.exists() else "The file can be made."
    return Check("writable", "ok", said)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def _space(free: int) -> Check:
    said = f"{free / 1e9:.1f} GB are free on its disk."
    if free < 1e9:
        level = "alarm" if free < 1e8 else "warning"
        return Check("space", level, said, "Make room: a million outcomes need about 100 MB.")
    return Check("space", "ok", said)


def _probe(folder: Path) -> Iterator[Check]:
    """Try locks and journal with a file of its own in the same folder."""
    with tempfile.TemporaryDirectory(prefix=".bestarm-", dir=folder) as place:
        store = Store(f"sqlite:///{place}/probe.db")
        try:
            with store.writing() as connection:
                mode = connection.execute(text("PRAGMA journal_mode")).scalar_one()
                sync = connection.execute(text("PRAGMA synchronous")).scalar_one()
                tried = subprocess.run(
                    [sys.executable, "-I", "-S", "-c", _TRY_LOCK, f"{place}/probe.db"],
                    check=False,
                    capture_output=True,
                    timeout=60,
                )
        except StoreUnavailableError as error:
            yield Check("journal", "alarm", error.message, "Keep the file on a local disk.")
            return
        finally:
            store.close()
    yield _journal(str(mode), int(sync))
    if tried.returncode == 7:
        yield Check("locks", "ok", "While one process writes, another waits.")
    else:
        yield Check(
            "locks",
            "alarm",
            "Two processes were allowed to write at once: the file would be damaged.",
            "Keep the file on a local disk, or use PostgreSQL.",
        )


def _journal(mode: str, synchronous: int) -> Check:
    if mode.lower() != "wal":
        return Check(
            "journal",
            "alarm",
            f"The journal mode is {mode!r} where 'wal' was asked for.",
            "Keep the file on a local disk: this one has no shared memory for processes.",
        )
    if synchronous < 2:
        return Check(
            "journal",
            "alarm",
            "Outcomes are acknowledged before they are on disk (synchronous is not FULL).",
            "Use a build of SQLite that keeps this setting.",
        )
    return Check(
        "journal", "ok", "A write-ahead log is kept, and is on disk before a call returns."
    )


def _tables(store: Store) -> Check:
    try:
        version = store.version()
    except BestArmError as error:
        return Check("tables", "alarm", error.message, error.remedy)
    if version is None:
        return Check("tables", "ok", "It holds no experiments yet.")
    return Check("tables", "ok", f"Its tables are of version {version}, the present one.")


_ASKED = (
    *("server_version", "server_version_num", "fsync", "full_page_writes", "synchronous_commit"),
    *("server_encoding", "transaction_read_only"),
)


def _postgres(store: Store) -> Iterator[Check]:
    try:
        with store.reading() as connection:
            settings = {
                name: str(connection.execute(text(f"SHOW {name}")).scalar_one()) for name in _ASKED
            }
            replica = bool(connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one())
            create = bool(
                connection.execute(
                    text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
                ).scalar_one()
            )
            before = time.time()
            there = connection.execute(
                text("SELECT extract(epoch FROM clock_timestamp())")
            ).scalar_one()
            after = time.time()
    except StoreUnavailableError as error:
        yield Check("server", "alarm", error.message, "Check the address, the name and the server.")
        return
    yield _server(settings)
    yield _durability(settings)
    yield _may_write(read_only=replica or settings["transaction_read_only"] == "on", create=create)
    yield _clocks(float(there) - (before + after) / 2, round_trip=after - before)
    yield _tables(store)


def _server(settings: Mapping[str, str]) -> Check:
    said = f"PostgreSQL {settings['server_version']}"
    if int(settings["server_version_num"]) < 120_000:
        return Check("server", "warning", f"{said} is no longer maintained.", "Use 14 or later.")
    if settings["server_encoding"] not in {"UTF8", "SQL_ASCII"}:
        return Check(
            "server",
            "warning",
            f"{said} keeps text as {settings['server_encoding']}, which lacks some letters.",
            "Use a database with the encoding UTF8.",
        )
    return Check("server", "ok", f"{said} was reached.")


def _durability(settings: Mapping[str, str]) -> Check:
    why = {
        "fsync": "a crash of the machine may damage everything",
        "full_page_writes": "a crash of the machine may damage pages",
        "synchronous_commit": "a crash may lose outcomes that were acknowledged",
    }
    off = [name for name in why if settings[name] == "off"]
    if off:
        return Check(
            "durability",
            "alarm",
            "; ".join(f"{name} is off: {why[name]}" for name in off) + ".",
            f"Switch {' and '.join(off)} on.",
        )
    return Check("durability", "ok", "What is acknowledged is on disk.")


def _may_write(*, read_only: bool, create: bool) -> Check:
    if read_only:
        return Check(
            "writable",
            "alarm",
            "The server accepts no writes: it is a replica, or set to read-only.",
            "Use the address of the primary server.",
        )
    if not create:
        return Check(
            "writable",
            "warning",
            "This user may not create tables: the first experiment needs it.",
            "Have the owner grant CREATE on the schema.",
        )
    return Check("writable", "ok", "Tables can be created and written.")


def _clocks(ahead: float, *, round_trip: float) -> Check:
    off = max(0.0, abs(ahead) - round_trip)
    said = f"The server's clock and this one differ by {abs(ahead):.3f} s"
    trip = f"; an answer takes {1000 * round_trip:.1f} ms."
    if off <= 60:
        return Check("clock", "ok", said + trip)
    return Check(
        "clock",
        "warning",
        said + trip,
        "Synchronise them: leases end by the server's clock.",
    )
