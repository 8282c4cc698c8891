"""The anytime rule with a small declared baseline: pulls over R, adversaries, and short runs.

python -m benchmarks.small_baseline [--runs 400] [--seed 3] [--only curve errors short floor]
    [--picture docs/small-baseline.png] [--workers 2]

Pulls stand beside the limit 2σ²τ log(1/δ), with τ = τ(R) at a level of 0 (docs/anytime.md).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.anytime import made_for_short_runs
from bestarm import AnytimeBAI, Problem, simulate
from bestarm.design import complexity
from bestarm.environments import Semiparametric, baselines, soare
from bestarm.figures import NAMED, RIVALS, add_heading, new_figure, save
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime import bets
from bestarm.records import Summary
from bestarm.simulation import Results
from bestarm.simulation.results import wilson

DELTA = 0.05
INSTANCES = ((5, 0.3), (10, 0.2))
BOUNDS = (0.0, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.7, 1.0)
MOST = 200_000


def _sine(bound: float) -> object:
    return baselines.custom(lambda t: bound * np.sin(2 * t), bound=bound)


LEVELS: dict[str, Callable[[float], object]] = {
    "sine": _sine,
    "+R": lambda bound: bound,
    "-R": lambda bound: -bound,
}


def _told(results: Results) -> str:
    wrong, runs = int((results.final & ~results.correct).sum()), len(results.pulls)
    error, open_ = results.pulls.std() / math.sqrt(runs), int((~results.final).sum())
    return f"{results.mean_pulls:9,.0f} ± {error:5,.0f} ({wrong} wrong, {open_} undecided)"


def curve(runs: int, seed: int, figure: Path | None) -> None:
    """Mean pulls for every declared R, under three baselines within it."""
    drawn = []
    for dimension, angle in INSTANCES:
        print(
            f"\nSoare's instance, d = {dimension}, angle {angle:g}, delta = {DELTA:g}, {runs} runs"
        )
        rule = partial(AnytimeBAI, mean_bound=2.0, max_pulls=MOST)
        rows = []
        for bound in BOUNDS:
            cells = []
            for name, make in LEVELS.items():
                if not bound and name != "sine":
                    continue
                level = make(bound) if bound else 0.0
                world = soare(dimension, angle, baseline=level, declared_baseline=bound)
                cells.append(simulate(rule, world, runs=runs, seed=seed, delta=DELTA))
            design = complexity(world.problem(DELTA), world.theta, baseline=bound)
            limit = 2 * design.value * math.log(1 / DELTA)
            text = "   ".join(map(_told, cells))
            print(f"R = {bound:<5g} limit {limit:9,.0f}   {text}", flush=True)
            rows.append((bound, limit, [each.mean_pulls for each in cells]))
        drawn.append((dimension, angle, rows))
    if figure is not None:
        draw(drawn, figure)


def draw(
    drawn: list[tuple[int, float, list[tuple[float, float, list[float]]]]], path: Path
) -> None:
    """Pulls over R beside the limit."""
    figure = new_figure(9, 4.6)
    panels = figure.subplots(1, len(drawn), sharey=True)
    for axes, (dimension, angle, rows) in zip(panels, drawn, strict=True):
        bounds = [max(row[0], 0.005) for row in rows]
        axes.plot(bounds, [row[1] for row in rows], color=NAMED, label="limit, 2τ(R) log(1/δ)")
        for place, (name, style) in enumerate(zip(LEVELS, RIVALS, strict=False)):
            values = [row[2][min(place, len(row[2]) - 1)] for row in rows]
            colour, dashes, marker = style
            look = {"color": colour, "ls": dashes, "marker": marker}
            axes.plot(bounds, values, ms=4.5, label=f"level: {name}", **look)
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
    save(figure, path)


# --- adversaries ---------------------------------------------------------------------------------

SOURCE = np.array([[1.0, 0.0], [0.0, 1.0], [math.cos(0.3), math.sin(0.3)]])
THETA = np.array([0.6, 0.0885])  # e₁ is the best by 0.0006: either arm may be taken for it
BOUND, CUT = 0.1, 360


def _sum(policy: AnytimeBAI, contrast: Array) -> float:
    """Σ p w of a contrast under the plan in force."""
    drawn = policy._open
    assert drawn is not None
    bet, sampling = drawn.frame.bets(contrast[None]), drawn.frame.sampling
    return float(bet.w[0] @ sampling.weights)


def _level(kind: str, policy: AnytimeBAI) -> float:
    """The baseline of the next batch: settled before its arms are drawn, from all of the past."""
    if kind == "the leader":
        leader, second = policy._evidence.leaders
    else:
        leader, second = 0, 2
    return -BOUND * float(
        np.sign(_sum(policy, policy._targets.now[leader] - policy._targets.now[second]))
    )


def one_run(kind: str, seed: int) -> tuple[bool, int]:
    """Whether a run against an adversary is wrong, and its pulls."""
    rng = np.random.default_rng([seed, 77])
    problem = Problem(SOURCE, baseline=BOUND, delta=0.1)
    with made_for_short_runs():
        policy = AnytimeBAI(problem, mean_bound=0.7, max_pulls=CUT)
    while (plan := policy.plan()) is not None:
        level = _level(kind, policy)
        arms = rng.choice(3, size=plan.pulls, p=plan.weights)
        rewards = SOURCE[arms] @ THETA + level + rng.normal(size=plan.pulls)
        policy.update(Summary.from_pulls(arms, rewards, size=3, center=plan.center))
    told = policy.recommend()
    return told.final and told.target != 0, told.pulls


def errors(runs: int, seed: int, workers: int) -> None:
    """Wrong answers where two arms are nearly tied and the baseline does its worst, delta = 0.1."""
    print(f"\nWrong and final of {runs}, delta = 0.1, R = {BOUND:g}, cut at {CUT} pulls; 99 %")
    rule = partial(AnytimeBAI, mean_bound=0.7, max_pulls=CUT)
    for level in (BOUND, -BOUND, 0.0):
        world = Semiparametric(SOURCE, THETA, baseline=level, declared_baseline=BOUND)
        with made_for_short_runs():
            results = simulate(rule, world, runs=runs, seed=seed, delta=0.1)
        _report(f"a level of {level:+g}", int((results.final & ~results.correct).sum()), runs)
    with ProcessPoolExecutor(workers) as pool:
        for kind in ("the leader", "the truth"):
            seeds = range(seed * 1_000_000, seed * 1_000_000 + runs)
            found = list(pool.map(partial(one_run, kind), seeds, chunksize=50))
            _report(f"the sign that hurts {kind}", sum(wrong for wrong, _ in found), runs)


def _report(name: str, wrong: int, runs: int) -> None:
    low, high = wilson(wrong, runs, NormalDist().inv_cdf(0.995))
    print(f"{name:32s}{wrong:6d}   {low:.4f} to {high:.4f}", flush=True)


# --- short runs ----------------------------------------------------------------------------------


def short(runs: int, seed: int) -> None:
    """Few options, large gaps: how many times the limit. A run in which the best option is dropped
    early, as with probability δ it may be, leaves a tie, and ends at 40 times the limit."""
    print(f"\nOne option ahead by the gap, delta = {DELTA:g}, {runs} runs; last: times the limit")
    for options in (2, 4, 6):
        for gap in (0.1, 0.2, 0.4):
            theta = gap * np.eye(options)[0]
            world = Semiparametric(np.eye(options), theta, baseline=0.0, declared_baseline=1.0)
            limit = 2 * complexity(world.problem(DELTA), theta).value * math.log(1 / DELTA)
            rule = partial(AnytimeBAI, mean_bound=0.5, max_pulls=round(40 * limit))
            results = simulate(rule, world, runs=runs, seed=seed, delta=DELTA)
            ratio, error = np.array([results.mean_pulls, results.pulls.std() / runs**0.5]) / limit
            print(
                f"{options} options, gap {gap:g}: {_told(results)}  {ratio:.2f} ± {error:.2f}",
                flush=True,
            )


GAP = 0.2  # of the idealised runs


def floor(runs: int, seed: int) -> None:
    """What is lost by not knowing, for a rule that has all else: no such rule can be had.

    Noise is Gaussian and known, nothing drifts, and instead of one option a round shows all, each
    with noise of variance 1/p, so that estimates are as good as after one pull. The wealth of an
    option is the exact likelihood ratio of "the leader is ahead of it by the gap" to "they are
    equal". It may be told which option leads and what the gap is; if not, it takes the option that
    looks best, or averages over gaps with the shares of the rule.
    """
    print(f"\nTimes the limit, idealised, delta = {DELTA:g}, {runs} runs")
    for options in (2, 4, 6):
        limit = 2 * ((1 + math.sqrt(options - 1)) / GAP) ** 2 * math.log(1 / DELTA)
        for leader, gap in ((True, True), (False, True), (True, False), (False, False)):
            told = " and ".join(["the leader"] * leader + ["the gap"] * gap) or "nothing"
            name = f"{options} options, told {told}"
            pulls = idealised(options, runs, np.random.default_rng(seed), leader=leader, gap=gap)
            ratio, error = pulls.mean() / limit, pulls.std() / math.sqrt(runs) / limit
            print(f"{name:40s}{ratio:.2f} ± {error:.2f}", flush=True)


def idealised(
    options: int, runs: int, rng: np.random.Generator, *, leader: bool, gap: bool
) -> Array:
    """Rounds until one option is left, of each run; option 0 is ahead of all others by `GAP`."""
    wide = bets.StakeGrid.around(0.15)
    gaps = np.array([GAP]) if gap else 3 * wide.signals
    shares = np.zeros(1) if gap else wide.log_shares
    active = np.ones((runs, options), dtype=bool)
    wealth = np.zeros((runs, options, len(gaps)))
    weighed, weight = np.zeros((runs, options)), np.full((runs, options), 1e-9)
    rounds = np.zeros(runs)
    running = np.arange(runs)
    while len(running):
        rounds[running] += 1
        left = active[running]
        means = np.where(left, weighed[running] / weight[running], -np.inf)
        first = np.zeros(len(running), dtype=int) if leader else means.argmax(axis=1)
        row = np.arange(len(running))
        means[row, first] = -np.inf
        opponent = np.repeat(first[:, None], options, axis=1)
        opponent[row, first] = means.argmax(axis=1)
        p = left.astype(float)
        p[row, first] = np.sqrt(left.sum(axis=1) - 1.0)
        p /= p.sum(axis=1, keepdims=True)
        variance = 1 / np.where(left, p, 1.0)
        shown = GAP * np.eye(options)[0] + np.sqrt(variance) * rng.normal(size=p.shape)
        weighed[running] += p * shown
        weight[running] += p
        lead = np.take_along_axis(shown, opponent, axis=1) - shown
        spread = np.take_along_axis(variance, opponent, axis=1) + variance
        step = (lead[..., None] - gaps / 2) * gaps / spread[..., None]
        wealth[running] += np.where(left[..., None], step, 0.0)
        value = logsumexp(wealth[running] + shares, axis=2)
        if leader:
            value[:, 0] = -np.inf
        active[running] &= value < math.log(1 / DELTA)
        running = running[active[running].sum(axis=1) > 1]
        running = running[rounds[running] < 60 / GAP**2 * options]
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["curve", "errors", "short", "floor"])
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    if "curve" in chosen.only:
        curve(chosen.runs, chosen.seed, chosen.picture)
    if "short" in chosen.only:
        short(chosen.runs, chosen.seed)
    if "floor" in chosen.only:
        floor(chosen.runs, chosen.seed)
    if "errors" in chosen.only:
        errors(chosen.runs, chosen.seed, chosen.workers)


if __name__ == "__main__":
    main()
