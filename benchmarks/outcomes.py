"""What one outcome costs: single calls beside the bare driver, another version, and optuna.

    python -m benchmarks.outcomes [--folder DIR] [--outcomes 2000] [--other CHECKOUT]
        [--optuna PYTHON] [--only sqlite postgresql threads processes]

Every `ask` and every `tell` is of one assignment, in a transaction that is on the disk when the
call returns. "Driver" is the driver's own cursor with the same durable statements: begin, read the
counters (for update), insert the row, update three counters, commit. `--other` is a checkout of
another version of bestarm, measured by this file in turn with this one, in processes of their own.
`--optuna` is a Python that has optuna, whose `ask` and `tell` store a trial each.

`--folder` is where SQLite keeps its file. A folder in memory (/dev/shm) shows what the processor
does; one on a disk what the disk does as well. Medians of five rounds, in turn. The policy is
SP-BAI, in one phase of thousands of pulls; "closing" is the anytime rule, which closes a phase
every few dozen outcomes. Processes have closed a phase of another experiment before; "÷ one" is the
median of the ratios to the round of one process just before.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url

from bestarm import AnytimeBAI, Experiment, Problem

ROUNDS = 5
NUMBERS = (1, 2, 4, 8)  # of processes
PROBLEM = Problem(np.eye(5), delta=0.05, noise=10.0)  # so that a phase of SP-BAI is long
POLICIES: dict[str, dict[str, Any]] = {
    "": {"policy": "sp-bai"},
    ", closing": {"policy": "anytime", "policy_options": {"bounds": [0, 1]}},
}
ROOT = Path(__file__).parent.parent
OPTUNA = """
import json, sys, time
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
url, count = sys.argv[1], int(sys.argv[2])
arms = {"arm": optuna.distributions.CategoricalDistribution(list(range(5)))}
study = optuna.create_study(storage=url, sampler=optuna.samplers.RandomSampler(seed=0))
study.tell(study.ask(arms), 0.5)
times = {"ask": 0.0, "tell": 0.0}
for _ in range(count):
    begun = time.perf_counter()
    trial = study.ask(arms)
    between = time.perf_counter()
    study.tell(trial, 0.5)
    times["ask"] += between - begun
    times["tell"] += time.perf_counter() - between
print(json.dumps({name: took / count for name, took in times.items()}))
"""


# --- one process --------------------------------------------------------------------------------


def ours(url: str, count: int) -> dict[str, float]:
    """Seconds for each kind of call, with the bestarm that is imported."""
    found: dict[str, float] = {}
    for ending, settings in POLICIES.items():
        name = f"{time.time_ns()}"
        with Experiment.create(url, name, PROBLEM, seed=0, **settings) as experiment:
            ids = iter(experiment.ask(count + 100).ids)

            def tell(experiment: Experiment = experiment, ids: Iterator[int] = ids) -> object:
                return experiment.tell(next(ids), 0.5)

            _each(tell, 100)
            found[f"tell{ending}"] = _each(tell, count)
            if not ending:
                found["ask"] = _each(experiment.ask, count)
    return found


def driver(url: str, count: int) -> dict[str, float]:
    """Seconds for the same statements by the driver itself."""
    with closing(_connection(url)) as connection:
        execute = connection.execute
        mark = "?" if url.startswith("sqlite") else "%s"
        begin = "BEGIN IMMEDIATE" if mark == "?" else "BEGIN"
        (number,) = execute("SELECT max(id) FROM bestarm_experiments").fetchone()
        columns = [each[0] for each in execute("SELECT * FROM bestarm_experiments").description]
        counters = ", ".join(f'"{name}"' for name in columns[columns.index("state") :])
        end = "" if mark == "?" else " FOR UPDATE"
        read = f"SELECT {counters} FROM bestarm_experiments WHERE id = {mark}{end}"
        marks = ", ".join([mark] * 5)
        tell = f"INSERT INTO bestarm_outcomes VALUES ({marks})"
        save = (
            f"UPDATE bestarm_experiments SET outcomes = {mark}, phase_outcomes = {mark}, "
            f"last_time = {mark} WHERE id = {mark}"
        )
        ids = iter(range(10**9 + time.time_ns() % 10**9 * 10, 10**18))

        def one() -> None:
            each = next(ids)
            execute(begin)
            execute(read, (number,)).fetchone()
            execute(tell, (number, each, 0.5, 1.7e9, 0))
            execute(save, (each, each, 1.7e9 + each, number))
            execute("COMMIT")

        return {"tell": _each(one, count)}


def _connection(url: str) -> Any:
    if url.startswith("sqlite"):
        raw = sqlite3.connect(str(make_url(url).database), timeout=60, isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            raw.execute(f"PRAGMA {setting}")
        return raw
    import psycopg  # noqa: PLC0415

    return psycopg.connect(url, autocommit=True)


def _each(do: Callable[[], object], count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        do()
    return (time.perf_counter() - begun) / count


def apart(url: str, count: int, checkout: Path) -> dict[str, float]:
    """What `ours` finds with another checkout's package, in a process of its own."""
    # This file, so that both are measured alike; the package, from the checkout.
    path = os.pathsep.join([str(checkout / "src"), str(ROOT)])
    arguments = ["--one", url, "--outcomes", str(count)]
    return _said([sys.executable, "-m", "benchmarks.outcomes", *arguments], path)


