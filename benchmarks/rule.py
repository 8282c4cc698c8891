"""How many pulls the anytime rule takes, and how long it computes.

    python -m benchmarks.rule pulls [--runs 400] [--save new.npz]
    python -m benchmarks.rule compare old.npz new.npz
    python -m benchmarks.rule curve --runs 200 --picture docs/small-baseline.png
    python -m benchmarks.rule deltas --runs 200 --picture docs/anytime.png
    python -m benchmarks.rule others --runs 200 [--data ratings.npz]
    python -m benchmarks.rule steps

No constant of the rule was chosen on these instances. To compare two versions, save the pulls of
both, the other one with its package in front (`PYTHONPATH=other/src`). A limit is 2σ²τ log(1/δ),
for the noise and the declared baseline (docs/lower-bound.md).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bestarm import (
    LUCB,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    Problem,
    bounds,
    datasets,
    simulate,
)
from bestarm.design import complexity
from bestarm.environments import (
    Environment,
    Ratings,
    Semiparametric,
    baselines,
    published_spheres,
    small_gap,
    soare,
    uniform_sphere,
)
from bestarm.figures import NAMED, RIVALS, add_heading, new_figure, save
from bestarm.policies import BernsteinElimination
from bestarm.policies.policy import Method
from bestarm.simulation import Results


class Instance(NamedTuple):
    """A world, what the rule is told of it, and δ; `more` times as many runs, for small errors."""

    world: Environment
    options: dict[str, Any]
    delta: float = 0.1
    more: int = 1
    forecaster: str | None = None

    def play(self, runs: int, seed: int) -> Results:
        rule = partial(AnytimeBAI, **self.options)
        given = {} if self.forecaster is None else {"forecaster": self.forecaster}
        runs *= self.more
        return simulate(rule, self.world, runs=runs, seed=seed, delta=self.delta, **given)  # type: ignore[arg-type]

    def limit(self) -> float | None:
        """The limit for a level of 0; None where there are no features and noise to speak of."""
        if not isinstance(self.world, Semiparametric):
            return None
        problem: Problem = self.world.problem(self.delta)
        declared = None if problem.drifts else 0.0
        value = complexity(problem, self.world.theta, baseline=declared).value
        return 2 * problem.noise**2 * value * math.log(1 / self.delta)


def _clicks(*rates: float) -> Environment:
    """Yes or no from four thousand people, each option liked by this part of them."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(np.arange(4000) < round(4000 * rate)) for rate in rates]
    return Ratings(np.array(columns, dtype=float).T, name="clicks")


def _transductive() -> Instance:
    """Pull twelve axes, choose among fifteen directions."""
    rng = np.random.default_rng(1)
    target = rng.normal(size=(15, 6))
    target /= np.linalg.norm(target, axis=1)[:, None]
    source = np.vstack([np.eye(6), -np.eye(6)])
    theta = 0.25 * (target[0] + 0.3 * target[1])
    world = Semiparametric(source, theta, target=target, baseline=0.5, declared_baseline=1.0)
    return Instance(world, {"mean_bound": 1.0})


def _arms(arms: int, dimension: int) -> Instance:
    """Arms on a sphere, under a fast sine."""
    rng = np.random.default_rng(2)
    source = rng.normal(size=(arms, dimension))
    source /= np.linalg.norm(source, axis=1)[:, None]
    world = Semiparametric(source, source[0] + 0.1 * source[1], baseline=baselines.sinusoid())
    return Instance(world, {"mean_bound": 1.5})


def _names(means: Sequence[float], baseline: object = 0.0, declared: float = 1.0) -> Instance:
    """Plain names with these means; noise of deviation 1."""
    bound = max(0.5, float(np.max(np.abs(means))))
    world = Semiparametric(np.eye(len(means)), means, baseline=baseline, declared_baseline=declared)
    return Instance(world, {"mean_bound": bound, "max_pulls": 1_000_000})


def _wave(reach: float, period: float) -> object:
    return baselines.custom(lambda t: reach * np.sin(2 * np.pi * t / period), bound=reach)


FOUR = (0.2, 0.1, 0.05, 0.0)


