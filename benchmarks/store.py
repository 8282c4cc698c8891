"""Assignments asked for and told a second, by 1, 4 and 8 processes, beside plain insert loops.

    python -m benchmarks.store [--url URL] [--seconds S] [--growth N]

Without `--url`: on a SQLite file in a temporary folder, and on a PostgreSQL started for it if one
is installed. Every process asks for a batch and tells its outcomes, each in a transaction that is
on the disk when the call returns, for some seconds; then as many processes insert as many rows by
hand, a row for every assignment and one for every outcome, in as many transactions, into tables
without anything else on them, with the same settings. The experiment is one of the default policy,
and all that this does is counted. `least` is the share of the process that came to the fewest
turns, relative to an equal one; `longest` is the longest that one turn, asking and telling, took.

The second table is of one process and 10 000 rows, both sides in turn, medians of seven.

`--growth` builds an experiment of N outcomes instead, then opens it in a fresh process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url

from bestarm import Experiment, Problem

PROCESSES = (1, 4, 8)
BATCHES = (1, 100, 10_000)
ROWS = 10_000
REPEATS = 7
PROBLEM = Problem(np.eye(5), delta=0.05)
OPTIONS = {"bounds": [0, 1]}

processes = multiprocessing.get_context("forkserver")
_names = count()


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of the store.")
    parser.add_argument("--url", help="an empty database that tables may be made in")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument(
        "--growth", type=int, help="outcomes of an experiment to build, then to open"
    )
    given = parser.parse_args()
    processes.set_forkserver_preload(["bestarm.live.store.sql", "bestarm.policies.anytime.rule"])
    for title, url in _databases(given.url):
        print(f"{title}\n")
        if given.growth:
            _grow(url, given.growth)
            continue
        print(f"{'processes':>9} {'batch':>7} {'asked and told/s':>17} {'plain/s':>10} ", end="")
        print(f"{'ratio':>6} {'least':>6} {'longest':>9} {'plain':>9} {'errors':>7}")
        for batch in BATCHES:
            for number in PROCESSES:
                _row(url, number, batch, given.seconds)
        _print_single(url)


def _databases(url: str | None) -> Iterator[tuple[str, str]]:
    if url is not None:
        yield make_url(url).get_backend_name(), url
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"SQLite {sqlite3.sqlite_version}", f"sqlite:///{folder}/experiments.db"
    postgres = import_module("tests.postgres")
    programs = postgres.find_programs()
    if programs is None:
        print("\nPostgreSQL is not installed.")
        return
    with postgres.server(programs) as server, server.database() as database:
        yield "\nPostgreSQL", database


@dataclass(frozen=True)
class _Share:
    """What one process came to."""

    rate: float
    longest: float
    errors: int


def _row(url: str, number: int, batch: int, seconds: float) -> None:
    name = f"experiment {next(_names)}"
    Experiment.create(url, name, PROBLEM, policy_options=OPTIONS, seed=0).close()
    with closing(_Plain(url)) as plain:
        plain.create()
    ours = _together(_ask_and_tell, [(url, name, batch)] * number, seconds)
    theirs = _together(_insert, [(url, place, batch) for place in range(number)], seconds)
    rates = [sum(share.rate for share in each) for each in (ours, theirs)]
    longest = [max(share.longest for share in each) for each in (ours, theirs)]
    least = min(share.rate for share in ours) * number / rates[0]
    print(
        f"{number:>9} {batch:>7,} {rates[0]:>17,.0f} {rates[1]:>10,.0f} "
        f"{rates[0] / rates[1]:>5.2f}× {least:>6.2f} {longest[0] * 1000:>6,.0f} ms "
        f"{longest[1] * 1000:>6,.0f} ms {sum(share.errors for share in ours):>7}",
        flush=True,
    )


Work = Callable[..., AbstractContextManager[Callable[[], int]]]


def _together(work: Work, each: list[tuple[object, ...]], seconds: float) -> list[_Share]:
    """Let processes take turns at their work for some seconds, beginning at once."""
    start, results = processes.Barrier(len(each)), processes.SimpleQueue()
    running = [
        processes.Process(target=_measure, args=(work, arguments, start, results, seconds))
        for arguments in each
    ]
    for process in running:
        process.start()
    shares: list[_Share] = [results.get() for _ in running]
    for process in running:
        process.join()
    return shares


def _measure(
    work: Work, arguments: tuple[object, ...], start: Barrier, results: Any, seconds: float
) -> None:
    rows = errors = 0
    longest = 0.0
    with work(*arguments) as turn:
        turn()  # imports what is imported late
        start.wait()
        begun = now = time.perf_counter()
        while now < begun + seconds:
            try:
                rows += turn()
            except Exception as error:
                print(error, flush=True)
                errors += 1
            before, now = now, time.perf_counter()
            longest = max(longest, now - before)
    results.put(_Share(rows / (now - begun), longest, errors))


@contextmanager
def _ask_and_tell(url: str, name: str, batch: int) -> Iterator[Callable[[], int]]:
    with Experiment.open(url, name) as experiment:

        def turn() -> int:
            given = experiment.ask(batch)
            experiment.tell_many(dict.fromkeys(given.ids, 0.5))
            return len(given)

        yield turn


@contextmanager
def _insert(url: str, place: int, batch: int) -> Iterator[Callable[[], int]]:
    first = count(place * 10**9, batch)
    with closing(_Plain(url)) as plain:

        def turn() -> int:
            number = next(first)
            plain.give(number, batch)
            plain.tell(number, batch)
            return batch

        yield turn


class _Plain:
    """Tables with nothing on them but a key, and loops that insert a row at a time."""

    def __init__(self, url: str) -> None:
        self._connection: Any
        if url.startswith("sqlite"):
            path = str(make_url(url).database)
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
            for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {setting}")
            self._begin, self._mark, self._ending = "BEGIN IMMEDIATE", "?", " WITHOUT ROWID"
        else:
            import psycopg  # noqa: PLC0415

            self._connection = psycopg.connect(url, autocommit=True)
            self._begin, self._mark, self._ending = "BEGIN", "%s", ""

    def create(self) -> None:
        """Make the tables anew."""
        keys = "experiment INTEGER, number BIGINT"
        columns = {
            "given": "phase BIGINT, arm INTEGER, probability FLOAT, asked FLOAT",
            "told": "reward FLOAT, told FLOAT, late SMALLINT",
        }
        for name, others in columns.items():
            self._connection.execute(f"DROP TABLE IF EXISTS plain_{name}")
            self._connection.execute(
                f"CREATE TABLE plain_{name} ({keys}, {others}, PRIMARY KEY (experiment, number))"
                + self._ending
            )

    def give(self, first: int, size: int) -> None:
        """As many rows as `ask` adds."""
        self._add("given", ((1, first + i, 1, i % 5, 0.2, 1.7e9) for i in range(size)), 6)

    def tell(self, first: int, size: int) -> None:
        """As many rows as `tell_many` adds."""
        self._add("told", ((1, first + i, 0.5, 1.7e9, 0) for i in range(size)), 5)

    def _add(self, table: str, rows: Iterator[tuple[float, ...]], columns: int) -> None:
        marks = ", ".join([self._mark] * columns)
        statement = f"INSERT INTO plain_{table} VALUES ({marks})"
        cursor = self._connection.cursor()
        cursor.execute(self._begin)
        for row in rows:
            cursor.execute(statement, row)
        cursor.execute("COMMIT")

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _print_single(url: str) -> None:
    times: dict[str, list[float]] = {}
    with (
        Experiment.create(url, "single", PROBLEM, policy_options=OPTIONS, seed=0) as experiment,
        closing(_Plain(url)) as plain,
    ):
        plain.create()
        for repeat in range(REPEATS):
            with _timed(times, "ask"):
                given = experiment.ask(ROWS)
            with _timed(times, "ask, by hand"):
                plain.give(repeat * ROWS, ROWS)
            outcomes = dict.fromkeys(given.ids, 0.5)
            with _timed(times, "tell_many"):
                experiment.tell_many(outcomes)
            with _timed(times, "tell_many, by hand"):
                plain.tell(repeat * ROWS, ROWS)
    print(f"\n{'one call, 10 000 rows':<22} {'takes':>9} {'plain loop':>11} {'ratio':>6}")
    for name in ("ask", "tell_many"):
        ours, theirs = (statistics.median(times[name + end]) for end in ("", ", by hand"))
        print(
            f"{name:<22} {ours * 1000:>6,.0f} ms {theirs * 1000:>8,.0f} ms {ours / theirs:>5.2f}×"
        )


@contextmanager
def _timed(times: dict[str, list[float]], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times.setdefault(name, []).append(time.perf_counter() - start)


def _grow(url: str, outcomes: int) -> None:
    print(f"{'outcomes':>12} {'a second':>9} {'phase':>6} {'memory':>9}")
    experiment = Experiment.create(url, "large", PROBLEM, policy_options=OPTIONS, seed=0)
    begun, shown, told = time.perf_counter(), 0, 0
    while told < outcomes:
        given = experiment.ask(min(ROWS, outcomes - told))
        rewards = (np.asarray(given.ids) * 0.6180339887) % 1
        experiment.tell_many(dict(zip(given.ids, rewards.tolist(), strict=True)))
        told += len(given)
        if 10 * told // outcomes > shown:
            shown = 10 * told // outcomes
            rate = told / (time.perf_counter() - begun)
            print(f"{told:>12,} {rate:>9,.0f} {experiment.phase:>6} {_memory():>9}", flush=True)
    experiment.close()
    results = processes.SimpleQueue()
    fresh = multiprocessing.get_context("spawn").Process(target=_open, args=(url, results))
    fresh.start()
    for line in iter(results.get, None):
        print(line)
    fresh.join()


def _open(url: str, results: Any) -> None:
    import bestarm.live.store.sql  # noqa: F401, PLC0415

    before = _memory()
    times: dict[str, list[float]] = {}
    for again in ("", ", again"):  # what is imported late is imported once
        with _timed(times, f"open{again}"):
            experiment = Experiment.open(url, "large")
        with _timed(times, f"status{again}"):
            status = experiment.status()
        with _timed(times, f"recommendation{again}"):
            experiment.recommendation()
        with _timed(times, f"ask{again}"):
            given = experiment.ask(1)
        with _timed(times, f"tell{again}"):
            experiment.tell(given.ids[0], 0.5)
        experiment.close()
    results.put(f"\n{status}")
    for name, (took,) in times.items():
        results.put(f"{name:<22} {took * 1000:>8,.1f} ms")
    results.put(f"memory: {before} before it was opened, {_memory()} at most since")
    results.put(None)


def _memory() -> str:
    """The most memory this process ever had."""
    try:
        # What `getrusage` says of a new process includes what its parent had.
        lines = Path("/proc/self/status").read_text().splitlines()
        size = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except FileNotFoundError:
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f"{size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main()
