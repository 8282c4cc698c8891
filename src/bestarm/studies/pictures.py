"""Pictures of studies: pulls against error, when runs stopped, success at a budget; one style.

They have the colours of the page, and the same bytes every time.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.errors import MissingDependencyError
from bestarm.figures import new_figure, pulls_axis
from bestarm.numerics.geometry import Array
from bestarm.simulation import Results
from bestarm.simulation.results import Z95
from bestarm.studies.published import PublishedTable
from bestarm.studies.study import Picture, Row
from bestarm.studies.verdicts import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, RULE, PAPER = "#1c2026", "#626a75", "#d5d9de", "#ffffff"
# Okabe and Ito's colours, which colour-blind readers can distinguish. The dark page has others.
COLOURS = {
    "ink": INK,
    "quiet": QUIET,
    "rule": RULE,
    "paper": PAPER,
    "blue": "#0072b2",
    "green": "#009e73",
    "vermilion": "#d55e00",
    "purple": "#cc79a7",
    "orange": "#e69f00",
}
_WIDTH = 7.2  # inches
_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_BINS = 90
_TALLEST = 0.62  # of the distance between two rows
_MARKERS = {
    "sp-bai": (COLOURS["blue"], "o"),
    "sbe": (COLOURS["green"], "s"),
    "g-opt": (COLOURS["purple"], "^"),
    "rage": (COLOURS["vermilion"], "v"),
    "lucb": (COLOURS["orange"], "v"),
    "ae": (COLOURS["purple"], "^"),
    "sp-bai-text": (QUIET, "D"),
    "deo": (COLOURS["blue"], "o"),
    "uniform": (COLOURS["green"], "s"),
    "centered": (INK, "D"),
}
_STYLE: dict[str, Any] = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.titlesize": 10,
    "figure.dpi": 150,
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "bestarm",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save with Matplotlib's defaults, whatever the user's, and our style on top."""
    try:
        from matplotlib import style as styles  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="plots") from None
    with styles.context(["default", _STYLE]):
        yield


def family(row: Row) -> tuple[str, float | None]:
    """The family of a row and its place in it: rage-2 is RAGE's at 2; a row alone has none."""
    match = re.fullmatch(r"(.+)-(\d+(?:\.\d+)?)", row.key)
    return (row.key, None) if match is None else (match[1], float(match[2]))


def marker_of(row: Row) -> tuple[str, str]:
    """The colour and marker of a method, the same in all pictures."""
    return _MARKERS.get(family(row)[0], (INK, "o"))


def row_label(row: Row) -> str:
    """The name of a row; ours have an asterisk, which `add_legend` explains."""
    return row.label + (" *" if row.ours else "")


