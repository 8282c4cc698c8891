"""When runs stopped: the distribution of pulls, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bestarm.geometry import Array
from bestarm.replication.cell import Cell
from bestarm.replication.pictures.ink import (
    INK,
    PAPER,
    RULE,
    grouped_pulls,
    look,
    new_figure,
    not_in_the_paper,
    settle,
)
from bestarm.replication.published import RUNS
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["draw_stopping"]

_BINS = 90
_TALLEST = 0.62  # of the distance between two rows


def draw_stopping(replication: Replication, table: Table, cells: Sequence[Cell]) -> Figure:
    """The picture of a table that counts pulls.

    Args:
        replication: the runs.
        table: the table.
        cells: its cells.
    """
    figure = new_figure(7.2, 1.25 + 0.36 * len(table.rows))
    axes = figure.subplots()
    axes.set_title(table.title, pad=8)
    pulls = [np.asarray(replication.of(table, row).pulls, dtype=float) for row in table.rows]
    summaries = [cell for cell in cells if cell.metric == "pulls"]
    edges = _edges(pulls, summaries)
    axes.set_xlim(edges[0], edges[-1])
    grouped_pulls(axes)
    for height, (row, runs, cell) in enumerate(zip(table.rows, pulls, summaries, strict=True)):
        _draw_row(axes, -height, runs, cell, edges, look(row).colour)
    axes.set_ylim(-len(pulls) + 0.55, 0.85)
    axes.set_yticks(
        [-float(height) for height in range(len(pulls))],
        [row.label + (" *" if row.ours else "") for row in table.rows],
    )
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    figure.legend(
        handles=_legend(any(row.ours for row in table.rows)),
        loc="outside lower left",
        ncols=6,
        handlelength=1.4,
        columnspacing=1.1,
    )
    settle(figure)
    return figure


def _edges(pulls: Sequence[Array], cells: Sequence[Cell]) -> Array:
    """The ends of the bins: as many to a decade everywhere, and wide enough for the marks."""
    values = [*(part.min() for part in pulls), *(part.max() for part in pulls)]
    values += [cell.printed.value for cell in cells if cell.printed is not None]
    low, high = max(min(values), 1.0), max(*values, 2.0)
    margin = (high / low) ** 0.02 * 1.06
    return np.geomspace(low / margin, high * margin, _BINS + 1)


def _draw_row(axes: Axes, base: float, pulls: Array, cell: Cell, edges: Array, colour: str) -> None:
    """Above the line the distribution, below it the middle of the runs."""
    assert cell.quantiles is not None
    counts, _ = np.histogram(pulls, bins=edges)
    shares = base + _TALLEST * counts / counts.max()
    first, last = np.flatnonzero(counts)[[0, -1]]
    axes.axhline(base, color=RULE, lw=0.6, zorder=0)
    axes.stairs(
        shares[first : last + 1],
        edges[first : last + 2],
        baseline=base,
        fill=True,
        color=colour,
        alpha=0.45,
        lw=0,
    )
    tenth, quarter, middle, three, nine = (
        cell.quantiles[level] for level in (0.1, 0.25, 0.5, 0.75, 0.9)
    )
    below = base - 0.12
    axes.plot([tenth, nine], [below] * 2, color=colour, lw=1.0, solid_capstyle="butt")
    axes.plot([quarter, three], [below] * 2, color=colour, lw=3.6, solid_capstyle="butt")
    axes.plot([middle], [below], marker="|", ms=7, mew=1.6, color=INK, ls="none", zorder=4)
    axes.plot([cell.value], [below], marker="o", ms=4, mfc=INK, mec=PAPER, mew=0.6, zorder=5)
    if cell.printed is not None:
        axes.plot([cell.printed.value], [below], marker="o", ms=7, mfc="none", mec=INK, mew=0.8)


def _legend(starred: bool) -> list[Line2D]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    def mark(marker: str, size: float, label: str, fill: str = INK) -> Line2D:
        return Line2D([], [], color=INK, ls="none", marker=marker, ms=size, mfc=fill, label=label)

    entries = [
        Line2D([], [], color=INK, lw=1.0, label="10–90 % of runs"),
        Line2D([], [], color=INK, lw=3.6, label="25–75 %"),
        mark("|", 7, "median"),
        mark("o", 4, "mean"),
        mark("o", 7, f"the paper's mean, {RUNS} runs", "none"),
    ]
    return entries + ([not_in_the_paper()] if starred else [])
