"""Pictures of a table: pulls against error, when runs stopped, and success at a budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from bestarm.figures.ink import new_figure
from bestarm.numerics.geometry import Array
from bestarm.replication.cell import Cell
from bestarm.replication.looks import (
    INK,
    PAPER,
    QUIET,
    RULE,
    add_legend,
    entry,
    grid,
    grouped_pulls,
    label,
    look,
)
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 7.2  # inches
_Z = 1.96
_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_BINS = 90
_TALLEST = 0.62  # of the distance between two rows


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its files, its title, and a caption on how to read it."""

    name: str
    title: str
    caption: str
    figure: Figure


def pictures(replication: Replication, table: Table, cells: Sequence[Cell]) -> Iterator[Picture]:
    """The pictures of one table and its cells; to be drawn within `style()`."""
    if not table.counts_pulls:
        yield Picture(
            f"{table.key}-success",
            "Success by budget",
            "Share of runs that named the best target, with Wilson's 95 % intervals: ours above, "
            "the paper's hollow below.",
            draw_ranking(replication, table, cells),
        )
        return
    yield Picture(
        f"{table.key}-tradeoff",
        "Pulls against error",
        "Mean pulls and share of wrong answers, with 95 % intervals both ways. Full marks are "
        "ours, hollow ones the paper's; those of a grid are joined in order. The paper's intervals "
        "come from its printed standard deviations, where there are any, and from its runs "
        "per rate. Below the dashed line a method errs no more often than it was asked to.",
        draw_tradeoff(table, cells),
    )
    yield Picture(
        f"{table.key}-stopping",
        "When runs stopped",
        "The number of pulls of every run, row by row: above each line how often (the tallest bin "
        "of each row is as high), below it the middle of the runs.",
        draw_stopping(replication, table, cells),
    )


def draw_tradeoff(table: Table, cells: Sequence[Cell]) -> Figure:
    """Pulls against error, per method, of a table that counts pulls."""
    ours, printed = {}, {}
    for row, pulls, rate in zip(table.rows, cells[::2], cells[1::2], strict=True):
        ours[row.key] = _our_mark(pulls, rate)
        if pulls.printed is not None and rate.printed is not None:
            printed[row.key] = _printed_mark(pulls, rate)
    figure = new_figure(_WIDTH, 4.7)
    axes = figure.subplots()
    _frame(axes, table, np.array([*ours.values(), *printed.values()]))
    handles = [
        entry(f"ours: {cells[0].runs} runs, 95 % intervals", marker="o", ms=4.5, lw=1.2),
        entry(f"the paper: {table.published_runs} runs", marker="o", ms=8, mfc="none", lw=0.6),
    ]
    for _, members in groupby(table.rows, key=lambda row: grid(row)[0]):
        rows = list(members)
        colour, marker = look(rows[0])
        name = label(rows[0])
        if len(rows) > 1:  # RAGE (σ=1) to RAGE (σ=4)
            name = f"{name.rstrip(')')} to {grid(rows[-1])[1]:g})"
        handles.append(entry(name, color=colour, marker=marker, ms=4.5, ls="none"))
        _draw_marks(axes, rows[0], [ours[row.key] for row in rows], filled=True)
        published = [printed[row.key] for row in rows if row.key in printed]
        if published:
            _draw_marks(axes, rows[0], published, filled=False)
        if len(rows) == 1 and published:
            ends = np.array([ours[rows[0].key], *published])
            axes.plot(ends[:, 0], ends[:, 3], color=QUIET, lw=0.7, ls=":")
    add_legend(figure, handles, table.rows, ncols=4, handlelength=1.6)
    return figure


def _our_mark(pulls: Cell, rate: Cell) -> list[float]:
    """Pulls with the ends of their interval, then the error with its own."""
    ends = (pulls.value, pulls.value) if math.isnan(pulls.low) else (pulls.low, pulls.high)
    return [pulls.value, *ends, *_as_error(rate, rate.value, rate.low, rate.high)]


def _printed_mark(pulls: Cell, rate: Cell) -> list[float]:
    assert pulls.printed is not None
    assert rate.printed is not None
    value, half = (
        pulls.printed.value,
        _Z * (pulls.printed.spread or 0.0) / math.sqrt(pulls.printed.runs),
    )
    error = _as_error(rate, rate.printed.value, *rate.printed.rate_interval)
    return [value, value - half, value + half, *error]


def _as_error(cell: Cell, value: float, low: float, high: float) -> tuple[float, float, float]:
    return (value, low, high) if cell.metric == "error" else (1 - value, 1 - high, 1 - low)


def _frame(axes: Axes, table: Table, marks: Array) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter  # noqa: PLC0415

    axes.set_title(table.title)
    # An interval may reach below half of the smallest value, or below 0.
    low, high = max(marks[:, 1].min(), marks[:, 0].min() / 2), marks[:, 2].max()
    margin = (high / low) ** 0.06 * 1.15
    axes.set_xlim(max(low / margin, 0.5), high * margin)
    grouped_pulls(axes)
    # Square roots spread what is near 0 and keep 0 itself.
    scale = lambda y: np.sign(y) * np.sqrt(np.abs(y)), lambda y: np.sign(y) * np.square(y)
    axes.set_yscale("function", functions=scale)
    top = max(marks[:, 5].max(), 1.5 * table.delta)
    axes.set_ylim(-0.004, min(1.3 * top, 1.12))
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if tick <= 1.2 * top]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set_ylabel("wrong answers (square-root scale)")
    axes.axhline(table.delta, color=QUIET, lw=0.9, ls=(0, (5, 3)), zorder=1)
    axes.annotate(
        f"δ = {table.delta:g}",
        (1, table.delta),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        size=8,
        color=QUIET,
    )


