"""Many runs of a small problem, so that small error rates show: 5 arms, 500 pulls at most.

    python -m benchmarks.simulations --runs 1000000 --workers 2
    PYTHONPATH=other/src python -m benchmarks.simulations --runs 2000 --workers 2

The second line measures another version: the ratio of the seconds per run is what counts. Rewards
have noise of 0.5 about a baseline that moves between 0 and 2 as 1 + sin(2t); one arm is better than
the four others by 0.75. The anytime rule stops when it is sure, or at 500 pulls without an answer;
halving always spends all 500.
"""

from __future__ import annotations

import argparse
import resource
import time
from functools import partial
from typing import Any

import numpy as np

from bestarm import AnytimeBAI, SequentialHalving, simulate
from bestarm.environments import Semiparametric, baselines
from bestarm.simulation.executors import open_executor
from bestarm.simulation.results import wilson

PULLS, GAP, NOISE = 500, 0.75, 0.5
RULES: dict[str, Any] = {
    "anytime": partial(AnytimeBAI, max_pulls=PULLS),
    "halving": partial(SequentialHalving, budget=PULLS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delta", type=float, default=0.01)
    parser.add_argument("--gap", type=float, default=GAP)
    parser.add_argument("--only", nargs="*", default=list(RULES))
    chosen = parser.parse_args()
    means = np.append(chosen.gap, np.zeros(4))
    world = Semiparametric(np.eye(5), means, noise=NOISE, baseline=baselines.sinusoid())
    print("rule | runs | mean pulls | decided | wrong | rate (95 %) | wall | ms per run | memory")
    with open_executor(chosen.workers) as executor:
        for name in chosen.only:
            options: dict[str, Any] = {"delta": chosen.delta, "executor": executor}
            simulate(RULES[name], world, runs=50 * chosen.workers, seed=1, **options)  # compiles
            start = time.perf_counter()
            found = simulate(RULES[name], world, runs=chosen.runs, seed=chosen.seed, **options)
            wall = time.perf_counter() - start
            decided = found.final if found.final.any() else np.ones(found.runs, dtype=bool)
            wrong = int((decided & ~found.correct).sum())
            low, high = wilson(wrong, found.runs)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            print(
                f"{name} | {found.runs:,} | {found.mean_pulls:,.0f} | {decided.mean():.1%} | "
                f"{wrong} | {wrong / found.runs:.1e} ({low:.1e} to {high:.1e}) | {wall:,.1f} s | "
                f"{1e3 * wall * chosen.workers / found.runs:.2f} | {memory:,.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
