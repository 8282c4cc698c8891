"""What the anytime rule needs, what each of its ingredients is worth, and what it costs to compute.

    python -m benchmarks.anytime [--runs 300] [--seed 0]
        [--only baselines ingredients deltas errors speed]

Ingredients are taken out one at a time, by setting a module's constant; none of that touches the
guarantee. Everything is one process: a patched constant would not reach another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from unittest import mock

import numpy as np

from bestarm import SPBAI, AnytimeBAI, Problem, bounds, simulate
from bestarm.environments import Environment, Ratings, Semiparametric, baselines, small_gap
from bestarm.policies import allocation, anytime, contests, evidence, guesses
from bestarm.policies.policy import Method
from bestarm.simulation import Results
from bestarm.simulation.results import wilson

RULE = partial(AnytimeBAI, mean_bound=2.0)
TRIAL = 25_000  # pulls: about the length of a trial on the small-gap instance


def _row(name: str, results: Results, reference: float | None = None) -> float:
    mean = results.mean_pulls
    error = float(results.pulls.std()) / np.sqrt(len(results.pulls))
    wrong = int((results.final & ~results.correct).sum())
    ratio = f"{mean / reference:8.2f}" if reference else " " * 8
    print(f"{name:44s}{mean:10,.0f} ± {error:6,.0f}{ratio}   wrong {wrong}/{len(results.pulls)}")
    return mean


def _instance(baseline: object, declared: float) -> Environment:
    return small_gap(baseline=baseline, declared_baseline=declared)


def compare_baselines(runs: int) -> None:
    """The same instance and the same declared bounds, under baselines easy and hard to foresee."""

    def wave(period: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda t: 5.0 * np.sin(2 * np.pi * t / period)

    worlds = {
        "none": 0.0,
        "level 5": 5.0,
        "drift, ±5 over the whole trial": baselines.given(wave(TRIAL), bound=5.0),
        "drift, ±5 in a quarter of it": baselines.given(wave(TRIAL / 4), bound=5.0),
        "switches, ±5 every 2 500 pulls": baselines.switches((-5.0, 5.0), period=2500),
        "random walk within ±5": baselines.random_walk(0.05, bound=5.0),
    }
    print("\nBaselines, all declared within ±5 (ratio to none)")
    reference: float | None = None
    for name, baseline in worlds.items():
        mean = _row(name, simulate(RULE, _instance(baseline, 5.0), runs=runs), reference)
        reference = reference or mean
    print(
        "\nA level of 5, and none, for the sharp reading of SP-BAI, which has a pilot to guess by"
    )
    sharp: Method = partial(SPBAI, design="centered", stability="actual")
    for name in ("none", "level 5"):
        _row(name, simulate(sharp, _instance(worlds[name], 5.0), runs=runs))


def compare_ingredients(runs: int) -> None:
    """One at a time, on the paper's small-gap instance."""
    flat = np.full(len(evidence.STAKES), -np.log(len(evidence.STAKES)))
    one = np.where(np.abs(evidence.STAKES / 0.0163 - 1) < 0.3, 0.0, -np.inf)

    def unforeseen(self: guesses.Guesses, when: float) -> np.ndarray:  # noqa: ARG001
        return np.zeros(3)

    patches = {
        "as it is": (anytime, "_GROWTH", 0.05),
        "stakes: all shares equal": (evidence, "LOG_PRIOR", flat),
        "stakes: one, at the true signal to noise": (evidence, "LOG_PRIOR", one),
        "batches: 1 % of the pulls before": (anytime, "_GROWTH", 0.01),
        "batches: 25 %": (anytime, "_GROWTH", 0.25),
        "mixing: 1 % of the G-design": (allocation, "_SHARE", 0.01),
        "mixing: 30 %": (allocation, "_SHARE", 0.3),
        "gaps: believed down to half an error": (allocation, "_SURE", 0.5),
        "needs: the same for all contrasts": (contests, "_LEAST_NEED", 1e6),
        "no guess of the baseline": (guesses.Guesses, "_levels", unforeseen),
    }
    print("\nIngredients, small gap with the paper's baseline (ratio to the rule as it is)")
    world = _instance(baselines.sinusoid(), 2.0)
    reference: float | None = None
    for name, (home, attribute, value) in patches.items():
        with mock.patch.object(home, attribute, value):
            mean = _row(name, simulate(RULE, world, runs=runs), reference)
        reference = reference or mean


