"""Pulls a second of every method, one core: whole runs beside a plain loop over single pulls.

    python -m benchmarks.methods

Both sides of a row are timed in turn, seven times, and medians are shown. The plain loop does the
same method: it asks the same policy for its plans and makes every pull of them by itself, as one
writes it in NumPy; LUCB and action elimination, which decide after every round, it writes out
without a policy. A plain run is left after 100 000 pulls, since the rest goes at the same speed.
Designs that all runs share are computed beforehand, once for both sides. The clock is the process's
own; the last line says how much of a core it had, since on a busy machine caches are shared too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from bestarm import DEO, LUCB, RAGE, SBE, SPBAI, ActionElimination, GOpt, Uniform, simulate
from bestarm.datasets import jester
from bestarm.environments import Ratings, Semiparametric, small_gap
from bestarm.numerics.geometry import Array
from bestarm.policies import Method
from bestarm.records import Plan, Summary

REPEATS = 7
PLAIN_PULLS = 100_000
LEAST = 5_000_000  # pulls on our side of a repeat
DELTA = 0.1

Reward = Callable[[int, int], float]  # of an arm, at a round


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    wall, own = time.perf_counter(), time.process_time()
    print(f"{'method':<16} {'instance':<20} {'pulls a run':>12} {'pulls/s':>14} ", end="")
    print(f"{'plain loop/s':>13} {'ratio':>9}")
    world = small_gap(declared_baseline=1.0)  # as in the paper
    planned: dict[str, Method] = {
        "SP-BAI": SPBAI,
        "SBE": SBE,
        "G-Opt": partial(GOpt, gap=world.gap),
        "RAGE": RAGE,
        "DEO": partial(DEO, budget=100_000),
        "Uniform": partial(Uniform, budget=100_000),
    }
    for name, method in planned.items():
        _row(name, method, world, partial(_planned, method, world))
    rules: dict[str, tuple[type[LUCB | ActionElimination], Callable[..., int]]] = {
        "LUCB": (LUCB, _plain_lucb),
        "AE": (ActionElimination, _plain_elimination),
    }
    users = jester().environment()
    for name, (rule, plain) in rules.items():
        _row(name, partial(rule, sigma=1.0), world, partial(plain, world, 1.0))
    for name, (rule, plain) in rules.items():
        _row(name, partial(rule, sigma=4.0), users, partial(plain, users, 4.0))
    distinct = jester().environment(replacement=False)
    ranking: dict[str, Method] = {
        "DEO": partial(DEO, budget=3000),
        "Uniform": partial(Uniform, budget=3000),
    }
    for name, method in ranking.items():
        _row(name, method, distinct, partial(_planned, method, distinct))
    share = (time.process_time() - own) / (time.perf_counter() - wall)
    print(f"\nThis process had {share:.0%} of a core.")


def _row(
    name: str, method: Method, world: Semiparametric | Ratings, plain: Callable[[int], int]
) -> None:
    first = simulate(method, world, runs=4, delta=0.1)  # compiles, and computes the designs
    runs = max(1, round(LEAST / first.mean_pulls))
    ours, theirs, pulls = [], [], 0.0
    for repeat in range(REPEATS):
        start = time.process_time()
        results = simulate(method, world, runs=runs, seed=repeat, delta=0.1)
        between = time.process_time()
        made = 0
        while made < PLAIN_PULLS:
            made += plain(repeat + made)
        theirs.append(made / (time.process_time() - between))
        ours.append(results.pulls.sum() / (between - start))
        pulls = results.mean_pulls
    fast, slow = statistics.median(ours), statistics.median(theirs)
    print(
        f"{name:<16} {world.name:<20} {pulls:>12,.0f} {fast:>14,.0f} {slow:>13,.0f} "
        f"{fast / slow:>8,.0f}×",
        flush=True,
    )


def _rewards(world: Semiparametric | Ratings, rng: np.random.Generator) -> Reward:
    """What one pull pays, drawn one at a time."""
    if isinstance(world, Ratings):
        matrix = world.matrix
        if world.replacement:
            return lambda arm, _round: float(matrix[rng.integers(len(matrix)), arm])
        order = rng.permutation(len(matrix))
        return lambda arm, now: float(matrix[order[now], arm])
    means = world.problem(DELTA).source @ world.theta
    return lambda arm, now: float(means[arm] + 1 + np.sin(2 * now) + rng.standard_normal())


def _planned(method: Method, world: Semiparametric | Ratings, seed: int) -> int:
    """A run of a policy with its pulls made one by one; returns their number."""
    rng = np.random.default_rng(seed)
    reward = _rewards(world, rng)
    policy = method(world.problem(DELTA))
    made = 0
    while made < PLAIN_PULLS and (plan := policy.plan()) is not None:
        counts, sums, squares = (np.zeros(plan.arms) for _ in range(3))
        for arm in _arms(plan, rng):
            made += 1
            paid = reward(arm, made)
            counts[arm] += 1
            sums[arm] += paid
            squares[arm] += paid * paid
            if made == PLAIN_PULLS:
                break
        else:
            policy.update(Summary(counts.astype(int), sums, squares))
    return made


def _arms(plan: Plan, rng: np.random.Generator) -> Iterator[int]:
    """The arms of a plan, one after the other."""
    if plan.counts is not None:
        left = plan.counts.copy()
        while left.any():
            for arm in np.flatnonzero(left).tolist():
                left[arm] -= 1
                yield arm
    elif plan.weights is not None:
        cumulative = np.cumsum(plan.weights)
        for _ in range(plan.pulls):
            yield int(cumulative.searchsorted(rng.random()))


def _radii(counts: Array, sigma: float) -> Array:
    inner = np.log(np.log(1.01 * counts + 2) * len(counts) / DELTA)
    return np.asarray(2.2 * sigma * np.sqrt(1.01 * inner / (2 * counts)))


def _plain_lucb(world: Semiparametric | Ratings, sigma: float, seed: int) -> int:
    """LUCB as one writes it; returns the number of pulls."""
    reward = _rewards(world, np.random.default_rng(seed))
    arms = world.problem(DELTA).arms
    counts, sums = np.ones(arms), np.array([reward(arm, arm + 1) for arm in range(arms)])
    made = arms
    while made < PLAIN_PULLS:
        means, radii = sums / counts, _radii(counts, sigma)
        leader = int(np.argmax(means))
        upper = means + radii
        upper[leader] = -np.inf
        challenger = int(np.argmax(upper))
        if means[leader] - radii[leader] > upper[challenger]:
            break
        for arm in (leader, challenger):
            made += 1
            counts[arm] += 1
            sums[arm] += reward(arm, made)
    return made


def _plain_elimination(world: Semiparametric | Ratings, sigma: float, seed: int) -> int:
    """Action elimination as one writes it; returns the number of pulls."""
    reward = _rewards(world, np.random.default_rng(seed))
    arms = world.problem(DELTA).arms
    counts, sums = np.zeros(arms), np.zeros(arms)
    active, made = np.arange(arms), 0
    while made < PLAIN_PULLS and len(active) > 1:
        for arm in active.tolist():
            made += 1
            counts[arm] += 1
            sums[arm] += reward(arm, made)
        means = sums[active] / counts[active]
        radii = 2 * _radii(counts, sigma)[active]
        best = np.argmax(means)
        active = active[means[best] - radii[best] < means + radii]
    return made


if __name__ == "__main__":
    main()
