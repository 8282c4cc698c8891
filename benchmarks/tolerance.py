"""How much a tolerance saves: scores of models, judged until one is best, or within it.

    python -m benchmarks.tolerance --data scores.npz [--runs 200] [--tolerances 0 0.01 0.05]

`scores.npz` holds tables of items × options with scores from 0 to 1, such as LiveBench's. Items
come in a random order; every option left is judged on each. Printed is the share of all pairs of
option and item that were judged, ± one standard error.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from bestarm import AnytimeBAI, Problem
from bestarm.numerics.geometry import Array
from bestarm.records import BlockPlan, Counts, Rounds

DELTA = 0.05


def judge(table: Array, order: Counts, tolerance: float) -> tuple[float, bool, str]:
    """The share of pairs judged, whether the answer is wrong, and how it ended."""
    items, options = table.shape
    policy = AnytimeBAI(
        Problem(np.eye(options), delta=DELTA),
        bounds=(0, 1),
        block=options,
        items=items,
        tolerance=tolerance,
    )
    rows, seen, judged = table[order], 0, 0
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        told = rows[seen : seen + plan.rounds][:, plan.blocks[0]]
        policy.update(Rounds.of(plan, np.zeros(len(told), dtype=int), told))
        seen, judged = seen + len(told), judged + told.size
    answer, means = policy.recommend(), table.mean(axis=0)
    wrong = bool(means[answer.target] < means.max() - tolerance - 1e-12)
    return judged / table.size, wrong, answer.reason


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerances", type=float, nargs="*", default=[0.0, 0.01, 0.05])
    chosen = parser.parse_args()
    with np.load(chosen.data) as tables:
        for name, table in tables.items():
            for tolerance in chosen.tolerances:
                found = []
                for run in range(chosen.runs):
                    order = np.random.default_rng(chosen.seed + run).permutation(len(table))
                    found.append(judge(table, order, tolerance))
                shares = np.array([share for share, _, _ in found])
                error = shares.std() / np.sqrt(len(shares))
                wrong = sum(each for _, each, _ in found)
                ends = dict(Counter(reason for _, _, reason in found))
                print(
                    f"{name:12s} tolerance {tolerance:<6g} {shares.mean():7.2%} ± {error:.2%}   "
                    f"{wrong} of {len(found)} wrong   {ends}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
