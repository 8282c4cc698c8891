"""The leaderboard: the field's methods on the same instances, with and without drift, ranked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import geometric_mean
from typing import ClassVar

from bestarm import __version__
from bestarm.checks import probability
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.field.benchmark import (
    DRIFTS,
    INSTANCES,
    BenchmarkInstance,
    Competitor,
    Condition,
    Goal,
)
from bestarm.field.standings import Standing, relative_to_best, standings
from bestarm.field.standings_pictures import standings_pictures
from bestarm.policies.catalog import MODEL_WORDS
from bestarm.studies.study import Report, Row, Section, Study, StudyResults, Table
from bestarm.tables import Column, Entry, Line, TextTable
from bestarm.units import plural

GOALS: dict[Goal, str] = {
    "confidence": "Until the answer is sure",
    "budget": "With a fixed budget",
}
_CELLS = (
    "method,goal,model,instance,drift,runs,pulls,half,cut,contradicted,errors,low,high,breaks_delta,"
    "rank,rank_low,rank_high"
)


@dataclass(frozen=True, eq=False)
class Leaderboard(Study[Standing]):
    """Methods beside each other: each of them on every instance that it can run on, drift by drift.

    Attributes:
        competitors: the methods, from `competitors()` and one's own.
        conditions: from `conditions()`.
        delta: the error probability asked for.

    Raises:
        InvalidInputError: two methods have one name, or `delta` is invalid.
    """

    least_runs: ClassVar[int] = 2

    competitors: Sequence[Competitor]
    conditions: Sequence[Condition]
    delta: float = DELTA
    tables: tuple[Table, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = [each.name for each in self.competitors]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInputError(
                    f"Two methods are named {name!r}.",
                    field="competitors",
                    value=name,
                    remedy="Enter a method once, and give every method its own name.",
                )
        probability(self.delta)
        object.__setattr__(self, "tables", tuple(map(self._table, self.conditions)))

    def _table(self, condition: Condition) -> Table:
        instance = condition.instance
        rows = tuple(
            Row(
                each.key,
                each.name,
                each.method(instance),
                condition.environment,
                caps_fail=each.goal == "confidence",
            )
            for each in self.competitors
            if each.can_run(instance)
        )
        title = f"{instance.name}, {condition.drift}"
        return Table(condition.key, title, instance.description, rows, delta=self.delta)

    def settings(self) -> dict[str, object]:
        """The error probability."""
        return {"delta": self.delta}

    def judge(self, results: StudyResults[Standing]) -> list[Standing]:
        """All methods in all conditions, with their ranks."""
        return standings(self.competitors, self.conditions, results.results)

    def section_keys(self) -> Iterable[str]:
        """Goals and instances."""
        return (*GOALS, *INSTANCES)

    def report(self, results: StudyResults[Standing]) -> Report:
        """A table over all conditions for each goal, then one for each instance and goal."""
        found = results.cells
        facts = (
            ("Runs", f"{results.runs} of each method in each condition"),
            ("δ", f"{self.delta:g}"),
            ("Seed", f"{results.seed}; run i of every method has the same instance."),
            ("Version", f"bestarm {__version__}"),
        )
        below = f"{plural(results.runs, 'run')} per cell, δ = {self.delta:g}, seed {results.seed}."
        goals = [goal for goal in GOALS if any(each.competitor.goal == goal for each in found)]
        sections = [
            Section(
                goal,
                f"{GOALS[goal]}: all instances",
                (summary_table(found, goal),),
                caption=f"{GOALS[goal]}: all instances. {below}",
            )
            for goal in goals
        ]
        instances = dict.fromkeys(each.condition.instance.name for each in found)
        for name in instances:
            here = [each for each in found if each.condition.instance.name == name]
            instance = here[0].condition.instance
            tables = [instance_table(here, instance, goal) for goal in goals]
            sections.append(
                Section(
                    name,
                    f"{name}: {instance.description}",
                    tuple(table for table in tables if table.lines),
                    caption=f"{name}: {instance.description}. {below}",
                    draw=partial(standings_pictures, instance, here),
                )
            )
        return Report(
            title="Leaderboard: best-arm identification under drift",
            lead=_lead(found, self.delta),
            facts=facts,
            sections=tuple(sections),
            template="leaderboard.html",
            package="bestarm.field",
            context={"delta": self.delta},
            cells=(_CELLS.split(","), *map(_csv_line, found)),
        )


def _lead(found: Sequence[Standing], delta: float) -> str:
    """How many methods that stop when they are sure are wrong more often than δ somewhere."""
    sure = {each.competitor.name for each in found if each.competitor.goal == "confidence"}
    broken = {each.competitor.name for each in found if each.breaks_delta}
    return (
        f"{len(broken)} of {len(sure)} methods that stop when they are sure are wrong more often "
        f"than δ = {delta:g} in some condition."
    )


def summary_table(found: Sequence[Standing], goal: Goal) -> TextTable:
    """The methods of a goal over all conditions: first those that keep δ in most of them.

    Then they are in the order of their pulls over those of the best method that keeps δ: the
    geometric mean over the conditions in which they keep δ themselves, with the cap for a run
    without a final answer. With a budget they are in the order of their mean error.
    """
    sure, ratios, lines = goal == "confidence", relative_to_best(found), []
    for name, cells in _by_method(found, goal).items():
        broken = sum(each.breaks_delta for each in cells)
        entries = [Entry(_assumes(cells[0]))]
        if sure:
            kind = "wrong" if broken else ""
            entries.append(Entry(f"{broken} of {len(cells)}", kind=kind))
        entries.append(Entry(f"{100 * max(each.error_rate for each in cells):.1f} %"))
        if sure:
            cut, runs = sum(each.cut for each in cells), sum(each.runs for each in cells)
            entries.append(Entry(f"{cut:,} of {runs:,}"))
            entries.append(Entry(f"{sum(each.contradicted for each in cells):,} of {runs:,}"))
            order = geometric_mean(ratios[name]) if name in ratios else math.inf
            entries.append(Entry("–" if math.isinf(order) else f"{order:.2f}"))
        else:
            order = sum(each.error_rate for each in cells) / len(cells)
            entries.append(Entry(f"{100 * order:.1f} %"))
        entries.append(Entry(cells[0].competitor.reference))
        lines.append((broken / len(cells), order, Line(name, tuple(entries))))
    heads = ("above δ", "largest error", "no answer", "contradicted", "pulls ÷ best")
    columns = [
        Column("Method", align="l"),
        Column("assumes", align="l"),
        *map(Column, heads if sure else ("largest error", "mean error")),
        Column("published", page_only=True, align="l"),
    ]
    ordered = sorted(lines, key=lambda item: item[:2])
    return TextTable(tuple(columns), tuple(line for _, _, line in ordered))


def _by_method(found: Sequence[Standing], goal: Goal) -> dict[str, list[Standing]]:
    methods: dict[str, list[Standing]] = {}
    for each in found:
        if each.competitor.goal == goal:
            methods.setdefault(each.competitor.name, []).append(each)
    return methods


def _assumes(it: Standing) -> str:
    """What a method assumes of rewards; a dash for one's own."""
    model = it.competitor.model
    return "–" if model is None else MODEL_WORDS[model]


