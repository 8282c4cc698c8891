"""Standings: how many pulls each method needs in a condition, how often it errs, and its rank.

A method is *wrong more often than δ* in a condition if the lower end of the 95 % interval of its
error rate lies above δ. Only final answers count as errors of a method that stops when it is sure.
Methods that are wrong more often than δ, and those that are told the truth, have no rank.

Ranks are by cost: the pulls of a run, up to the cap of the condition. A run without a final answer
costs the cap, however early it ended. With a budget the cost is the error. Run i of all methods has
the same instance, so methods are compared run by run. One is *surely better* than another if the
95 % interval of the mean difference of costs excludes zero. A rank's ends follow: 1 + the number of
methods surely better, and the number of ranked methods less those surely worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.simulation.results import Z95, Results, wilson
from bestarm.studies.benchmark import Competitor, Condition, Goal


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


def wrong_answers(competitor: Competitor, results: Results) -> Array:
    """Per run, 1 if the answer was wrong and 0 if it was right or not given."""
    wrong = ~results.correct
    if competitor.goal == "confidence":
        wrong = wrong & results.final
    return wrong.astype(float)


def standings(
    competitors: Sequence[Competitor], conditions: Sequence[Condition], cells: Cells
) -> list[Standing]:
    """All methods in all conditions, ranked, in the order of conditions, then of methods."""
    ranked: list[Standing] = []
    for condition in conditions:
        for goal in get_args(Goal):
            entered = [
                each
                for each in competitors
                if each.goal == goal and (condition.key, each.key) in cells
            ]
            ranked += _ranked(entered, condition, cells)
    return ranked


def _ranked(entered: Sequence[Competitor], condition: Condition, cells: Cells) -> list[Standing]:
    found = [_standing(each, condition, cells[condition.key, each.key]) for each in entered]
    ranked = [
        number
        for number, each in enumerate(found)
        if not each.breaks_delta and not each.competitor.truths
    ]
    costs = [_costs(entered[i], condition, cells[condition.key, entered[i].key]) for i in ranked]
    for place, number in enumerate(ranked):
        better = [_surely_less(other, costs[place]) for other in costs]
        worse = [_surely_less(costs[place], other) for other in costs]
        mean = costs[place].mean()
        found[number] = replace(
            found[number],
            rank=1 + sum(bool(other.mean() < mean) for other in costs),
            rank_low=1 + sum(better),
            rank_high=len(costs) - sum(worse),
        )
    return found


def _standing(competitor: Competitor, condition: Condition, results: Results) -> Standing:
    spread = results.std_pulls if results.runs > 1 else math.nan
    return Standing(
        competitor,
        condition,
        results.mean_pulls,
        Z95 * spread / math.sqrt(results.runs),
        float(_costs(competitor, condition, results).mean()),
        int((~results.final).sum()) if competitor.goal == "confidence" else 0,
        int(wrong_answers(competitor, results).sum()),
        results.runs,
        results.delta,
    )


def _costs(competitor: Competitor, condition: Condition, results: Results) -> Array:
    """What each run costs: its pulls, or the cap without an answer; with a budget its error."""
    if competitor.goal == "budget":
        return wrong_answers(competitor, results)
    cap = condition.instance.max_pulls  # a method that cannot be cut may need more
    return np.where(results.final, np.minimum(results.pulls, cap), cap).astype(float)


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
    ratios: dict[str, list[float]] = {}
    keys = dict.fromkeys(each.condition.key for each in all_standings)
    for key in keys:
        here = [
            each
            for each in all_standings
            if each.condition.key == key
            and each.competitor.goal == "confidence"
            and each.rank is not None
        ]
        best = min((each.cost for each in here), default=math.nan)
        for each in here:
            ratios.setdefault(each.competitor.name, []).append(each.cost / best)
    return ratios
