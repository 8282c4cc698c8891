"""What the anytime rule needs, what each of its ingredients is worth, and what it costs to compute.

    python -m benchmarks.anytime [--runs 300] [--seed 0]
        [--only baselines level ingredients deltas uniform jester errors null speed]
        [--picture docs/anytime.png] [--data ratings.npz]

Ingredients are taken out one at a time, by setting a module's constant; none of that touches the
guarantee. Everything is one process: a patched constant would not reach another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any
from unittest import mock

import numpy as np

from bestarm import (
    LUCB,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    Problem,
    bounds,
    datasets,
    design,
    simulate,
)
from bestarm.environments import (
    Environment,
    Ratings,
    Semiparametric,
    baselines,
    published_spheres,
    small_gap,
    uniform_sphere,
)
from bestarm.figures import NAMED, RIVALS, add_heading, new_figure, save
from bestarm.numerics.geometry import Array
from bestarm.policies import BernsteinElimination
from bestarm.policies.anytime import bets, estimates, sampler
from bestarm.policies.policy import Method
from bestarm.simulation import Results, run_once
from bestarm.simulation.results import wilson

RULE = partial(AnytimeBAI, mean_bound=2.0)
LENGTH = 25_000  # pulls: about the length of an experiment on the small-gap instance
DELTAS = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
CAP = 5_000_000  # pulls: the paper's, in one phase
SCALE = (-10.0, 10.0)  # of the Jester ratings


def print_row(name: str, results: Results, reference: float | None = None) -> float:
    mean = results.mean_pulls
    error = float(results.pulls.std()) / np.sqrt(len(results.pulls))
    wrong = int((results.final & ~results.correct).sum())
    ratio = f"{mean / reference:8.2f}" if reference else " " * 8
    print(
        f"{name:44s}{mean:10,.0f} ± {error:6,.0f}{ratio}   wrong {wrong}/{len(results.pulls)}",
        flush=True,
    )
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
        "drift, ±5 over the whole experiment": baselines.custom(wave(LENGTH), bound=5.0),
        "drift, ±5 in a quarter of it": baselines.custom(wave(LENGTH / 4), bound=5.0),
        "switches, ±5 every 2 500 pulls": baselines.switches((-5.0, 5.0), period=2500),
        "random walk within ±5": baselines.random_walk(0.05, bound=5.0),
    }
    print("\nBaselines, all declared within ±5 (ratio to none)")
    reference: float | None = None
    for name, baseline in worlds.items():
        mean = print_row(
            name, simulate(RULE, _instance(baseline, 5.0), runs=runs, delta=0.1), reference
        )
        reference = reference or mean


def compare_levels(runs: int, seed: int) -> None:
    """A level as large as what is declared, beside none with the same declaration."""
    print("\nA level of R with |ν| ≤ R declared (ratio to none with the same R)")
    for reach in (5.0, 10.0, 20.0, 50.0, 100.0):
        reference: float | None = None
        for name, level in (("none", 0.0), ("at R", reach)):
            results = simulate(RULE, _instance(level, reach), runs=runs, seed=seed, delta=0.1)
            mean = print_row(f"R = {reach:g}, {name}", results, reference)
            reference = reference or mean


def compare_ingredients(runs: int) -> None:
    """One at a time, on the paper's small-gap instance."""
    stakes = bets.STAKES
    flat = bets.StakeGrid(stakes, np.full(len(stakes), -np.log(len(stakes)) - 1e-13))
    one = bets.StakeGrid(np.array([0.02]), np.zeros(1))
    about = bets.Totals.about

    def unpredicted(self: estimates.Estimates, size: Array) -> Array:  # noqa: ARG001
        return np.asarray(self.slope @ self.coordinates.T)

    def blunt(guess: Array, sums: Any, _extremes: Any, lost: Any = None) -> bets.Totals:
        return about(guess, sums, None, lost)

    patches = {
        "as it is": (sampler, "BATCH_GROWTH", 0.02),
        "stakes: all shares equal": (bets.StakeGrid, "around", lambda _: flat),
        "stakes: one, at about the true signal to noise": (bets.StakeGrid, "around", lambda _: one),
        "batches: 1 % of the pulls before": (sampler, "BATCH_GROWTH", 0.01),
        "batches: 5 %": (sampler, "BATCH_GROWTH", 0.05),
        "totals without extremes and cubes": (bets.Totals, "about", blunt),
        "mixing: 1 % of the G-design": (sampler, "G_DESIGN_SHARE", 0.01),
        "mixing: 30 %": (sampler, "G_DESIGN_SHARE", 0.3),
        "gaps: believed down to half an error": (sampler, "LEAST_GAP_ERRORS", 0.5),
        "no guess of the baseline": (estimates.Estimates, "rewards", unpredicted),
    }
    print("\nIngredients, small gap with the paper's baseline (ratio to the rule as it is)")
    world = _instance(baselines.sinusoid(), 2.0)
    reference: float | None = None
    for name, (home, attribute, value) in patches.items():
        with mock.patch.object(home, attribute, value):
            mean = print_row(name, simulate(RULE, world, runs=runs, delta=0.1), reference)
        reference = reference or mean


