"""Whether forecasts come true: experiments planned, and then run as live experiments.

    python -m benchmarks.planning [--experiments 20] [--runs 200] [--seed 0] [--only …]

An experiment is planned by simulation. Then it is run through `Experiment`, by worlds that are as
was assumed or are not: with outcomes that come at once, and with a hundred always under way that
come in another order. Nothing is shared but the assumptions.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.environments.baselines import Constant
from bestarm.planning import AssumedWorld, Drift, PlanRequest, Scenario, plan_experiment

_AT_ONCE, _OUT = 25, (0, 100)  # assignments in one request, and under way meanwhile
_CAP = 200_000  # where all others are tied, an experiment that dropped the best would not end


@dataclass(frozen=True)
class Case:
    """An experiment that is planned as `assumed` says, and turns out as `true` says.

    Its rounds have `block` options.
    """

    name: str
    problem: Problem
    bounds: tuple[float, float] | None
    assumed: Scenario
    true: Scenario
    block: int = 1


def cases() -> list[Case]:
    yes_no = Problem(np.eye(5), delta=0.05, noise=0.5)
    rare = Problem(np.eye(3), delta=0.05, noise=0.5)
    scores = Problem(np.eye(5), delta=0.05)
    rng = np.random.default_rng(12)
    described = Problem(rng.normal(size=(12, 3)), delta=0.05)
    wave, walk, jumps = Drift("sine", period=2000), Drift("walk", period=2000), Drift("switches")
    half = Scenario("half", gap=0.05, drift=wave)
    tenth = Scenario("tenth", gap=0.03, level=0.1, drift=walk)
    noisy = Scenario("noisy", gap=0.1, drift=wave)
    mixed = Scenario("mixed", gap=0.15, drift=jumps)
    moody = Problem(np.eye(5), delta=0.05, baseline=2.0)
    people = Scenario("people", gap=0.2, drift=Drift("people"))
    split = Scenario("split", gap=0.1, drift=Drift("switches", size=0.4, period=2))
    short = Scenario("short", gap=0.15, drift=Drift("sine", period=300))
    return [
        Case("short", rare, (0, 1), short, short),
        Case("yes or no at 50 %", yes_no, (0, 1), half, half),
        Case("yes or no at 10 %", rare, (0, 1), tenth, tenth),
        Case("scores", scores, None, noisy, noisy),
        Case("12 options of 3 features", described, None, mixed, mixed),
        Case(
            "others trail by more",
            yes_no,
            (0, 1),
            half,
            Scenario("usual", gap=0.05, theta="typical", drift=wave),
        ),
        Case("twice the gap", yes_no, (0, 1), half, Scenario("wide", gap=0.1, drift=wave)),
        Case(
            "jumps, not a wave",
            scores,
            None,
            noisy,
            Scenario("jumpy", gap=0.1, drift=Drift("switches", period=200)),
        ),
        Case("pairs", moody, None, people, people, block=2),
        Case("yes or no in pairs", rare, (0, 1), split, split, block=2),
    ]


def assumptions(case: Case, scenario: Scenario) -> AssumedWorld:
    """A scenario in numbers."""
    plan = plan_experiment(
        PlanRequest(
            case.problem,
            scenarios=[scenario],
            bounds=case.bounds,
            policies=["anytime"],
            runs=1,
            max_pulls=10,
        )
    )
    return plan.scenarios[0]


def realised(case: Case, truth: AssumedWorld, seed: int, out: int) -> tuple[int, bool]:
    """Rounds of one live experiment, and whether it was right: named the best, or nobody."""
    rng = np.random.default_rng([seed, 77])
    means = case.problem.source @ np.array(truth.theta)
    means += truth.level - (means.max() + means.min()) / 2
    drift = Drift(truth.drift).path(level=0.0, size=truth.size, period=truth.period)
    values = (
        iter(lambda: np.zeros(4096), None) if isinstance(drift, Constant) else drift.chunks(rng)
    )
    path = np.empty(0)
    policy = AnytimeBAI(case.problem, bounds=case.bounds, max_pulls=_CAP, block=case.block)
    experiment = Experiment(policy, seed=seed)
    waiting: list[tuple[int, float]] = []
    while not experiment.finished:
        for each in experiment.ask(_AT_ONCE):
            while each.round >= len(path):
                path = np.concatenate([path, next(values)])
            mean = means[each.arm] + path[each.round]
            if case.bounds is None:
                reward = mean + truth.noise * rng.standard_normal()
            else:
                low, high = case.bounds
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
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    chosen = parser.parse_args()
    print("case | forecast median (95 %) | 8 of 10 | under way | median | inside | wrong | seconds")
    for case in cases():
        if chosen.only and case.name not in chosen.only:
            continue
        plan = plan_experiment(
            PlanRequest(
                case.problem,
                scenarios=[case.assumed],
                bounds=case.bounds,
                policies=["anytime"],
                block=case.block,
                runs=chosen.runs,
                seed=chosen.seed,
            )
        )
        predicted = plan.forecasts[0].rounds
        truth = assumptions(case, case.true)
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
