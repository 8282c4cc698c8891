"""What a long list of experiments costs: over HTTP and on the page, in parts and as a whole.

    python -m benchmarks.lists [--count 10000]

The experiments are copies of one, in a SQLite file. Every figure is the best of five, from one
process that serves and one that asks, over loopback, without compression. The whole is what a
server without parts sends: all experiments in one answer; all cards of the page, with the
verdicts of 100. The library's list of 50 stands beside the bare driver, which fetches the same 50
rows on a connection that is open.

Maintenance is measured by its processor time: one round with nothing new, and twelve rounds, five
seconds apart, while ten experiments change before each of them. The first round, in which all is
new, uses up what upkeep may take at once.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np

from benchmarks.server import serving
from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store.sql import SqlLedger, Store, schema
from bestarm.server.api import schemas
from bestarm.server.experiments import _EVERY, Maintenance, OpenExperiments
from bestarm.server.pages import routes

_TIMES = 5
_ROUNDS = 12


def fill(path: Path, count: int) -> None:
    """A store of so many experiments."""
    with Experiment.create(
        f"sqlite:///{path}",
        "experiment 0",
        Problem(np.eye(3)),
        policy_options={"bounds": [0, 1]},
        description="A copy.",
    ) as first:
        first.tell_many([(each.id, float(each.id % 2)) for each in first.ask(40)])
    numbers = f"WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n LIMIT {count - 1})"
    own = {"id": "k + 1", "name": "'experiment ' || k", "created": "created + k"}
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in schema.metadata.sorted_tables:
            changed = own if table is schema.experiments else {"experiment": "k + 1"}
            key = "id" if table is schema.experiments else "experiment"
            values = ", ".join(changed.get(each.name, f'"{each.name}"') for each in table.c)
            connection.execute(
                f"{numbers} INSERT INTO {table} SELECT {values} FROM {table}, n WHERE {key} = 1"
            )


def best(do: Callable[[], bytes]) -> tuple[float, int]:
    """Milliseconds and bytes."""
    times, size = [], 0
    for _ in range(_TIMES):
        began = time.perf_counter()
        size = len(do())
        times.append(time.perf_counter() - began)
    return 1000 * min(times), size


def whole_api(opened: OpenExperiments) -> bytes:
    found = {"experiments": Experiment.list(opened.store), "next": None}
    return schemas.ListOut.model_validate(found, from_attributes=True).model_dump_json().encode()


def whole_page(opened: OpenExperiments) -> bytes:
    found, total = SqlLedger.search(opened.store, "", first=0, limit=10**9)
    verdicts = [routes._verdict(opened, each.name) for each in found[:100]]
    verdicts += [f"{each.status}.".capitalize() for each in found[100:]]
    rows = tuple(
        (each, verdict, None, each.status.state)
        for each, verdict in zip(found, verdicts, strict=True)
    )
    part = routes.Listing(rows, "", 1, 1, total)
    return json.dumps({"html": routes._rows(part)}).encode()


def show(what: str, part: tuple[float, int], whole: tuple[float, int]) -> None:
    print(
        f"{what:28} {part[0]:8.1f} {part[1] / 1000:8.1f} {whole[0]:10.1f} {whole[1] / 1000:10.1f} "
        f"{part[0] / whole[0]:8.3f} {part[1] / whole[1]:8.4f}",
        flush=True,
    )


def library(path: Path) -> None:
    """The first page by the library, beside the driver."""
    url, connection = f"sqlite:///{path}", sqlite3.connect(path)
    store = Store(url)

    def fetch() -> bytes:
        text = "SELECT * FROM bestarm_experiments ORDER BY id LIMIT 50"
        return str(len(connection.execute(text).fetchall())).encode()

    driver, _ = best(fetch)
    for what, where in (("a store", store), ("a URL", url)):
        took, _ = best(lambda where=where: str(Experiment.list(where, limit=50)).encode())  # type: ignore[misc]
        print(
            f"Experiment.list(limit=50), {what}: {took:.1f} ms, {took / driver:.1f} × the driver's"
        )
    store.close()
    connection.close()


def upkeep(opened: OpenExperiments) -> None:
    """The share of a core that upkeep takes."""
    keeper = Maintenance(opened)

    def used() -> float:
        start = time.process_time()
        keeper.run_once()
        return time.process_time() - start

    first, rounds = used(), list[float]()
    for _ in range(_ROUNDS):
        for number in range(10):
            opened.open(f"experiment {number}").ask(1)
        time.sleep(_EVERY)
        rounds.append(used())
    idle = min(used() for _ in range(_TIMES))
    share = sum(rounds) / (_ROUNDS * _EVERY)
    print(
        f"Maintenance: {1000 * first:.0f} ms for the first round, {1000 * idle:.1f} ms where "
        f"nothing is new, {share:.2%} of a core while ten of the experiments change"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.db"
        url = f"sqlite:///{path}"
        fill(path, count)
        opened = OpenExperiments(Store(url))
        everything, cards = best(lambda: whole_api(opened)), best(lambda: whole_page(opened))
        print(f"{count} experiments".ljust(28), "  part ms       KB   whole ms         KB", end="")
        print("   ÷ time   ÷ size")
        plain = {"Accept-Encoding": "identity"}
        with serving(url) as (base, _), httpx.Client(base_url=base, headers=plain) as client:
            show(
                "GET /api/v1/experiments",
                best(lambda: client.get("/api/v1/experiments").content),
                everything,
            )
            show("GET / (the page)", best(lambda: client.get("/").content), cards)
            show("GET /list (all is new)", best(lambda: client.get("/list").content), cards)
            known = {"If-None-Match": client.get("/list").headers["ETag"]}

            def again() -> bytes:
                found = client.get("/list", headers=known)
                assert found.status_code == 304
                return found.content

            show("GET /list (nothing is new)", best(again), cards)
            show("GET /?search=", best(lambda: client.get("/?search=experiment 77").content), cards)
        library(path)
        upkeep(opened)
        opened.store.close()


if __name__ == "__main__":
    main()