def compare_deltas(runs: int, seed: int, picture: Path | None) -> None:
    """Pulls over the information limit 2σ²τ* log(1/δ), as δ falls."""
    world = small_gap()
    limit = 2 * 1.5 * design.complexity(world.problem(0.1), world.theta).value
    print("\nSmall gap: pulls / (2σ²τ* log(1/δ)), with σ² = 1.5, noise and sine together")
    print(f"2σ²τ* = {limit:,.0f}")
    found: list[Results] = []
    for delta in DELTAS:
        results = simulate(RULE, world, runs=runs, seed=seed, delta=delta)
        found.append(results)
        ratio = results.mean_pulls / (limit * np.log(1 / delta))
        half = 1.96 * results.std_pulls / np.sqrt(runs) / (limit * np.log(1 / delta))
        print_row(f"delta {delta:g}: {ratio:.2f} ± {half:.2f} (95 %)", results)
    slopes = _slopes(found) / limit
    half = 1.96 * slopes.std(ddof=1) / np.sqrt(runs)
    print(f"Each further nat of log(1/δ): {slopes.mean():.2f} ± {half:.2f} (95 %) times 2σ²τ*")
    if picture is not None:
        _draw_deltas(limit, found, picture)


def _slopes(found: Sequence[Results]) -> Array:
    """The pulls that one more nat of log(1/δ) costs, run by run, along a line through all δ."""
    nats = np.log([1 / results.delta for results in found])
    return np.asarray(np.polyfit(nats, np.array([results.pulls for results in found]), 1)[0])


