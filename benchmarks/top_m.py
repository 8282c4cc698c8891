"""The m best of twelve options while the day goes up and down: what finding the set costs.

    python -m benchmarks.top_m [--runs 200] [--picture-runs 40] [--seed 0]
        [--picture docs/top-m.png]

Option i pays 0.2 less than option i − 1, so the border of every set is equally hard to draw. Noise
has deviation 1, and the level common to all swings by ±3 in a day of 2 400 pulls. All rules are
given the same runs: the same seed for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm import AnytimeBAI, Problem, bounds
from bestarm.environments import Semiparametric, baselines
from bestarm.figures import RIVALS, add_heading, new_figure, save
from bestarm.numerics.geometry import Array
from bestarm.policies import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary
from bestarm.simulation import run_once
from bestarm.simulation.results import wilson

OPTIONS, STEP, DELTA = 12, 0.2, 0.1
MEANS = STEP * ((OPTIONS - 1) / 2 - np.arange(OPTIONS))  # the best first
DAY, SWING = 2400, 3.0
TOP, LARGEST = 3, 5
CAP = 100_000  # pulls

Rule = Callable[[int, int, int], tuple[int, bool]]  # m, run, seed → pulls, right


def _rhythm(rounds: Array) -> Array:
    return np.asarray(SWING * np.sin(2 * np.pi * rounds / DAY))


BASELINE = baselines.custom(_rhythm, bound=SWING)


def world(left: NDArray[np.int64] | None = None) -> Semiparametric:
    """The twelve options; with `left`, only those can be chosen, and all can be shown."""
    every = np.eye(OPTIONS)
    return Semiparametric(
        every,
        MEANS,
        target=None if left is None else every[left],
        baseline=BASELINE,
        name="twelve options",
    )


class MeansTop(Policy):
    """The m best by arm means: LUCB for sets, certified for rewards that do not drift.

    Each round pulls, eight times each, the weakest of the m leaders and the strongest of the
    others, by the ends of their intervals; it stops once these two no longer overlap.

    Reference: Kalyanakrishnan, Tewari, Auer and Stone (2012).
    """

    def __init__(self, problem: Problem, *, top: int) -> None:
        self.problem, self._top = problem, top
        self._counts = np.zeros(problem.arms, dtype=np.int64)
        self._sums = np.zeros(problem.arms)
        self._due = np.arange(problem.arms)
        self._order = self._due
        self._apart = False

    def plan(self) -> Plan | None:
        """Eight pulls of each arm that is due."""
        if self._apart or self._counts.sum() >= CAP:
            return None
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._due] = 8
        return Plan.fixed(counts, phase=1)

    def adopt(self, plan: Plan) -> None:
        """Not needed here: no record is kept of a simulation."""
        raise NotImplementedError

    def update(self, summary: Summary) -> None:
        """Take a round, and find the pair at the border."""
        self._counts = self._counts + summary.counts
        self._sums = self._sums + summary.sums
        means, share = self._sums / self._counts, bounds.arm_delta(DELTA, arms=OPTIONS)
        radii = bounds.mixture_radius(
            1.0 / self._counts, delta=share, reference=np.asarray(1 / 300)
        )
        self._order = np.argsort(-means, kind="stable")
        inside, outside = self._order[: self._top], self._order[self._top :]
        low, high = (means - radii)[inside], (means + radii)[outside]
        self._apart = bool(low.min() >= high.max())
        self._due = np.array([inside[np.argmin(low)], outside[np.argmax(high)]])

    def recommend(self) -> Recommendation:
        """The m largest means."""
        chosen = tuple(self._order[: self._top].tolist())
        return Recommendation(
            target=chosen[0],
            label=self.problem.target_labels[chosen[0]],
            final=self._apart,
            reason="identified" if self._apart else "max_pulls",
            pulls=int(self._counts.sum()),
            error_bound=None,
            active=chosen,
            chosen=chosen,
        )


def _set_at_once(make: Callable[..., Any], top: int, run: int, seed: int) -> tuple[int, bool]:
    answer = run_once(partial(make, top=top), world(), run=run, seed=seed, delta=DELTA)
    return answer.pulls, answer.final and set(answer.chosen) == set(range(top))


def _one_by_one(top: int, run: int, seed: int) -> tuple[int, bool]:
    """The best, then the best of the rest, and so on: m searches, each allowed δ/m."""
    left, named, pulls = np.arange(OPTIONS), set(), 0
    for search in range(top):
        answer = run_once(RULE, world(left), run=run, seed=seed + 1000 * search, delta=DELTA / top)
        pulls += answer.pulls
        named.add(int(left[answer.target]))
        left = np.delete(left, answer.target)
    return pulls, named == set(range(top))


RULE = partial(AnytimeBAI, mean_bound=float(MEANS.max()), max_pulls=CAP)
RULES: dict[str, Rule] = {
    "top=m": partial(_set_at_once, RULE),
    "top=m, tolerance of half a step": partial(_set_at_once, partial(RULE, tolerance=STEP / 2)),
    "the best, m times in a row": _one_by_one,
    "arm means (LUCB): not valid here": partial(_set_at_once, MeansTop),
}
WARNING = "arm means (LUCB): not valid here"


class Measured(NamedTuple):
    """What a rule came to: pulls of every run, and wrong sets (or none at the cap)."""

    pulls: NDArray[np.int64]
    wrong: int

    @property
    def mean(self) -> float:
        return float(self.pulls.mean())

    @property
    def half(self) -> float:
        """Half of a 95 % interval for the mean."""
        return float(1.96 * self.pulls.std(ddof=1) / np.sqrt(len(self.pulls)))


def measure(rule: Rule, top: int, *, runs: int, seed: int) -> Measured:
    """A rule on runs 0, 1, … of one seed."""
    found = [rule(top, run, seed) for run in range(runs)]
    return Measured(np.array([pulls for pulls, _ in found]), sum(not right for _, right in found))


def _draw(found: dict[str, dict[int, Measured]], path: Path) -> None:
    """Pulls against m, one line a rule."""
    figure = new_figure(7.6, 4.6)
    axes = figure.add_subplot()
    styles = (("black", "-", "*"), *RIVALS)
    numbers = range(1, LARGEST + 1)
    for (name, row), (colour, dashes, marker) in zip(found.items(), styles, strict=False):
        axes.errorbar(
            numbers,
            [row[top].mean for top in numbers],
            [row[top].half for top in numbers],
            color=colour,
            ls=dashes,
            marker=marker,
            ms=9 if marker == "*" else 5,
            lw=1.7,
            capsize=3,
            label=name,
        )
    axes.set_xticks(numbers)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("m, the number of options to name")
    axes.set_ylabel("pulls until the set is shown to be right")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=9, handlelength=3.4)
    add_heading(
        figure,
        "From three options on, the set at once is cheaper than one by one",
        "Twelve options in equal steps, the level swinging by ±3 a day; means, 95 % intervals.\n",
    )
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--picture-runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    print(f"| rule, m = {TOP} | pulls | wrong sets |\n|---|---:|---:|")
    found: dict[str, dict[int, Measured]] = {}
    for name, rule in RULES.items():
        cell = measure(rule, TOP, runs=options.runs, seed=options.seed)
        found[name] = {TOP: cell}
        low, high = wilson(cell.wrong, options.runs)
        print(
            f"| {name} | {cell.mean:,.0f} ± {cell.half:,.0f} | {cell.wrong} of {options.runs} "
            f"({low:.1%}–{high:.1%}) |",
            flush=True,
        )
    if options.picture is None:
        return
    del found[WARNING]
    print(f"\nPulls at m = 1 to {LARGEST}, and wrong sets")
    for name, row in found.items():
        for top in range(1, LARGEST + 1):
            if top not in row:
                row[top] = measure(RULES[name], top, runs=options.picture_runs, seed=options.seed)
        cells = (row[top] for top in range(1, LARGEST + 1))
        shown = "  ".join(f"{c.mean:,.0f} ± {c.half:,.0f} ({c.wrong})" for c in cells)
        print(f"{name:36s}{shown}", flush=True)
    _draw(found, options.picture)


if __name__ == "__main__":
    main()
