"""Linear methods that decide after every pull, on published instances, beside published figures.

    python -m benchmarks.field_linear [--runs 1000] [--workers 2] [--only lingape]
    python -m benchmarks.field_linear --speed

Prints Markdown; intervals are at 95 %. Long instances have fewer runs than asked for. "bound" is
T* log(1/(2.4δ)), which the expected pulls of no method with an error below δ are below. Sources:

* Xu: Xu, Honda and Sugiyama (2018), Table 1: the pulls of one run, summed over arms.
* Shang: runs stored in github.com/xuedong/BestArm.jl, misc/linear/xs_LinGapE_delta_0.01_N_100.h5:
  100 runs. Their radius does not grow (the code of that day computes it from the first six pulls);
  it is 3.97 where ours, `"experiments"`, is 3.78 after 150,000 pulls.
* Shang's figure: the box of linear/exp_sin_-1.pdf in github.com/xuedong/LinBAI.jl, which is vector
  graphics: 100 runs.
* Jedra: the authors' code, github.com/jedray/LT-S, run as it is: 60 runs (d = 2) and 30
  (d = 6), with seeds 0, 1, ….
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from bestarm import design, environments, simulate
from bestarm.environments.semiparametric import Semiparametric
from bestarm.policies.registry import policies
from bestarm.simulation.results import wilson

METHODS = ("lingape", "lazy-tas", "lingame", "lingame-c", "fws")
NONE = "none found"


class Cell(NamedTuple):
    """A method on an instance, and what was published of it."""

    method: str
    threshold: str
    instance: str
    world: Semiparametric
    delta: float
    published: str = NONE
    most: int = 10**9  # runs


def cells() -> Iterator[Cell]:
    """The rows of the table."""
    narrow, label = environments.soare(5, 0.01), "Soare, d = 5, ω = 0.01"
    yield Cell("lingape", "published", label, narrow, 0.05, "431,119 (Xu)", 100)
    yield Cell("lingape", "experiments", label, narrow, 0.01, "149,028 ± 14,882 (Shang)", 300)
    world, label = environments.soare(2, 0.1), "Soare, d = 2, ω = 0.1"
    yield Cell("lingape", "experiments", label, world, 0.1, "median 693 (Shang's figure)")
    yield Cell("lazy-tas", "published", label, world, 0.01, "3,625 ± 344 (Jedra)")
    yield Cell("lingame", "experiments", label, world, 0.01)
    yield Cell("lingame-c", "experiments", label, world, 0.01)
    world, label = environments.soare(6, 0.1), "Soare, d = 6, ω = 0.1"
    for method in METHODS:
        known = "9,153 ± 939 (Jedra)" if method == "lazy-tas" else NONE
        yield Cell(method, "published", label, world, 0.01, known)
        yield Cell(method, "certified", label, world, 0.01, NONE, 300)
        yield Cell(method, "experiments", label, world, 0.01, NONE, 300)
    for label, world in (
        ("transductive, d = 5, ω = 0.3", environments.transductive(5, 0.3)),
        ("fan, K = 50", environments.many_arms(50).instance(np.random.default_rng(0))),
    ):
        for method in METHODS:
            yield Cell(method, "certified", label, world, 0.05, NONE, 100)


def row(cell: Cell, runs: int, executor: Executor | None) -> str:
    """One row of the table."""
    method = partial(policies()[cell.method].method, threshold=cell.threshold)
    number = min(runs, cell.most)
    found = simulate(method, cell.world, runs=number, delta=cell.delta, executor=executor)
    errors = int((~found.correct).sum())
    low, high = wilson(errors, number)
    pulls = found.pulls.astype(float)
    half = 1.96 * pulls.std(ddof=1) / math.sqrt(number)
    mean = f"{pulls.mean():,.0f} ± {half:,.0f}"
    if "median" in cell.published:
        mean += f" (median {np.median(pulls):,.0f})"
    needed = design.complexity(cell.world.problem(cell.delta), cell.world.theta, "linear").value
    least = 2 * cell.world.noise**2 * needed * math.log(1 / (2.4 * cell.delta))
    return (
        f"| `{cell.method}` | {cell.threshold} | {cell.instance} | {cell.delta:g} | {mean} "
        f"| {cell.published} | {least:,.0f} | {errors / number:.4f} ({low:.4f}–{high:.4f}) "
        f"| {number:,} |"
    )


def table(runs: int, only: str, executor: Executor | None) -> None:
    """Ours beside the published figures."""
    print(
        "| method | threshold | instance | δ | ours | published | bound | errors (95 %) | runs |\n"
        "|---|---|---|--:|--:|--:|--:|--:|--:|"
    )
    for cell in cells():
        if only in cell.method:
            print(row(cell, runs, executor), flush=True)


def speed() -> None:
    """Pulls per second of one process, thresholds as published."""
    print("| method | Soare, d = 6 | Soare, d = 20 |\n|---|--:|--:|")
    worlds = [environments.soare(dimension, 0.1) for dimension in (6, 20)]
    for name in METHODS:
        rates = []
        for world in worlds:
            simulate(policies()[name].method, world, runs=1)  # compiles
            begun = time.process_time()
            made = simulate(policies()[name].method, world, runs=10).pulls.sum()
            rates.append(f"{made / (time.process_time() - begun):,.0f}")
        print(f"| `{name}` | {' | '.join(rates)} |", flush=True)


def main() -> None:
    """Print the table, or the speeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--speed", action="store_true", help="pulls per second instead")
    asked = parser.parse_args()
    if asked.speed:
        speed()
    elif asked.workers > 1:
        with ProcessPoolExecutor(asked.workers) as executor:
            table(asked.runs, asked.only, executor)
    else:
        table(asked.runs, asked.only, None)


if __name__ == "__main__":
    main()
