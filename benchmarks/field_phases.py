"""Linear methods in phases on their papers' instances, beside published figures.

    python -m benchmarks.field_phases [--runs 1000] [--workers 2] [--only alba]
    python -m benchmarks.field_phases --speed

Prints Markdown; intervals are at 95 %. Long instances have fewer runs than asked for. Figures were
read off these sources:

* Tao: Tao, Blanco and Zhou (2018), Figure 1(a), whose bars are vector graphics in the paper's file
  (proceedings.mlr.press/v80/tao18a), so that their heights are known to a unit; means of 100 runs.
  Table 2 of the same paper, 100 runs.
* Xu: Xu, Honda and Sugiyama (2018), Table 1: the pulls of one run, summed over arms.
* stored: errors and independent runs in the data of Xiong et al. (2024), see
  `bestarm.field.p1_rage_results`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bestarm import environments, simulate
from bestarm.environments import Environment, InTurn
from bestarm.field.p1_rage_results import stored_results
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle, Results
from bestarm.simulation.results import wilson

DELTA = 0.05
FIGURE = {  # pulls at d = 2, …, 10
    "xy-static": (41_182, 66_011, 91_081, 117_383, 146_195, 177_729, 208_182, 243_544, 276_024),
    "xy-adaptive": (43_749, 58_575, 71_426, 84_192, 76_072, 65_228, 53_747, 51_131, 53_970),
    "alba": (22_672, 23_570, 23_368, 24_186, 23_623, 25_090, 25_755, 25_583, 25_440),
}
NONE = "none found"


class Cell(NamedTuple):
    """A method on an instance, and what was published of it."""

    method: str
    options: Mapping[str, Any]
    instance: str
    world: Environment
    published: str
    most: int = 10**9  # runs
    unit: str = "pulls"  # of what is compared: pulls, errors, or pulls Δ²/d


def cells() -> Iterator[Cell]:
    """The rows of the table."""
    for dimension in (2, 5, 10):
        world = environments.soare(dimension, 0.1)
        label = f"Soare, d = {dimension}, ω = 0.1"
        for name, heights in FIGURE.items():
            options = {"mean_bound": 2.0} if name == "alba" else {}
            yield Cell(name, options, label, world, f"{heights[dimension - 2]:,} (Tao)")
    for dimension in (5, 10):
        world = environments.soare(dimension, 0.1)
        label = f"Soare, d = {dimension}, ω = 0.1"
        for name in ("xy-oracle", "peace"):
            yield Cell(name, {}, label, world, NONE)
        for name in ("xy-static", "xy-adaptive", "xy-oracle"):
            yield Cell(name, {"threshold": "small"}, label, world, NONE)
    narrow = environments.soare(5, 0.01)
    yield Cell("xy-static", {}, "Soare, d = 5, ω = 0.01", narrow, "12,758,934 (Xu)", 20)
    yield Cell("xy-oracle", {}, "Soare, d = 5, ω = 0.01", narrow, "2,742,457 (Xu)", 20)
    for dimension, figure in ((60, 270.99), (100, 302.99)):
        worlds = spheres(dimension)
        label = f"Tao, K = 100, d = {dimension}"
        yield Cell("alba", {}, label, worlds, f"{figure} (Tao)", 200, "pulls Δ²/d")
    for label, world in (
        ("transductive, d = 10, ω = 0.3", environments.transductive(10, 0.3)),
        ("fan, K = 50", environments.many_arms(50).instance(np.random.default_rng(0))),
    ):
        for name in ("peace", "xy-adaptive"):
            yield Cell(name, {}, label, world, NONE)
    world = environments.soare(10, 0.1)
    for budget in (1010, 2010, 3010, 4010, 5010):
        errors, runs, _ = stored_results()["soare", f"peace-{budget}"]
        known = f"{errors / runs:.4f} (stored, {runs:,} runs)"
        for design, published in (("variance", known), ("width", NONE)):
            chosen: dict[str, Any] = {"budget": budget, "design": design}
            label = "Soare, d = 10, ω = 0.1"
            yield Cell("peace-budget", chosen, label, world, published, unit="errors")


def spheres(dimension: int, number: int = 20) -> InTurn:
    """Instances of `environments.tao` whose gaps are known."""
    drawn = environments.tao(100, dimension)
    worlds = [drawn.instance(np.random.default_rng(i)) for i in range(number)]
    return InTurn(worlds, drawn.name)


def run(cell: Cell, runs: int, executor: Executor | None) -> Results:
    """The runs of a cell."""
    info = policies()[cell.method]
    method = partial(info.method, **cell.options)
    told = Oracle(method, **info.truths) if info.truths else method
    number = min(runs, cell.most)
    return simulate(told, cell.world, runs=number, delta=DELTA, executor=executor)


def shown(cell: Cell, results: Results) -> tuple[str, str]:
    """What is compared, and the share of errors."""
    errors = int((~results.correct).sum())
    low, high = wilson(errors, results.runs)
    share = f"{errors / results.runs:.4f} ({low:.4f}–{high:.4f})"
    if cell.unit == "errors":
        return share, share
    values = results.pulls.astype(float)
    if isinstance(cell.world, InTurn):
        worlds = [cell.world.of_run(int(i)) for i in results.index]
        values *= [world.gap**2 / world.theta.size for world in worlds]  # type: ignore[attr-defined]
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():,.0f} ± {half:,.0f}", share


def table(runs: int, only: str, executor: Executor | None) -> None:
    """Ours beside the published figures."""
    print("| method | instance | compared | ours | published | errors (95 %) | runs |")
    print("|---|---|---|--:|--:|--:|--:|")
    for cell in cells():
        if only not in cell.method:
            continue
        results = run(cell, runs, executor)
        value, share = shown(cell, results)
        options = ", ".join(f"{key} = {value}" for key, value in cell.options.items())
        name = f"{cell.method} ({options})" if options else cell.method
        print(
            f"| {name} | {cell.instance} | {cell.unit} | {value} | {cell.published} | {share} "
            f"| {results.runs:,} |",
            flush=True,
        )


def speed() -> None:
    """Pulls per second and process, designs and compiled code at hand."""
    print("| method | instance | pulls per second |\n|---|---|--:|")
    world = environments.soare(10, 0.1)
    for name in ("xy-static", "xy-adaptive", "xy-oracle", "alba", "peace", "peace-budget"):
        options = {"budget": 100_000} if name == "peace-budget" else {}
        cell = Cell(name, options, "Soare, d = 10, ω = 0.1", world, NONE)
        run(cell, 20, None)
        begun = time.process_time()
        pulls = int(run(cell, 20, None).pulls.sum())
        print(f"| {name} | {cell.instance} | {pulls / (time.process_time() - begun):,.0f} |")


def main() -> None:
    """Read the options and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--speed", action="store_true", help="pulls per second instead")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    with ProcessPoolExecutor(options.workers) as executor:
        table(options.runs, options.only, executor)


if __name__ == "__main__":
    main()
