"""How long does a test take whose conversions are told at once, and whose zeros are told late?

    python -m benchmarks.late [--runs 40] [--seed 0] [--windows 300 1000 3000] [--only NAME ...]

A page tells a conversion when it happens, and a zero when the visitor's window is over. So what is
known of the youngest visits is selected by its reward. Each way of telling is compared with the
same test where everything is told at the end of the window, which selects nothing.
"""

from __future__ import annotations

import argparse
import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import beta, bootstrap

from bestarm import AnytimeBAI, Problem
from bestarm.live import Experiment
from bestarm.numerics.geometry import Array

PACE = 10  # visits per tick
MOST = 30_000  # visits after which a run is left undecided
RATES = (0.10, 0.11, 0.12, 0.18)  # of the pages that are reported; the last is the best

Delays = Callable[[Array, float, np.random.Generator], Array]


# --- when outcomes are told ---------------------------------------------------------------------


def at_the_end(rewards: Array, window: float, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Everything when the window is over."""
    return np.full(len(rewards), window)


def conversions_at_once(rewards: Array, window: float, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Conversions when they happen, zeros when the window is over."""
    return np.where(rewards > 0, 0.0, window)


def conversions_soon(rewards: Array, window: float, rng: np.random.Generator) -> Array:
    """Conversions within a fifth of the window on average, zeros when it is over."""
    soon = np.minimum(rng.exponential(window / 5, len(rewards)), window)
    return np.where(rewards > 0, soon, window)


def zeros_at_once(rewards: Array, window: float, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Zeros at once, conversions when the window is over."""
    return np.where(rewards > 0, window, 0.0)


def some_forgotten(rewards: Array, window: float, rng: np.random.Generator) -> Array:
    """Conversions at once, zeros when the window is over, and one zero in a hundred never."""
    forgotten = (rng.random(len(rewards)) < 0.01) & (rewards == 0)
    return np.where(forgotten, math.inf, conversions_at_once(rewards, window, rng))


def conversions_alone(rewards: Array, window: float, rng: np.random.Generator) -> Array:  # noqa: ARG001
    """Conversions when they happen, and zeros never: for an experiment that knows the window."""
    return np.where(rewards > 0, 0.0, math.inf)


TOLD: dict[str, Delays] = {
    "at the end": at_the_end,
    "conversions at once": conversions_at_once,
    "conversions soon": conversions_soon,
    "zeros at once": zeros_at_once,
    "some forgotten": some_forgotten,
    "a window declared": conversions_alone,
}


# --- a test of several pages --------------------------------------------------------------------


class Clock:
    """One second per visit."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return 1_800_000_000.0 + self.now


@dataclass(frozen=True)
class Pages:
    """A test of pages, and when its outcomes are told.

    Attributes:
        rates: how often each page converts; the last is the best.
        window: visits after which a visitor counts as not converted.
        delays: when outcomes are told.
        swing: by how much all rates move up and down, in the course of 5,000 visits.
        delta: δ.
        most: visits after which a run is left undecided.
    """

    rates: tuple[float, ...]
    window: float
    delays: Delays
    swing: float = 0.0
    delta: float = 0.05
    most: int = MOST

    def policy(self) -> AnytimeBAI:
        """The policy of the test."""
        return AnytimeBAI(Problem(np.eye(len(self.rates)), delta=self.delta), bounds=(0, 1))


@dataclass(frozen=True)
class Ended:
    """How a test ended.

    Attributes:
        named: the page that is named as the best, or None.
        visits: the number of visits by then.
    """

    named: int | None
    visits: int


Make = Callable[[Pages, int, Clock], Experiment]


def in_memory(pages: Pages, seed: int, clock: Clock) -> Experiment:
    """An experiment that does not know of the window."""
    return Experiment(pages.policy(), seed=seed, clock=clock)


def with_window(pages: Pages, seed: int, clock: Clock) -> Experiment:
    """An experiment that knows the window: nobody has to tell zeros."""
    return Experiment(pages.policy(), seed=seed, clock=clock, window=pages.window, otherwise=0)


MAKE: dict[str, Make] = {"a window declared": with_window}


def run(pages: Pages, seed: int, make: Make = in_memory) -> Ended:
    """A test from beginning to end.

    Args:
        pages: the test.
        seed: of the draws, the outcomes and the delays.
        make: begins the experiment.
    """
    clock, rng = Clock(), np.random.default_rng([seed, 1])
    rates, told = np.array(pages.rates), list[tuple[float, int, float]]()
    with make(pages, seed, clock) as experiment:
        while not experiment.finished and clock.now < pages.most:
            batch = experiment.ask(PACE)
            level = pages.swing * math.sin(2 * math.pi * clock.now / 5000)
            chance = rates[batch.arms] + level
            rewards = (rng.random(len(batch.ids)) < chance).astype(float)
            delays = clock.now + pages.delays(rewards, pages.window, rng)
            clock.now += PACE
            for when, number, reward in zip(delays, batch.ids, rewards, strict=True):
                if when < math.inf:
                    heapq.heappush(told, (float(when), int(number), float(reward)))
            due = []
            while told and told[0][0] <= clock.now:
                due.append(heapq.heappop(told)[1:])
            if due:
                experiment.tell_many(due)
            else:
                experiment.expire()
        recommendation = experiment.recommendation()
        return Ended(
            recommendation.target if recommendation.final else None, experiment.status().pulls
        )


# --- what was found -----------------------------------------------------------------------------


def upper(wrong: int, runs: int, confidence: float = 0.99) -> float:
    """The largest error rate under which so few errors are not yet rarer than 1 − confidence."""
    return 1.0 if wrong == runs else float(beta.ppf(confidence, wrong + 1, runs - wrong))


def ratio(late: Array, prompt: Array, window: float) -> tuple[float, float, float]:
    """(Mean visits less a window) / mean visits of "told at the end", with a 95 % interval."""

    def of(one: Array, other: Array, axis: int = -1) -> Array:
        return np.asarray((one.mean(axis=axis) - window) / other.mean(axis=axis))

    found = bootstrap(
        (late, prompt), of, n_resamples=2000, rng=np.random.default_rng(0), method="percentile"
    ).confidence_interval
    return float(of(late, prompt)), float(found.low), float(found.high)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=float, nargs="*", default=[300.0, 1000.0, 3000.0])
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES))
    parser.add_argument("--swing", type=float, default=0.0)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--only", nargs="*", choices=list(TOLD)[1:], metavar="NAME")
    given = parser.parse_args(arguments)
    best = int(np.argmax(given.rates))
    print(
        f"pages {given.rates}, ± {given.swing:g}, seeds {given.seed} to "
        f"{given.seed + given.runs - 1}, up to {given.most} visits"
    )
    print(
        f"{'window':>7}  {'told':22}{'decided':>8}{'wrong':>6}{'at most':>8}{'visits':>9}"
        f"{'± 1 se':>7}  less a window, over at the end (95 %)"
    )
    for window in given.windows:
        baseline: Array | None = None
        for name in ["at the end", *(given.only or list(TOLD)[1:])]:
            start = time.perf_counter()
            pages = Pages(tuple(given.rates), window, TOLD[name], given.swing, most=given.most)
            play = partial(run, pages, make=MAKE.get(name, in_memory))
            ended = list(map(play, range(given.seed, given.seed + given.runs)))
            visits = np.array([float(each.visits) for each in ended])
            decided = sum(each.named is not None for each in ended)
            wrong = sum(each.named not in (None, best) for each in ended)
            error = visits.std(ddof=1) / math.sqrt(len(visits))
            text = ""
            if baseline is None:
                baseline = visits
            else:
                text = "{:.2f} ({:.2f} to {:.2f})".format(*ratio(visits, baseline, window))
            print(
                f"{window:7.0f}  {name:22}{decided:8}{wrong:6}{upper(wrong, len(ended)):8.1%}"
                f"{visits.mean():9.0f}{error:7.0f}  {text}  "
                f"({time.perf_counter() - start:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
