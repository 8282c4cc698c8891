"""Pulls per second of every method.

    python -m benchmarks.field_speed [--pulls 200000] [--only NAME …]

Methods that stop when they are sure run on ten arms that are nearly alike, under a cap, so that
they do not stop; methods with a budget spend it. Two runs compile, and solve designs that runs
share; then CPU time is measured, over as many runs as make the pulls, at least a hundred of a
method that makes runs side by side.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bestarm.environments import Semiparametric
from bestarm.field import Competitor, Condition
from bestarm.field.benchmark import BenchmarkInstance
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle, simulate

_ARMS = 10
_RUN = 50_000  # pulls per run
_SIDE_BY_SIDE = 100  # runs


def _condition() -> Condition:
    means = np.full(_ARMS, 0.5)
    means[0] += 0.01
    world = Semiparametric(np.eye(_ARMS), means, declared_baseline=1.0, name="nearly alike")
    instance = BenchmarkInstance(
        "alike", "ten arms, nearly alike", lambda *_: world, max_pulls=_RUN, budget=_RUN
    )
    return Condition(instance, "none", world)


def speed(competitor: Competitor, condition: Condition, pulls: int) -> float:
    """Pulls per second of CPU time."""
    method, world = competitor.method(condition.instance), condition.environment
    simulate(method, world, runs=2, seed=1)
    instance = world.instance(np.random.default_rng(0))
    told = method.bind(instance) if isinstance(method, Oracle) else method
    side_by_side = told(instance.problem(0.1), seed=0).traits.side_by_side
    runs = _SIDE_BY_SIDE if side_by_side else 1
    made, spent, seed = 0, 0.0, 2
    while made < pulls:
        start = time.process_time()
        results = simulate(method, world, runs=runs, seed=seed)
        spent += time.process_time() - start
        made += int(results.pulls.sum())
        seed += 1
    return made / spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pulls", type=int, default=200_000)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    condition = _condition()
    entered = {
        info.name: Competitor.of(info)
        for info in policies().values()
        if set(info.required) <= {"budget"} and (not arguments.only or info.name in arguments.only)
    }
    print("| method | pulls per second |\n|---|---:|")
    for name, competitor in entered.items():
        found = speed(competitor, condition, arguments.pulls)
        print(f"| {name} | {found:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
