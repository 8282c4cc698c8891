"""How methods that work in phases narrow the field down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bestarm.figures.ink import new_figure
from bestarm.geometry import Array
from bestarm.records import Recommendation
from bestarm.replication.pictures.ink import add_legend, grid, grouped_pulls, label, look
from bestarm.replication.runner import Replication
from bestarm.replication.tables import Row, Table
from bestarm.simulation import run_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_RUNS = 20
_TARGETS = 600  # followed in total: six runs of a hundred targets, all twenty of a dozen
_DASHES = ((0, ()), (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.5, 1.5)), (0, (8, 2)))


@dataclass(frozen=True)
class Course:
    """The targets left in some runs of a row.

    Attributes:
        row: the row.
        ends: for each run, its pulls at the end of each phase, from 0.
        counts: for each run, its targets left then.
    """

    row: Row
    ends: tuple[Array, ...]
    counts: tuple[Array, ...]

    @classmethod
    def of(cls, row: Row, made: Sequence[Recommendation]) -> Course:
        """The course of finished runs with their traces."""
        ends = [np.cumsum([0.0, *(phase.pulls for phase in run.trace)]) for run in made]
        counts = [[*(len(phase.active) for phase in run.trace), len(run.active)] for run in made]
        return cls(row, tuple(ends), tuple(np.array(part, dtype=float) for part in counts))

    @property
    def left(self) -> Array:
        """The mean number after each phase, from 0; a finished run keeps what it had left."""
        longest = max(map(len, self.counts))
        padded = [np.pad(part, (0, longest - len(part)), mode="edge") for part in self.counts]
        return np.asarray(np.mean(padded, axis=0))

    def left_at(self, pulls: Array) -> Array:
        """The mean number after each of these numbers of pulls."""
        left = [
            counts[np.searchsorted(ends, pulls, side="right") - 1]
            for ends, counts in zip(self.ends, self.counts, strict=True)
        ]
        return np.asarray(np.mean(left, axis=0))


def courses(replication: Replication, table: Table) -> list[Course]:
    """The first runs of a table's rows, made again with their traces.

    Only rows that work in phases; of rows that run over a grid, the first.
    """

    def again(row: Row, run: int) -> Recommendation:
        seed, delta = replication.seed, table.delta
        return run_once(row.method, row.environment, run=run, seed=seed, delta=delta)

    families: dict[str, Row] = {}
    for row in table.rows:
        families.setdefault(grid(row)[0], row)
    found: list[Course] = []
    for row in families.values():
        first = again(row, 0)
        if first.trace:
            runs = min(_MOST_RUNS, max(_TARGETS // len(first.trace[0].active), 1), replication.runs)
            found.append(Course.of(row, [first, *(again(row, run) for run in range(1, runs))]))
    return found


def draw_elimination(table: Table, followed: Sequence[Course]) -> Figure:
    """Targets left in the courses of at least one row, by phase and by pulls."""
    figure = new_figure(7.2, 3.7)
    by_phase, by_pulls = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.25))
    by_phase.set_title(table.title)
    ends = np.concatenate([part[1:] for one in followed for part in one.ends])
    pulls = np.geomspace(0.7 * ends.min(), 1.1 * ends.max(), 400)
    handles = []
    for place, one in enumerate(followed):
        colour, marker = look(one.row)
        line = {"color": colour, "lw": 1.3, "ls": _DASHES[place % len(_DASHES)]}
        handles += by_phase.plot(one.left, marker=marker, ms=3.5, label=label(one.row), **line)
        by_pulls.plot(pulls, one.left_at(pulls), drawstyle="steps-post", **line)
    by_pulls.set_xlim(pulls[0], pulls[-1])
    grouped_pulls(by_pulls)
    _count_axes(by_phase, max(float(one.left[0]) for one in followed))
    rows = [one.row for one in followed]
    add_legend(figure, handles, rows, ncols=3, handlelength=3.2, columnspacing=2)
    return figure


def _count_axes(axes: Axes, most: float) -> None:
    from matplotlib import ticker  # noqa: PLC0415

    axes.set_yscale("log")
    axes.set_ylim(0.9, 1.15 * most)
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if tick < most / 1.2]
    axes.yaxis.set_major_locator(ticker.FixedLocator([*ticks, most]))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set_xlabel("phases finished")
    axes.set_ylabel("targets left (mean, logarithmic)")
