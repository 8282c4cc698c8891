"""Pictures of a replication, table by table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bestarm.replication.cell import Cell
from bestarm.replication.pictures.charts import draw_ranking, draw_stopping, draw_tradeoff
from bestarm.replication.pictures.elimination import courses, draw_elimination
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "pictures"]


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes:
        name: of its files.
        title: what it is, in a few words.
        caption: how to read it.
        figure: Matplotlib's.
    """

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
        "come from its printed standard deviations, where there are any, and from 100 runs per "
        "rate. Below the dashed line a method errs no more often than it was asked to.",
        draw_tradeoff(table, cells),
    )
    yield Picture(
        f"{table.key}-stopping",
        "When runs stopped",
        "The number of pulls of every run, row by row: above each line how often (the tallest bin "
        "of each row is as high), below it the middle of the runs.",
        draw_stopping(replication, table, cells),
    )
    if table.printed_as:
        return  # the same methods on more of the same instances
    followed = courses(replication, table)
    if followed:
        runs = len(followed[0].ends)
        first = "the first run" if runs == 1 else f"the first {runs} runs"
        yield Picture(
            f"{table.key}-elimination",
            "Elimination by phase",
            f"Targets left after each phase and by number of pulls, in the mean of {first} of each "
            "method that works in phases. A run that has finished keeps what it had left. Of rows "
            "over a grid, the first is shown.",
            draw_elimination(table, followed),
        )
