"""How many single outcomes a server takes a second over HTTP, beside the library and the driver.

    python -m benchmarks.server [--seconds 10] [--folder FOLDER] [--postgres postgresql://user@host/name]

Needs wrk (on Debian: apt-get install wrk), which sends one outcome per request over 16 connections
that stay open, over loopback. This process asks for assignments in lots as tells use them up. Every
request is answered after its outcome is on disk, which is that of the folder: by default the folder
that this is run in, as folders for temporary files may be in memory. Two figures of the same run
stand beside it: the library's, in one thread, and that of a plain loop that puts one row after
another into the same kind of database, each on disk before the next. Only ratios within one run
mean something.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import httpx
from sqlalchemy import create_engine

from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.server.tokens import Role, create_token

SERVE = [sys.executable, "-c", "from bestarm.cli import main; main()", "serve", "--quiet"]
EXPERIMENT = {"options": ["old", "new", "video"], "bounds": [0, 1]}
CONNECTIONS = 16
LOT = 500  # assignments asked for at a time
WIDTH = 20  # characters of an id on its way to wrk, so that few are on it
WARMING = 3  # seconds in which a new server loads what it needs

# It reads the ids of assignments from a pipe.
SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %(token)s"
local threads, ids = {}, nil
function setup(thread) table.insert(threads, thread) end
wrong = 0
function request()
  ids = ids or io.open("%(pipe)s")
  local told = '{"outcomes": [{"id": %%d, "reward": %%.3f}]}'
  local body = string.format(told, tonumber(ids:read(%(width)d)), math.random())
  return wrk.format(nil, "%(path)s/tell", nil, body)
end
function response(status) if status ~= 200 then wrong = wrong + 1 end end
function done(summary, latency)
  local failed = 0
  for _, thread in ipairs(threads) do failed = failed + thread:get("wrong") end
  local found = '{"requests": %%d, "seconds": %%f, "p50": %%f, "p99": %%f, "failed": %%d}\\n'
  io.write(string.format(found, summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    failed + summary.errors.connect + summary.errors.read +
    summary.errors.write + summary.errors.timeout))
end
"""


@contextmanager
def serving(url: str, *options: str) -> Iterator[tuple[str, float]]:
    """A server's address, and the seconds from its start to its first answer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [*SERVE, "--store", url, "--port", port, *options]
    began, base = time.perf_counter(), f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                httpx.get(f"{base}/api/v1/experiments")
                break
            except httpx.TransportError:
                time.sleep(0.01)
        yield base, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(30)


def insert_rows(url: str, seconds: float) -> float:
    """Rows a second of a loop that knows nothing but its table."""
    engine = create_engine(Store(url).url)
    number, until = 0, time.perf_counter() + seconds
    with engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        cursor = driver.cursor()
        if engine.dialect.name == "sqlite":
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, reward REAL)")
        driver.commit()
        while time.perf_counter() < until:
            cursor.execute(f"INSERT INTO plain VALUES ({number}, 0.5)")
            driver.commit()
            number += 1
        cursor.execute("DROP TABLE plain")
        driver.commit()
    engine.dispose()
    return number / seconds


def tell_alone(url: str, name: str, seconds: float) -> float:
    """Outcomes a second that one thread tells without a server."""
    number, spent = 0, 0.0
    with Experiment.open(url, name) as experiment:
        while spent < seconds:
            batch = experiment.ask(LOT)
            began = time.perf_counter()
            for each in batch:
                experiment.tell(each, 0.5)
            spent += time.perf_counter() - began
            number += len(batch)
    return number / spent


def tell_over_http(base: str, token: str, name: str, seconds: int) -> dict[str, float]:
    """What wrk finds when it tells one outcome per request for a while."""
    path = f"/api/v1/experiments/{name}"
    with tempfile.TemporaryDirectory() as folder:
        pipe, script = Path(folder) / "ids", Path(folder) / "script.lua"
        os.mkfifo(pipe)
        script.write_text(SCRIPT % {"token": token, "path": path, "pipe": pipe, "width": WIDTH})
        Thread(target=supply, args=(f"{base}{path}/ask", token, pipe), daemon=True).start()
        command = ["wrk", "-t", "1", "-c", f"{CONNECTIONS}", "-d", f"{seconds}s"]
        command += ["-s", str(script), base]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found | {"rate": found["requests"] / found["seconds"]}


def supply(url: str, token: str, pipe: Path) -> None:
    """Ask for assignments as long as somebody reads their ids from a pipe, some ahead of it."""
    headers = {"Authorization": f"Bearer {token}"}
    with (
        httpx.Client(headers=headers, timeout=120) as client,
        suppress(OSError, httpx.TransportError),
    ):
        ids = os.open(pipe, os.O_WRONLY)  # once wrk reads
        fcntl.fcntl(ids, fcntl.F_SETPIPE_SZ, LOT * WIDTH)
        while True:
            assigned = client.post(url, json={"count": LOT}).json()["assignments"]
            os.write(ids, b"".join(b"%*d" % (WIDTH, each["id"]) for each in assigned))


def measure(title: str, url: str, seconds: int) -> None:
    """The three figures of one database."""
    rows = insert_rows(url, WARMING)
    with serving(url) as (base, start):
        store = Store(url)
        token = create_token(store, "benchmark", Role.MANAGE)
        store.close()
        names = [f"{time.time_ns()}-{what}" for what in ("warming", "told", "alone")]
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
            for name in names:
                made = {"name": name, **EXPERIMENT}
                client.post(f"{base}/api/v1/experiments", json=made).raise_for_status()
        tell_over_http(base, token, names[0], WARMING)
        found = tell_over_http(base, token, names[1], seconds)
    alone = tell_alone(url, names[2], WARMING)
    print(
        f"{title}: {found['rate']:.0f} tells/s over HTTP on {CONNECTIONS} connections "
        f"(p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms, {found['failed']:.0f} failed); "
        f"library, one thread: {alone:.0f}/s; bare driver: {rows:.0f} rows/s; "
        f"server started in {start:.2f} s",
        flush=True,
    )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--folder", default=".", help="for SQLite's file; this one if left out")
    parser.add_argument("--postgres", metavar="URL", help="measure this database too")
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        measure("SQLite", f"sqlite:///{Path(folder) / 'experiments.db'}", given.seconds)
    if given.postgres is not None:
        measure("PostgreSQL", given.postgres, given.seconds)


if __name__ == "__main__":
    main()
