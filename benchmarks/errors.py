"""How often the anytime rule errs where everything is built to mislead it.

    python -m benchmarks.errors [--runs 2000] [--seed 11] [--only nasty level alike]

Stakes are made for runs as short as these, so that the wealth of the best option comes near 1/δ as
often as it can: any shares of the stakes are valid. Printed are answers that are wrong and final,
and the upper end of a 99 % interval, which must lie below δ (below 2δ where all options tie).
"""

from __future__ import annotations

import argparse
import math
from contextlib import AbstractContextManager
from functools import partial
from statistics import NormalDist
from typing import Any
from unittest import mock

import numpy as np

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.policies.anytime import bets
from bestarm.records import Summary
from bestarm.simulation.results import wilson

CUT = 600  # pulls of a run


def made_for_short_runs() -> AbstractContextManager[object]:
    """Stakes with which a few hundred pulls decide, while this is entered."""
    shares = 1 / (1 + np.square(np.log10(bets.STAKES / 0.1) / 0.2))
    grid = bets.StakeGrid(bets.STAKES, np.log(shares / shares.sum()) - 1e-13)
    return mock.patch.object(bets.StakeGrid, "around", return_value=grid)


def _clicks(*rates: float) -> Ratings:
    """Yes or no from two thousand people, each option liked by this part of them."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(np.arange(2000) < round(2000 * rate)) for rate in rates]
    return Ratings(np.array(columns, dtype=float).T, name="clicks")


NASTY: dict[str, tuple[Semiparametric | Ratings, dict[str, Any]]] = {
    "five arms, four tied behind": (
        Semiparametric(np.eye(5), [1, 0, 0, 0, 0]),
        {"mean_bound": 1.0},
    ),
    "a tie within 0.001": (Semiparametric(np.eye(3), [0.5, 0.499, 0.3]), {"mean_bound": 0.5}),
    "swings of ±5": (
        Semiparametric(
            np.eye(3), [0.05, 0, 0], baseline=baselines.switches((-5.0, 5.0), period=40)
        ),
        {"mean_bound": 1.0},
    ),
    "the adaptive adversary": (
        Semiparametric(np.eye(2), [0.05, 0], baseline=baselines.adversary(3.0)),
        {"mean_bound": 1.0},
    ),
    "clicks, 2 % against 1.95 %": (_clicks(0.02, 0.0195), {"bounds": (0, 1)}),
    "clicks, 98 % against 97 %": (_clicks(0.98, 0.97), {"bounds": (0, 1)}),
    "a level of 30, guessed as 0": (
        Semiparametric(np.eye(2), [0.05, 0], baseline=30.0),
        {"mean_bound": 30.0},
    ),
    "noise and nothing else": (
        Semiparametric(np.eye(2), [0.02, 0], declared_baseline=0.1),
        {"mean_bound": 0.1},
    ),
}


def report(name: str, delta: float, wrong: int, runs: int) -> None:
    """A row of the table."""
    high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))[1]
    print(f"| {name} | {delta:g} | {wrong} of {runs:,} | {high:.4f} |", flush=True)


def count(runs: int, seed: int, delta: float) -> None:
    """The nasty instances."""
    for name, (world, options) in NASTY.items():
        rule = partial(AnytimeBAI, max_pulls=CUT, **options)
        with made_for_short_runs():
            results = simulate(rule, world, runs=runs, seed=seed, delta=delta)
        report(name, delta, int((results.final & ~results.correct).sum()), runs)


# --- a level within a small declared bound -------------------------------------------------------

SOURCE = np.array([[1.0, 0.0], [0.0, 1.0], [math.cos(0.3), math.sin(0.3)]])
THETA = np.array([0.6, 0.0885])  # e₁ is the best by 0.0006: either arm may be taken for it
BOUND, SHORT = 0.1, 360


def level(runs: int, seed: int) -> None:
    """Two arms nearly tied, |ν| ≤ 0.1 declared, and a level that does its worst."""
    rule = partial(AnytimeBAI, mean_bound=0.7, max_pulls=SHORT)
    for shift in (BOUND, -BOUND, 0.0):
        world = Semiparametric(SOURCE, THETA, baseline=shift, declared_baseline=BOUND)
        with made_for_short_runs():
            results = simulate(rule, world, runs=runs, seed=seed, delta=0.1)
        report(
            f"R = 0.1, a level of {shift:+g}",
            0.1,
            int((~results.correct & results.final).sum()),
            runs,
        )
    for leader in (True, False):
        wrong = sum(_follow(leader, seed * 1_000_000 + run) for run in range(runs // 4))
        hurt = "the leader" if leader else "the best"
        report(f"R = 0.1, before every batch the sign that hurts {hurt}", 0.1, wrong, runs // 4)


def _follow(leader: bool, seed: int) -> bool:
    """Whether a run is wrong in which the baseline of a batch follows all of the past."""
    rng = np.random.default_rng([seed, 77])
    with made_for_short_runs():
        rule = AnytimeBAI(
            Problem(SOURCE, baseline=BOUND, delta=0.1), mean_bound=0.7, max_pulls=SHORT
        )
    while (plan := rule.plan()) is not None:
        assert rule._open is not None
        named, against = rule._evidence.leaders if leader else (0, 2)
        contrast = rule._targets.now[named] - rule._targets.now[against]
        shift = float(np.ravel(rule._open.frame.bets(contrast[None]).w[0]) @ plan.weights)
        arms = rng.choice(3, size=plan.pulls, p=plan.weights)
        rewards = SOURCE[arms] @ THETA - BOUND * np.sign(shift) + rng.normal(size=plan.pulls)
        rule.update(Summary.from_pulls(arms, rewards, size=3, center=plan.center))
    told = rule.recommend()
    return bool(told.final and told.target != 0)


def alike(runs: int, seed: int) -> None:
    """Options that are all alike: one of them is named with probability at most 2δ."""
    rule = partial(AnytimeBAI, mean_bound=0.1, max_pulls=20_000)
    for arms in (2, 4):
        # An environment must have a best arm; a lead of 1e-12 is none.
        world = Semiparametric(np.eye(arms), 1e-12 * np.arange(arms), declared_baseline=0.1)
        named = int(simulate(rule, world, runs=runs, seed=seed, delta=0.1).final.sum())
        report(f"{arms} options that are alike, 20,000 pulls: any named", 0.1, named, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=11)
    parts = ("nasty", "level", "alike")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    print("| instance | δ | wrong and final | at most |\n|---|--:|--:|--:|")
    if "nasty" in options.only:
        for delta in (0.1, 0.01):
            count(options.runs, options.seed, delta)
    if "level" in options.only:
        level(options.runs, options.seed)
    if "alike" in options.only:
        alike(options.runs, options.seed)


if __name__ == "__main__":
    main()