def _draw_marks(axes: Axes, row: Row, marks: Sequence[Sequence[float]], *, filled: bool) -> None:
    """The points of a family with their intervals, joined; full ones are ours."""
    colour, marker = look(row)
    x, x_low, x_high, y, y_low, y_high = np.array(marks).T
    x_low = np.maximum(x_low, axes.get_xlim()[0])  # an end below 0 has no logarithm
    axes.errorbar(
        x,
        y,
        xerr=np.maximum([x - x_low, x_high - x], 0.0),
        yerr=np.maximum([y - y_low, y_high - y], 0.0),
        color=colour,
        marker=marker,
        ls="-" if filled else ":",
        lw=1.1 if filled else 0.8,
        elinewidth=1.2 if filled else 0.6,
        ms=4.5 if filled else 8,
        mfc=colour if filled else "none",
        mec=PAPER if filled else colour,
        mew=0.5 if filled else 0.9,
        zorder=5 if filled else 4,
        clip_on=False,
    )


def draw_stopping(replication: Replication, table: Table, cells: Sequence[Cell]) -> Figure:
    """The distribution of pulls, row by row, of a table that counts pulls."""
    figure, axes = _listed(table, table.rows)
    pulls = [np.asarray(replication.of(table, row).pulls, dtype=float) for row in table.rows]
    summaries = [cell for cell in cells if cell.metric == "pulls"]
    values = [*np.concatenate(pulls), *(cell.printed.value for cell in summaries if cell.printed)]
    low, high = max(min(values), 1.0), max(*values, 2.0)
    margin = (high / low) ** 0.02 * 1.06
    edges = np.geomspace(low / margin, high * margin, _BINS + 1)  # as many to a decade everywhere
    axes.set_xlim(edges[0], edges[-1])
    grouped_pulls(axes)
    for place, (row, runs, cell) in enumerate(zip(table.rows, pulls, summaries, strict=True)):
        _draw_row(axes, -place, runs, cell, edges, look(row)[0])
    published = table.published_runs
    handles = [
        entry("10–90 % of runs", lw=1.0),
        entry("25–75 %", lw=3.6),
        entry("median", ls="none", marker="|", ms=7),
        entry("mean", ls="none", marker="o", ms=4),
        entry(f"the paper's mean, {published} runs", ls="none", marker="o", ms=7, mfc="none"),
    ]
    add_legend(figure, handles, table.rows, ncols=6, handlelength=1.4, columnspacing=1.1)
    return figure


def _listed(table: Table, rows: Sequence[Row]) -> tuple[Figure, Axes]:
    """A picture with one line per row, from the top at heights 0, −1, …"""
    figure = new_figure(_WIDTH, 1.25 + 0.36 * len(rows))
    axes = figure.subplots()
    axes.set_title(table.title)
    axes.set_ylim(-len(rows) + 0.5, 0.8)
    axes.set_yticks([-float(place) for place in range(len(rows))], [label(row) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=RULE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    return figure, axes


def _draw_row(axes: Axes, base: float, pulls: Array, cell: Cell, edges: Array, colour: str) -> None:
    """Above the line the distribution, below it the middle of the runs."""
    assert cell.quantiles is not None
    counts, _ = np.histogram(pulls, bins=edges)
    first, last = np.flatnonzero(counts)[[0, -1]]
    axes.stairs(
        base + _TALLEST * counts[first : last + 1] / counts.max(),
        edges[first : last + 2],
        baseline=base,
        fill=True,
        color=colour,
        alpha=0.45,
        lw=0,
    )
    tenth, quarter, middle, three, nine = cell.quantiles.values()
    below = base - 0.12
    axes.plot([tenth, nine], [below] * 2, color=colour, lw=1.0, solid_capstyle="butt")
    axes.plot([quarter, three], [below] * 2, color=colour, lw=3.6, solid_capstyle="butt")
    axes.plot([middle], [below], marker="|", ms=7, mew=1.6, color=INK, ls="none", zorder=4)
    axes.plot([cell.value], [below], marker="o", ms=4, mfc=INK, mec=PAPER, mew=0.6, zorder=5)
    if cell.printed is not None:
        axes.plot([cell.printed.value], [below], marker="o", ms=7, mfc="none", mec=INK, mew=0.8)


def draw_ranking(replication: Replication, table: Table, cells: Sequence[Cell]) -> Figure:
    """How often each method was right at a budget: rows by budget, ours above the paper's."""
    pairs = sorted(
        zip(table.rows, cells, strict=True),
        key=lambda pair: replication.of(table, pair[0]).mean_pulls,
    )
    figure, axes = _listed(table, [row for row, _ in pairs])
    for place, (row, cell) in enumerate(pairs):
        colour, marker = look(row)
        axes.plot([cell.low, cell.high], [-place + 0.12] * 2, color=colour, lw=1.6)
        axes.plot([cell.value], [-place + 0.12], marker, color=colour, ms=6, mec=PAPER, mew=0.6)
        if cell.printed is not None:
            ends = cell.printed.rate_interval
            axes.plot(ends, [-place - 0.16] * 2, color=colour, lw=0.7)
            axes.plot([cell.printed.value], [-place - 0.16], marker, color=colour, ms=6, mfc=PAPER)
    axes.set_xlabel(table.rate)
    handles = [
        entry(f"ours: {cells[0].runs} runs", marker="o", ms=6, lw=1.6),
        entry(f"the paper: {table.published_runs} runs", marker="o", ms=6, mfc=PAPER, lw=0.7),
    ]
    add_legend(figure, handles, table.rows, ncols=3)
    return figure