def compare_deltas(runs: int) -> None:
    """Pulls over the information limit 2σ²τ* log(1/δ), as δ falls."""
    world = small_gap(declared_baseline=2.0)
    limit = 2 * 1.5 * bounds.complexity(world.problem(0.1), world.theta).value
    print("\nSmall gap: pulls / (2σ²τ* log(1/δ)), with σ² = 1.5, noise and sine together")
    for delta in (0.1, 0.01, 1e-3, 1e-4, 1e-6):
        results = simulate(RULE, world, runs=runs, delta=delta)
        ratio = results.mean_pulls / (limit * np.log(1 / delta))
        _row(f"delta {delta:g}: {ratio:.2f}", results)


def _clicks(*rates: float) -> Environment:
    """Yes or no from two thousand users, each item liked by this part of them."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(np.arange(2000) < round(2000 * rate)) for rate in rates]
    return Ratings(np.array(columns, dtype=float).T, name="clicks")


NASTY: dict[str, tuple[Environment, dict[str, object]]] = {
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


def count_errors(runs: int, seed: int) -> None:
    """Small instances built to be nasty, with stakes made for runs as short as these.

    Any shares of the stakes are valid; with these, a few hundred pulls decide, so that the wealth
    of the best target is near 1/δ as often as it ever can be.
    """
    shares = 1 / (1 + np.square(np.log10(evidence.STAKES / 0.1) / 0.2))
    with mock.patch.object(evidence, "LOG_PRIOR", np.log(shares / shares.sum())):
        for delta in (0.1, 0.01):
            print(f"\nErrors at delta = {delta:g}: wrong and final, upper end of a 99 % interval")
            for name, (world, options) in NASTY.items():
                rule = partial(AnytimeBAI, max_pulls=600, **options)  # type: ignore[arg-type]
                results = simulate(rule, world, runs=runs, seed=seed, delta=delta)
                wrong = int((results.final & ~results.correct).sum())
                high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))[1]
                print(f"{name:44s}{wrong:6d} / {runs:,}   {high:.4f}   {high < delta}", flush=True)


def measure_speed() -> None:
    """Seconds a run, and a batch at ten thousand targets, once compiled and cached."""
    world = small_gap(declared_baseline=2.0)
    simulate(RULE, world, runs=2)
    start = time.process_time()
    results = simulate(RULE, world, runs=20)
    seconds = (time.process_time() - start) / 20
    print(f"\nSmall gap: {seconds:.3f} s a run, {results.plans.mean():.0f} batches")
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(200, 20)), rng.normal(size=(10_000, 20))
    big = Semiparametric(source, rng.normal(size=20), target=target, baseline=1.0)
    problem: Problem = big.problem(0.1)
    policy, stream = AnytimeBAI(problem, mean_bound=20.0), big.begin(rng)
    times: list[float] = []
    while (plan := policy.plan()) is not None and len(times) < 60:
        start = time.process_time()
        policy.update(stream.pull(plan))
        policy.plan()
        times.append(time.process_time() - start)
    start = time.process_time()
    policy.intervals()
    print(
        f"10 000 targets, 200 arms, 20 features: {np.median(times):.3f} s a batch (median), "
        f"{max(times):.3f} at most; intervals {time.process_time() - start:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parts = ("baselines", "ingredients", "deltas", "errors", "speed")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    if "baselines" in options.only:
        compare_baselines(options.runs)
    if "ingredients" in options.only:
        compare_ingredients(options.runs)
    if "deltas" in options.only:
        compare_deltas(options.runs)
    if "errors" in options.only:
        count_errors(options.runs, options.seed)
    if "speed" in options.only:
        measure_speed()


if __name__ == "__main__":
    main()
