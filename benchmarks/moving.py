"""What a verdict means where options do not move together (docs/moving.md).

    python -m benchmarks.moving [--runs 10000] [--seed 0]

Yes-or-no outcomes of four options whose rates move. Where one option is the best at every moment,
the question is how often it is dropped. Where the best changes, it is how often an option is
dropped that was not behind on the weighted average that a drop is about.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import NormalDist
from typing import NamedTuple
from unittest import mock

import numpy as np

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import STAKES, StakeGrid
from bestarm.presampled import PresampledRewards
from bestarm.simulation.results import wilson

__all__ = ["DELTA", "WORLDS", "Drop", "MovingRates", "drops", "play", "rule"]

DELTA = 0.1
_ROUNDS = 1000
_TOGETHER = 250  # runs side by side
_LOG_SHARES: Array = -np.log(1 + np.square(np.log10(STAKES / 0.1) / 0.2))
_SHORT = StakeGrid(STAKES, _LOG_SHARES - np.log(np.exp(_LOG_SHARES).sum()) - 1e-13)


class MovingRates(NamedTuple):
    """A world of yes-or-no outcomes.

    Attributes:
        rates: the rate of each option at each round, one row per round.
        best: the option that is the best at every moment, or None if there is none.
    """

    rates: Array
    best: int | None = None


class Drop(NamedTuple):
    """An option that was ruled out.

    Attributes:
        option: its index.
        behind: Σ g m: how far its opponents were ahead, summed over the rounds until then with the
            weights of the drop. The claim is that it is positive.
        plain: the same with equal weights.
    """

    option: int
    behind: float
    plain: float


def _worlds() -> dict[str, MovingRates]:
    t = np.arange(_ROUNDS, dtype=float)
    day = 1 + 0.8 * np.sin(2 * np.pi * t / 250)  # moves by a factor of nine
    weekend = t % 28 >= 20
    worn = np.exp(-t / 150)
    low = np.full((2, _ROUNDS), 0.1)
    return {
        "multiplied rhythms": MovingRates(day[:, None] * [0.5, 0.45, 0.3, 0.3], best=0),
        "multiplied rhythms, two tie": MovingRates(day[:, None] * [0.5, 0.5, 0.3, 0.3], best=0),
        "novelty wears off, to the others' rate": MovingRates(
            np.column_stack([0.3 + 0.2 * worn, np.full(_ROUNDS, 0.3), *low]), best=0
        ),
        "novelty wears off, below the others' rate": MovingRates(
            np.column_stack([0.3 + 0.4 * worn, np.full(_ROUNDS, 0.4), *low])
        ),
        "rates cross": MovingRates(
            np.column_stack([0.5 - 0.3 * t / _ROUNDS, 0.3 + 0.3 * t / _ROUNDS, *low])
        ),
        "weekdays and weekends": MovingRates(
            np.column_stack([np.where(weekend, 0.2, 0.5), np.where(weekend, 0.7, 0.3), *low])
        ),
    }


WORLDS = _worlds()


def rule(options: int) -> AnytimeBAI:
    """The rule with stakes for gaps that short runs can show: so it errs as often as it can."""
    problem = Problem([str(option) for option in range(options)], delta=DELTA)
    with mock.patch.object(StakeGrid, "around", return_value=_SHORT):
        return AnytimeBAI(problem, bounds=(0, 1), max_pulls=_ROUNDS)


def play(world: MovingRates, seeds: Sequence[int]) -> list[tuple[int, ...]]:
    """The options that are left at the end of each of these runs."""
    rates, rewards, draws = world.rates, list[PresampledRewards](), list[int]()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        draws.append(int(rng.integers(2**32)))
        paid = (rng.random(rates.shape) < rates).astype(float)
        rewards.append(PresampledRewards(paid, np.arange(len(paid)), np.zeros(len(paid))))
    group = rule(rates.shape[1]).group(draws)
    group.run_presampled(np.arange(len(draws)), rewards)
    return [tuple(group.recommend(run).active) for run in range(len(draws))]


def drops(world: MovingRates, seed: int) -> list[Drop]:
    """The options that a run rules out, each with the sums that its drop is about."""
    rates = world.rates
    rounds, options = rates.shape
    rng, policy = np.random.default_rng(seed), rule(options)
    total = np.vstack([np.zeros(options), np.cumsum(rates, axis=0)])
    wealth, lead = np.zeros((2, options, len(policy._grid)))
    plain, found, at = np.zeros(options), list[Drop](), 0
    while at < rounds and (plan := policy.plan()) is not None:
        assert policy._open is not None
        [placed] = policy._open.bets
        bets, order, opponents = placed.bets, placed.targets, placed.opponent
        assert bets is not None
        end = at + plan.pulls
        arms = rng.choice(options, plan.pulls, p=plan.weights)
        paid = rng.random(plan.pulls) < rates[np.arange(at, end), arms]
        policy.update(
            Summary.from_pulls(arms, paid.astype(float), size=options, center=plan.center)
        )
        moved = total[end] - total[at]
        ahead, at = moved[opponents] - moved[order], end  # Σ m over the batch
        stakes, growth = bets.settle(policy._past[-1])
        wealth[order] += growth
        lead[order] += stakes * ahead[:, None]  # Σ λ m of each stake
        plain[order] += ahead
        for option in np.setdiff1d(order, policy._evidence.active):
            log_shares = policy._grid.log_shares + wealth[option]
            shares = np.exp(log_shares - np.logaddexp.reduce(log_shares))
            found.append(Drop(int(option), float(shares @ lead[option]), float(plain[option])))
    return found


def _examine(world: MovingRates, seeds: Sequence[int]) -> list[tuple[int, int, int]]:
    """Whether runs dropped an option, and one that they should not; and by equal weights."""
    if world.best is not None:
        options = world.rates.shape[1]
        return [(len(left) < options, world.best not in left, 0) for left in play(world, seeds)]
    found = [drops(world, seed) for seed in seeds]
    return [
        (bool(each), any(d.behind <= 0 for d in each), any(d.plain <= 0 for d in each))
        for each in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| world | runs that drop an option | wrongly | 99 % | not behind by equal weights |")
    print("|---|---:|---:|---|---:|")
    seeds = range(options.seed, options.seed + options.runs)
    with ProcessPoolExecutor(2) as workers:
        for name, world in WORLDS.items():
            some = [seeds[i : i + _TOGETHER] for i in range(0, len(seeds), _TOGETHER)]
            each = np.concatenate(list(workers.map(partial(_examine, world), some)))
            dropped, wrongly, unweighted = each.sum(axis=0)
            low, high = wilson(int(wrongly), options.runs, NormalDist().inv_cdf(0.995))
            plain = "" if world.best is not None else f"{unweighted:,}"
            print(
                f"| {name} | {dropped:,} | {wrongly:,} | {low:.2%} to {high:.2%} | {plain} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