def legend_entry(label: str, **appearance: Any) -> Any:
    """An entry of a legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], label=label, **({"color": INK} | appearance))


def add_legend(figure: Figure, handles: list[Any], rows: Iterable[Row], **options: Any) -> None:
    """A legend below the picture of these rows."""
    if any(row.ours for row in rows):
        handles = [*handles, legend_entry("* not in the paper", ls="none")]
    figure.legend(handles=handles, loc="outside lower left", **options)


def set_pulls_axis(axes: Axes) -> None:
    """A logarithmic axis of pulls, with thin spaces between thousands."""
    pulls_axis(axes, separator="\N{THIN SPACE}")
    axes.set_xlabel("pulls (logarithmic)")


def write_figure(figure: Figure, stem: Path) -> str:
    """Write a figure as PNG and PDF, without dates or versions in them; return it for a page.

    The page's is an SVG element in the page's colours, whose ids begin with the name of the files.
    """
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine(None)  # laid out once, the same for all formats; drawn once for each
    figure.savefig(stem.with_suffix(".png"), metadata={"Software": None})
    nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    figure.savefig(stem.with_suffix(".pdf"), metadata=nothing)
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, count=1)
    text = re.sub(r'\bid="', f'id="{stem.name}-', text)
    text = re.sub(r'xlink:href="#|\bhref="#', f'href="#{stem.name}-', text)
    text = text.replace("url(#", f"url(#{stem.name}-")
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def table_pictures(
    table: PublishedTable, results: Mapping[str, Results], cells: Sequence[Cell]
) -> Iterator[Picture]:
    """The pictures of one table, its results by row and its cells; within `house_style()`."""
    if not table.counts_pulls:
        yield Picture(
            f"{table.key}-success",
            "Success by budget",
            "Share of runs that named the best target, with Wilson's 95 % intervals: ours above, "
            "the paper's hollow below.",
            draw_ranking(table, results, cells),
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
        draw_stopping(table, results, cells),
    )


def draw_tradeoff(table: PublishedTable, cells: Sequence[Cell]) -> Figure:
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
        legend_entry(f"ours: {cells[0].runs} runs, 95 % intervals", marker="o", ms=4.5, lw=1.2),
        legend_entry(
            f"the paper: {table.published_runs} runs", marker="o", ms=8, mfc="none", lw=0.6
        ),
    ]
    for _, members in groupby(table.rows, key=lambda row: family(row)[0]):
        rows = list(members)
        colour, marker = marker_of(rows[0])
        name = row_label(rows[0])
        if len(rows) > 1:  # RAGE (σ=1) to RAGE (σ=4)
            name = f"{name.rstrip(')')} to {family(rows[-1])[1]:g})"
        handles.append(legend_entry(name, color=colour, marker=marker, ms=4.5, ls="none"))
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
        Z95 * (pulls.printed.spread or 0.0) / math.sqrt(pulls.printed.runs),
    )
    error = _as_error(rate, rate.printed.value, *rate.printed.rate_interval)
    return [value, value - half, value + half, *error]


def _as_error(cell: Cell, value: float, low: float, high: float) -> tuple[float, float, float]:
    return (value, low, high) if cell.metric == "error" else (1 - value, 1 - high, 1 - low)


def _frame(axes: Axes, table: PublishedTable, marks: Array) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter  # noqa: PLC0415

    axes.set_title(table.title)
    # An interval may reach below half of the smallest value, or below 0.
    low, high = max(marks[:, 1].min(), marks[:, 0].min() / 2), marks[:, 2].max()
    margin = (high / low) ** 0.06 * 1.15
    axes.set_xlim(max(low / margin, 0.5), high * margin)
    set_pulls_axis(axes)
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
    colour, marker = marker_of(row)
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


def draw_stopping(
    table: PublishedTable, results: Mapping[str, Results], cells: Sequence[Cell]
) -> Figure:
    """The distribution of pulls, row by row, of a table that counts pulls."""
    figure, axes = list_axes(table.title, [row_label(row) for row in table.rows])
    pulls = [np.asarray(results[row.key].pulls, dtype=float) for row in table.rows]
    summaries = [cell for cell in cells if cell.metric == "pulls"]
    values = [*np.concatenate(pulls), *(cell.printed.value for cell in summaries if cell.printed)]
    low, high = max(min(values), 1.0), max(*values, 2.0)
    margin = (high / low) ** 0.02 * 1.06
    edges = np.geomspace(low / margin, high * margin, _BINS + 1)  # as many to a decade everywhere
    axes.set_xlim(edges[0], edges[-1])
    set_pulls_axis(axes)
    for place, (row, runs, cell) in enumerate(zip(table.rows, pulls, summaries, strict=True)):
        _draw_row(axes, -place, runs, cell, edges, marker_of(row)[0])
    published = table.published_runs
    handles = [
        legend_entry("10–90 % of runs", lw=1.0),
        legend_entry("25–75 %", lw=3.6),
        legend_entry("median", ls="none", marker="|", ms=7),
        legend_entry("mean", ls="none", marker="o", ms=4),
        legend_entry(
            f"the paper's mean, {published} runs", ls="none", marker="o", ms=7, mfc="none"
        ),
    ]
    add_legend(figure, handles, table.rows, ncols=6, handlelength=1.4, columnspacing=1.1)
    return figure


def list_axes(title: str, names: Sequence[str]) -> tuple[Figure, Axes]:
    """A picture with one line per name, from the top at heights 0, −1, …"""
    figure = new_figure(_WIDTH, 1.25 + 0.36 * len(names))
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_ylim(-len(names) + 0.5, 0.8)
    axes.set_yticks([-float(place) for place in range(len(names))], names)
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


def draw_ranking(
    table: PublishedTable, results: Mapping[str, Results], cells: Sequence[Cell]
) -> Figure:
    """How often each method was right at a budget: rows by budget, ours above the paper's."""
    pairs = sorted(
        zip(table.rows, cells, strict=True),
        key=lambda pair: results[pair[0].key].mean_pulls,
    )
    figure, axes = list_axes(table.title, [row_label(row) for row, _ in pairs])
    for place, (row, cell) in enumerate(pairs):
        colour, marker = marker_of(row)
        axes.plot([cell.low, cell.high], [-place + 0.12] * 2, color=colour, lw=1.6)
        axes.plot([cell.value], [-place + 0.12], marker, color=colour, ms=6, mec=PAPER, mew=0.6)
        if cell.printed is not None:
            ends = cell.printed.rate_interval
            axes.plot(ends, [-place - 0.16] * 2, color=colour, lw=0.7)
            axes.plot([cell.printed.value], [-place - 0.16], marker, color=colour, ms=6, mfc=PAPER)
    axes.set_xlabel(table.rate)
    handles = [
        legend_entry(f"ours: {cells[0].runs} runs", marker="o", ms=6, lw=1.6),
        legend_entry(
            f"the paper: {table.published_runs} runs", marker="o", ms=6, mfc=PAPER, lw=0.7
        ),
    ]
    add_legend(figure, handles, table.rows, ncols=3)
    return figure
