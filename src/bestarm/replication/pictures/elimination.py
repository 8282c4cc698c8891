"""How methods that work in phases narrow the field down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bestarm.geometry import Array
from bestarm.records import Recommendation
from bestarm.replication.pictures.ink import (
    grid,
    grouped_pulls,
    look,
    new_figure,
    not_in_the_paper,
    settle,
)
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Row, Table
from bestarm.simulation import run_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Course", "course", "courses", "draw_elimination"]

_MOST_RUNS = 20
_TARGETS = 600  # followed in total: six runs of a hundred targets, all twenty of a dozen
_DASHES = ((0, ()), (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.5, 1.5)), (0, (8, 2)))


@dataclass(frozen=True)
class Course:
    """The targets left in some runs of a row.

    Attributes:
        row: the row.
        left: the mean number after each phase, from 0; a finished run keeps what it had left.
        ends: for each run, its pulls at the end of each phase, from 0.
        counts: for each run, its targets left then.
    """

    row: Row
    left: Array
    ends: tuple[Array, ...]
    counts: tuple[Array, ...]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.ends)


def courses(replication: Replication, table: Table) -> list[Course]:
    """The first runs of a table's rows, made again with their traces.

    Only rows that work in phases; of rows that run over a grid, the first.
    """
    found: list[Course] = []
    families: set[str] = set()
    for row in table.rows:
        family = grid(row)[0]
        if family in families:
            continue
        families.add(family)
        first = _again(replication, table, row, 0)
        if first.trace:
            runs = min(_MOST_RUNS, max(_TARGETS // len(first.trace[0].active), 1), replication.runs)
            others = [_again(replication, table, row, run) for run in range(1, runs)]
            found.append(course(row, [first, *others]))
    return found


def _again(replication: Replication, table: Table, row: Row, run: int) -> Recommendation:
    return run_once(row.method, row.environment, run=run, seed=replication.seed, delta=table.delta)


def course(row: Row, recommendations: Sequence[Recommendation]) -> Course:
    """Statistics of finished runs with their traces."""
    counts, ends = [], []
    for made in recommendations:
        before = [len(phase.active) for phase in made.trace]
        counts.append(np.array([*before, len(made.active)], dtype=float))
        ends.append(np.cumsum([0, *(phase.pulls for phase in made.trace)], dtype=float))
    longest = max(map(len, counts))
    padded = [np.pad(part, (0, longest - len(part)), mode="edge") for part in counts]
    return Course(row, np.mean(padded, axis=0), tuple(ends), tuple(counts))


def draw_elimination(table: Table, followed: Sequence[Course]) -> Figure:
    """Targets left, by phase and by pulls.

    Args:
        table: the table.
        followed: of at least one row.
    """
    figure = new_figure(7.2, 3.7)
    by_phase, by_pulls = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.25))
    by_phase.set_title(table.title, pad=8)
    grid_of_pulls = _pulls(followed)
    by_pulls.set_xlim(grid_of_pulls[0], grid_of_pulls[-1])
    for place, one in enumerate(followed):
        shown = look(one.row)
        dashes = _DASHES[place % len(_DASHES)]
        by_phase.plot(
            np.arange(len(one.left)),
            one.left,
            color=shown.colour,
            marker=shown.marker,
            ms=3.5,
            lw=1.3,
            ls=dashes,
            label=one.row.label + (" *" if one.row.ours else ""),
        )
        by_pulls.plot(
            grid_of_pulls,
            _mean_at(one, grid_of_pulls),
            color=shown.colour,
            lw=1.3,
            ls=dashes,
            drawstyle="steps-post",
        )
    _axes(by_phase, by_pulls, max(float(one.left[0]) for one in followed))
    handles, _ = by_phase.get_legend_handles_labels()
    if any(one.row.ours for one in followed):
        handles.append(not_in_the_paper())
    figure.legend(
        handles=handles, loc="outside lower left", ncols=3, handlelength=3.2, columnspacing=2
    )
    settle(figure)
    return figure


def _axes(by_phase: Axes, by_pulls: Axes, most: float) -> None:
    from matplotlib import ticker  # noqa: PLC0415

    by_phase.set_yscale("log")
    by_phase.set_ylim(0.9, 1.15 * most)
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if tick < most / 1.2]
    by_phase.yaxis.set_major_locator(ticker.FixedLocator([*ticks, most]))
    by_phase.yaxis.set_minor_locator(ticker.NullLocator())
    by_phase.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    by_phase.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    by_phase.set_xlabel("phases finished")
    by_phase.set_ylabel("targets left (mean, logarithmic)")
    grouped_pulls(by_pulls)


def _pulls(followed: Sequence[Course]) -> Array:
    ends = np.concatenate([part[1:] for one in followed for part in one.ends])
    return np.geomspace(0.7 * ends.min(), 1.1 * ends.max(), 400)


def _mean_at(one: Course, pulls: Array) -> Array:
    """The mean number of targets left after each number of pulls."""
    left = [
        counts[np.searchsorted(ends, pulls, side="right") - 1]
        for ends, counts in zip(one.ends, one.counts, strict=True)
    ]
    return np.asarray(np.mean(left, axis=0))
