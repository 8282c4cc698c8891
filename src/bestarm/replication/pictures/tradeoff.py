"""Pulls against error, per method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from bestarm.geometry import Array
from bestarm.replication.cell import Cell
from bestarm.replication.pictures.ink import (
    INK,
    PAPER,
    QUIET,
    MarkStyle,
    grid,
    grouped_pulls,
    look,
    new_figure,
    settle,
)
from bestarm.replication.pictures.labels import Label, along, around, place
from bestarm.replication.published import RUNS
from bestarm.replication.tables import Row, Table
from bestarm.simulation.results import wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["draw_tradeoff"]

_Z = 1.96
_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class _Mark:
    """A point with its intervals, each a low and a high end."""

    x: float
    y: float
    across: tuple[float, float]
    up: tuple[float, float]

    @property
    def at(self) -> tuple[float, float]:
        return self.x, self.y


@dataclass(frozen=True)
class _Point:
    row: Row
    ours: _Mark
    printed: _Mark | None


def draw_tradeoff(table: Table, cells: Sequence[Cell]) -> Figure:
    """The picture of a table that counts pulls.

    Args:
        table: the table.
        cells: its cells, of pulls and of a rate for each row.
    """
    points = [_point(row, *(cell for cell in cells if cell.row == row.key)) for row in table.rows]
    figure = new_figure(7.2, 4.7)
    axes = figure.subplots()
    axes.set_title(table.title, pad=10)
    _frame(axes, table, points)
    for members in _families(points):
        _draw_family(axes, members)
    figure.legend(
        handles=_legend(points, cells[0].runs), loc="outside lower left", ncols=4, handlelength=1.6
    )
    settle(figure)
    place(axes, _labels(axes, points), _taken(axes, points, table.delta))
    return figure


def _point(row: Row, pulls: Cell, rate: Cell) -> _Point:
    printed = None
    if pulls.printed is not None and rate.printed is not None:
        half = _Z * (pulls.printed.spread or 0.0) / math.sqrt(RUNS)
        value = pulls.printed.value
        ends = wilson(round(rate.printed.value * RUNS), RUNS)
        error, up = _as_error(rate, rate.printed.value, ends)
        printed = _Mark(value, error, (value - half, value + half), up)
    error, up = _as_error(rate, rate.value, (rate.low, rate.high))
    across = (pulls.value, pulls.value) if math.isnan(pulls.low) else (pulls.low, pulls.high)
    return _Point(row, _Mark(pulls.value, error, across, up), printed)


def _as_error(
    cell: Cell, value: float, ends: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    return (value, ends) if cell.metric == "error" else (1 - value, (1 - ends[1], 1 - ends[0]))


def _frame(axes: Axes, table: Table, points: Sequence[_Point]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    marks = [mark for point in points for mark in (point.ours, point.printed) if mark is not None]
    sizes = [x for mark in marks for x in (mark.x, *mark.across) if x > 0]
    floor = min(mark.x for mark in marks) / 2  # an interval may reach below it, or below nothing
    low, high = max(min(sizes), floor), max(sizes)
    margin = (high / low) ** 0.06 * 1.15
    axes.set_xlim(max(low / margin, 0.5), high * margin)
    grouped_pulls(axes)
    # Square roots spread what is near 0 and keep 0 itself.
    axes.set_yscale("function", functions=(_signed_root, _signed_square))
    top = max(*(mark.up[1] for mark in marks), 1.5 * table.delta)
    axes.set_ylim(-0.004, min(1.3 * top, 1.12))
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if tick <= 1.2 * top]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.set_ylabel("wrong answers (square-root scale)")
    axes.axhline(table.delta, color=QUIET, lw=0.9, ls=(0, (5, 3)), zorder=1)
    axes.annotate(
        f"δ = {table.delta:g}",
        (1, table.delta),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        size=8,
        color=QUIET,
    )


def _signed_root(values: Array) -> Array:
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _signed_square(values: Array) -> Array:
    return np.asarray(np.sign(values) * np.square(values))


def _families(points: Sequence[_Point]) -> list[list[_Point]]:
    """Rows that run over a grid together, others alone."""
    return [list(part) for _, part in groupby(points, key=lambda point: grid(point.row)[0])]


def _draw_family(axes: Axes, points: Sequence[_Point]) -> None:
    shown = look(points[0].row)
    if len(points) > 1:
        axes.plot(
            [point.ours.x for point in points],
            [point.ours.y for point in points],
            color=shown.colour,
            lw=1.1,
            zorder=2,
        )
        printed = [point.printed for point in points if point.printed is not None]
        axes.plot(
            [mark.x for mark in printed],
            [mark.y for mark in printed],
            color=shown.colour,
            lw=0.8,
            ls=":",
            zorder=2,
        )
    for point in points:
        if point.printed is not None:
            _draw_mark(axes, point.printed, shown, filled=False)
            if len(points) == 1:
                ends = point.ours, point.printed
                axes.plot(
                    [end.x for end in ends], [end.y for end in ends], color=QUIET, lw=0.7, ls=":"
                )
        _draw_mark(axes, point.ours, shown, filled=True)


def _draw_mark(axes: Axes, mark: _Mark, shown: MarkStyle, *, filled: bool) -> None:
    width = 1.2 if filled else 0.6
    least = axes.get_xlim()[0]
    axes.plot(
        [max(mark.across[0], least), mark.across[1]], [mark.y] * 2, color=shown.colour, lw=width
    )
    axes.plot([mark.x] * 2, mark.up, color=shown.colour, lw=width)
    axes.plot(
        [mark.x],
        [mark.y],
        marker=shown.marker,
        ls="none",
        ms=4.5 if filled else 8,
        mfc=shown.colour if filled else "none",
        mec=PAPER if filled else shown.colour,
        mew=0.5 if filled else 0.9,
        zorder=5 if filled else 4,
        clip_on=False,
    )


def _legend(points: Sequence[_Point], runs: int) -> list[Line2D]:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    def entry(marker: str, fill: str, size: float, label: str) -> Line2D:
        return Line2D([], [], color=INK, marker=marker, mfc=fill, ms=size, lw=1.0, label=label)

    entries = [
        entry("o", INK, 4.5, f"ours: {runs} runs, 95 % intervals"),
        entry("o", "none", 8, f"the paper: {RUNS} runs"),
    ]
    if any(point.row.ours for point in points):
        entries.append(entry("D", INK, 4.5, "ours, not in the paper"))
    return entries


def _labels(axes: Axes, points: Sequence[_Point]) -> list[Label]:
    """One label per single row and per family, and small ones for the places in a family."""
    names, places = [], []
    for family in _families(points):
        middle = family[len(family) // 2]
        colour = look(middle.row).text
        if len(family) == 1:
            names.append(Label(middle.row.label, middle.ours.x, middle.ours.y, colour))
            continue
        name, _, rest = middle.row.label.partition(" (")
        names.append(Label(name, middle.ours.x, middle.ours.y, colour))
        if middle.printed is not None and _apart(axes, middle.ours, middle.printed) > 50:
            where = middle.printed
            names.append(Label(f"{name}, published", where.x, where.y, colour, 7))
        for point in family:
            _, number = grid(point.row)
            symbol = f"{rest.partition('=')[0]}=" if point is family[0] else ""
            places.append(Label(f"{symbol}{number:g}", point.ours.x, point.ours.y, colour, 6.5))
    return [*names, *places]


def _apart(axes: Axes, one: _Mark, other: _Mark) -> float:
    """In printer's points."""
    ends = axes.transData.transform([(one.x, one.y), (other.x, other.y)])
    return float(np.hypot(*(ends[1] - ends[0]))) * 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]


def _taken(axes: Axes, points: Sequence[_Point], delta: float) -> Array:
    """Boxes around all that is drawn, in pixels."""
    least, most = axes.get_xlim()
    boxes = [along(axes, (least, delta), (most, delta))]
    for point in points:
        for mark, reach in ((point.ours, 3.0), (point.printed, 4.5)):
            if mark is not None:
                boxes += [
                    around(axes, np.array([mark.x, mark.y]), reach),
                    along(axes, (max(mark.across[0], least), mark.y), (mark.across[1], mark.y)),
                    along(axes, (mark.x, mark.up[0]), (mark.x, mark.up[1])),
                ]
    for family in _families(points):
        printed = [point.printed for point in family if point.printed is not None]
        for curve in ([point.ours for point in family], printed):
            boxes += [along(axes, one.at, other.at) for one, other in pairwise(curve)]
        if len(family) == 1 and family[0].printed is not None:
            boxes.append(along(axes, family[0].ours.at, family[0].printed.at))
    corner = axes.get_window_extent()
    unit = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    height = float(axes.transData.transform((most, delta))[1])
    name = [corner.x1 - 36 * unit, height, corner.x1, height + 13 * unit]
    return np.vstack([*boxes, name])
