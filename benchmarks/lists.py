"""What a long list of experiments costs: over HTTP and on the page, in parts and as a whole.

    python -m benchmarks.lists [--count 10000]

The experiments are copies of one, in a SQLite file. Every figure is the best of five, from one
process that serves and one that asks, over loopback, without compression. The whole is what a
server without parts sends: all experiments in one answer; all cards of the page, with the
verdicts of 100.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
from sqlalchemy import insert, select

from benchmarks.server import serving
from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store.sql import SqlLedger, Store, schema
from bestarm.server.api import schemas as io
from bestarm.server.experiments import OpenExperiments
from bestarm.server.pages import listing, routes
from bestarm.server.security.limits import Limits

_TIMES = 5


def fill(url: str, count: int) -> None:
    """A store of so many experiments."""
    store = Store(url)
    with Experiment.create(
        store, "experiment 0", Problem(np.eye(3)), options={"bounds": [0, 1]}, description="A copy."
    ) as first:
        first.tell_many([(each.id, float(each.id % 2)) for each in first.ask(40)])
    with store.writing() as connection:
        row = connection.execute(select(schema.experiments)).one()._asdict()
        copies = [
            row
            | {"id": number + 1, "name": f"experiment {number}", "created": row["created"] + number}
            for number in range(1, count)
        ]
        connection.execute(insert(schema.experiments), copies)
        for table in schema.metadata.sorted_tables:
            if "experiment" not in table.c:
                continue
            rows = [each._asdict() for each in connection.execute(select(table))]
            if rows:
                for number in range(1, count):
                    connection.execute(
                        insert(table), [each | {"experiment": number + 1} for each in rows]
                    )
    store.close()


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
    return io.ListOut.model_validate(found, from_attributes=True).model_dump_json().encode()


def whole_page(opened: OpenExperiments) -> bytes:
    found, total = SqlLedger.search(opened.store, "", first=0, limit=10**9)
    verdicts = [listing._verdict(opened, each.name) for each in found[:100]]
    verdicts += [f"{each.status}.".capitalize() for each in found[100:]]
    rows = tuple((*each, None) for each in zip(found, verdicts, strict=True))
    part = listing.Listing(rows, "", 1, 1, total)
    return json.dumps({"html": routes._rows(part)}).encode()


def show(what: str, part: tuple[float, int], whole: tuple[float, int]) -> None:
    print(
        f"{what:28} {part[0]:8.1f} {part[1] / 1000:8.1f} {whole[0]:10.1f} {whole[1] / 1000:10.1f} "
        f"{part[0] / whole[0]:8.3f} {part[1] / whole[1]:8.4f}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'many.db'}"
        fill(url, count)
        opened = OpenExperiments(Store(url), limits=Limits())
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
        opened.store.close()


if __name__ == "__main__":
    main()
