"""The pictures and figures of the explanations in docs/.

    python -m benchmarks.explained baseline [--runs 200] [--picture docs/baseline.png]
    python -m benchmarks.explained interval [--runs 200] [--picture docs/interval.png]

`baseline`: three checkout pages while a campaign fades and comes back. `new` is 4 points better
than `old` all the time, and `video` 4 points worse. The same experiment is read twice: by the
average outcome of each option, and by bestarm.

`interval`: two pages that are equally good (20 %), looked at after every plan. How often does an
interval ever exclude the truth, and how wide is it?
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.figures import RIVALS, add_heading, new_figure, save
from bestarm.numerics.geometry import Array
from bestarm.simulation.results import wilson

DELTA, Z = 0.05, 1.96
PAGES, GAIN = ("old", "new", "video"), np.array([0.0, 0.04, -0.04])
SHOWN = 12  # the seed of the picture of `baseline`
PICTURED = 1  # the seed of the picture of `interval`
FIRST_SHOWN = 200  # visitors: before that, averages jump
LAST = 10_000  # visitors of `interval`
COLOURS = tuple(colour for colour, _, _ in RIVALS)


def fading(visitors: Array) -> Array:
    """The rate of `old`: 40 % at first, 8 % after 4,500 visitors, and up again."""
    return np.asarray(0.24 + 0.16 * np.cos(2 * np.pi * visitors / 9000))


class Look(NamedTuple):
    """What is known after a plan: visitors, totals of each option, and the rule."""

    visitors: int
    counts: Array
    sums: Array
    rule: AnytimeBAI


def follow(rule: AnytimeBAI, gain: Array, *, level: float | None, seed: int) -> Iterator[Look]:
    """Run an experiment with yes-or-no outcomes, and look after every plan."""
    rng = np.random.default_rng(seed)
    counts, sums = np.zeros(len(gain)), np.zeros(len(gain))
    visitors = 0
    while (plan := rule.plan()) is not None:
        options = rng.choice(len(gain), size=plan.pulls, p=plan.weights)
        rates = fading(visitors + np.arange(float(plan.pulls))) if level is None else level
        outcomes = (rng.random(plan.pulls) < rates + gain[options]).astype(float)
        rule.update(Summary.from_pulls(options, outcomes, size=len(gain), center=plan.center))
        visitors += plan.pulls
        counts += np.bincount(options, minlength=len(gain))
        sums += np.bincount(options, weights=outcomes, minlength=len(gain))
        yield Look(visitors, counts.copy(), sums.copy(), rule)


def pages() -> AnytimeBAI:
    """The rule for the three pages."""
    return AnytimeBAI(Problem(PAGES, delta=DELTA), bounds=(0, 1), max_pulls=40_000)


def half_width(look: Look) -> Array:
    """Half of the ordinary 95 % interval of each average."""
    average = look.sums / look.counts
    return np.asarray(Z * np.sqrt(average * (1 - average) / look.counts))


def baseline(runs: int, picture: Path | None) -> None:
    """Count wrong answers, and draw one experiment."""
    wrong = {"averages": 0, "bestarm": 0}
    best = PAGES.index("new")
    for seed in range(runs):
        *_, last = follow(pages(), GAIN, level=None, seed=seed)
        wrong["averages"] += int(np.argmax(last.sums / last.counts)) != best
        wrong["bestarm"] += last.rule.recommend().target != best
    for reading, count in wrong.items():
        low, high = wilson(count, runs)
        print(f"{reading}: wrong in {count} of {runs} experiments ({low:.1%} to {high:.1%})")
    looks, estimates = [], []
    for last in follow(pages(), GAIN, level=None, seed=SHOWN):
        looks.append(last)
        rates = last.rule.rates()
        estimates.append(np.full(len(GAIN), np.nan) if rates is None else rates.estimate)
    print("option   average  outcomes")
    for option, average, count in zip(PAGES, last.sums / last.counts, last.counts, strict=True):
        print(f"{option:8} {average:7.1%} {count:9,.0f}")
    print(last.rule.recommend().statement)
    if picture is not None:
        _draw_baseline(looks, np.array(estimates), picture)


def _draw_baseline(looks: list[Look], estimates: Array, path: Path) -> None:
    figure = new_figure(8.8, 4.0)
    left, middle, right = figure.subplots(1, 3, sharey=True)
    visitors = np.array([look.visitors for look in looks])
    averages = np.array([look.sums / look.counts for look in looks])
    halves = np.array([half_width(look) for look in looks])
    moments = np.arange(float(visitors[-1]))
    truth = fading(moments)[:, np.newaxis] + GAIN
    shown = visitors > FIRST_SHOWN
    for axes, x, lines in (
        (left, moments, truth),
        (middle, visitors[shown], averages[shown]),
        (right, visitors[shown], estimates[shown]),
    ):
        below = 1.0  # where the name above stands
        for place in np.argsort(-lines[-1]):
            option, colour, line = PAGES[place], COLOURS[place], lines[:, place]
            axes.plot(x, line, color=colour, lw=2)
            words = f" {option}" if axes is left else f" {option} {line[-1]:.0%}"
            below = min(line[-1], below - 0.03)
            axes.text(x[-1], below, words, color=colour, va="center", fontweight="bold")
        axes.set_xlabel("visitors")
        axes.set_xlim(0, 1.45 * visitors[-1])
        axes.set_xticks(range(0, int(visitors[-1]), 2000))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    for colour, average, half in zip(COLOURS, averages[shown].T, halves[shown].T, strict=False):
        low, high = average - half, average + half
        middle.fill_between(visitors[shown], low, high, color=colour, alpha=0.15, lw=0)
    left.set_title("What happens", loc="left")
    middle.set_title("By averages: video is best", loc="left")
    right.set_title("By bestarm: new is best", loc="left")
    left.set_ylabel("conversion rate")
    left.set_ylim(0, 0.5)
    left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    add_heading(
        figure,
        "The same experiment, read twice, while the level moves\n",
        "new is 4 points better than old at every moment, video 4 points worse.\n"
        "video was shown mostly early, when everybody bought more. "
        "Rates are of all visitors so far.\n",
    )
    save(figure, path)


class Seen(NamedTuple):
    """The lead of new over old: its ordinary 95 % interval, and that of bestarm."""

    visitors: int
    ordinary: tuple[float, float]
    anytime: tuple[float, float]


def same_pages(seed: int) -> list[Seen]:
    """Two pages at 20 %, looked at after every plan."""
    rule = AnytimeBAI(Problem(["old", "new"], delta=DELTA), bounds=(0, 1), max_pulls=LAST)
    seen = []
    for look in follow(rule, np.zeros(2), level=0.2, seed=seed):
        if look.visitors < FIRST_SHOWN:
            continue
        lead, half = float(np.diff(look.sums / look.counts)[0]), float(np.hypot(*half_width(look)))
        found = rule.intervals()
        low, high = found.low[1 - found.leader], found.high[1 - found.leader]
        ends = (low, high) if found.leader == 1 else (-high, -low)
        seen.append(Seen(look.visitors, (lead - half, lead + half), ends))
    return seen


def excludes_zero(ends: tuple[float, float]) -> bool:
    return ends[0] > 0 or ends[1] < 0


def interval(runs: int, picture: Path | None) -> None:
    """Count the experiments in which an interval ever misses, and draw one of them."""
    every = [same_pages(seed) for seed in range(runs)]
    for kind in ("ordinary", "anytime"):
        count = sum(any(excludes_zero(getattr(look, kind)) for look in run) for run in every)
        low, high = wilson(count, runs)
        print(f"{kind}: ever missed in {count} of {runs} experiments ({low:.1%} to {high:.1%})")
    whole = [run for run in every if run and run[-1].visitors >= LAST]
    print(f"{runs - len(whole)} ended before, by naming one of the two")
    for at in (500, 1000, 2000, 5000, LAST):
        near = [min(run, key=lambda look: abs(look.visitors - at)) for run in whole]
        plain, wide = (
            np.median([50 * np.diff(getattr(look, kind)) for look in near])
            for kind in ("ordinary", "anytime")
        )
        print(f"{at:6,} visitors: ±{plain:.1f} and ±{wide:.1f} points, {wide / plain:.1f} times")
    if picture is not None:
        _draw_interval(every[PICTURED], picture)


def _draw_interval(looks: list[Seen], path: Path) -> None:
    figure = new_figure(7.6, 4.0)
    axes = figure.add_subplot()
    visitors = [look.visitors for look in looks]
    for kind, colour, opacity, words in (
        ("anytime", COLOURS[0], 0.3, "interval of bestarm: holds at every look"),
        ("ordinary", COLOURS[1], 0.8, "ordinary 95 % interval: holds at one look"),
    ):
        ends = 100 * np.array([getattr(look, kind) for look in looks])
        axes.fill_between(visitors, *ends.T, color=colour, alpha=opacity, lw=0, label=words)
    axes.axhline(0, color="black", lw=1)
    axes.set_ylim(-12, 12)
    axes.set_ylabel("lead of new over old, in points")
    axes.set_xlabel("visitors")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=2, frameon=False)
    add_heading(
        figure,
        "Two pages that are the same, looked at all the time",
        "Who looks often sees the ordinary interval leave 0, although nothing differs.\n",
    )
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", choices=["baseline", "interval"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    {"baseline": baseline, "interval": interval}[options.page](options.runs, options.picture)


if __name__ == "__main__":
    main()
