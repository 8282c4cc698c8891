"""How often methods err at a fixed budget, and what each part of sequential halving is worth.

    python -m benchmarks.fixed_budget [--runs 500] [--workers 2] [--picture docs/fixed-budget.png]
    python -m benchmarks.fixed_budget --parts

Every row of an instance starts from the same seed. Intervals are Wilson's, at 95 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bestarm import DEO, Problem, SequentialHalving, Uniform, environments, figures, simulate
from bestarm.environments import Environment, Semiparametric, baselines
from bestarm.numerics.geometry import Array
from bestarm.policies import Method, halving, shrinking
from bestarm.records import Plan, Summary
from bestarm.simulation import Results

Methods = dict[str, Callable[..., Any]]

METHODS: Methods = {
    "sequential halving": SequentialHalving,
    "the same in one round": partial(SequentialHalving, stages=1, batches=128),
    "DEO, centered design": partial(DEO, design="centered"),
    "uniform, arm means": Uniform,
}


def _slow_wave(rounds: Array) -> Array:
    return np.asarray(3 * np.cos(rounds / 700))


WAVE = baselines.custom(_slow_wave, bound=3.0)


def mirrored() -> Environment:
    """The small-gap arms, every θ_i larger by 0.45: the turned arm is now the best, by 0.04."""
    world = environments.small_gap()
    return Semiparametric(
        world.problem(0.1).source,
        world.theta + 0.45,
        baseline=baselines.sinusoid(),
        declared_baseline=1.0,
        name="small-gap, mirrored",
    )


def many_targets() -> Environment:
    """Sixty unit vectors in six dimensions, drawn once; the best leads by 0.08, 0.13, 0.19, …"""
    points = np.random.default_rng(36).normal(size=(60, 6))
    return Semiparametric(
        points / np.linalg.norm(points, axis=1, keepdims=True),
        2.0 * np.eye(6)[0],
        baseline=baselines.sinusoid(),
        declared_baseline=1.0,
        name="sixty arms",
    )


def tied() -> Environment:
    """Eight unrelated arms, seven of them tied for second."""
    return Semiparametric(
        np.eye(8), 0.3 * np.eye(8)[0], baseline=baselines.sinusoid(), declared_baseline=1.0
    )


def unequal() -> Environment:
    """Sixteen unrelated arms, the best ahead by 0.15, the others further and further behind."""
    means = np.r_[0.3, np.linspace(0.15, -0.6, 15)]
    return Semiparametric(np.eye(16), means, baseline=baselines.sinusoid(), declared_baseline=1.0)


INSTANCES: dict[str, tuple[Callable[[], Environment], Sequence[int]]] = {
    "small-gap, ν = 1 + sin 2t": (environments.small_gap, (2000, 4000, 8000, 16_000, 30_000)),
    "small-gap, ν = 3 cos(t/700)": (
        partial(environments.small_gap, baseline=WAVE),
        (2000, 4000, 8000, 16_000, 30_000),
    ),
    "60 targets in 6 dimensions, ν = 1 + sin 2t": (many_targets, (500, 1000, 2000, 4000, 8000)),
    "8 unrelated arms, 7 tied, ν = 1 + sin 2t": (tied, (500, 1000, 2000)),
    "small-gap mirrored, ν = 1 + sin 2t": (mirrored, (4000, 16_000)),
}
PICTURED = 3  # the first so many instances


# --- what each part is worth -----------------------------------------------------------------


class _Forgetful(halving._Fit):
    """Estimates from the pulls of one round alone."""

    def add(self, summary: Summary, plan: Plan) -> None:
        if self._seen != plan.shares.tobytes():
            self._gram, self._moment = 0 * self._gram, 0 * self._moment
            self._seen = plan.shares.tobytes()
        super().add(summary, plan)

    _seen = b""


class _Blind(halving._Fit):
    """Takes no level off."""

    def _level(self, mean: Array) -> float:  # noqa: ARG002
        return 0.0


class Variant(SequentialHalving):
    """Sequential halving with one part changed: the regression, or how the budget is shared."""

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        fit: type[halving._Fit] = halving._Fit,
        ratio: float = 1.0,
        batches: int = 32,
    ) -> None:
        super().__init__(problem, budget=budget, batches=batches)
        self._fit = fit(problem)
        pilot, ends = self._lengths[0], [size for size in self._keep if size < halving.EVERY_TARGET]
        shares = np.cumsum(ratio ** np.arange(len(ends)))
        marks = np.round((budget - pilot) * shares / shares[-1]).astype(int)
        self._lengths, self._keep = [pilot], [halving.EVERY_TARGET]
        for pulls, size in zip(np.diff(marks, prepend=0).tolist(), ends, strict=True):
            plans = shrinking.parts(pulls, min(batches, max(1, pulls // halving._LEAST_BATCH)))
            self._lengths += plans
            self._keep += [*[halving.EVERY_TARGET] * (len(plans) - 1), size]


PARTS: Methods = {
    "as it is": Variant,
    "each round by its own pulls": partial(Variant, fit=_Forgetful),
    "no level predicted": partial(Variant, fit=_Blind),
    "every round twice the last": partial(Variant, ratio=2.0),
    "every round half the last": partial(Variant, ratio=0.5),
    "8 plans a round": partial(Variant, batches=8),
    "1 plan a round": partial(Variant, batches=1),
}
PART_INSTANCES: dict[str, tuple[Callable[[], Environment], Sequence[int]]] = {
    "8 tied": (tied, (1000,)),
    "16 unequal": (unequal, (2000,)),
    "small-gap": (environments.small_gap, (10_000,)),
    "small-gap, slow wave": (partial(environments.small_gap, baseline=WAVE), (10_000,)),
}


# --- tables and the picture ------------------------------------------------------------------


def _measure(
    methods: Methods, make: Callable[[], Environment], budgets: Sequence[int], **options: Any
) -> dict[str, list[Results]]:
    found: dict[str, list[Results]] = {}
    for name, method in methods.items():
        bound: list[Method] = [partial(method, budget=budget) for budget in budgets]
        found[name] = [simulate(m, make(), delta=0.1, **options) for m in bound]
    return found


def _cell(results: Results) -> str:
    low, high = results.error_interval()
    return f"{results.error_rate:.1%} ({low:.1%}–{high:.1%})"


def _table(budgets: Sequence[int], found: dict[str, list[Results]]) -> None:
    print("| method | " + " | ".join(f"{budget:,} pulls" for budget in budgets) + " |")
    print("|---|" + "---:|" * len(budgets))
    for name, results in found.items():
        print(f"| {name} | " + " | ".join(map(_cell, results)) + " |", flush=True)


def _draw(panels: dict[str, tuple[Sequence[int], dict[str, list[Results]]]], path: Path) -> None:
    styles = ((figures.NAMED, "-", "o"), *figures.RIVALS)
    figure = figures.new_figure(10.5, 4.7)
    axes = figure.subplots(1, len(panels), sharey=True)
    for panel, (title, (budgets, found)) in zip(axes, panels.items(), strict=True):
        for (name, results), (colour, line, marker) in zip(found.items(), styles, strict=False):
            ends = np.array([r.error_interval() for r in results]).T
            rate = np.array([r.error_rate for r in results])
            floor = 0.4 / results[0].runs  # an error rate of 0 is drawn here, below all others
            drawn = np.maximum(rate, floor)
            reach = np.abs(np.maximum(ends, floor) - drawn)
            panel.errorbar(
                budgets, drawn, reach, color=colour, marker=marker, linestyle=line,
                markersize=5, linewidth=1.4, capsize=2.5, label=name,
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="budget (pulls)")
        panel.set_title(title, fontsize=10, loc="left")
        panel.set_xticks(budgets, [f"{b / 1000:g}k" for b in budgets])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("runs that name a wrong target")
    axes[0].set_yticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
    handles, labels = axes[0].get_legend_handles_labels()
    entries: dict[str, Any] = {"loc": "outside lower left", "ncols": 4, "handlelength": 3.4}
    figure.legend(handles, labels, frameon=False, fontsize=9, **entries)
    words = (
        "Runs that are wrong at a fixed budget, with 95 % intervals; none wrong is at the bottom."
    )
    figures.add_heading(figure, "Which method errs least depends on the instance", words)
    figures.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--parts", action="store_true", help="what each part is worth")
    options = parser.parse_args()
    executor: Executor
    with ProcessPoolExecutor(options.workers) as executor:
        measure = partial(_measure, runs=options.runs, seed=options.seed, executor=executor)
        if options.parts:
            columns = {
                f"{name}, {budgets[0]:,}": measure(PARTS, make, budgets)
                for name, (make, budgets) in PART_INSTANCES.items()
            }
            print("| variant | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
            for part in PARTS:
                cells = " | ".join(_cell(found[part][0]) for found in columns.values())
                print(f"| {part} | {cells} |", flush=True)
            return
        panels = {}
        for name, (make, budgets) in INSTANCES.items():
            print(f"\n**{name}**\n")
            found = measure(METHODS, make, budgets)
            _table(budgets, found)
            panels[name] = (budgets, found)
        if options.picture is not None:
            shown = list(panels)[:PICTURED]
            _draw({name: panels[name] for name in shown}, options.picture)


if __name__ == "__main__":
    main()
