"""Whether forecasts come true: experiments planned, and then run as live experiments.

    python -m benchmarks.planning [--experiments 20] [--runs 100] [--seed 0] [--only …]

An experiment is planned by simulation. Then it is run through `Experiment`, in a world as assumed
and in one with twice the gap: with outcomes that come at once, and with a hundred always under way
that come in another order. Nothing is shared but the assumptions.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.environments.baselines import Constant
from bestarm.planning import AssumedWorld, Drift, PlanRequest, plan_experiment

_AT_ONCE, _OUT = 25, (0, 100)  # assignments in one request, and under way meanwhile
_CAP = 200_000  # where all others are tied, an experiment that dropped the best would not end


@dataclass(frozen=True)
class Case:
    """An experiment that is planned for a gap under a drift, and has `true_gap`, if that differs.

    `options` are further ones of the plan.
    """

    name: str
    problem: Problem
    gap: float
    drift: Drift
    true_gap: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def request(self, gap: float, **options: Any) -> PlanRequest:
        return PlanRequest(self.problem, gap=gap, drift=self.drift, **self.options, **options)


def cases() -> list[Case]:
    yes_no = Problem(np.eye(5), delta=0.05, noise=0.5)
    few = Problem(np.eye(3), delta=0.05, noise=0.5)
    scores = Problem(np.eye(5), delta=0.05)
    described = Problem(np.random.default_rng(12).normal(size=(12, 3)), delta=0.05)
    people = Problem(np.eye(5), delta=0.05, baseline=2.0)
    wave = Drift("sine", period=2000)
    rates: dict[str, Any] = {"bounds": (0, 1)}
    return [
        Case("short", few, 0.15, Drift("sine", period=300), options=rates),
        Case("yes or no at 50 %", yes_no, 0.05, wave, options=rates),
        Case("yes or no at 10 %", few, 0.03, Drift("walk"), options=rates | {"base": "10 %"}),
        Case("scores", scores, 0.1, wave),
        Case("12 options of 3 features", described, 0.15, Drift("switches")),
        Case("pairs", people, 0.2, Drift("people"), options={"block": 2}),
        Case("twice the gap", yes_no, 0.05, wave, true_gap=0.1, options=rates),
    ]


def assumptions(case: Case, gap: float) -> AssumedWorld:
    """The world of a gap in numbers."""
    return plan_experiment(case.request(gap, runs=1, max_pulls=10)).scenarios[0]


def realised(case: Case, truth: AssumedWorld, seed: int, out: int) -> tuple[int, bool]:
    """Rounds of one live experiment, and whether it was right: named the best, or nobody."""
    rng = np.random.default_rng([seed, 77])
    bounds, block = case.options.get("bounds"), case.options.get("block", 1)
    means = case.problem.source @ np.array(truth.theta)
    means += truth.level - (means.max() + means.min()) / 2
    drift = Drift(truth.drift).path(level=0.0, size=truth.size, period=truth.period)
    values = (
        iter(lambda: np.zeros(4096), None) if isinstance(drift, Constant) else drift.chunks(rng)
    )
    path = np.empty(0)
    policy = AnytimeBAI(case.problem, bounds=bounds, max_pulls=_CAP, block=block)
    experiment = Experiment(policy, seed=seed)
    waiting: list[tuple[int, float]] = []
    while not experiment.finished:
        for each in experiment.ask(_AT_ONCE):
            while each.round >= len(path):
                path = np.concatenate([path, next(values)])
            mean = means[each.arm] + path[each.round]
            if bounds is None:
                reward = mean + truth.noise * rng.standard_normal()
            else:
                low, high = bounds
                reward = high if rng.random() < (mean - low) / (high - low) else low
            waiting.append((each.id, float(reward)))
        rng.shuffle(waiting)
        keep = out if len(waiting) > out else len(waiting)
        waiting, told = waiting[:keep], waiting[keep:]
        experiment.tell_many(told)
    found = experiment.recommendation()
    return experiment.status().rounds, found.label == truth.best or not found.final


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=20)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    chosen = parser.parse_args()
    print("case | forecast median (95 %) | 8 of 10 | under way | median | inside | wrong | seconds")
    for case in cases():
        if chosen.only and case.name not in chosen.only:
            continue
        plan = plan_experiment(case.request(case.gap, runs=chosen.runs, seed=chosen.seed))
        predicted = plan.forecasts[0].rounds
        truth = assumptions(case, case.true_gap or case.gap)
        seeds = range(chosen.seed + 1000, chosen.seed + 1000 + chosen.experiments)
        for out in _OUT:
            started = time.perf_counter()
            done = [realised(case, truth, seed, out) for seed in seeds]
            rounds = np.array([taken for taken, _ in done])
            inside = int(np.count_nonzero((rounds >= predicted.low) & (rounds <= predicted.high)))
            ends = (
                "–"
                if (known := predicted.median_interval) is None
                else "{:,.0f} to {:,.0f}".format(*known)
            )
            print(
                f"{case.name} | {predicted.median:,.0f} ({ends}) | "
                f"{predicted.low:,.0f} to {predicted.high:,.0f} | {out} | "
                f"{np.median(rounds):,.0f} | {inside} of {len(done)} | "
                f"{sum(not right for _, right in done)} | {time.perf_counter() - started:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