def instances() -> dict[str, Instance]:
    """The instances of the table."""
    found = {
        "the paper's small gap": Instance(small_gap(), {}, more=10),
        "the same with forecasts": Instance(small_gap(), {}, more=10, forecaster="default"),
        "clicks at 2 to 3 %, four options": Instance(
            _clicks(0.03, 0.02, 0.021, 0.024), {"bounds": (0, 1)}
        ),
        "12 arms, 15 targets, d = 6": _transductive(),
        "50 arms, d = 20": _arms(50, 20),
        "60 arms, d = 30": _arms(60, 30),
        "four names, a walk of steps 0.05 within ±5": _names(
            FOUR, baselines.random_walk(0.05, bound=5.0), 5.0
        ),
        "four names, jumps between ±5 every 2,500 pulls": _names(
            FOUR, baselines.switches((-5.0, 5.0), period=2500), 5.0
        ),
        "four names, a slow day, ±2 in 10,000 pulls": _names(FOUR, _wave(2.0, 10_000), 2.0),
        "four names, nothing moves": _names(FOUR),
        "four names, the adversary": _names(FOUR, baselines.adversary(1.0)),
    }
    for options in (2, 4, 6):
        means = [0.2] + [0.0] * (options - 1)
        found[f"{options} names, one ahead by 0.2"] = _names(means)._replace(delta=0.05)
    for level, declared in ((0.0, 20.0), (20.0, 20.0), (0.0, 100.0), (100.0, 100.0)):
        world = small_gap(baseline=level, declared_baseline=declared)
        name = f"small gap, a level of {level:g} within ±{declared:g}"
        found[name] = Instance(world, {"mean_bound": 2.0})
    for dimension, angle in ((5, 0.1), (10, 0.2)):
        world = soare(dimension, angle, baseline=0.0, declared_baseline=0.0)
        name = f"Soare, d = {dimension}, ω = {angle:g}, no baseline"
        found[name] = Instance(world, {"mean_bound": 2.0}, delta=0.05)
    return found


def pulls(runs: int, seed: int, path: Path | None) -> None:
    """Pulls of every instance beside its limit."""
    print("| instance | δ | runs | pulls | times the limit | wrong | ms per run |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    saved: dict[str, Any] = {}
    for name, instance in instances().items():
        start = time.process_time()
        results = instance.play(runs, seed)
        spent = 1000 * (time.process_time() - start) / results.runs
        limit = instance.limit()
        ratio = "–" if limit is None else f"{results.mean_pulls / limit:.2f}"
        wrong = int((results.final & ~results.correct).sum())
        print(
            f"| {name} | {instance.delta:g} | {results.runs:,} | {told(results)} | {ratio} | "
            f"{wrong} | {spent:.0f} |",
            flush=True,
        )
        saved[name] = results.pulls
    if path is not None:
        np.savez(path, **saved)


def told(results: Results) -> str:
    """Mean pulls and their standard error."""
    return f"{results.mean_pulls:,.0f} ± {results.std_pulls / math.sqrt(results.runs):,.0f}"


def compare(before: str, after: str) -> None:
    """Ratios of mean pulls, after over before, with 95 % by bootstrap."""
    rng = np.random.default_rng(0)
    ratios = []
    with np.load(before) as old, np.load(after) as new:
        for name in old.files:
            means = [
                part[rng.integers(len(part), size=(2000, len(part)))].mean(axis=1)
                for part in (old[name].astype(float), new[name].astype(float))
            ]
            low, high = np.quantile(means[1] / means[0], (0.025, 0.975))
            ratios.append(new[name].mean() / old[name].mean())
            print(f"| {name} | {ratios[-1]:.3f} | {low:.3f} to {high:.3f} |")
    print(f"| mean | {np.mean(ratios):.3f} | |")


# --- small baselines, and small δ ----------------------------------------------------------------

CURVES = ((5, 0.3), (10, 0.2))
DECLARED = (0.0, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4, 1.0)
LEVELS: dict[str, Callable[[float], object]] = {
    "R sin 2t": lambda bound: baselines.custom(lambda t: bound * np.sin(2 * t), bound=bound),
    "+R": lambda bound: bound,
    "−R": lambda bound: -bound,
}


def curve(runs: int, seed: int, picture: Path | None) -> None:
    """Mean pulls for every declared R, under three baselines within it; δ = 0.05."""
    figure = new_figure(9, 4.6)
    panels = figure.subplots(1, len(CURVES), sharey=True)
    for axes, (dimension, angle) in zip(panels, CURVES, strict=True):
        worlds = [soare(dimension, angle, baseline=0.0, declared_baseline=R) for R in DECLARED]
        log = 2 * math.log(1 / 0.05)
        limits = [
            log * complexity(world.problem(0.05), world.theta, baseline=R).value
            for world, R in zip(worlds, DECLARED, strict=True)
        ]
        heads = " | ".join(f"R = {R:g}" for R in DECLARED)
        print(f"\n| d = {dimension}, ω = {angle:g} | {heads} |")
        print("|---|" + "--:|" * len(DECLARED))
        print("| limit | " + " | ".join(f"{limit:,.0f}" for limit in limits), "|", flush=True)
        left = [max(bound, 0.005) for bound in DECLARED]
        axes.plot(left, limits, color=NAMED, label="limit, 2τ(R) log(1/δ)")
        rule = partial(AnytimeBAI, mean_bound=2.0, max_pulls=200_000)
        for (name, make), (colour, dashes, marker) in zip(LEVELS.items(), RIVALS, strict=False):
            found = []
            for bound in DECLARED:
                level = make(bound) if bound else 0.0
                world = soare(dimension, angle, baseline=level, declared_baseline=bound)
                found.append(simulate(rule, world, runs=runs, seed=seed, delta=0.05))
            print(f"| {name} | " + " | ".join(map(told, found)), "|", flush=True)
            look: dict[str, Any] = {"color": colour, "ls": dashes, "marker": marker, "ms": 4.5}
            axes.plot(left, [each.mean_pulls for each in found], label=f"level: {name}", **look)
        axes.set(xscale="log", yscale="log", xlabel="declared R (left end: 0)")
        axes.set_title(f"d = {dimension}, ω = {angle:g}", loc="left", fontsize=10)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean pulls")
    handles, _ = panels[0].get_legend_handles_labels()
    entries: dict[str, Any] = {"loc": "outside lower left", "ncols": 4, "frameon": False}
    figure.legend(handles=handles, fontsize=9, handlelength=3.4, **entries)
    words = "Pulls of the anytime rule beside the limit; the level may move by ±R."
    add_heading(figure, "The less the level may move, the fewer pulls are needed", words)
    if picture is not None:
        save(figure, picture)


DELTAS = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)


