"""What the first use on a machine costs: an experiment from nothing, with an empty cache of Numba.

    python -m benchmarks.cold_start [--only CASE ...] [--policy NAME ...]

Every case runs in a process of its own, first with a cache that can be written, then from a copy of
the package in whose folders nothing can be written, with no home folder either. The process imports
bestarm, begins an experiment in memory, asks and tells one outcome at a time until the first phase
closes, then in larger batches until five are closed and until there is a decision or 3000 outcomes.
Seconds are of one core; the time by the clock is beside those to the first closed phase. "Compiled"
counts functions of ours, and "seconds" is what Numba took for them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.policies.registry import policies

MOST = 3000  # outcomes
FOLDER = Path(__file__).parents[1]

Make = Callable[[], Experiment]


def _named(count: int, **options: Any) -> Make:
    def make() -> Experiment:
        problem = Problem([f"option {i}" for i in range(count)])
        forecaster = "default" if options.get("forecasts") else None
        return Experiment(AnytimeBAI(problem, **options), seed=1, forecaster=forecaster)

    return make


def _factorial() -> Experiment:
    source = np.random.default_rng(0).normal(size=(12, 4))
    return Experiment(AnytimeBAI(Problem(source), mean_bound=3), seed=1)


def _of(policy: str) -> Make:
    def make() -> Experiment:
        problem = Problem([[1, 0], [0, 1], [0.6, 0.8]], baseline=0)
        return Experiment(policies()[policy].method(problem), seed=1)

    return make


CASES: dict[str, Make] = {
    "three options": _named(3, bounds=(0, 1)),
    "unbounded rewards": _named(3, mean_bound=2.0),
    "control and tolerance": _named(3, bounds=(0, 1), control="option 0", tolerance=0.1),
    "features": _factorial,
    "late outcomes": _named(3, bounds=(0, 1)),
    "forecasts": _named(3, bounds=(0, 1), forecasts=True),
    "blocks": _named(4, bounds=(0, 1), block=2),
    "thirty options": _named(30, bounds=(0, 1)),
    "200 options": _named(200, bounds=(0, 1)),
}


def _measure(name: str, began: float) -> dict[str, Any]:
    """In the process of a case, which began at this time: what its steps took."""
    experiment = (CASES.get(name) or _of(name))()
    compiled: list[str] = []
    seconds, depth, start = 0.0, 0, 0.0

    class Compiled(event.Listener):
        def on_start(self, event: Any) -> None:
            nonlocal depth, start
            function = event.data["dispatcher"].py_func
            if function.__module__.startswith("bestarm."):
                compiled.append(f"{function.__module__}.{function.__qualname__}")
            if depth == 0:
                start = time.perf_counter()
            depth += 1

        def on_end(self, event: Any) -> None:  # noqa: ARG002
            nonlocal depth, seconds
            depth -= 1
            if depth == 0:
                seconds += time.perf_counter() - start

    event.register("numba:compile", Compiled())  # type: ignore[no-untyped-call]
    rng, times, told, assigned = np.random.default_rng(0), {}, 0, 0.0
    late: list[tuple[int, float]] = []
    means = np.linspace(0.9, 0.3, experiment.problem.arms) if name != "features" else None
    while not experiment.finished and told < MOST:
        batch = experiment.ask(1 if experiment.phase == 1 else 20)
        assigned = assigned or time.process_time()
        for each in batch:
            mean = 0.5 if means is None else means[each.arm]
            outcome = each.id, float(rng.random() < mean)
            if name == "late outcomes" and rng.random() < 0.2 and len(late) < 10:
                late.append(outcome)
            else:
                experiment.tell(*outcome)
                told += 1
        if late and experiment.phase % 3 == 0:
            experiment.tell_many(dict(late))
            late.clear()
        for phase in (1, 5):
            if experiment.phase > phase and phase not in times:
                times[phase] = time.process_time(), time.time() - began, len(compiled)
    end = time.process_time()
    never = (end, time.time() - began, len(compiled))
    first, fifth = times.get(1, never), times.get(5, never)
    return {
        "assigned": assigned, "first": first[0], "clock": first[1], "fifth": fifth[0], "all": end,
        "finished": experiment.finished,
        "compiled": (first[2], fifth[2], len(compiled)), "seconds": seconds,
        "names": compiled, "phases": experiment.phase, "told": told,
    }  # fmt: skip


@contextmanager
def environments(package: Path) -> Iterator[dict[str, dict[str, str]]]:
    """The variables of a process whose cache can be written, and of one where nothing can be."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "read-only", "bestarm")
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for each in (copy, *copy.rglob("*")):
            if each.is_dir():
                (each / "__pycache__").touch()  # a file: not even root can write in it
        usual = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        usual.pop("NUMBA_CACHE_DIR", None)
        nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), "/dev/null")
        yield {
            "writable": {**usual, "NUMBA_CACHE_DIR": "", "PYTHONPATH": str(package.parent)},
            "read-only": {**usual, **nowhere, "PYTHONPATH": str(copy.parent)},
        }


def run_case(
    case: str, environment: dict[str, str], cache: str, python: str | Path = sys.executable
) -> dict[str, Any]:
    """What a case took in a process of its own, with this folder for its cache if it may write."""
    if "NUMBA_CACHE_DIR" in environment:
        environment = {**environment, "NUMBA_CACHE_DIR": cache}
    command = [python, "-m", "benchmarks.cold_start", "--child", case, str(time.time())]
    done = subprocess.run(command, env=environment, cwd=FOLDER, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(CASES))
    parser.add_argument("--policy", nargs="+", help="policies with their defaults instead")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--names", action="store_true", help="list what is compiled")
    asked = parser.parse_args()
    if asked.child:
        case, began = asked.child
        print(json.dumps(_measure(case, float(began))))
        return
    print(
        f"{'case':<24}{'cache':<11}{'1st phase':>10}{'clock':>7}{'5th':>7}{'all':>7}"
        f"{'compiled by then':>20}{'seconds':>9}{'phases':>8}{'told':>6}"
    )
    with environments(FOLDER / "src" / "bestarm") as kinds:
        for case in asked.policy or asked.only:
            for cache, environment in kinds.items():
                with tempfile.TemporaryDirectory() as folder:
                    found = run_case(case, environment, folder)
                compiled = ", ".join(map(str, found["compiled"]))
                print(
                    f"{case:<24}{cache:<11}{found['first']:>10.1f}{found['clock']:>7.1f}"
                    f"{found['fifth']:>7.1f}{found['all']:>7.1f}{compiled:>20}"
                    f"{found['seconds']:>9.1f}{found['phases']:>8}{found['told']:>6}",
                    flush=True,
                )
                if asked.names:
                    print("  " + "\n  ".join(found["names"]))


if __name__ == "__main__":
    main()