def _draw_deltas(limit: float, found: Sequence[Results], path: Path) -> None:
    """Pulls a nat of log(1/δ), as δ falls, beside the information limit."""
    nats = np.log([1 / results.delta for results in found])
    pulls = np.array([results.mean_pulls for results in found]) / nats
    half = np.array([1.96 * r.std_pulls / np.sqrt(r.runs) for r in found]) / nats
    figure = new_figure(7.2, 4.1)
    axes = figure.add_subplot()
    deltas = [results.delta for results in found]
    axes.errorbar(deltas, pulls, half, color=NAMED, marker="o", ms=5, lw=1.6, capsize=3)
    for delta, each, reach in zip(deltas, pulls, half, strict=True):
        axes.annotate(
            f"{each / limit:.2f}×",
            (delta, each + reach),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    slope = float(_slopes(found).mean())
    for level, words, (colour, dashes, _) in (
        (
            limit,
            f"2σ²τ* = {limit:,.0f}: the limit as δ goes to 0, the sine as noise",
            RIVALS[0],
        ),
        (
            slope,
            f"{slope / limit:.2f}×: what each further nat of log(1/δ) costs",
            RIVALS[1],
        ),
    ):
        axes.axhline(level, color=colour, ls=dashes, lw=1.6)
        axes.annotate(
            words,
            (0.03, level),
            (0, -13),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=9,
            color=colour,
        )
    axes.set_xscale("log")
    axes.set_xlim(2.2 * max(deltas), min(deltas) / 2.2)
    axes.set_ylim(0, 1.15 * float(np.max(pulls + half)))
    axes.set_xlabel("δ")
    axes.set_ylabel("mean pulls / log(1/δ)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    add_heading(
        figure,
        "The smaller δ, the closer to the information limit",
        f"Small-gap instance, {found[0].runs} runs each; bars are 95 % intervals of the mean.\n",
    )
    save(figure, path)


def compare_uniform(runs: int, seed: int) -> None:
    """Beside SP-BAI, on the same instances of uniform arms."""
    for name, world, count in (
        ("the published instances", published_spheres, 100),
        ("fresh instances", uniform_sphere, runs),
    ):
        told, honest = world(declared_baseline=1.0), world()
        methods: dict[str, tuple[Method, Environment]] = {
            "anytime": (partial(AnytimeBAI, max_pulls=CAP), honest),
            "SP-BAI": (partial(SPBAI, preset="replication", max_phase_pulls=CAP), told),
        }
        print(f"\nUniform arms, {name}: median pulls, quartiles")
        found: dict[str, Results] = {}
        for label, (method, place) in methods.items():
            results = found[label] = simulate(method, place, runs=count, seed=seed, delta=0.1)
            low, middle, high = np.quantile(results.pulls, (0.25, 0.5, 0.75))
            wrong, capped = (~results.correct & results.final).sum(), (~results.final).sum()
            print(
                f"{label:44s}{middle:12,.0f}   {low:,.0f} to {high:,.0f}   "
                f"wrong {wrong}/{count}, capped {capped}",
                flush=True,
            )
        for label in list(methods)[1:]:
            ratio, low, high = _paired(found["anytime"], found[label])
            fewer = int((found["anytime"].pulls < found[label].pulls).sum())
            print(
                f"anytime over {label}: medians {ratio:.3f} ({low:.3f} to {high:.3f}), "
                f"fewer pulls in {fewer}/{count}",
                flush=True,
            )


def _paired(ours: Results, theirs: Results) -> tuple[float, float, float]:
    """The ratio of the medians, and a 95 % bootstrap interval over the instances they share."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(ours.runs, size=(10_000, ours.runs))
    ratios = np.median(ours.pulls[drawn], axis=1) / np.median(theirs.pulls[drawn], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(ours.pulls) / np.median(theirs.pulls)), float(low), float(high)


def compare_jester(runs: int, seed: int, data: str | None) -> None:
    """Beside rules on arm means that are proven without drift, on the same runs."""
    world = datasets.jester(data).environment()
    sigma = bounds.sub_gaussian_scale(SCALE)
    methods: dict[str, Method] = {
        "anytime": partial(AnytimeBAI, bounds=SCALE),
        "Bernstein elimination": partial(BernsteinElimination, bounds=SCALE),
        "LUCB, certified": partial(LUCB, sigma=sigma, radius="certified"),
        "action elimination, certified": partial(
            ActionElimination, sigma=sigma, radius="certified"
        ),
    }
    print("\nJester ratings, joke by joke (ratio to the anytime rule)")
    reference: float | None = None
    for name, method in methods.items():
        start = time.process_time()
        mean = print_row(name, simulate(method, world, runs=runs, seed=seed, delta=0.1), reference)
        print(f"    {(time.process_time() - start) / runs:.2f} s a run", flush=True)
        reference = reference or mean


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


def made_for_short_runs() -> AbstractContextManager[object]:
    """Stakes with which a few hundred pulls decide, while this is entered.

    Any shares of the stakes are valid; with these, the wealth of the best target is near 1/δ as
    often as it ever can be.
    """
    shares = 1 / (1 + np.square(np.log10(bets.STAKES / 0.1) / 0.2))
    grid = bets.StakeGrid(bets.STAKES, np.log(shares / shares.sum()) - 1e-13)
    return mock.patch.object(bets.StakeGrid, "around", return_value=grid)


def count_errors(runs: int, seed: int) -> None:
    """Small instances built to be nasty, with stakes made for runs as short as these."""
    with made_for_short_runs():
        for delta in (0.1, 0.01):
            print(f"\nErrors at delta = {delta:g}: wrong and final, upper end of a 99 % interval")
            for name, (world, options) in NASTY.items():
                rule = partial(AnytimeBAI, max_pulls=600, **options)  # type: ignore[arg-type]
                results = simulate(rule, world, runs=runs, seed=seed, delta=delta)
                wrong = int((results.final & ~results.correct).sum())
                high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))[1]
                print(f"{name:44s}{wrong:6d} / {runs:,}   {high:.4f}   {high < delta}", flush=True)


def count_winners(runs: int, seed: int) -> None:
    """Arms that are all alike, 20 000 pulls: how often one of them is named all the same."""
    print("\nAll alike, delta = 0.1: a winner named, 99 % interval (at most 2 delta is proven)")
    rule = partial(AnytimeBAI, mean_bound=0.1, max_pulls=20_000)
    for arms in (2, 4):
        # An environment must have a best arm; a lead of 1e-12 is none.
        world = Semiparametric(np.eye(arms), 1e-12 * np.arange(arms), declared_baseline=0.1)
        named = int(simulate(rule, world, runs=runs, seed=seed, delta=0.1).final.sum())
        low, high = wilson(named, runs, NormalDist().inv_cdf(0.995))
        print(f"{arms} arms{named:46d} / {runs:,}   {low:.4f} to {high:.4f}", flush=True)


def measure_speed() -> None:
    """Seconds a run, and a batch at ten thousand targets, once compiled and cached."""
    world = small_gap()
    simulate(RULE, world, runs=2, delta=0.1)
    times: list[float] = []
    for run in range(40):
        start = time.process_time()
        run_once(RULE, world, run=run, delta=0.1)
        times.append(time.process_time() - start)
    batches = simulate(RULE, world, runs=40, delta=0.1).plans.mean()
    print(
        f"\nSmall gap: {np.median(times):.3f} s a run (median of 40), {np.mean(times):.3f} on "
        f"average, {batches:.0f} batches"
    )
    print("10 000 targets, 200 arms, 20 features: seconds a batch, median and most")
    for name, options in (
        ("the best", {}),
        ("the best, tolerance 0.1", {"tolerance": 0.1}),
        ("the 20 best", {"top": 20}),
        ("the 20 best, none far behind", {"top": 20, "size": 0.01}),
    ):
        _measure_large(name, **options)


def _measure_large(name: str, *, size: float = 1.0, **options: float) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(200, 20)), rng.normal(size=(10_000, 20))
    world = Semiparametric(source, size * rng.normal(size=20), target=target, baseline=1.0)
    problem: Problem = world.problem(0.1)
    policy = AnytimeBAI(problem, mean_bound=20.0, **options)  # type: ignore[arg-type]
    stream = world.begin(rng)
    times: list[float] = []
    plan = policy.plan()
    while plan is not None and len(times) < 60:
        summary = stream.pull(plan)
        start = time.process_time()
        policy.update(summary)
        plan = policy.plan()
        policy.recommend()
        times.append(time.process_time() - start)
    start = time.process_time()
    policy.intervals()
    print(
        f"{name:44s}{np.median(times):8.3f} {max(times):8.3f}   ({len(times)} batches)   "
        f"intervals {time.process_time() - start:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to draw the part on deltas")
    parser.add_argument("--data", help="ratings for the part on Jester; made-up ones by default")
    parts = (
        "baselines",
        "level",
        "ingredients",
        "deltas",
        "uniform",
        "jester",
        "errors",
        "null",
        "speed",
    )
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    if "baselines" in options.only:
        compare_baselines(options.runs)
    if "level" in options.only:
        compare_levels(options.runs, options.seed)
    if "ingredients" in options.only:
        compare_ingredients(options.runs)
    if "deltas" in options.only:
        compare_deltas(options.runs, options.seed, options.picture)
    if "uniform" in options.only:
        compare_uniform(options.runs, options.seed)
    if "jester" in options.only:
        compare_jester(options.runs, options.seed, options.data)
    if "errors" in options.only:
        count_errors(options.runs, options.seed)
    if "null" in options.only:
        count_winners(options.runs, options.seed)
    if "speed" in options.only:
        measure_speed()


if __name__ == "__main__":
    main()
