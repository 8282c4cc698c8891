"""How many outcomes a server takes a second over HTTP, and how long each request takes.

    python -m benchmarks.server [--seconds 10] [--only sqlite postgres workers start]
        [--folder FOLDER] [--postgres postgresql://user@host/name] [--no-page]

Needs wrk (on Debian: apt-get install wrk), which calls the server over loopback on connections that
stay open, while a page of the experiment is open that follows it, unless told otherwise. This
process asks for assignments in lots as tells use them up, so that the times of tells are those of
nothing else. Every request is answered after its outcomes are on disk, which is that of the
folder: one in memory shows what computing costs. The experiment's policy is the anytime rule,
whose phases close as outcomes come in. Each figure stands beside two others of the same run: those
of the smallest application that there is, an empty route of Starlette on the same server, on the
same connections, and those of a plain loop that puts one row after another into the same kind of
database, each on disk before the next. PostgreSQL is the one that tests run, with PYTHONPATH=tests,
or the database named.
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
Case = tuple[str, int, int]
CASES: tuple[Case, ...] = (  # what is sent, how many in each request, over how many connections
    ("tell", 1, 1),
    ("tell", 1, 16),
    ("tell", 1, 64),
    ("tell", 100, 4),
    ("tell", 1000, 4),
    ("ask", 1, 16),
    ("ask", 100, 4),
)
PAUSE = 1.0  # seconds that a page leaves between two looks
LOT = (200, 5000)  # assignments asked for at a time, at least and at most
WIDTH = 20  # characters of an id on its way to wrk, so that few are on it
WARMING = 3  # seconds in which a new server loads what it needs

EMPTY = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def answer(request):
    return Response()

app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
config = uvicorn.Config(app, port=int(sys.argv[1]), log_level="error", access_log=False)
uvicorn.Server(config).run()
"""

# Tells read the ids of their assignments from a pipe.
SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %(token)s"
local threads, ids = {}, nil
function setup(thread) table.insert(threads, thread) end
wrong = 0
function request()
  if "%(what)s" == "ask" then return wrk.format(nil, "%(path)s/ask", nil, '{"count": %(size)d}') end
  ids = ids or io.open("%(pipe)s")
  local parts = {}
  for i = 1, %(size)d do
    local id = tonumber(ids:read(%(width)d))
    parts[i] = string.format('{"id": %%d, "reward": %%.3f}', id, math.random())
  end
  return wrk.format(nil, "%(path)s/tell", nil, '{"outcomes": [' .. table.concat(parts, ",") .. ']}')
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
    command = [*SERVE, "--store", url, "--rate", "1000000", *options]
    with running(lambda port: [*command, "--port", port], "/api/v1/experiments") as found:
        yield found


@contextmanager
def running(command: Callable[[str], list[str]], path: str) -> Iterator[tuple[str, float]]:
    """A program that answers over HTTP: its address, and the seconds to its first answer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    began = time.perf_counter()
    process = subprocess.Popen(command(port), stdout=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(f"{base}{path}")
                break
            except httpx.TransportError:
                time.sleep(0.01)
        yield base, time.perf_counter() - began
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


def call(base: str, token: str, path: str, case: Case, seconds: int) -> dict[str, float]:
    """What wrk finds when it sends one kind of request for a while."""
    what, size, connections = case
    with tempfile.TemporaryDirectory() as folder:
        pipe, script = Path(folder) / "ids", Path(folder) / "script.lua"
        os.mkfifo(pipe)
        values = {"what": what, "size": size, "token": token, "path": path}
        script.write_text(SCRIPT % {**values, "pipe": pipe, "width": WIDTH})
        if what == "tell":
            lot = min(max(10 * size, LOT[0]), LOT[1])
            Thread(target=supply, args=(f"{base}{path}/ask", token, lot, pipe), daemon=True).start()
        command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s"]
        ran = subprocess.run(
            [*command, "-s", script, base], capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found | {"rate": found["requests"] / found["seconds"]}


def supply(url: str, token: str, lot: int, pipe: Path) -> None:
    """Ask for assignments as long as somebody reads their ids from a pipe, some ahead of it."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(headers=headers, timeout=120) as client, suppress(BrokenPipeError):
        ids = os.open(pipe, os.O_WRONLY)  # once wrk reads
        fcntl.fcntl(ids, fcntl.F_SETPIPE_SZ, lot * WIDTH)
        while True:
            assigned = client.post(url, json={"count": lot}).json()["assignments"]
            os.write(ids, b"".join(b"%*d" % (WIDTH, each["id"]) for each in assigned))


def begin(base: str, token: str, *, page: bool) -> str:
    """The path of a new experiment, which a page may follow."""
    name = f"{time.time_ns()}"
    headers = {"Authorization": f"Bearer {token}"}
    made = {"name": name, **EXPERIMENT}
    answer = httpx.post(f"{base}/api/v1/experiments", json=made, headers=headers, timeout=120)
    answer.raise_for_status()
    if page:
        Thread(target=follow, args=(base, name), daemon=True).start()
    return f"/api/v1/experiments/{name}"


def measure(title: str, url: str, seconds: int, *options: str, page: bool) -> None:
    """All kinds of requests to one server, each on an experiment of its own."""
    loop = plain(url)
    empty: dict[int, float] = {}
    with running(lambda port: [sys.executable, "-c", EMPTY, port], "/") as (base, _):
        for connections in sorted({each for _, _, each in CASES}):
            found = call(base, "", "", ("ask", 1, connections), min(seconds, WARMING))
            empty[connections] = found["rate"]
    print(f"\n{title}; a plain loop has {loop:.0f} rows/s, an empty route", end=" ")
    print(", ".join(f"{rate:.0f} requests/s on {each}" for each, rate in empty.items()))
    print("what   size  connections  requests/s  a second ", end="")
    print("  p50 ms   p99 ms   max ms  failed    ÷ loop   ÷ empty")
    with serving(url, *options) as (base, _):
        store = Store(url)
        token = create_token(store, "benchmark", Role.MANAGE)
        store.close()
        call(base, token, begin(base, token, page=page), CASES[1], WARMING)
        for case in CASES:
            what, size, connections = case
            found = call(base, token, begin(base, token, page=page), case, seconds)
            rate, failed = found["rate"], found["failed"] + found["errors"]
            print(
                f"{what:5} {size:5} {connections:12} {rate:11.0f} {rate * size:10.0f} "
                f"{found['p50']:8.1f} {found['p99']:8.1f} {found['max']:8.1f} {failed:7.0f} "
                f"{rate / loop:9.2f} {rate / empty[connections]:9.2f}",
                flush=True,
            )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--folder", help="for SQLite's files; that of temporary files if left out")
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    kinds = ("start", "sqlite", "postgres", "workers")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is not installed; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if "start" in given.only:
            url = f"sqlite:///{Path(folder) / 'start.db'}"
            times = []
            for _ in range(5):
                with serving(url) as (_, took):
                    times.append(took)
            print(f"from start to first answer: {min(times):.2f} s at best, {times}")
        if "sqlite" in given.only:
            url = f"sqlite:///{Path(folder) / 'experiments.db'}"
            measure("SQLite, one process", url, given.seconds, page=given.page)
    wanted = [kind for kind in ("postgres", "workers") if kind in given.only]
    if wanted:
        with postgres(given.postgres) as database:
            for kind in wanted:
                url, several = database(), kind == "workers"
                title = f"PostgreSQL, {'two processes' if several else 'one process'}"
                options = ("--workers", "2") if several else ()
                measure(title, url, given.seconds, *options, page=given.page)


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
