"""Blocks: people and ratings on Jester, and errors on rounds that are built to mislead.

    python -m benchmarks.blocks [--runs 1000] [--seed 0] [--only jester errors items broken exact]
        [--sizes 1 2 4 8]

Errors are counted over ten times as many runs of every kind. A run errs if it drops one of the
best, whether it ends with an answer or undecided. Twins that are broken on purpose make a tenth.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import NormalDist
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.nasty_blocks import (
    ITEMS,
    KINDS,
    NOISE,
    Game,
    Kind,
    coins,
    judge,
    of_the_first,
    reacting,
)
from bestarm import AnytimeBAI, Problem, datasets, simulate
from bestarm.environments import Ratings
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime import bets, blocks
from bestarm.policies.anytime.block_bets import BlockFrame, BlockOutcome
from bestarm.records import BlockPlan, Rounds
from bestarm.simulation.results import wilson

SCALE = (-10.0, 10.0)  # of the Jester ratings
DELTA = 0.1
_Z99 = NormalDist().inv_cdf(0.995)


class Shape(NamedTuple):
    """Features of the arms, the size of blocks, and the share of the runs."""

    features: Array
    block: int
    share: float


PLANE = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
SHAPES: dict[str, Shape] = {
    "2 of 2": Shape(np.eye(2), 2, 0.4),
    "3 of 3": Shape(np.eye(3), 3, 0.3),
    "2 of 3": Shape(np.eye(3), 2, 0.1),
    "3 of 4": Shape(np.eye(4), 3, 0.1),
    "2 of 5 in a plane": Shape(PLANE, 2, 0.1),
}


def compare_sizes(runs: int, seed: int, sizes: list[int]) -> None:
    """People and ratings until the funniest joke is found, with so many jokes for each person."""
    matrix = datasets.jester().environment().matrix
    print("\nJester, delta = 0.1: jokes a person, people and ratings ± one standard error, wrong")
    for size in sizes:
        rule = partial(AnytimeBAI, bounds=SCALE, block=size)
        results = simulate(rule, Ratings(matrix, block=size), runs=runs, seed=seed, delta=DELTA)
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


def _made_for_short_runs() -> ExitStack:
    """Stakes with which a a hundred rounds decide, and batches that are long for such runs.

    The rule is valid with any, and errs the more often the sooner it decides.
    """
    shares = 1 / (1 + np.square(np.log10(bets.STAKES / 0.3) / 0.1))
    stack = ExitStack()
    grid = bets.StakeGrid(bets.STAKES, np.log(shares / shares.sum()) - 1e-13)
    stack.enter_context(mock.patch.object(bets.StakeGrid, "around", return_value=grid))
    stack.enter_context(mock.patch.object(blocks, "LEAST_PULLS", 40))
    return stack


def _report(title: str, ends: Mapping[str, Sequence[tuple[bool, bool]]]) -> None:
    """One line: errors, with the upper end of a 99 % interval; and those of each part."""
    parts, decided, wrong, runs = [], 0, 0, 0
    for name, found in ends.items():
        decided += sum(final for final, _ in found)
        errors = sum(error for _, error in found)
        parts.append(f"{name}: {errors} of {len(found):,}")
        wrong, runs = wrong + errors, runs + len(found)
    high = wilson(wrong, runs, _Z99)[1]
    print(
        f"{title:44s}{wrong:6,d} of {runs:,}   {high:7.2%}   decided {decided / runs:4.0%}   "
        + "; ".join(parts),
        flush=True,
    )


def _count(title: str, kind: Kind, shapes: Sequence[str], runs: int, seed: int) -> None:
    """Errors on rounds of a kind, in blocks of these shapes."""
    runs = round(runs / sum(SHAPES[shape].share for shape in shapes))
    ends = {}
    for shape in shapes:
        features, block, share = SHAPES[shape]
        problem = Problem(features, delta=DELTA, noise=NOISE)
        key = [seed, *title.encode(), block]
        rngs = [np.random.default_rng([*key, run]) for run in range(round(share * runs))]
        ends[shape] = [Game(kind, problem, block, rng).play() for rng in rngs]
    _report(title, ends)


def count_errors(runs: int, seed: int) -> None:
    """Errors on rounds of every kind."""
    print(f"\nErrors at delta = {DELTA:g}: the best dropped, upper end of a 99 % interval")
    with _made_for_short_runs():
        for title, kind in KINDS.items():
            top = kind.options.get("top", 1)
            shapes = [name for name, shape in SHAPES.items() if len(shape.features) > top]
            _count(title, kind, shapes, runs, seed)


def count_errors_on_items(runs: int, seed: int) -> None:
    """Errors over random orders of finite populations, which share the runs."""
    print(f"\nErrors with `items` at delta = {DELTA:g}: as above")
    with _made_for_short_runs(), mock.patch.object(blocks, "LEAST_PULLS", 12):
        for title, table in ITEMS.items():
            problem = Problem(np.eye(table.shape[1]), delta=DELTA)
            orders = range(runs // len(ITEMS))
            rngs = (np.random.default_rng([seed, *title.encode(), run]) for run in orders)
            _report(title, {f"{len(table)} items": [judge(table, problem, rng) for rng in rngs]})


class Uncentered(BlockOutcome):
    """A broken twin: its weights do not sum to zero, so the baseline gets in."""

    def __init__(self, frame: BlockFrame, summary: Rounds, entered: object = None) -> None:
        super().__init__(frame, summary, entered)  # type: ignore[arg-type]
        self.residuals[:] = summary.table - frame.guess[self.members]


def count_errors_of_twins(runs: int, seed: int) -> None:
    """Errors of rules that are broken on purpose, on a tenth of the runs."""
    print(f"\nBroken twins at delta = {DELTA:g}: as above")
    twins = {
        "weights that do not sum to zero": Kind(reacting),
        "the block chosen after a peek": Kind(coins, peeks=True),
        "losses by arm and reward, declared random": Kind(coins, bounded=True, lack=of_the_first),
    }
    for title, kind in twins.items():
        with _made_for_short_runs() as stack:
            if title == "weights that do not sum to zero":
                stack.enter_context(mock.patch.object(blocks, "BlockOutcome", Uncentered))
            parts = [name for name, shape in SHAPES.items() if shape.block < len(shape.features)]
            _count(title, kind, parts, runs // 10, seed)


def count_exact_answers(runs: int, seed: int) -> None:
    """How often answers at the end of all items are wrong: four fair coins on 60 items."""
    for top in (1, 2):
        ends = []
        for each in range(seed, seed + runs):
            table = (np.random.default_rng(each).random((60, 4)) < 0.5).astype(float)
            problem = Problem(np.eye(4), delta=0.2)
            policy = AnytimeBAI(problem, bounds=(0, 1), block=4, items=60, top=top)
            done = 0
            while (plan := policy.plan()) is not None:
                assert isinstance(plan, BlockPlan)
                told = table[done : done + plan.rounds, plan.blocks[0]]
                policy.update(Rounds.of(plan, [0] * plan.rounds, told))
                done += plan.rounds
            recommendation, means = policy.recommend(), table.mean(axis=0)
            wrong = min(means[list(recommendation.chosen)]) < np.sort(means)[-top] - 1e-9
            ends.append(
                (recommendation.reason == "exact", len(policy._judged_targets) < 4, bool(wrong))
            )
        exact = [(out, wrong) for at_end, out, wrong in ends if at_end]
        dropped, wrong_ones = sum(out for out, _ in exact), sum(wrong for _, wrong in exact)
        print(
            f"top {top}: {len(exact)} of {runs} exact, {dropped} with an option out before;", end=""
        )
        print(f" {wrong_ones} wrong, {sum(w for out, w in exact if not out)} with none out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parts = {
        "errors": count_errors,
        "items": count_errors_on_items,
        "broken": count_errors_of_twins,
        "exact": count_exact_answers,
    }
    parser.add_argument("--only", nargs="+", choices=["jester", *parts], default=["jester", *parts])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args()
    if "jester" in options.only:
        compare_sizes(options.runs, options.seed, options.sizes)
    for name in options.only:
        if name in parts:
            parts[name](10 * options.runs, options.seed)


if __name__ == "__main__":
    main()
