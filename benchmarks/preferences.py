"""How often a verdict on preferences is wrong, and how many comparisons it takes.

    python -m benchmarks.preferences [--runs 10000]

Four options, 400 items, δ = 0.05. q is by how much an option's share of wins over another exceeds
its share of losses, over both orders; a tenth of the comparisons has no preference. Items are drawn
with replacement, so comparisons of a fixed taste are independent: they are drawn from q. All runs
stand side by side. Rules: ours; ours with one order only; and Elo ratings (K = 32) of random pairs
in one order, until the leader has been 100 points ahead for 40 comparisons in a row. The last two
are made a fifth as often.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bestarm.evaluation.preferences import next_pulls, read_standing
from bestarm.numerics.geometry import Array

OPTIONS, ITEMS, DELTA, TIES = 4, 400, 0.05, 0.1
K, AHEAD, SETTLED = 32.0, 100.0, 40


class Truth(NamedTuple):
    """A judge: q by pair, what it adds for the first place, and how both change with time."""

    name: str
    leads: dict[tuple[int, int], float]
    answer: int  # the option that beats all others; −1 if none does
    bias: float = 0.0
    items: int = ITEMS
    drifts: bool = False


CLEAR = {(0, 1): 0.3, (0, 2): 0.3, (0, 3): 0.3, (1, 2): 0.1, (1, 3): 0.1, (2, 3): 0.1}
TRUTHS = (
    Truth("clear winner", CLEAR, 0),
    Truth("near tie, q = 0.02", CLEAR | {(0, 1): 0.02}, 0),
    Truth("exact tie", CLEAR | {(0, 1): 0.0, (1, 2): 0.3, (1, 3): 0.3}, -1),
    Truth("all equal", {}, -1),
    Truth("cycle of three", CLEAR | {(0, 1): 0.2, (1, 2): 0.2, (0, 2): -0.2, (1, 3): 0.3}, -1),
    Truth("winner, first place +0.3", CLEAR | {(0, 1): 0.15}, 0, bias=0.3),
    Truth("all equal, first place +0.3", {}, -1, bias=0.3),
    Truth("drifting taste", CLEAR, 0, bias=0.3, drifts=True),
    Truth("items used up (40)", CLEAR | {(0, 1): 0.05}, 0, items=40),
)


def mean(truth: Truth, first: Array, second: Array, time: Array) -> Array:
    """E s of each comparison, of which so many were made before in its run."""
    table = np.zeros((OPTIONS, OPTIONS))
    for (one, other), lead in truth.leads.items():
        table[one, other], table[other, one] = lead, -lead
    leads, bias = table[first, second], np.full(len(first), truth.bias)
    if truth.drifts:  # the winner stays: its leads come and go, and so does the bias
        leads, bias = leads * (1 + np.sin(time / 40)), bias * np.cos(time / 60)
    return np.asarray(leads + bias)


def draw(rng: np.random.Generator, means: Array) -> Array:
    """1, 0 or −1 for each comparison."""
    value = rng.random(len(means))
    return np.where(value < TIES, 0.0, np.where(value < TIES + (1 - TIES + means) / 2, 1.0, -1.0))


def ours(truth: Truth, runs: int, *, coin: bool) -> tuple[Array, Array]:
    """The answer of each run (−1: none beats all; −2: undecided), and its comparisons."""
    rng = np.random.default_rng(1)
    wins, neither = np.zeros((2, runs, OPTIONS, OPTIONS))
    answers, made, left = np.full(runs, -2), np.zeros(runs), np.arange(runs)
    while len(left):
        standing = read_standing(
            wins[left],
            neither[left],
            np.zeros((len(left), OPTIONS, OPTIONS)),
            delta=DELTA,
            tolerance=0.0,
            items=truth.items,
        )
        named = standing.unbeaten.any(axis=1)
        answers[left[named]] = standing.unbeaten.argmax(axis=1)[named]
        none = standing.beaten.all(axis=1)
        answers[left[none]] = -1
        on = ~(named | none) & (standing.first >= 0)
        left = left[on]
        one = np.minimum(standing.first, standing.second)[on]
        other = np.maximum(standing.first, standing.second)[on]
        total = wins[left, one, other] + wins[left, other, one] + neither[left, one, other]
        pulls = np.array([next_pulls(int(each), truth.items) for each in total], dtype=int)
        for step in range(pulls.max(initial=0)):
            now = pulls > step
            run, a, b = left[now], one[now], other[now]
            swap = rng.random(len(run)) < 0.5 if coin else np.zeros(len(run), np.bool_)
            first, second = np.where(swap, b, a), np.where(swap, a, b)
            s = draw(rng, mean(truth, first, second, made[run]))
            wins[run, first, second] += s > 0
            wins[run, second, first] += s < 0
            neither[run, a, b] += s == 0
            neither[run, b, a] += s == 0
            made[run] += 1
    return answers, made


def elo(truth: Truth, runs: int) -> tuple[Array, Array]:
    """The same of Elo ratings, which never say that none beats all."""
    rng = np.random.default_rng(2)
    most = truth.items * OPTIONS * (OPTIONS - 1) // 2
    ratings, answers, made = np.zeros((runs, OPTIONS)), np.full(runs, -2), np.full(runs, most)
    since, leader = np.zeros((2, runs), dtype=int)
    rows = np.arange(runs)
    for step in range(most):
        pairs = np.sort(rng.random((len(rows), OPTIONS)).argsort(axis=1)[:, :2], axis=1)
        first, second = pairs.T
        s = draw(rng, mean(truth, first, second, np.full(len(rows), float(step))))
        gap = ratings[rows, first] - ratings[rows, second]
        change = K * ((s + 1) / 2 - 1 / (1 + 10 ** (-gap / 400)))
        ratings[rows, first] += change
        ratings[rows, second] -= change
        ranks = np.sort(ratings[rows], axis=1)
        best = ratings[rows].argmax(axis=1)
        stays = (best == leader[rows]) & (ranks[:, -1] - ranks[:, -2] >= AHEAD)
        since[rows], leader[rows] = np.where(stays, since[rows] + 1, 0), best
        done = since[rows] >= SETTLED
        answers[rows[done]], made[rows[done]] = best[done], step + 1
        rows = rows[~done]
        if not len(rows):
            break
    return answers, made


def main() -> None:
    """Print one line per truth and rule."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    rules: dict[str, Callable[[Truth], tuple[Array, Array]]] = {
        "ours": lambda truth: ours(truth, runs, coin=True),
        "one order": lambda truth: ours(truth, runs // 5, coin=False),
        "Elo": lambda truth: elo(truth, runs // 5),
    }
    for truth in TRUTHS:
        for name, rule in rules.items():
            answers, made = rule(truth)
            wrong = (answers != truth.answer) & (answers != -2)
            print(
                f"{truth.name:28} {name:10} right {(answers == truth.answer).mean():7.2%}  wrong "
                f"{wrong.mean():7.2%}  undecided {(answers == -2).mean():7.2%}  comparisons "
                f"{made.mean():6,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