def deltas(runs: int, seed: int, picture: Path | None) -> None:
    """Pulls on the small gap as δ falls, beside the limit with σ² = 1.5: noise and fast sine."""
    world = small_gap()
    nat = 3 * complexity(world.problem(0.1), world.theta).value  # the limit per nat of log(1/δ)
    rule = partial(AnytimeBAI, mean_bound=2.0)
    found = [simulate(rule, world, runs=runs, seed=seed, delta=delta) for delta in DELTAS]
    logs = np.log(1 / np.array(DELTAS))
    means = np.array([each.mean_pulls for each in found]) / logs
    half = np.array([1.96 * each.std_pulls for each in found]) / math.sqrt(runs) / logs
    print("| δ | " + " | ".join(f"{delta:g}" for delta in DELTAS), "|")
    print("|---|" + "--:|" * len(DELTAS))
    print("| pulls | " + " | ".join(f"{each.mean_pulls:,.0f}" for each in found), "|")
    print(
        "| times the limit |",
        " | ".join(f"{m / nat:.2f} ± {h / nat:.2f}" for m, h in zip(means, half, strict=True)),
        "|",
    )
    slopes = np.polyfit(logs, np.array([each.pulls for each in found]), 1)[0] / nat
    spread = 1.96 * slopes.std(ddof=1) / math.sqrt(runs)
    print(f"\nEach further nat of log(1/δ) costs {slopes.mean():.2f} ± {spread:.2f} times 2σ²τ*.")
    if picture is None:
        return
    figure = new_figure(7.2, 4.1)
    axes = figure.add_subplot()
    axes.errorbar(DELTAS, means, half, color=NAMED, marker="o", ms=5, lw=1.6, capsize=3)
    beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
    for delta, mean, reach in zip(DELTAS, means, half, strict=True):
        axes.annotate(f"{mean / nat:.2f}×", (delta, mean + reach), (0, 5), ha="center", **beside)
    for level, words, (colour, dashes, _) in (
        (nat, f"2σ²τ* = {nat:,.0f}: the limit as δ goes to 0, the sine as noise", RIVALS[0]),
        (nat * slopes.mean(), "the cost of each further nat of log(1/δ)", RIVALS[1]),
    ):
        axes.axhline(level, color=colour, ls=dashes, lw=1.6)
        place: Any = ("axes fraction", "data")
        axes.annotate(words, (0.03, level), (0, -13), xycoords=place, color=colour, **beside)
    axes.set_xscale("log")
    axes.set_xlim(2.2 * max(DELTAS), min(DELTAS) / 2.2)
    axes.set_ylim(0, 1.15 * float(np.max(means + half)))
    axes.set_xlabel("δ")
    axes.set_ylabel("mean pulls / log(1/δ)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    words = f"Small-gap instance, {runs} runs each; bars are 95 % intervals of the mean.\n"
    add_heading(figure, "The smaller δ, the closer to the information limit", words)
    save(figure, picture)


# --- beside others -------------------------------------------------------------------------------


CAP = 5_000_000  # pulls: the paper's, in one phase
SCALE = (-10.0, 10.0)  # of the Jester ratings


def others(runs: int, seed: int, data: str | None) -> None:
    """SP-BAI on uniform arms, and rules on arm means, proven without drift, on Jester; δ = 0.1."""
    replication = partial(SPBAI, preset="replication", max_phase_pulls=CAP)
    capped, scale = partial(AnytimeBAI, max_pulls=CAP), bounds.sub_gaussian_scale(SCALE)
    jester = datasets.jester(data).environment()
    rows: list[tuple[str, str, Method, Environment, int]] = [
        ("uniform, published", "AnytimeBAI", capped, published_spheres(), 100),
        ("", "SP-BAI", replication, published_spheres(declared_baseline=1.0), 100),
        ("uniform, fresh", "AnytimeBAI", capped, uniform_sphere(), runs),
        ("", "SP-BAI", replication, uniform_sphere(declared_baseline=1.0), runs),
        ("Jester", "AnytimeBAI", partial(AnytimeBAI, bounds=SCALE), jester, runs),
        ("", "Bernstein", partial(BernsteinElimination, bounds=SCALE), jester, runs),
        (
            "",
            "action elimination, certified",
            partial(ActionElimination, sigma=scale, radius="certified"),
            jester,
            runs,
        ),
        ("", "LUCB, certified", partial(LUCB, sigma=scale, radius="certified"), jester, runs),
    ]
    print("| instance | method | runs | median pulls (quartiles) | mean | wrong | capped |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for instance, name, method, world, count in rows:
        results = simulate(method, world, runs=count, seed=seed, delta=0.1)
        low, middle, high = np.quantile(results.pulls, (0.25, 0.5, 0.75))
        wrong, open_ = (~results.correct & results.final).sum(), (~results.final).sum()
        print(
            f"| {instance} | {name} | {count} | {middle:,.0f} ({low:,.0f} to {high:,.0f}) | "
            f"{told(results)} | {wrong} | {open_} |",
            flush=True,
        )


# --- time ----------------------------------------------------------------------------------------


def steps() -> None:
    """Milliseconds from the outcomes of a plan to the next plan and the answer, one at a time."""
    rng = np.random.default_rng(0)
    large = Problem(rng.normal(size=(200, 20)), rng.normal(size=(10_000, 20)), baseline=1.0)
    problems = {f"{k} names": Problem(np.eye(k), baseline=1.0) for k in (4, 30, 200, 300)}
    print("| problem | median ms | most |\n|---|--:|--:|")
    for name, problem in {**problems, "200 arms, 10,000 targets, d = 20": large}.items():
        theta = rng.normal(size=problem.dimension)
        target = None if name.endswith("names") else problem.target
        world = Semiparametric(problem.source, theta, target=target, baseline=1.0)
        policy = AnytimeBAI(world.problem(0.1), mean_bound=20.0)
        stream, times = world.begin(rng), list[float]()
        plan = policy.plan()
        while plan is not None and len(times) < 40:
            summary = stream.pull(plan)
            start = time.process_time()
            policy.update(summary)
            plan = policy.plan()
            policy.recommend()
            times.append(1000 * (time.process_time() - start))
        print(f"| {name} | {np.median(times):.1f} | {max(times):.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("pulls", "compare", "curve", "deltas", "others", "steps")
    parser.add_argument("part", choices=parts)
    parser.add_argument("files", nargs="*", help="two files of pulls, to compare")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--data")
    chosen = parser.parse_args()
    if chosen.part == "pulls":
        pulls(chosen.runs, chosen.seed, chosen.save)
    elif chosen.part == "compare":
        compare(*chosen.files)
    elif chosen.part == "curve":
        curve(chosen.runs, chosen.seed, chosen.picture)
    elif chosen.part == "deltas":
        deltas(chosen.runs, chosen.seed, chosen.picture)
    elif chosen.part == "others":
        others(chosen.runs, chosen.seed, chosen.data)
    else:
        steps()


if __name__ == "__main__":
    main()
