"""Blocks: people and ratings on Jester.

python -m benchmarks.blocks [--runs 1000] [--seed 0] [--only jester] [--sizes 1 2 4 8]
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from bestarm import AnytimeBAI, datasets, simulate
from bestarm.environments import Ratings
from bestarm.simulation.results import wilson

SCALE = (-10.0, 10.0)  # of the Jester ratings


def compare_sizes(runs: int, seed: int, sizes: list[int]) -> None:
    """People and ratings until the funniest joke is found, with so many jokes for each person."""
    matrix = datasets.jester().environment().matrix
    print("\nJester, delta = 0.1: jokes a person, people and ratings ± one standard error, wrong")
    for size in sizes:
        rule = partial(AnytimeBAI, bounds=SCALE, block=size)
        results = simulate(rule, Ratings(matrix, block=size), runs=runs, seed=seed, delta=0.1)
        wrong = int((results.final & ~results.correct).sum())
        low, high = wilson(wrong, runs)
        columns = [
            f"{counts.mean():,.0f} ± {counts.std() / np.sqrt(runs):,.0f}"
            for counts in (results.rounds, results.pulls)
        ]
        print(
            f"{size:2d}{columns[0]:>20s}{columns[1]:>20s}   {wrong} of {runs:,} "
            f"({low:.2%} to {high:.2%}), undecided {(~results.final).sum()}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args()
    compare_sizes(options.runs, options.seed, options.sizes)


if __name__ == "__main__":
    main()
