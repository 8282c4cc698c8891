"""Pulls a second, one core: the engine's streams beside a plain loop over single pulls.

    python -m benchmarks.engine

Both sides of a row are timed in turn, several times, and the best of each is shown, so that a busy
machine hurts both alike. The plain loop is NumPy as one writes it: means and cumulative
probabilities computed once, then one pull at a time is drawn, rewarded and added up. (Written
for speed, with lists, `bisect` and a baseline for nothing, such a loop is about twice as fast.)

The second table is of rules that decide after every round: LUCB in many runs side by side, action
elimination many rounds at a time, both beside runs of the same rule by a plan a round.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np

from bestarm import LUCB, ActionElimination, Problem
from bestarm.environments import Ratings, Semiparametric, baselines, small_gap
from bestarm.policies import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary
from bestarm.simulation import run_once, simulate

REPEATS = 5
PLAIN_PULLS = 20_000
SIDE_BY_SIDE = {LUCB: (512, 4_000), ActionElimination: (4, 250_000)}  # runs, and pulls of each


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    small = small_gap()
    randomised, fixed = _randomised(11, 10**6), Plan.fixed(np.full(11, 90_909), phase=1)
    moving = {
        "1 + sin(2t)": baselines.sinusoid(),
        "constant": baselines.constant(1.0),
        "user's function": baselines.custom(lambda t: 1 + np.cos(t), bound=2.0),
        "random walk": baselines.random_walk(),
        "switches": baselines.switches(),
        "adversary": baselines.adversary(),
    }
    print(f"{'baseline':<16} {'plan':<12} {'arms':>5} {'pulls':>10} {'pulls/s':>16} ", end="")
    print(f"{'plain loop/s':>13} {'ratio':>12}")
    for pulls in (10**4, 10**5, 10**6, 10**7):
        _row("1 + sin(2t)", small, _randomised(11, pulls))
    for name, baseline in moving.items():
        world = small_gap(baseline=baseline)
        if name != "1 + sin(2t)":
            _row(name, world, randomised)
        _row(name, world, fixed)
    for name in ("1 + sin(2t)", "adversary"):
        world = _wide(1000, baseline=moving[name])
        _row(name, world, _randomised(1000, 10**6))
        _row(name, world, Plan.fixed(np.full(1000, 1000), phase=1))
    print(f"\n{'rule':<18} {'rewards':<12} {'arms':>5} {'pulls/s':>16} ", end="")
    print(f"{'by plans/s':>13} {'ratio':>12}")
    table = np.random.default_rng(0).uniform(-10, 10, size=(20_000, 10))
    for rule in (LUCB, ActionElimination):
        for name in ("1 + sin(2t)", "constant"):
            _rule_row(rule, name, small_gap(baseline=moving[name]))
        _rule_row(rule, "ratings", Ratings(table))


class Planned(Policy):
    """A rule that is only asked for plans."""

    def __init__(
        self,
        problem: Problem,
        *,
        rule: type[LUCB | ActionElimination],
        sigma: float,
        max_pulls: int | None = None,
    ) -> None:
        self.problem = problem
        self._rule = rule(problem, sigma=sigma, max_pulls=max_pulls)

    def plan(self) -> Plan | None:
        """As the rule does."""
        return self._rule.plan()

    def adopt(self, plan: Plan) -> None:
        """As the rule does."""
        self._rule.adopt(plan)

    def update(self, summary: Summary) -> None:
        """As the rule does."""
        self._rule.update(summary)

    def recommend(self) -> Recommendation:
        """As the rule does."""
        return self._rule.recommend()


def _rule_row(
    rule: type[LUCB | ActionElimination], name: str, world: Semiparametric | Ratings
) -> None:
    """One row: σ is so large that only the cap ends a run, with all arms still in it."""
    runs, pulls = SIDE_BY_SIDE[rule]
    capped = partial(rule, sigma=1e4, max_pulls=pulls)
    plans = partial(Planned, rule=rule, sigma=1e4, max_pulls=PLAIN_PULLS)
    best_ahead = best_plans = math.inf
    for repeat in range(REPEATS):
        start = time.perf_counter()
        made = simulate(capped, world, runs=runs, seed=repeat, delta=0.1)
        assert (made.pulls > pulls - 2).all()
        between = time.perf_counter()
        assert run_once(plans, world, run=repeat, delta=0.1).pulls == PLAIN_PULLS
        best_ahead = min(best_ahead, (between - start) / made.pulls.sum())
        best_plans = min(best_plans, (time.perf_counter() - between) / PLAIN_PULLS)
    print(
        f"{rule.__name__:<18} {name:<12} {world.problem(0.1).arms:>5} {1 / best_ahead:>16,.0f} "
        f"{1 / best_plans:>13,.0f} {best_plans / best_ahead:>11,.0f}×",
        flush=True,
    )


def _wide(arms: int, baseline: object = 0.0) -> Semiparametric:
    points = np.random.default_rng(0).normal(size=(arms, 10))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return Semiparametric(points, 2 * np.eye(10)[0], baseline=baseline)


def _randomised(arms: int, pulls: int) -> Plan:
    """Half the mass on one arm, the rest spread over the others, as anchored designs have it."""
    weights = np.append(0.5, np.full(arms - 1, 0.5 / (arms - 1)))
    return Plan.randomised(weights, pulls, phase=1)


def _row(name: str, world: Semiparametric, plan: Plan) -> None:
    plans = max(1, 10**6 // plan.pulls)
    best_fast = best_plain = math.inf
    for repeat in range(REPEATS + 1):
        stream = world.begin(np.random.default_rng(repeat))
        start = time.perf_counter()
        for _ in range(plans):
            stream.pull(plan)
        between = time.perf_counter()
        if repeat:  # the first computes what later runs share
            _plain(world, plan)
            best_fast = min(best_fast, (between - start) / (plans * plan.pulls))
            best_plain = min(best_plain, (time.perf_counter() - between) / PLAIN_PULLS)
    kind = "fixed" if plan.weights is None else "randomised"
    print(
        f"{name:<16} {kind:<12} {plan.arms:>5} {plan.pulls:>10,} {1 / best_fast:>16,.0f} "
        f"{1 / best_plain:>13,.0f} {best_plain / best_fast:>11,.0f}×",
        flush=True,
    )


def _plain(world: Semiparametric, plan: Plan) -> None:
    """Draw, reward and update, one pull at a time, in NumPy."""
    rng = np.random.default_rng(0)
    means = world.problem(0.1).source @ world.theta
    arms = plan.arms
    counts, sums, squares = np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms)
    cumulative = None if plan.weights is None else np.cumsum(plan.weights)
    adversarial = world.baseline == baselines.adversary()
    path = _path(world)
    successor = np.full(arms, -1)
    last = -1
    for t in range(1, PLAIN_PULLS + 1):
        arm = t % arms if cumulative is None else int(cumulative.searchsorted(rng.random()))
        if adversarial:
            leader = np.argmax(sums / np.maximum(counts, 1))
            nu = -1.0 if successor[last] == leader else 1.0
            successor[last], last = arm, arm
        else:
            nu = path(t)
        reward = means[arm] + nu + world.noise * rng.standard_normal()
        counts[arm] += 1
        sums[arm] += reward
        squares[arm] += reward**2


def _path(world: Semiparametric) -> Callable[[int], float]:
    """ν_t, one round at a time; random paths are handed to the plain loop for nothing."""
    if world.baseline == baselines.sinusoid():
        return lambda t: 1 + float(np.sin(2 * t))
    if isinstance(world.baseline, baselines.Moving):
        values = np.concatenate(list(islice(world.baseline.chunks(np.random.default_rng(0)), 8)))
        return lambda t: float(values[t])
    return lambda _: world.baseline.bound


if __name__ == "__main__":
    main()
