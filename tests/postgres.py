"""A PostgreSQL server of the tests' own, on a socket in a folder of its own, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import glob
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["Server", "find_pooler", "find_programs", "server"]

_TIMEOUT = 60  # seconds until it must have started, or stopped
_numbers = count()
# Nobody copies what it writes, and no test lasts until its tables need to be cleaned up.
_CHEAPER = {"wal_level": "minimal", "max_wal_senders": 0, "autovacuum": "off", "jit": "off"}
# What was set for one database alone, and the end of all connections to it.
_SETTINGS = """SELECT 1 FROM pg_db_role_setting JOIN pg_database ON setdatabase = pg_database.oid
    WHERE datname = %s"""
_LEAVE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"


class Server:
    """A server that can be stopped and started again.

    Args:
        folder: where its data and its socket are, not readable by others.
        programs: where PostgreSQL's own programs are.
        account: keywords for `subprocess` that make it run as somebody who is not root.
    """

    def __init__(self, folder: Path, programs: Path, account: dict[str, Any]) -> None:
        self._folder = folder
        self._programs = programs
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self._empty: list[str] = []  # databases that were used before

    def create(self) -> None:
        """Make its files."""
        self._run(
            "initdb",
            f"--pgdata={self._folder / 'data'}",
            "--auth=trust",
            "--username=postgres",
            "--no-locale",
            "--encoding=UTF8",
            "--no-sync",
        ).wait()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self._folder,
            **_CHEAPER,
        }
        self._process = self._run(
            "postgres",
            f"-D{self._folder / 'data'}",
            *(f"-c{name}={value}" for name, value in settings.items()),
        )
        self._wait(lambda: _answers(self.url("postgres")))

    def _wait(
        self, happened: Callable[[], bool], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Come back once something has happened; raise if the process ends, or it never does.

        The process is the server, unless another one is given.
        """
        latest, process = time.monotonic() + _TIMEOUT, process or self._process
        while not happened():
            if process is None or process.poll() is not None or time.monotonic() > latest:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.02)

    def _run(self, program: Path | str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run one of PostgreSQL's own programs, or another one by its path."""
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / program), *arguments],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                **self._account,
            )

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it: in order, or at once as if the power had failed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
        try:
            process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def url(self, database: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty database of a new name, by its URL."""
        if not self._empty:
            self._empty.append(_new_name())
            with self._connected("postgres") as manager:
                manager.execute(f"CREATE DATABASE {self._empty[0]}".encode())
        name = self._empty.pop()
        try:
            yield self.url(name)
        finally:
            with self._connected("postgres") as manager:
                self._clear(name, manager)

    @contextmanager
    def password_needed(self, database: str) -> Iterator[str]:
        """Have the server let nobody into a database without the password that is returned."""
        rules = self._folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        change = "ALTER ROLE postgres PASSWORD {}; SELECT pg_reload_conf()"
        with self._connected("postgres") as manager:
            rules.write_text(f"local {database} all scram-sha-256\n{before}")
            manager.execute(change.format("'secret'").encode())
            try:
                self._wait(lambda: not _answers(self.url(database)))
                yield "secret"
            finally:
                rules.write_text(before)
                manager.execute(change.format("NULL").encode())
                self._wait(lambda: _answers(self.url(database)))

    @contextmanager
    def pooler(self, program: str, database: str, *, mode: str, size: int = 10) -> Iterator[str]:
        """A running PgBouncer in front of a database, by its URL; on a socket of its own."""
        folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=self._folder))
        settings = {
            "pool_mode": mode,
            "default_pool_size": size,
            "listen_addr": "",
            "unix_socket_dir": folder,
            "auth_type": "any",
        }
        lines = (f"{name} = {value}" for name, value in settings.items())
        target = f"* = host={self._folder} user=postgres"
        (folder / "settings").write_text("\n".join(["[databases]", target, "[pgbouncer]", *lines]))
        if self._account:
            os.chown(folder, self._account["user"], self._account["group"])
        process = self._run(program, str(folder / "settings"))
        url = f"postgresql://postgres@/{database}?host={folder}&port=6432"
        try:
            self._wait(lambda: _answers(url), process)
            yield url
        finally:
            process.terminate()
            process.wait(_TIMEOUT)

    def _clear(self, name: str, manager: psycopg.Connection) -> None:
        """Empty a database for the next test, under another name: a new one takes five times as
        long. One whose settings were changed, or that somebody holds on to, is dropped."""
        emptied = _new_name()
        if not manager.execute(_SETTINGS, (name,)).fetchall():
            with suppress(psycopg.Error):
                manager.execute(_LEAVE, (name,))
                with self._connected(name) as connection:
                    connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
                manager.execute(f"ALTER DATABASE {name} RENAME TO {emptied}".encode())
                self._empty.append(emptied)
                return
        manager.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def _connected(self, database: str) -> psycopg.Connection:
        return psycopg.connect(self.url(database), autocommit=True)


@contextmanager
def server(programs: Path) -> Iterator[Server]:
    """A running server, from where PostgreSQL's own programs are."""
    folder = Path(tempfile.mkdtemp(prefix="bestarm-"))
    try:
        account = _account()
        if account:
            os.chown(folder, account["user"], account["group"])
        made = Server(folder, programs, account)
        made.create()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _new_name() -> str:
    return f"test_{next(_numbers)}"


def find_programs() -> Path | None:
    """Where PostgreSQL's own programs are: Debian keeps them off the PATH, a folder a version."""
    known = sorted(glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2]))
    found = shutil.which("postgres")
    places = [*([Path(found).resolve().parent] if found else []), *map(Path, reversed(known))]
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    return None


def find_pooler() -> str | None:
    """The program of PgBouncer: Debian keeps it where only root looks."""
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


def _account() -> dict[str, Any]:
    """PostgreSQL refuses to be run by root: then it is run by somebody else."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("There is no account that PostgreSQL could be run by.")