def instance_table(found: Sequence[Standing], instance: BenchmarkInstance, goal: Goal) -> TextTable:
    """The methods of one instance, by what they cost under its first drift; drift by drift."""
    present = {each.condition.drift for each in found}
    drifts = [name for name in DRIFTS if name in present]
    lines = []
    methods = _by_method(found, goal).values()
    by_drift = [{each.condition.drift: each for each in cells} for cells in methods]
    for cells in sorted(by_drift, key=lambda cells: cells[drifts[0]].cost):
        first = cells[drifts[0]]
        entries = (Entry(_assumes(first)), *(cell_entry(cells[drift]) for drift in drifts))
        lines.append(Line(first.competitor.name, entries))
    what = f"{GOALS[goal]} of {instance.budget:,} pulls: errors"
    return TextTable(
        (
            Column("Method", align="l"),
            Column("assumes", page_only=True, align="l"),
            *map(Column, drifts),
        ),
        tuple(lines),
        title=what if goal == "budget" else f"{GOALS[goal]}: pulls",
    )


def cell_entry(it: Standing) -> Entry:
    """A cell in words: pulls, or errors where there is a budget."""
    low, high = it.error_interval
    rate = f"{100 * it.error_rate:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
    ends = f" ({it.rank_low}–{it.rank_high})" if it.rank_low != it.rank_high else ""
    small = [] if it.rank is None else [f"rank {it.rank}{ends}"]
    kind = "first" if it.rank == 1 else ""
    if it.competitor.goal == "budget":
        return Entry(rate, small=tuple(small), kind=kind)
    pulls = f"{'≥ ' if it.cut else ''}{it.pulls:,.0f} ± {it.half:,.0f}"
    if it.cut:
        small.append(f"no answer in {it.cut:,} of {it.runs:,}")
    if it.contradicted:
        small.append(f"contradicted in {it.contradicted:,} of {it.runs:,}")
    if not it.errors:
        return Entry(pulls, small=tuple(small), kind=kind)
    wrong = f"wrong {rate}"
    small.append(wrong)
    if it.breaks_delta:
        return Entry(pulls, small=tuple(small), kind="wrong", bold=True, printed=wrong)
    return Entry(pulls, small=tuple(small), kind=kind, printed=f"{pulls}, {wrong}")


def _csv_line(it: Standing) -> tuple[object, ...]:
    method, where = it.competitor, it.condition
    return (
        method.name,
        method.goal,
        method.model or "",
        where.instance.name,
        where.drift,
        it.runs,
        it.pulls,
        it.half,
        it.cut,
        it.contradicted,
        it.errors,
        *it.error_interval,
        int(it.breaks_delta),
        *("" if each is None else each for each in (it.rank, it.rank_low, it.rank_high)),
    )
