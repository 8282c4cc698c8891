"""Standings: how many pulls each method needs in a condition, how often it errs, and its rank.

A method is *wrong more often than δ* in a condition if the lower end of the 95 % interval of its
error rate lies above δ. Only final answers count as errors of a method that stops when it is sure.
Methods that are wrong more often than δ, and those that are told the truth, have no rank.

Ranks are by cost: the pulls of a run, from 1 to the cap of the condition. A run without a final
answer costs the cap, however early it ended. With a budget the cost is the error. Run i of all
methods has the same instance, so methods are compared run by run. One is *surely better* than
another if the 95 % interval of the mean difference of costs excludes zero. A rank's ends follow:
1 + the number of methods surely better, and the number of ranked methods less those surely worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np

from bestarm.field.benchmark import Competitor, Condition, Goal
from bestarm.numerics.geometry import Array
from bestarm.simulation.results import Z95, Results, wilson


@dataclass(frozen=True, eq=False)
class Standing:
    """A method in a condition.

    Attributes:
        competitor: the method.
        condition: the instance and its drift.
        pulls: the mean number of pulls.
        half: half of its 95 % interval.
        cost: the mean cost of a run, by which it is ranked.
        cut: how many runs ended without a final answer, at the cap or before; 0 with a budget.
        contradicted: in how many runs rewards contradicted what the method was told.
        errors: how many runs gave a wrong answer.
        runs: how many runs there were.
        delta: the error probability asked for.
        rank: its place among the methods of the same goal that keep δ; None without a rank.
        rank_low: the best rank that the runs allow.
        rank_high: the worst one.
    """

    competitor: Competitor
    condition: Condition
    pulls: float
    half: float
    cost: float
    cut: int
    contradicted: int
    errors: int
    runs: int
    delta: float
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None

    @property
    def error_rate(self) -> float:
        """The share of wrong answers."""
        return self.errors / self.runs

    @property
    def error_interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return wilson(self.errors, self.runs)

    @property
    def breaks_delta(self) -> bool:
        """Whether it is wrong more often than δ; methods with a budget do not promise any δ."""
        return self.competitor.goal == "confidence" and self.error_interval[0] > self.delta


Cells = Mapping[tuple[str, str], Results]  # by the keys of condition and method


def standings(
    competitors: Sequence[Competitor], conditions: Sequence[Condition], cells: Cells
) -> list[Standing]:
    """All methods in all conditions, ranked, in the order of conditions, then of methods."""
    found: list[Standing] = []
    for condition, goal in product(conditions, get_args(Goal)):
        found += _ranked([each for each in competitors if each.goal == goal], condition, cells)
    return found


def _ranked(methods: Sequence[Competitor], condition: Condition, cells: Cells) -> list[Standing]:
    found, ranked = list[Standing](), list[tuple[int, Array]]()
    for method in methods:
        if (condition.key, method.key) in cells:
            standing, costs = _standing(method, condition, cells[condition.key, method.key])
            if not standing.breaks_delta and not method.truths:
                ranked.append((len(found), costs))
            found.append(standing)
    for number, costs in ranked:
        found[number] = replace(
            found[number],
            rank=1 + sum(bool(other.mean() < costs.mean()) for _, other in ranked),
            rank_low=1 + sum(_surely_less(other, costs) for _, other in ranked),
            rank_high=len(ranked) - sum(_surely_less(costs, other) for _, other in ranked),
        )
    return found


def _standing(
    competitor: Competitor, condition: Condition, results: Results
) -> tuple[Standing, Array]:
    """A method without its rank, and what each run costs.

    That is its pulls, or the cap if it has no answer; with a budget its error.
    """
    sure, cap = competitor.goal == "confidence", condition.instance.max_pulls
    wrong = ~results.correct & results.final if sure else ~results.correct
    costs = wrong.astype(float)
    if sure:  # a method that cannot be cut may need more
        costs = np.where(results.final, np.clip(results.pulls, 1, cap), cap).astype(float)
    standing = Standing(
        competitor,
        condition,
        pulls=results.mean_pulls,
        half=Z95 * results.std_pulls / math.sqrt(results.runs),
        cost=float(costs.mean()),
        cut=int((~results.final).sum()) if sure else 0,
        contradicted=int(results.contradicted.sum()),
        errors=int(wrong.sum()),
        runs=results.runs,
        delta=results.delta,
    )
    return standing, costs


def _surely_less(one: Array, other: Array) -> bool:
    """Whether the mean of one − other is negative, at 95 %, over the runs of both."""
    runs = min(len(one), len(other))
    if runs < 2:
        return False
    gaps = one[:runs] - other[:runs]
    return bool(gaps.mean() + Z95 * gaps.std(ddof=1) / math.sqrt(runs) < 0)


def relative_to_best(all_standings: Sequence[Standing]) -> dict[str, list[float]]:
    """Per method that stops when it is sure, its costs over those of the best, by condition.

    Only methods that keep δ in a condition count there.
    """
    ranked = [
        each
        for each in all_standings
        if each.competitor.goal == "confidence" and each.rank is not None
    ]
    best: dict[str, float] = {}
    for each in ranked:
        best[each.condition.key] = min(best.get(each.condition.key, math.inf), each.cost)
    ratios: dict[str, list[float]] = {}
    for each in ranked:
        ratios.setdefault(each.competitor.name, []).append(each.cost / best[each.condition.key])
    return ratios
