"""An experiment of millions of outcomes: verified, exported and read, beside the bare driver.

    python -m benchmarks.large [--outcomes 10000000] [--only sqlite postgresql]
        [--beside OTHER/src] [--folder FOLDER] [--stacks FOLDER]

The experiment is asked and told in batches of 200,000, all of it as any other experiment. Then
every operation runs in a process of its own, which reports seconds of processor and of wall time,
and the most memory it ever had. "bare driver" fetches the same rows, joined, in pieces of 50,000,
and makes nothing of them. `--beside` runs the package of another checkout on the same store,
operation by operation in turn. The file is made in a temporary folder; `--folder` names another
that has room (80 bytes per outcome, and 150 for the exports).

`--stacks` writes where the time goes, as one file per operation with a line per stack and its
seconds: the format that programs which draw flame graphs read.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url

from bestarm import Experiment, Problem

BATCH = 200_000
PIECE = 50_000
ROWS = """
SELECT a.number, a.round, a.phase, a.arm, a.probability, a.asked, a.forecast, o.reward, o.told,
    o.late, l.at
FROM bestarm_assignments a
LEFT JOIN bestarm_outcomes o ON o.experiment = a.experiment AND o.number = a.number
LEFT JOIN bestarm_losses l ON l.experiment = a.experiment AND l.number = a.number
WHERE a.experiment = 1 AND a.number >= {0} AND a.number < {0} ORDER BY a.number
"""


def build(url: str, outcomes: int) -> None:
    problem, rng = Problem(np.eye(3)), np.random.default_rng(1)
    start = time.perf_counter()
    with Experiment.create(
        url, "large", problem, policy_options={"bounds": [0, 1]}, seed=7
    ) as made:
        while (left := outcomes - made.status().pulls) > 0:
            ids = made.ask(min(BATCH, left)).ids
            made.tell_many(dict(zip(ids, rng.random(len(ids)).tolist(), strict=True)))
    print(f"{outcomes:,} outcomes asked for and told in {time.perf_counter() - start:.0f} s\n")


def fetch(url: str) -> int:
    """Fetch all rows with the driver alone."""
    read = make_url(url)
    rows = 0
    if read.get_backend_name() == "sqlite":
        connection: Any = sqlite3.connect(str(read.database))
    else:
        plain = read.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = import_module("psycopg").connect(plain)
    text = ROWS.format("?" if isinstance(connection, sqlite3.Connection) else "%s")
    while found := connection.execute(text, (rows, rows + PIECE)).fetchall():
        rows += len(found)
    connection.close()
    return rows


def operations(url: str, folder: Path) -> dict[str, Callable[[], int]]:
    def on(do: Callable[[Experiment], int]) -> Callable[[], int]:
        def run() -> int:
            with Experiment.open(url, "large") as experiment:
                return do(experiment)

        return run

    def verify(experiment: Experiment) -> int:
        found = experiment.verify()
        assert found.sound, found
        return found.outcomes

    return {
        "bare driver": lambda: fetch(url),
        "verify": on(verify),
        "outcomes()": on(lambda each: len(each.outcomes())),
        "assignments()": on(lambda each: len(each.assignments())),
        "export, CSV": on(lambda each: each.export(folder / "all.csv")),
        "export, Parquet": on(lambda each: each.export(folder / "all.parquet")),
    }


def measure(name: str, url: str, folder: Path, stacks: Path | None) -> None:
    """Run one operation in this process, and print what it took as JSON."""
    do = operations(url, folder)[name]
    profile = cProfile.Profile(time.process_time)
    start = time.perf_counter(), time.process_time()
    rows = profile.runcall(do) if stacks else do()
    wall, used = time.perf_counter() - start[0], time.process_time() - start[1]
    if stacks is not None:
        stacks.mkdir(parents=True, exist_ok=True)
        place = stacks / f"{''.join(filter(str.isalpha, name))}.stacks"
        place.write_text("\n".join(folded(profile)) + "\n", encoding="utf-8")
    # What `getrusage` says of a new process includes what its parent had.
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    print(json.dumps({"rows": rows, "wall": wall, "used": used, "peak": peak}))


def folded(profile: cProfile.Profile) -> Iterator[str]:
    """Stacks with their milliseconds. A function that is called from several places has its time
    shared among them as its callers spent it: the profiler knows callers, not whole stacks."""
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    called: dict[Any, dict[Any, tuple[float, float]]] = {}
    for function, (_, _, _, _, callers) in stats.items():
        for caller, (_, _, own, whole) in callers.items():
            called.setdefault(caller, {})[function] = own, whole

    def below(function: Any, share: float, stack: tuple[Any, ...]) -> Iterator[str]:
        own = share * stats[function][2]
        if own >= 0.001:
            yield f"{';'.join(map(title, stack))} {1000 * own:.0f}"
        for each, (_, whole) in called.get(function, {}).items():
            total = stats[each][3]
            if each not in stack and total > 0 and share * whole >= 0.005:
                yield from below(each, share * whole / total, (*stack, each))

    for root in stats.keys() - {each for parts in called.values() for each in parts}:
        yield from below(root, 1.0, (root,))


def title(function: tuple[str, int, str]) -> str:
    file, _, name = function
    return name.strip("<>") if file == "~" else f"{Path(file).stem}.{name}"


def in_process(name: str, url: str, folder: Path, source: str | None, stacks: Path | None) -> Any:
    environment = os.environ | ({"PYTHONPATH": source} if source else {})
    command = [sys.executable, __file__, "--measure", name, url, str(folder)]
    command += ["--stacks", str(stacks)] if stacks else []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def table(url: str, folder: Path, beside: str | None, stacks: Path | None) -> None:
    print(
        f"{'':16} {'rows':>11} {'wall s':>8} {'core s':>8} {'rows/core s':>12} {'MiB':>6} ", end=""
    )
    print(f"{'÷ driver':>9}" + (f" {'other s':>8} {'÷ other':>8}" if beside else ""))
    driver = None
    for name in operations(url, folder):
        found = in_process(name, url, folder, None, stacks)
        driver = driver or found["used"]
        line = f"{name:16} {found['rows']:>11,} {found['wall']:>8.1f} {found['used']:>8.1f} "
        line += f"{found['rows'] / found['used']:>12,.0f} {found['peak']:>6.0f} "
        line += f"{found['used'] / driver:>9.2f}"
        if beside and name != "bare driver":
            other = in_process(name, url, folder, beside, None)
            line += f" {other['used']:>8.1f} {found['used'] / other['used']:>8.2f}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reading experiments of millions of outcomes.")
    parser.add_argument("--outcomes", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="+", choices=["sqlite", "postgresql"], default=["sqlite"])
    parser.add_argument("--beside", metavar="OTHER/src")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stacks", type=Path)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, url, folder = given.measure
        measure(name, url, Path(folder), given.stacks)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if "sqlite" in given.only:
            print(f"SQLite {sqlite3.sqlite_version}")
            url = f"sqlite:///{folder}/large.db"
            build(url, given.outcomes)
            table(url, folder, given.beside, given.stacks)
        if "postgresql" in given.only:
            kit = import_module("tests.postgres")
            with kit.server(kit.find_programs()) as server, server.database() as url:
                print("\nPostgreSQL")
                build(url, given.outcomes)
                table(url, folder, given.beside, given.stacks)


if __name__ == "__main__":
    main()
