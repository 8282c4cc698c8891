"""Checks whether a database is safe for experiments: its build, disk, settings and locks."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bestarm.errors import BestArmError, StoreUnavailableError
from bestarm.live.store.sql import Store
from bestarm.live.values import Check

_MOUNTS = Path("/proc/self/mounts")
_LOCAL = "Keep the file on a local disk, or use PostgreSQL."
_REMOTE = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "smbnetfs", "9p", "afs", "ceph", "coda", "davfs"),
    *("davfs2", "glusterfs", "beegfs", "gpfs", "lustre", "ncpfs", "sshfs", "s3fs", "rclone"),
    *("gcsfuse", "curlftpfs"),
)
_DANGERS = {  # level, reason and action by file system; those of users are `fuse` or `fuse.…`
    **dict.fromkeys(
        _REMOTE,
        (
            "alarm",
            "a network file system: processes do not see each other's locks there, and the file "
            "will be damaged",
            _LOCAL,
        ),
    ),
    **dict.fromkeys(
        ("fuse", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "drvfs"),
        ("warning", "which may not keep locks and shared memory as SQLite needs", _LOCAL),
    ),
    **dict.fromkeys(
        ("tmpfs", "ramfs", "overlay"),
        ("warning", "which may be empty after a restart", "Keep the file on a disk that lasts."),
    ),
}
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
    assert store.file is not None
    path = Path(store.file.path)
    mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace") if _MOUNTS.exists() else ""
    yield _file_system(path.resolve(), mounts)
    writable = _writable(path)
    yield writable
    if writable.level == "ok":
        yield _space(shutil.disk_usage(path.parent).free)
        yield from _probe(path.parent)
        yield _tables(store)


def _build(version: tuple[int, ...]) -> Check:
    # https://www.sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2, mended in 3.44.6 and 3.50.7 too.
    mended = {44: (3, 44, 6), 50: (3, 50, 7)}.get(version[1], (3, 51, 3))
    name = f"SQLite {'.'.join(map(str, version))}"
    newer = "Use a Python with SQLite 3.51.3 or later"
    return Check.first(
        "build",
        f"{name} has no known bug that damages files.",
        (version < (3, 35, 0) and "alarm", f"{name} is too old for bestarm.", f"{newer}."),
        (
            version < mended and "warning",
            f"{name} has a bug (WAL reset) that may, very rarely, damage a file that several "
            "processes write to.",
            f"{newer}, or PostgreSQL; until then keep backups (some systems mend it without "
            "changing the number).",
        ),
    )


def _file_system(path: Path, mounts: str) -> Check:
    kind = _kind_of(path, mounts)
    if kind is None:
        unknown = "The file system is unknown; a local disk is safe, a network disk is not."
        return Check("file-system", "ok", unknown)
    base, _, name = kind.partition(".")
    found = _DANGERS.get(name or base) or _DANGERS.get(base)
    if found is None:
        return Check("file-system", "ok", f"The file is on a local disk ({kind}).")
    level, reason, action = found
    return Check("file-system", level, f"The file is on {kind}, {reason}.", action)


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
    usable = not path.exists() or (path.is_file() and os.access(path, os.R_OK | os.W_OK))
    return Check.first(
        "writable",
        "The file can be written." if path.exists() else "The file can be made.",
        (
            not os.access(folder, os.W_OK | os.X_OK) and "alarm",
            f"The folder {str(folder)!r}, where SQLite keeps its log, is not there or cannot be "
            "written to.",
            action,
        ),
        (not usable and "alarm", f"The file {str(path)!r} cannot be read and written.", action),
    )


def _space(free: int) -> Check:
    finding = f"{free / 1e9:.1f} GB are free on its disk."
    level = "alarm" if free < 1e8 else "warning"
    action = "Make room: a million outcomes need about 100 MB."
    return Check.first("space", finding, (free < 1e9 and level, finding, action))


def _probe(folder: Path) -> Iterator[Check]:
    """Try locks and journal with a file of its own in the same folder."""
    with tempfile.TemporaryDirectory(prefix=".bestarm-", dir=folder) as place:
        store = Store(f"sqlite:///{place}/probe.db")
        try:
            with store.writing() as session:
                ((mode,),) = session.raw.execute("PRAGMA journal_mode")
                tried = subprocess.run(
                    [sys.executable, "-I", "-S", "-c", _TRY_LOCK, f"{place}/probe.db"],
                    check=False,
                    capture_output=True,
                    timeout=60,
                )
        except StoreUnavailableError as error:
            yield Check("journal", "alarm", error.message, _LOCAL)
            return
        finally:
            store.close()
    other = f"The journal mode is {mode!r} where 'wal' was asked for: there is no shared memory."
    fine = "A write-ahead log is kept, and is on disk before a call returns."
    yield Check.first("journal", fine, (mode != "wal" and "alarm", other, _LOCAL))
    both = "Two processes were allowed to write at once: the file would be damaged."
    fine = "While one process writes, another waits."
    yield Check.first("locks", fine, (tried.returncode != 7 and "alarm", both, _LOCAL))


def _tables(store: Store) -> Check:
    try:
        version = store.version()
    except BestArmError as error:
        return Check("tables", "alarm", error.message, error.remedy)
    present = f"Its tables are of version {version}, the present one."
    return Check("tables", "ok", present if version else "It holds no experiments yet.")


def _postgres(store: Store) -> Iterator[Check]:
    try:
        with store.reading() as session:
            found = session.raw.execute("SELECT name, setting FROM pg_settings")
            settings = {name: str(setting) for name, setting in found}
            may_create = "SELECT has_schema_privilege(current_schema(), 'CREATE')"
            ((create,),) = session.raw.execute(may_create)
    except StoreUnavailableError as error:
        yield Check("server", "alarm", error.message, "Check the address, the name and the server.")
        return
    yield _server(settings)
    yield _durability(settings)
    yield _may_write(read_only=settings["transaction_read_only"] == "on", create=create)
    yield _tables(store)


def _server(settings: Mapping[str, str]) -> Check:
    name, encoding = f"PostgreSQL {settings['server_version']}", settings["server_encoding"]
    lacks = f"{name} keeps text as {encoding}, which lacks some letters."
    action = "Use a database with the encoding UTF8."
    wrong = encoding not in {"UTF8", "SQL_ASCII"}
    return Check.first("server", f"{name} was reached.", (wrong and "warning", lacks, action))


def _durability(settings: Mapping[str, str]) -> Check:
    why = {
        "fsync": "a crash of the machine may damage everything",
        "full_page_writes": "a crash of the machine may damage pages",
        "synchronous_commit": "a crash may lose outcomes that were acknowledged",
    }
    off = [name for name in why if settings[name] == "off"]
    finding = "; ".join(f"{name} is off: {why[name]}" for name in off) + "."
    action = f"Switch {' and '.join(off)} on."
    fine = "What is acknowledged is on disk."
    return Check.first("durability", fine, (bool(off) and "alarm", finding, action))


def _may_write(*, read_only: bool, create: bool) -> Check:
    return Check.first(
        "writable",
        "Tables can be created and written.",
        (
            read_only and "alarm",
            "The server accepts no writes: it is a replica, or set to read-only.",
            "Use the address of the primary server.",
        ),
        (
            not create and "warning",
            "This user may not create tables: the first experiment needs it.",
            "Have the owner grant CREATE on the schema.",
        ),
    )
