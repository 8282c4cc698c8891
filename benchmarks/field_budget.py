"""Fixed-budget methods of the field on their papers' instances.

    python -m benchmarks.field_budget [--runs 1000] [--workers 2] [--only p1-rage]
    python -m benchmarks.field_budget --speed

Prints Markdown. Intervals are Wilson's, at 95 %. The papers of these instances show results in
pictures; `bestarm reproduce --paper p1-rage` runs those whose results are stored. Promised is
the paper's bound where it has constants.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from bestarm import simulate
from bestarm.environments import (
    DrawnArms,
    Environment,
    InTurn,
    Semiparametric,
    soare,
    tao,
)
from bestarm.environments import many_arms as fan
from bestarm.field.moving_means import MovingMeans, malicious
from bestarm.numerics.geometry import linear_span
from bestarm.policies.registry import policies
from bestarm.simulation import Results
from bestarm.simulation.results import wilson

METHODS = ("g-bai", "p1-rage", "p1-peace", "od-linbai", "gse", "bayes-gap", "p1", "pss")
LINEAR = ("g-bai", "p1-rage", "p1-peace", "od-linbai", "gse", "bayes-gap")
ELIMINATING = ("g-bai", "od-linbai", "gse", "bayes-gap")
MEANS = ("p1", "pss")


class Case(NamedTuple):
    """An instance with its budget, and the methods that run on it."""

    label: str
    world: Environment
    budget: int
    methods: Sequence[str]
    sigma: float = 1.0


def audibert(best: float, others: Sequence[float], name: str) -> Environment:
    """Arms with these means and the noise of Bernoulli rewards at most; the best is the last."""
    means = [*others, best]
    return Semiparametric(np.eye(len(means)), means, noise=0.5, name=name)


def corrupted(excess: float) -> Environment:
    """32 arms in PSS's experiment: the best is lowered until the corruption budget is spent.

    The corrupted mean of the best arm is 2w₂ − w₁, and C = (1 + excess)·2q·T/(K log₂ K) in units
    of q w₁ per round, with q = 2(w₁ − w₂)/w₁, as in the authors' `corrup_coupling_PSS`. Rewards
    have Gaussian noise of Bernoulli's largest deviation.
    """
    arms, rounds, good, bad = 32, 2000, 0.5, 0.2
    second = good - (good - bad) / 3
    means = np.full((rounds, arms), bad)
    means[:, -1], means[:, -2] = good, second
    chance = 2 * (good - second) / good
    total = (1 + excess) * 2 * chance * rounds / (arms * math.log2(arms))
    means[: int(total / (chance * good)), -1] -= chance * good
    return MovingMeans(np.eye(arms), means, noise=0.5, name="corrupted")


def draws(world: DrawnArms) -> Environment:
    """Twenty instances in turn, the same for all methods: their designs are then solved once."""
    worlds = [world.instance(np.random.default_rng(number)) for number in range(20)]
    return InTurn(worlds, world.name)


def cases() -> list[Case]:
    """The papers' instances."""
    unit = np.eye(16)
    return [
        Case("Soare, d = 10, ω = 0.1 (P1-RAGE)", soare(10, 0.1), 3010, LINEAR),
        Case("malicious, d = 10 (P1-RAGE)", malicious(), 10_000, METHODS),
        Case("sphere, K = 64, d = 10 (OD-LinBAI)", draws(tao(64, 10)), 500, ELIMINATING),
        Case("fan, K = 24, d = 2 (OD-LinBAI)", draws(fan(24)), 1000, ELIMINATING),
        Case(
            "d = K = 16, Δ = 0.3, σ² = 10 (GSE)",
            Semiparametric(unit, 0.3 * unit[-1], noise=math.sqrt(10.0)),
            16_000,
            ("gse", "od-linbai", "bayes-gap"),
            math.sqrt(10.0),
        ),
        Case("20 arms, 0.5 and 0.4 (P1)", audibert(0.5, [0.4] * 19, "one group"), 20_000, MEANS),
        Case("32 arms (PSS)", corrupted(-1.0), 2000, MEANS),
        Case("32 arms, corrupted, λ = 0.5 (PSS)", corrupted(0.5), 2000, MEANS),
    ]


def promised(name: str, case: Case) -> float | None:
    """The paper's bound on the error, where it has constants; for 1-sub-Gaussian noise."""
    world = case.world
    if not isinstance(world, Semiparametric) or name not in {"od-linbai", "gse"}:
        return None
    source = world.problem(0.1).source
    gaps = np.sort(world.theta @ source[world.best] - source @ world.theta)[1:] / case.sigma
    rank, arms = linear_span(source).rank, len(source)
    phases = math.ceil(math.log2(rank))
    if name == "gse":
        stages = math.log2(arms)
        exponent = case.budget * gaps[0] ** 2 / (4 * rank * stages)
        return float(min(1.0, 4 * stages * math.exp(-exponent)))
    spare = min(arms, rank * (rank + 1) // 2) + sum(
        math.ceil(rank / 2**phase) for phase in range(1, phases)
    )
    difficulty = max(i / gaps[i - 2] ** 2 for i in range(2, rank + 1))
    exponent = (case.budget - spare) / phases / (32 * difficulty)
    return float(min(1.0, (4 * arms / rank + 3 * math.log2(rank)) * math.exp(-exponent)))


def shown(results: Results) -> str:
    """The share of errors with its interval."""
    errors = int((~results.correct).sum())
    low, high = wilson(errors, results.runs)
    return f"{errors / results.runs:.4f} ({low:.4f}–{high:.4f})"


def run_case(case: Case, name: str, runs: int, executor: Executor) -> Results:
    """One method on one instance."""
    options = {"budget": case.budget} | ({"sigma": case.sigma} if name == "bayes-gap" else {})
    method = partial(policies()[name].method, **options)
    return simulate(method, case.world, runs=runs, executor=executor)


def own_instances(runs: int, only: Sequence[str], executor: Executor) -> None:
    """Every method on its paper's instance, and the others of its model beside it."""
    print("| instance | pulls | method | error (95 %) | promised |\n|---|--:|---|--:|--:|")
    for case in cases():
        for name in case.methods:
            if only and name not in only:
                continue
            bound = promised(name, case)
            most = "–" if bound is None else f"{bound:.2g}"
            error = shown(run_case(case, name, runs, executor))
            print(f"| {case.label} | {case.budget} | {name} | {error} | {most} |", flush=True)


def speed() -> None:
    """Pulls per second of one core, once everything is compiled and the designs are solved."""
    print("| method | runs | pulls of a run | ms per run | million pulls per second |")
    print("|---|--:|--:|--:|--:|")
    world = soare(9, 0.3)
    for name in METHODS:
        runs, budget = (3, 3_000_000) if name in {"p1", "bayes-gap"} else (100, 100_000)
        method = partial(policies()[name].method, budget=budget)
        simulate(method, world, runs=runs)
        start = time.perf_counter()
        pulls = simulate(method, world, runs=runs).pulls.sum()
        seconds = time.perf_counter() - start
        print(
            f"| {name} | {runs} | {budget} | {1e3 * seconds / runs:.2f} | "
            f"{pulls / seconds / 1e6:.1f} |",
            flush=True,
        )


def main() -> None:
    """Read the options and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], choices=METHODS)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    with ProcessPoolExecutor(options.workers) as executor:
        own_instances(options.runs, options.only, executor)


if __name__ == "__main__":
    main()
