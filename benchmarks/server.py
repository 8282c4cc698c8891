"""How many outcomes a server takes a second over HTTP, and how long each request takes.

    python -m benchmarks.server [--seconds 10] [--only sqlite postgres workers start]
        [--folder FOLDER] [--postgres postgresql://user@host/name]

Needs wrk (on Debian: apt-get install wrk), which calls the server over loopback on connections that
stay open, while a page of the experiment is open that follows it. Assignments are asked for in lots
as tells use them up, and every request is answered after its outcomes are on disk, which is that of
the folder: one in memory shows what computing costs. The experiment's policy is the anytime rule,
whose phases close as outcomes come in. Each figure stands beside two others of the same run: those
of the smallest application that there is, an empty route of Starlette on the same server, on the
same connections, and those of a plain loop that puts one row after another into the same kind of
database, each on disk before the next. PostgreSQL is the one that tests run, with PYTHONPATH=tests,
or the database named.
"""

from __future__ import annotations

import argparse
import json
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

# Each thread of wrk tells outcomes of assignments that it asked for itself, none twice.
SCRIPT = """
local threads = {}
function setup(thread) table.insert(threads, thread) end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %(token)s"
wrong, answered, known, first, last, asking = 0, 0, {}, 1, 0, false
function request()
  if "%(what)s" == "ask" then return wrk.format(nil, "%(path)s/ask", nil, '{"count": %(size)d}') end
  local left = last - first + 1
  if left < %(size)d or (left < %(lot)d / 2 and not asking) then
    asking = true
    return wrk.format(nil, "%(path)s/ask", nil, '{"count": %(lot)d}')
  end
  local parts = {}
  for i = 0, %(size)d - 1 do
    parts[i + 1] = string.format('{"id": %%s, "reward": %%.3f}', known[first], math.random())
    known[first], first = nil, first + 1
  end
  return wrk.format(nil, "%(path)s/tell", nil, '{"outcomes": [' .. table.concat(parts, ",") .. ']}')
end
function response(status, headers, body)
  if status ~= 200 then wrong = wrong + 1 end
  if "%(what)s" == "tell" and string.sub(body, 1, 14) == '{"assignments"' then
    asking = false
    for id in string.gmatch(body, '"id":(%%d+)') do last, known[last + 1] = last + 1, id end
  else
    answered = answered + 1
  end
end
function done(summary, latency)
  local failed, answered = 0, 0
  for _, thread in ipairs(threads) do
    failed, answered = failed + thread:get("wrong"), answered + thread:get("answered")
  end
  io.write(string.format('{"requests": %%d, "seconds": %%f, "p50": %%f, "p99": %%f, "max": %%f, ' ..
    '"failed": %%d, "errors": %%d}\\n', answered, summary.duration / 1e6,
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
    values = {"what": what, "size": size, "token": token, "path": path}
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % {**values, "lot": min(max(10 * size, LOT[0]), LOT[1])})
        script.flush()
        threads = str(min(connections, 2))
        command = ["wrk", "-t", threads, "-c", str(connections), "-d", f"{seconds}s"]
        ran = subprocess.run(
            [*command, "-s", script.name, base], capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found | {"rate": found["requests"] / found["seconds"]}


def begin(base: str, token: str, *, page: bool = True) -> str:
    """The path of a new experiment, which a page may follow."""
    name = f"{time.time_ns()}"
    headers = {"Authorization": f"Bearer {token}"}
    made = {"name": name, **EXPERIMENT}
    answer = httpx.post(f"{base}/api/v1/experiments", json=made, headers=headers, timeout=120)
    answer.raise_for_status()
    if page:
        Thread(target=follow, args=(base, name), daemon=True).start()
    return f"/api/v1/experiments/{name}"


def load(base: str, token: str, case: Case, seconds: int) -> dict[str, float]:
    """What wrk finds on an experiment of its own, which a page follows."""
    return call(base, token, begin(base, token), case, seconds)


def measure(title: str, url: str, seconds: int, *options: str) -> None:
    """All kinds of requests to one server."""
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
        load(base, token, CASES[0], WARMING)
        for case in CASES:
            what, size, connections = case
            found = load(base, token, case, seconds)
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
