"""How many outcomes a server takes a second over HTTP, and how long each request takes.

    python -m benchmarks.server [--seconds 10] [--only sqlite postgres workers start]
        [--postgres postgresql://user@host/name]

Needs wrk (on Debian: apt-get install wrk), which calls the server over loopback on connections that
stay open, while a page of the experiment is open that follows it. Tells are of assignments given
out before, and every request is answered after its outcomes are on disk. The experiment's policy is
the anytime rule, whose phases close as outcomes come in. The last column compares single tells with
a plain loop that puts one row after another into the same kind of database, each on disk before the
next, measured in the same run. PostgreSQL is the one that tests run, with PYTHONPATH=tests, or the
database named.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread

import httpx
from sqlalchemy import create_engine

from bestarm.live.store.sql import Store
from bestarm.server.security.tokens import Role, create_token

SERVE = [sys.executable, "-c", "from bestarm.cli import main; main()", "serve", "--quiet"]
EXPERIMENT = {"source": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "options": {"bounds": [0, 1]}}
CASES = (  # what is sent, how many in each request, over how many connections
    ("tell", 1, 1),
    ("tell", 1, 16),
    ("tell", 1, 64),
    ("tell", 100, 4),
    ("tell", 1000, 4),
    ("ask", 1, 16),
    ("ask", 100, 4),
)
PAUSE = 1.0  # seconds that a page leaves between two looks
PER_SECOND = {1: 4000, 100: 60_000, 1000: 120_000}  # more outcomes than can be told

# Each thread of wrk tells its own part of the assignments, none twice.
SCRIPT = """
local threads, made = {}, 0
function setup(thread)
  thread:set("first", made * %(part)d)
  made = made + 1
  table.insert(threads, thread)
end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %(token)s"
wrong = 0
function request()
  if "%(what)s" == "ask" then return wrk.format(nil, nil, nil, '{"count": %(size)d}') end
  local parts = {}
  for i = 0, %(size)d - 1 do
    parts[i + 1] = string.format('{"id": %%d, "reward": %%.3f}', first + i, math.random())
  end
  first = first + %(size)d
  return wrk.format(nil, nil, nil, '{"outcomes": [' .. table.concat(parts, ",") .. ']}')
end
function response(status) if status ~= 200 then wrong = wrong + 1 end end
function done(summary, latency)
  local failed = 0
  for _, thread in ipairs(threads) do failed = failed + thread:get("wrong") end
  io.write(string.format('{"requests": %%d, "seconds": %%f, "p50": %%f, "p99": %%f, "max": %%f, ' ..
    '"failed": %%d, "errors": %%d}\\n', summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000, failed,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"""


@contextmanager
def serving(url: str, *options: str) -> Iterator[tuple[str, float]]:
    """A server's address, and the seconds from its start to its first answer."""
    began = time.perf_counter()
    command = [*SERVE, "--store", url, "--port", "0", "--rate", "1000000", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
        assert found is not None
        while True:
            try:
                httpx.get(f"{found[0]}/api/v1/experiments")
                break
            except httpx.TransportError:
                time.sleep(0.01)
        yield found[0], time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(30)


def follow(base: str, name: str) -> None:
    """What an open page does until the server stops: with news it brings its panels up to date."""
    seen = {"If-None-Match": ""}
    with (
        suppress(httpx.TransportError),
        httpx.Client(base_url=base, timeout=None) as page,
        page.stream("GET", f"/api/v1/experiments/{name}/stream") as news,
    ):
        for line in news.iter_lines():
            if line.startswith("event: status"):
                panels = page.get(f"/experiments/{name}/panels", headers=seen)
                seen["If-None-Match"] = panels.headers["ETag"]
                time.sleep(PAUSE)


def plain(url: str) -> float:
    """Rows a second of a loop that knows nothing but its table."""
    engine = create_engine(Store(url).url)
    number, until = 0, time.perf_counter() + 3
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
    engine.dispose()
    return number / 3


def load(
    base: str, token: str, what: str, size: int, connections: int, seconds: int, loop: float
) -> None:
    """Send one kind of request for a while to an experiment of its own; print how that went."""
    name = f"{what}-{size}-{connections}-{time.time_ns()}"
    threads = min(connections, 2)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{base}/api/v1", headers=headers, timeout=120) as client:
        client.post("/experiments", json={"name": name, **EXPERIMENT}).raise_for_status()
        part = PER_SECOND[size] * seconds // threads
        for _ in range(part * threads // 50_000 + 1 if what == "tell" else 0):
            client.post(f"/experiments/{name}/ask", json={"count": 50_000}).raise_for_status()
    Thread(target=follow, args=(base, name), daemon=True).start()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % {"what": what, "size": size, "token": token, "part": part})
        script.flush()
        ran = subprocess.run(
            [
                *("wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s"),
                *("-s", script.name, f"{base}/api/v1/experiments/{name}/{what}"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(ran.stdout.splitlines()[-1])
    rate = found["requests"] / found["seconds"]
    print(
        f"{what:5} {size:5} {connections:12} {rate:11.0f} {rate * size:10.0f} {found['p50']:8.1f} "
        f"{found['p99']:8.1f} {found['max']:8.1f} {found['failed'] + found['errors']:7}"
        + (f" {rate / loop:8.2f}" if (what, size) == ("tell", 1) else ""),
        flush=True,
    )


def measure(title: str, url: str, seconds: int, *options: str) -> None:
    """All kinds of requests to one server."""
    loop = plain(url)
    print(f"\n{title}; a plain loop has {loop:.0f} rows/s")
    print("what   size  connections  requests/s  a second ", end="")
    print("  p50 ms   p99 ms   max ms  failed    ÷ loop")
    with serving(url, *options) as (base, _):
        store = Store(url)
        token = create_token(store, "benchmark", Role.MANAGE)
        store.close()
        for what, size, connections in CASES:
            load(base, token, what, size, connections, seconds, loop)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--postgres", metavar="URL")
    kinds = ("start", "sqlite", "postgres", "workers")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        if "start" in given.only:
            url = f"sqlite:///{Path(folder) / 'start.db'}"
            times = []
            for _ in range(5):
                with serving(url) as (_, took):
                    times.append(took)
            print(f"from start to first answer: {min(times):.2f} s at best, {times}")
        if "sqlite" in given.only:
            measure(
                "SQLite, one process", f"sqlite:///{Path(folder) / 'experiments.db'}", given.seconds
            )
    wanted = [kind for kind in ("postgres", "workers") if kind in given.only]
    if wanted:
        with postgres(given.postgres) as database:
            for kind in wanted:
                url, several = database(), kind == "workers"
                title = f"PostgreSQL, {'two processes' if several else 'one process'}"
                measure(title, url, given.seconds, *(("--workers", "2") if several else ()))


@contextmanager
def postgres(url: str | None) -> Iterator[Callable[[], str]]:
    """Gives databases: the one named, or new ones on a server that is run here."""
    if url is not None:
        yield lambda: url
        return
    kit = import_module("postgres")
    programs = kit.find_programs()
    assert programs is not None, "PostgreSQL's server is not installed"
    with kit.server(programs) as server, ExitStack() as stack:
        yield lambda: stack.enter_context(server.database())


if __name__ == "__main__":
    main()
