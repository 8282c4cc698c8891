"""How often each method was right at a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bestarm.replication.cell import Cell
from bestarm.replication.pictures.ink import (
    INK,
    PAPER,
    RULE,
    look,
    new_figure,
    not_in_the_paper,
    settle,
)
from bestarm.replication.published import RUNS
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Table
from bestarm.simulation.results import wilson

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_ranking"]


def draw_ranking(replication: Replication, table: Table, cells: Sequence[Cell]) -> Figure:
    """The picture of a table with fixed pulls: rows by budget, ours above the paper's.

    Args:
        replication: the runs.
        table: the table.
        cells: its cells, one per row.
    """
    from matplotlib.lines import Line2D  # noqa: PLC0415

    pairs = sorted(
        zip(table.rows, cells, strict=True),
        key=lambda pair: replication.of(table, pair[0]).mean_pulls,
    )
    figure = new_figure(7.2, 1.25 + 0.36 * len(pairs))
    axes = figure.subplots()
    axes.set_title(table.title, pad=8)
    for place, (row, cell) in enumerate(pairs):
        colour, marker = look(row).colour, look(row).marker
        axes.axhline(-place, color=RULE, lw=0.6, zorder=0)
        axes.plot([cell.low, cell.high], [-place + 0.12] * 2, color=colour, lw=1.6)
        axes.plot([cell.value], [-place + 0.12], marker, color=colour, ms=6, mec=PAPER, mew=0.6)
        if cell.printed is not None:
            ends = wilson(round(cell.printed.value * RUNS), RUNS)
            axes.plot(ends, [-place - 0.16] * 2, color=colour, lw=0.7)
            axes.plot([cell.printed.value], [-place - 0.16], marker, color=colour, ms=6, mfc=PAPER)
    axes.set_ylim(-len(pairs) + 0.45, 0.6)
    axes.set_yticks(
        [-float(place) for place in range(len(pairs))],
        [row.label + (" *" if row.ours else "") for row, _ in pairs],
    )
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(table.rate)
    entries = [
        Line2D([], [], color=INK, marker="o", ms=6, lw=1.6, label=f"ours: {cells[0].runs} runs"),
        Line2D(
            [], [], color=INK, marker="o", ms=6, mfc=PAPER, lw=0.7, label=f"the paper: {RUNS} runs"
        ),
    ]
    if any(row.ours for row in table.rows):
        entries.append(not_in_the_paper())
    figure.legend(handles=entries, loc="outside lower left", ncols=3)
    settle(figure)
    return figure
