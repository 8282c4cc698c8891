"""Every method of the field on an instance of its own paper, beside what was published of it.

    python -m benchmarks.field [--runs 1000] [--seed 0] [--workers 1] [--only p1] [--out FOLDER]

Prints one Markdown table; ± is a standard error, intervals of errors are Wilson's at 95 %. Every
finished run is kept in the folder, from which the same command goes on. `SOURCES` says where each
published figure was read. The rows of millions of pulls are last, and have at most 100 runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bestarm.environments import Environment, Semiparametric, soare
from bestarm.environments.instances import turned_arms
from bestarm.environments.two_point import TwoPoint
from bestarm.field.moving_means import MovingMeans
from bestarm.field.p1_rage_results import stored_results
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle, Results
from bestarm.simulation.folder import open_folder, simulate_into
from bestarm.simulation.results import wilson

SOURCES = {
    "GK": "Garivier and Kaufmann (2016), Table 1; 3,000 runs",
    "Jamieson": "Jamieson et al. (2014), Figure 2, left, in pixels: ± 2 %; 50 runs",
    "Shang": "Table 4.1 in the sources of Shang's thesis (xuedong/phd-thesis, sec_game.tex), that "
    "of Degenne et al. (2020); 100 runs",
    "Shang, figure": "bai_sin_0-01.pdf there, vector graphics; 100 runs",
    "Xu, 1": "Xu, Honda and Sugiyama (2018), Figure 1, vector graphics: ± 0.1 %; 10 runs",
    "Xu, 2": "the same, Figure 2; 10 runs",
    "Tao": "Tao, Blanco and Zhou (2018), Figure 1(a), vector graphics; 100 runs",
    "Jedra, 60": "the authors' code, jedray/LT-S, run as it is; 60 runs",
    "Jedra, 30": "the same; 30 runs",
    "P1": "Abbasi-Yadkori et al. (2018), Figure 3, vector graphics: ± 0.002",
    "stored": "the runs of Xiong et al. (2024), FFTypeZero/bobw_linear; 10,000 runs",
}
NONE = "–"
TUNED = {"threshold": "experiments"}
P1_FIGURE = (0.227, 0.220, 0.127, 0.170, 0.189, 0.199, 0.255, 0.319)


class Row(NamedTuple):
    """A method on an instance. It has a budget in its options, or else keeps the error δ."""

    method: str
    options: Mapping[str, Any]
    instance: str
    world: Environment
    delta: float = 0.05
    published: float | None = None
    source: str = NONE
    unit: float = 1.0  # what pulls are divided by
    most: int = 10**9  # runs

    @property
    def budgeted(self) -> bool:
        """Whether errors are compared, and not pulls."""
        return "budget" in self.options

    @property
    def label(self) -> str:
        """The method with its options."""
        shown = ", ".join(
            f"{value:,} pulls" if key == "budget" else f"{value}"
            for key, value in self.options.items()
            if key not in {"bounds", "sigma", "mean_bound"}
        )
        return f"{self.method}, {shown}" if shown else self.method

    @property
    def slug(self) -> str:
        """The name of its file."""
        text = f"{self.label} {self.instance} {self.delta:g}"
        return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in text)


def one_or_nothing(*means: float) -> Environment:
    """Arms that pay 1 with these probabilities, the best of which is not the first."""
    name = "(" + ", ".join(f"{mean:g}" for mean in reversed(means)) + ")"
    return TwoPoint(np.eye(len(means)), means, bounds=(0, 1), noise=0.5, name=name)


def sparse(arms: int) -> Environment:
    """One arm with mean 1/2, the others 0, variance 1/4: H = 4K pulls (Jamieson et al. 2014)."""
    means = 0.5 * np.eye(arms)[-1]
    return Semiparametric(np.eye(arms), means, noise=0.5, name=f"1-sparse, K = {arms}")


def corrupted(excess: float) -> Environment:
    """32 arms in PSS's experiment: the best is lowered until the corruption budget is spent.

    The corrupted mean of the best arm is 2w₂ − w₁, and C = (1 + excess)·2q·T/(K log₂ K) in units
    of q w₁ per round, with q = 2(w₁ − w₂)/w₁, as in the authors' `corrup_coupling_PSS`. Rewards
    have Gaussian noise of Bernoulli's largest deviation.
    """
    arms, rounds, good, bad = 32, 2000, 0.5, 0.2
    second = good - (good - bad) / 3
    means = np.full((rounds, arms), bad)
    means[:, -1], means[:, -2] = good, second
    chance = 2 * (good - second) / good
    total = (1 + excess) * 2 * chance * rounds / (arms * math.log2(arms))
    means[: int(total / (chance * good)), -1] -= chance * good
    return MovingMeans(np.eye(arms), means, noise=0.5, name="corrupted")


FIRST = one_or_nothing(0.4, 0.43, 0.45, 0.5)
SECOND = one_or_nothing(0.18, 0.19, 0.2, 0.21, 0.3)
MENARD = Semiparametric(np.eye(4), [0.7, 0.8, 0.85, 1.0], name="(1, 0.85, 0.8, 0.7)")
ZERO_ONE: dict[str, Any] = {"bounds": (0, 1)}


def unit_soare(angle: float) -> Semiparametric:
    """Soare's arms in the plane with θ = e₁, half as long as Soare's."""
    return Semiparametric(turned_arms(2, angle), [1.0, 0.0], name="soare, theta = e1")


def bernoulli(others: Sequence[float], middle: float) -> Environment:
    """The best arm, which is the last, pays 1 with probability 1/2; rewards count from `middle`."""
    means = np.array([*others, 0.5]) - middle
    bounds = (-middle, 1 - middle)
    return TwoPoint(np.eye(means.size), means, bounds=bounds, noise=0.5, name=f"{means.size} arms")


def audibert(middle: float) -> list[tuple[str, Environment, int]]:
    """The eight experiments of the P1 paper, with their budgets.

    Of the fifth the text has gaps 0.05, 0.075, …, but its complexities in Table 1, 3200 and 24000,
    are those of gaps 0.025, 0.05, ….
    """
    power = [0.5 - 0.37**i for i in range(2, 5)]
    steps = [0.5 - 0.025 * i for i in range(1, 15)]
    roots = [0.5 - 0.25 * math.sqrt(i / 200) for i in range(2, 101)]
    means: list[tuple[Sequence[float], int]] = [
        ([0.4] * 19, 2000),
        ([0.42] * 5 + [0.38] * 14, 2000),
        (power, 6000),
        ([0.42, 0.4, 0.4, 0.35, 0.35], 600),
        (steps, 4000),
        ([0.48] + [0.37] * 18, 6000),
        ([0.45] * 5 + [0.43] * 14 + [0.38] * 10, 6000),
        (roots, 15_000),
    ]
    return [
        (f"experiment {number}", bernoulli(others, middle), budget)
        for number, (others, budget) in enumerate(means, 1)
    ]


def _means() -> Iterator[Row]:
    names = {"track-and-stop": (4052, 1406), "kl-lucb": (8437, 2716)}
    for name, figures in names.items():
        for world, figure in zip((FIRST, SECOND), figures, strict=True):
            yield Row(name, TUNED | ZERO_ONE, world.name, world, 0.1, figure, "GK")
        yield Row(name, ZERO_ONE, SECOND.name, SECOND, 0.1)
    for arms, both in {
        4: (302.0, 13.5),
        11: (370, 9.9),
        32: (413, 9.3),
        100: (434, 10.0),
    }.items():
        place, unit = f"1-sparse, n = {arms}, pulls/H₁", 4.0 * (arms - 1)
        for tuned, height in zip(({}, TUNED), both, strict=True):
            options: dict[str, Any] = {"sigma": 0.5, **tuned}
            yield Row("lil-ucb", options, place, sparse(arms), 0.1, height, "Jamieson", unit)
    for threshold in ({}, TUNED):
        yield Row("eb-tci", threshold, MENARD.name, MENARD, 0.1)


def _budgets() -> Iterator[Row]:
    for middle, word in ((0.0, ""), (0.5, ", rewards less ½")):
        for (place, world, budget), figure in zip(audibert(middle), P1_FIGURE, strict=True):
            yield Row("p1", {"budget": budget}, place + word, world, published=figure, source="P1")
    world = soare(10, 0.1)
    for name in ("g-bai", "p1-rage", "p1-peace", "od-linbai", "peace"):
        errors, runs, _ = stored_results()["soare", f"{name}-3010"]
        kind = "peace-budget" if name == "peace" else name
        further = {"design": "variance"} if name == "peace" else {}
        options: dict[str, Any] = {"budget": 3010, **further}
        place = "Soare, d = 10, ω = 0.1"
        yield Row(kind, options, place, world, published=errors / runs, source="stored")
    unit, noise = np.eye(16), math.sqrt(10.0)
    world = Semiparametric(unit, 0.3 * unit[-1], noise=noise, name="gse")
    yield Row("gse", {"budget": 16_000}, "d = K = 16, Δ = 0.3, σ² = 10", world)
    yield Row("pss", {"budget": 2000}, "32 arms, corrupted, λ = 0.5", corrupted(0.5))
    yield Row("bayes-gap", {"budget": 500}, "Soare, d = 5, ω = 0.3", soare(5, 0.3))


def _linear() -> Iterator[Row]:
    for name, figures in {"lingame": (7135, 283.2), "lingame-c": (6854, 310.9)}.items():
        place = "Soare, d = 2, α = 0.1, θ = e₁"
        yield Row(name, TUNED, place, unit_soare(0.1), 0.01, figures[0], "Shang")
        place = "Soare, d = 2, α = π/6, θ = e₁"
        world = unit_soare(math.pi / 6)
        yield Row(name, TUNED, place, world, 0.01, figures[1], "Shang, figure")
    yield Row("lingape", TUNED, place, world, 0.01, 276.3, "Shang, figure")
    place, world = "Soare, d = 2, ω = 0.1", soare(2, 0.1)
    yield Row("lazy-tas", {}, place, world, 0.01, 3625, "Jedra, 60")
    yield Row("xy-static", {}, place, world, 0.05, 41_182, "Tao")
    yield Row("xy-adaptive", {}, place, world, 0.05, 43_749, "Tao")
    yield Row("alba", {"mean_bound": 2.0}, place, world, 0.05, 22_672, "Tao")
    for name in ("peace", "xy-oracle"):
        yield Row(name, {}, "Soare, d = 5, ω = 0.1", soare(5, 0.1))
    for gap, figures in {0.2: (20_302, 59_938), 0.3: (8743, 25_453)}.items():
        alike = Semiparametric(np.eye(5), [0.0] * 4 + [gap], name=f"basis, gap {gap}")
        for name, figure in zip(("lingape", "xy-static"), figures, strict=True):
            yield Row(name, {}, f"K = d = 5, Δ = {gap}", alike, 0.05, figure, "Xu, 2")
    world = soare(6, 0.1)
    for options in ({}, TUNED):
        yield Row("fws", options, "Soare, d = 6, ω = 0.1", world, 0.01)
    for name in ("lingape", "lazy-tas", "lingame", "lingame-c", "fws"):
        for threshold in ("published", "certified", "experiments"):
            if name != "fws" or threshold == "certified":
                known = (
                    (9153.0, "Jedra, 30") if (name, threshold) == ("lazy-tas", "published") else ()
                )
                options = {"threshold": threshold}
                yield Row(name, options, "Soare, d = 6, ω = 0.1", world, 0.01, *known)
    place, world = "Soare, d = 2, ω = 0.01", soare(2, 0.01)
    yield Row("xy-oracle", {}, place, world, 0.05, 2_683_000, "Xu, 1", most=100)
    yield Row("lingape", {}, place, world, 0.05, 562_000, "Xu, 1", most=100)


def rows() -> list[Row]:
    """All rows, the slow ones last."""
    return [*_means(), *_budgets(), *_linear()]


def shown(row: Row, results: Results) -> str:
    """A line of the table."""
    errors, number = int((~results.correct).sum()), results.runs
    low, high = wilson(errors, number)
    share = errors / number
    value, half, pulls = share, 0.0, NONE
    if not row.budgeted:
        pulled = results.pulls / row.unit
        value, half = float(pulled.mean()), float(pulled.std(ddof=1) / math.sqrt(number))
        digits = 1 if value < 1000 and row.unit > 1 else 0
        pulls = f"{value:,.{digits}f} ± {half:,.{digits}f}"
    figure = row.published
    promised = NONE if row.budgeted else f"{row.delta:g}"
    digits = 3 if row.budgeted else int(row.unit > 1)
    return (
        f"| {row.label} | {row.instance} | {promised} | {number:,} | {share:.3f} "
        f"({low:.3f}–{high:.3f}) | {pulls} | {NONE if figure is None else f'{figure:,.{digits}f}'} "
        f"| {NONE if figure is None else f'{value / figure:.2f}'} | {row.source} |"
    )


def table(folder: Path, chosen: Sequence[Row], runs: int, seed: int, work: Executor | None) -> None:
    """Ours beside the published figures."""
    print(
        "| method | instance | δ | runs | errors (95 %) | pulls | published | ratio | source |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|---|"
    )
    for row in chosen:
        info = policies()[row.method]
        method: Any = partial(info.method, **row.options)
        if info.truths:
            method = Oracle(method, **info.truths)
        results = simulate_into(
            folder,
            row.slug,
            method,
            row.world,
            runs=min(runs, row.most),
            seed=seed,
            delta=row.delta,
            executor=work,
        )
        print(shown(row, results), flush=True)


def main() -> None:
    """Read the options and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("field"))
    asked = parser.parse_args()
    chosen = [row for row in rows() if asked.only in row.method]
    work = ProcessPoolExecutor(asked.workers) if asked.workers > 1 else None
    with open_folder(asked.out, {"seed": asked.seed}, resume=True):
        table(asked.out, chosen, asked.runs, asked.seed, work)


if __name__ == "__main__":
    main()
