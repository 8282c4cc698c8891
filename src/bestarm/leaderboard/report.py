"""The outputs of a leaderboard: a page, a Markdown file, and CSV of every cell."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.files import replacing
from bestarm.leaderboard.column import DRIFTS, INSTANCES
from bestarm.leaderboard.contestant import Goal
from bestarm.leaderboard.runner import Leaderboard
from bestarm.leaderboard.standing import Standing, geometric_mean, relative_to_best
from bestarm.policies.catalog import MODEL_WORDS

PAGE = "leaderboard.html"
_GOALS: tuple[tuple[Goal, str], ...] = (
    ("confidence", "Until the answer is sure"),
    ("budget", "With a fixed budget"),
)
_CELLS = (
    "method,goal,model,instance,drift,runs,pulls,half,cut,errors,low,high,breaks_delta,"
    "rank,rank_low,rank_high"
)


@dataclass(frozen=True)
class CellText:
    """A cell in words.

    Attributes:
        main: pulls, or errors where there is a budget.
        rank: its rank with its ends; empty without one.
        errors: the error rate, where it is not the main figure and not zero.
        unanswered: how many runs gave no final answer; empty if all did, or with a budget.
        wrong: whether it is wrong more often than δ.
        first: whether it has the first rank.
    """

    main: str
    rank: str
    errors: str
    unanswered: str
    wrong: bool
    first: bool


@dataclass(frozen=True)
class Line:
    """A method in a table: its name, what it assumes, and a cell per drift (None: cannot run)."""

    method: str
    model: str
    cells: tuple[CellText | None, ...]


@dataclass(frozen=True)
class Summary:
    """A method over all columns.

    Attributes:
        method: its name.
        model: what it assumes.
        reference: where it was published.
        broken: in how many of its columns it is wrong more often than δ.
        columns: the number of its columns.
        worst: its largest error rate.
        relative: its pulls over those of the best method that keeps δ, over the columns in which
            it keeps δ itself: the geometric mean. A run without a final answer counts as the cap.
        cut: how many of its runs ended without a final answer; 0 with a budget.
        runs: the number of its runs.
    """

    method: str
    model: str
    reference: str
    broken: int
    columns: int
    worst: str
    relative: str
    cut: int
    runs: int

    @property
    def unanswered(self) -> str:
        """The runs without a final answer, in words."""
        return f"{self.cut:,} of {self.runs:,}"


def write_report(board: Leaderboard, folder: Path) -> Path:
    """Write `leaderboard.html`, which needs no other file, `leaderboard.md` and `cells.csv`.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: cells are not finished.
        MissingDependencyError: Jinja2 is not installed.
        OSError: the folder cannot be written.
    """
    if board.interrupted:
        raise InvalidInputError(
            "The leaderboard has not finished, so there is nothing to report.",
            field="board",
            remedy="Go on with it with resume=True.",
        )
    found = board.standings()
    texts = {
        PAGE: page(board, found),
        "leaderboard.md": markdown(board, found),
    }
    for name, text in texts.items():
        with replacing(folder / name) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    with replacing(folder / "cells.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CELLS.split(","))
        writer.writerows(map(_row, found))
    return folder / PAGE


def _row(it: Standing) -> tuple[object, ...]:
    who, where = it.contestant, it.column
    return (
        who.name,
        who.goal,
        who.model or "",
        where.instance.name,
        where.drift,
        it.runs,
        it.pulls,
        it.half,
        it.cut,
        it.errors,
        *it.error_interval,
        int(it.breaks_delta),
        *("" if each is None else each for each in (it.rank, it.rank_low, it.rank_high)),
    )


def cell_text(it: Standing) -> CellText:
    """A cell in words."""
    rank = ""
    if it.rank is not None:
        ends = f" ({it.rank_low}–{it.rank_high})" if it.rank_low != it.rank_high else ""
        rank = f"{it.rank}{ends}"
    low, high = it.error_interval
    rate = f"{100 * it.error_rate:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
    if it.contestant.goal == "budget":
        return CellText(rate, rank, "", "", it.breaks_delta, it.rank == 1)
    pulls = f"{'≥ ' if it.cut else ''}{it.pulls:,.0f} ± {it.half:,.0f}"
    unanswered = f"{it.cut:,} of {it.runs:,}" if it.cut else ""
    errors = rate if it.errors else ""
    return CellText(pulls, rank, errors, unanswered, it.breaks_delta, it.rank == 1)


def lines_of(found: Sequence[Standing], instance: str, goal: Goal) -> list[Line]:
    """The methods of an instance, by what they cost where nothing drifts."""
    here = [
        each
        for each in found
        if each.column.instance.name == instance and each.contestant.goal == goal
    ]
    drifts = drifts_of(found)
    by_method: dict[str, dict[str, Standing]] = {}
    for each in here:
        by_method.setdefault(each.contestant.name, {})[each.column.drift] = each

    def order(cells: dict[str, Standing]) -> float:
        return cells[drifts[0]].cost

    return [
        Line(
            name,
            _assumes(next(iter(cells.values()))),
            tuple(cell_text(cells[drift]) if drift in cells else None for drift in drifts),
        )
        for name, cells in sorted(by_method.items(), key=lambda item: order(item[1]))
    ]


def drifts_of(found: Sequence[Standing]) -> list[str]:
    """The drifts, in their order."""
    present = {each.column.drift for each in found}
    return [name for name in DRIFTS if name in present]


def summaries(found: Sequence[Standing], goal: Goal) -> list[Summary]:
    """The methods of a goal: first those that keep δ in most columns, then by their pulls."""
    ratios = relative_to_best(found)
    by_method: dict[str, list[Standing]] = {}
    for each in found:
        if each.contestant.goal == goal:
            by_method.setdefault(each.contestant.name, []).append(each)
    rows = []
    for name, cells in by_method.items():
        broken = sum(each.breaks_delta for each in cells)
        mean = geometric_mean(ratios[name]) if name in ratios else math.nan
        errors = max(each.error_rate for each in cells)
        order = mean if goal == "confidence" else _mean_error(cells)
        if goal == "budget":
            shown = f"{100 * order:.1f} %"
        else:
            shown = "–" if math.isnan(mean) else f"{mean:.2f}"
        who = cells[0].contestant
        row = Summary(
            name,
            _assumes(cells[0]),
            who.reference,
            broken,
            len(cells),
            f"{100 * errors:.1f} %",
            shown,
            sum(each.cut for each in cells),
            sum(each.runs for each in cells),
        )
        rows.append((broken / len(cells), math.inf if math.isnan(order) else order, row))
    return [row for _, _, row in sorted(rows, key=lambda item: item[:2])]


def _assumes(it: Standing) -> str:
    """What a method assumes of rewards; a dash for one's own."""
    model = it.contestant.model
    return "–" if model is None else MODEL_WORDS[model]


