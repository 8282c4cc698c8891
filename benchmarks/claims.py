"""What the anytime rule claims with forecasts, with a control, and without a baseline.

python -m benchmarks.claims [--runs 1000] [--seed 0] [--only forecasts soare effects]
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import NormalDist

import numpy as np

from benchmarks.anytime import NASTY, RULE, made_for_short_runs, print_row
from bestarm import AnytimeBAI, simulate
from bestarm.environments import Semiparametric, baselines, small_gap
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.records import Counts
from bestarm.simulation import run_once
from bestarm.simulation.results import wilson


def _spite(state: tuple[Array, Array], arms: Counts, rewards: Array, late: int, out: Array) -> None:
    """Forecast as `Spite` does; a reward that is not positive is learned with the next `late`.

    Args:
        state: sums and counts per arm; the last arm, how many outcomes wait, and these.
        arms: drawn.
        rewards: of these draws.
        late: how many outcomes may wait for one that is positive.
        out: the forecasts, output.
    """
    totals, memory = state
    for t in range(len(arms)):
        leader = 0
        for a in range(totals.shape[1]):
            if totals[0, a] * totals[1, leader] > totals[0, leader] * totals[1, a]:
                leader = a
        out[t] = 1e9 if memory[0] == leader else -1e9
        waiting = int(memory[1])
        memory[2 + 2 * waiting], memory[3 + 2 * waiting] = arms[t], rewards[t]
        memory[1] += 1
        if rewards[t] > 0 or waiting >= late:
            for i in range(int(memory[1])):
                a = int(memory[2 + 2 * i])
                totals[0, a] += memory[3 + 2 * i]
                totals[1, a] += 1
                memory[0] = a
            memory[1] = 0


class Spite(Forecaster):
    """Forecasts at the end of the clip that hurts the leader most, from all that has happened."""

    late = 0  # outcomes that wait for one that is positive

    def __init__(self) -> None:
        self.totals, self.memory = np.zeros((2, 8)), np.zeros(64)
        self.totals[1] = 1.0

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        raise NotImplementedError  # simulations forecast many draws at once

    def learn(self, number: int, features: Array, reward: float) -> None:
        raise NotImplementedError

    def follow(
        self,
        first: int,  # noqa: ARG002
        moments: Array | None,  # noqa: ARG002
        covariates: Array | None,  # noqa: ARG002
        features: Array,
        rewards: Array,
    ) -> Array:
        out = np.empty(len(rewards))
        arms = features.argmax(axis=1)
        _spite((self.totals, self.memory), arms, np.array(rewards), self.late, out)
        return out


class Late(Spite):
    """Learns an outcome late if it was low: delays that depend on outcomes."""

    late = 20


class Leak(Spite):
    """Forecasts from covariates that leak the outcome before: the last reward, doubled."""

    def follow(
        self,
        first: int,  # noqa: ARG002
        moments: Array | None,  # noqa: ARG002
        covariates: Array | None,  # noqa: ARG002
        features: Array,  # noqa: ARG002
        rewards: Array,
    ) -> Array:
        out = 2 * np.concatenate([self.memory[:1], rewards[:-1]])
        self.memory[0] = rewards[-1]
        return out


class Peek(Spite):
    """A broken twin: it knows the arm before it forecasts."""

    def follow(
        self,
        first: int,  # noqa: ARG002
        moments: Array | None,  # noqa: ARG002
        covariates: Array | None,  # noqa: ARG002
        features: Array,
        rewards: Array,  # noqa: ARG002
    ) -> Array:
        return np.asarray(features[:, 0])


def count_forecast_errors(runs: int, seed: int) -> None:
    """The nasty instances again, with forecasts that do all they may, and one that may not."""
    delta = 0.1
    with made_for_short_runs():
        for forecaster in (Spite(), Leak(), Late(), Peek()):
            name = type(forecaster).__name__
            print(f"\nErrors with forecasts of {name} at delta = {delta:g}: wrong and final")
            for title, (world, options) in NASTY.items():
                if not world.problem(delta).drifts:  # type: ignore[attr-defined]
                    continue
                rule = partial(AnytimeBAI, max_pulls=600, **options)  # type: ignore[arg-type]
                results = simulate(
                    rule, world, runs=runs, seed=seed, delta=delta, forecaster=forecaster
                )
                wrong = int((results.final & ~results.correct).sum())
                high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))[1]
                print(f"{title:44s}{wrong:6d} / {runs:,}   {high:.4f}   {high < delta}", flush=True)


def compare_soare(runs: int, seed: int) -> None:
    """Soare's instance without a baseline, and under a sine that was declared absent."""
    print("\nSoare's instance, delta = 0.05, told that there is no baseline")
    for dimension, angle in ((5, 0.1), (10, 0.2)):
        for name, baseline in (("none", 0.0), ("sine", baselines.sinusoid())):
            world = small_gap(dimension, angle, baseline=baseline, declared_baseline=0.0)
            results = simulate(
                partial(RULE, max_pulls=20_000), world, runs=runs, seed=seed, delta=0.05
            )
            print_row(f"d = {dimension}, angle {angle:g}, baseline {name}", results)


def check_effects(runs: int, seed: int) -> None:
    """The lead over a control, together with the decision, over finished experiments."""
    theta = np.array([0.5, 0.35, 0.2, 0.0])
    world = Semiparametric(
        np.eye(4), theta, baseline=baselines.sinusoid(), source_labels=list("abcd")
    )
    print(
        "\nEffects at delta = 0.1: joint misses, wrong decisions, contradictions, lower ends of 0"
    )
    for control in range(4):
        rule = partial(AnytimeBAI, mean_bound=1.0, control="abcd"[control])
        misses = wrong = contradictions = zero = 0
        for run in range(runs):
            answer = run_once(rule, world, run=run, seed=seed, delta=0.1)
            effect = answer.effect
            assert effect is not None
            lead = theta[answer.target] - theta[control]
            wrong += answer.target != 0
            misses += answer.target != 0 or not effect.lower <= lead <= effect.upper
            contradictions += not 0 <= effect.lower <= effect.estimate <= effect.upper
            zero += effect.lower == 0
        print(
            f"control {control}: {misses}, {wrong}, {contradictions}, {zero} of {runs}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parts = {"forecasts": count_forecast_errors, "soare": compare_soare, "effects": check_effects}
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    options = parser.parse_args()
    for name in options.only:
        parts[name](options.runs, options.seed)


if __name__ == "__main__":
    main()