def _said(command: list[str], path: str | None = None) -> dict[str, float]:
    environment = os.environ if path is None else {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def one_process(
    stores: Callable[[], str], count: int, other: Path | None, optuna: str | None
) -> None:
    """The table of single calls."""
    times: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        url = stores()
        found = {"bestarm": apart(url, count, ROOT), "driver": driver(url, count)}
        if other is not None:
            found["other version"] = apart(stores(), count, other)
        if optuna is not None:
            place = stores().replace("postgresql:", "postgresql+psycopg:")
            found["optuna"] = _said([optuna, "-c", OPTUNA, place, str(count // 10)])
        for who, each in found.items():
            for call, took in each.items():
                times.setdefault(call, {}).setdefault(who, []).append(took)
    print(f"{'call':<14} {'by':<14} {'takes':>9} {'÷ bestarm':>10}")
    for call, by in times.items():
        mine = statistics.median(by["bestarm"])
        for who, all_times in by.items():
            took = statistics.median(all_times)
            print(f"{call:<14} {who:<14} {took * 1000:>6.3f} ms {took / mine:>9.2f}×", flush=True)


# --- several threads or processes ---------------------------------------------------------------


def threads(stores: Callable[[], str], count: int) -> None:
    """Single tells by threads of one process, beside one thread."""
    print(f"\n{'threads':>9} {'tells/s':>10}")
    for number in (1, 4, 16):
        url = stores()
        settings = POLICIES[""]
        with (
            Experiment.create(url, "threads", PROBLEM, seed=0, **settings) as experiment,
            ThreadPoolExecutor(number) as pool,
        ):
            ids = list(experiment.ask(count).ids)
            begun = time.perf_counter()
            list(pool.map(lambda each, tell=experiment.tell: tell(each, 0.5), ids))
            print(f"{number:>9} {count / (time.perf_counter() - begun):>10,.0f}", flush=True)


def processes(stores: Callable[[], str], seconds: float) -> None:
    """Asked and told one at a time, by processes at once; numbers of processes in turn."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bestarm.live.store", "bestarm.policies.anytime.rule"])
    pipes = [context.Pipe() for _ in range(max(NUMBERS))]
    for _, theirs in pipes:
        context.Process(target=_turns, args=(theirs,), daemon=True).start()
    ready = [mine for mine, _ in pipes]
    for each in ready:
        each.recv()
    for ending, settings in POLICIES.items():
        found: dict[int, list[tuple[float, float, float]]] = {number: [] for number in NUMBERS}
        for _ in range(ROUNDS):
            for number in NUMBERS:
                url = stores()
                Experiment.create(url, "many", PROBLEM, seed=0, **settings).close()
                found[number].append(_at_once(ready[:number], url, seconds / ROUNDS))
        head = f"{'asked and told/s':>17} {'÷ one':>6} {'core ms each':>13} {'longest':>9}"
        print(f"\n{'processes' + ending:<20} {head}")
        for number, rounds in found.items():
            beside = zip(rounds, found[1], strict=True)
            ratio = statistics.median(some[0] / one[0] for some, one in beside)
            rate, core, longest = map(statistics.median, zip(*rounds, strict=True))
            print(
                f"{number:<20} {rate:>17,.0f} {ratio:>5.2f}× {core * 1000:>13.3f} "
                f"{longest * 1000:>6,.0f} ms",
                flush=True,
            )
    for each in ready:
        each.send(None)


def _at_once(some: list[Any], url: str, seconds: float) -> tuple[float, float, float]:
    """Outcomes per second, seconds of a core for each, and the longest that one took."""
    for message in (url, seconds):
        for each in some:
            each.send(message)
        shares = [each.recv() for each in some]
    turns, longest, core = zip(*shares, strict=True)
    return sum(turns) / seconds, sum(core) / sum(turns), max(longest)


def _turns(orders: Any) -> None:
    warm = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    for _ in range(100):
        warm.tell(warm.ask(1).ids[0], 0.5)
    orders.send("ready")
    while (url := orders.recv()) is not None:
        with Experiment.open(url, "many") as experiment:
            experiment.status()
            orders.send("open")
            seconds = orders.recv()
            turns, longest, core, now = 0, 0.0, time.process_time(), time.perf_counter()
            until = now + seconds
            while now < until:
                for number in experiment.ask(1).ids:  # none where a closed plan waits for others
                    experiment.tell(number, 0.5)
                    turns += 1
                before, now = now, time.perf_counter()
                longest = max(longest, now - before)
            orders.send((turns, longest, time.process_time() - core))


# --- databases ----------------------------------------------------------------------------------


@contextmanager
def databases(kind: str, folder: str | None) -> Iterator[Callable[[], str]]:
    """Gives new databases, and takes them away in the end."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield lambda: f"sqlite:///{place}/{time.time_ns()}.db"
        return
    postgres = import_module("tests.postgres")
    programs = postgres.find_programs()
    assert programs is not None, "PostgreSQL's server is not installed"
    with postgres.server(programs) as server, ExitStack() as stack:
        yield lambda: stack.enter_context(server.database())


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    kinds = ("sqlite", "postgresql", "threads", "processes")
    parser.add_argument("--folder", help="where SQLite keeps its file")
    parser.add_argument("--outcomes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of processes")
    parser.add_argument("--other", type=Path, metavar="CHECKOUT")
    parser.add_argument("--optuna", metavar="PYTHON")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--one", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(ours(given.one, given.outcomes)))
        return
    for kind in ("sqlite", "postgresql"):
        if kind in given.only:
            print(f"\n{kind}, one process")
            with databases(kind, given.folder) as stores:
                one_process(stores, given.outcomes, given.other, given.optuna)
    with databases("sqlite", given.folder) as stores:
        if "threads" in given.only:
            threads(stores, given.outcomes)
        if "processes" in given.only:
            processes(stores, given.seconds)


if __name__ == "__main__":
    main()