def _mean_error(cells: Sequence[Standing]) -> float:
    return sum(each.error_rate for each in cells) / len(cells)


def _facts(board: Leaderboard) -> str:
    return (
        f"{board.runs} runs per cell, δ = {board.delta:g}, seed {board.seed}, "
        f"bestarm {version('bestarm')}."
    )


def _instances(found: Sequence[Standing]) -> Iterator[str]:
    present = {each.column.instance.name for each in found}
    return (name for name in INSTANCES if name in present)


def page(board: Leaderboard, found: Sequence[Standing]) -> str:
    """The page, complete in itself."""
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingDependencyError.of("The report", "jinja2", extra="cli") from None
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = resources.files("bestarm.leaderboard").joinpath("page.html").read_text("utf-8")
    return environment.from_string(text).render(
        facts=_facts(board),
        delta=board.delta,
        drifts=drifts_of(found),
        goals=[
            (goal, title, summaries(found, goal))
            for goal, title in _GOALS
            if any(each.contestant.goal == goal for each in found)
        ],
        instances=[
            (
                INSTANCES[name],
                [(goal, title, lines_of(found, name, goal)) for goal, title in _GOALS],
            )
            for name in _instances(found)
        ],
    )


def markdown(board: Leaderboard, found: Sequence[Standing]) -> str:
    """The tables as Markdown; who is wrong more often than δ is in bold."""
    parts = [_facts(board)]
    for goal, title in _GOALS:
        rows = summaries(found, goal)
        if not rows:
            continue
        certain = goal == "confidence"
        last = "pulls over the best" if certain else "mean error"
        parts.append(f"## {title}")
        parts.append(
            _table(
                ["method", "assumes", "wrong more often than δ", "largest error", last],
                [
                    [
                        row.method,
                        row.model,
                        f"{row.broken} of {row.columns}" if certain else "–",
                        row.worst,
                        row.relative,
                    ]
                    for row in rows
                ],
            )
        )
        silent = "; ".join(f"{row.method} {row.unanswered}" for row in rows if row.cut)
        if silent:
            parts.append(f"Runs without a final answer: {silent}.")
        for name in _instances(found):
            lines = lines_of(found, name, goal)
            if not lines:
                continue
            where = INSTANCES[name]
            extra = "" if certain else f", {where.budget:,} pulls"
            parts.append(f"### {name}: {where.words}{extra}")
            cells = [[line.method, *map(_marked, line.cells)] for line in lines]
            parts.append(_table(["method", *drifts_of(found)], cells))
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _marked(cell: CellText | None) -> str:
    if cell is None:
        return "–"
    if cell.wrong:
        return f"**wrong {cell.errors}**"
    return ", ".join(part for part in (cell.main, cell.errors and f"wrong {cell.errors}") if part)
