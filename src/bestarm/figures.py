"""Pictures of runs, made with Matplotlib's object interface: no global state, but for `as_axes`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.recommendation import Phase, Recommendation

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = ["evidence", "phases", "save"]

NAMED = "black"
# Told apart by colour-blind readers (Okabe and Ito) and, by dashes and markers, without any colour.
RIVALS = (
    ("#0072B2", (0, (6, 1.5)), "o"),
    ("#D55E00", (0, (1.5, 1.5)), "s"),
    ("#009E73", (0, (6, 1.5, 1.5, 1.5)), "^"),
    ("#CC79A7", (0, (3, 1.5)), "D"),
    ("#E69F00", (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5)), "v"),
    ("#56B4E9", (0, (1, 3)), "P"),
    ("black", (0, (10, 3)), "X"),
)
_MOST_RIVALS = 4  # targets in colours beside the named one; all others are grey
QUIET = "0.62"
_LONGEST_LABEL = 24
_NUMBERED_PHASES = 26  # phases that get a number, about
_FLOOR = 1e-3  # of the axis: less evidence than this is drawn as none
_READING = (
    "Estimated gap of every target to the leader; a line ends in a cross where its target is "
    "dropped."
)


def phases(recommendation: Recommendation, problem: Problem, *, title: str | None = None) -> Figure:
    """Estimated gaps and active targets, phase by phase, of one run.

    The upper panel has one line per target: its estimated distance behind the current leader at
    the end of each of its phases. A line ends in a cross where its target is
    dropped, which takes an estimate at or above the radius of that phase; below the radius, in
    the shaded region, a target is too close to the leader to tell. The lower panel counts the
    targets left.

    Args:
        recommendation: what a policy recommends, with the trace of at least one finished phase.
        problem: the problem it was made for, for the labels.
        title: the first line of the title; by default what was recommended, and on what grounds.

    Raises:
        InvalidInputError: no phase has finished yet.
        MissingDependencyError: Matplotlib is not installed.
    """
    trace, left = recommendation.trace, len(recommendation.active)
    if not trace:
        raise InvalidInputError(
            "No phase has finished yet, so there is nothing to draw.",
            field="recommendation",
            value=recommendation.pulls,
            remedy="Draw it again once the first phase is complete.",
        )
    figure = new_figure(8, 5.8)
    ends = list(accumulate(phase.pulls for phase in trace))
    margin = 1.1 * (ends[-1] / ends[0]) ** 0.02 if len(ends) > 1 else 2.0
    edges = [ends[0] / margin, *ends, ends[-1] * margin]
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3.6, 1]})
    lines = _lines(trace, ends, problem)
    named = lines.pop(recommendation.target)
    handles = [
        *_draw_lines(upper, named, list(lines.values()), alone=left == 1),
        *_draw_radii(upper, trace, edges),
    ]
    upper.set_ylabel("estimated gap to the leader")
    counts = [*(len(phase.active) for phase in trace), left]
    lower.stairs(counts, edges, baseline=None, color="black", lw=1.6)
    lower.set_yscale("log")
    lower.set_ylim(0.8, 1.5 * len(trace[0].active))
    lower.yaxis.set_major_formatter("{x:g}")
    lower.yaxis.set_minor_formatter("")
    lower.set_ylabel("targets left")
    lower.set_xlim(edges[0], edges[-1])
    pulls_axis(lower)
    lower.set_xlabel("pulls so far")
    _mark_phases(upper, lower, ends)
    legend = figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=3,
        frameon=False,
        fontsize=9,
        handlelength=3.4,
    )
    verdict = _verdict(recommendation, problem)
    add_heading(figure, title or verdict, _READING, plain=legend.get_texts())
    return figure


@dataclass
class _Line:
    """One target: the ends of its phases, its estimated gaps there, and where it was dropped."""

    label: str
    pulls: list[int] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    dropped: int | None = None  # the phase

    def describe(self, alone: bool = False) -> str:
        stays = "the only one left" if alone else "in the running"
        end = stays if self.dropped is None else f"dropped in phase {self.dropped}"
        return f"target {shorten(self.label)}, {end}"


def _lines(trace: Sequence[Phase], ends: Sequence[int], problem: Problem) -> dict[int, _Line]:
    lines = {target: _Line(problem.target_labels[target]) for target in trace[0].active}
    for phase, end in zip(trace, ends, strict=True):
        for target, gap in zip(phase.active, phase.contrasts, strict=True):
            lines[target].pulls.append(end)
            lines[target].gaps.append(gap)
        for target in phase.eliminated:
            lines[target].dropped = phase.phase
    return lines


def _draw_lines(axes: Axes, named: _Line, others: list[_Line], *, alone: bool) -> list[Artist]:
    """The target that is named, rivals in colours, and the rest; returns entries of the legend."""
    # Longest in the running first; of those that left together, the closest first.
    others.sort(key=lambda line: (-line.pulls[-1], line.gaps[-1]))
    count = min(len(others), _MOST_RIVALS)
    while 0 < count < len(others) and others[count - 1].pulls[-1] == others[count].pulls[-1]:
        count -= 1  # it left together with one that has no colour
    drawn = [_draw_line(axes, named, (NAMED, "-", "*"), named.describe(alone), lw=2.4, ms=8)]
    for line, style in zip(others[:count], RIVALS, strict=False):
        drawn.append(_draw_line(axes, line, style, line.describe(), lw=1.8, ms=4.5))
    for line in others[count:]:
        name = f"{len(others) - count} {'other' if count else 'rival'} targets"
        last = _draw_line(axes, line, (QUIET, "-", ""), name, lw=0.9, alpha=0.55, zorder=2)
    return drawn + ([last] if others[count:] else [])


def _draw_line(
    axes: Axes, line: _Line, style: tuple[str, Any, str], name: str, **look: Any
) -> Artist:
    colour, dashes, marker = style
    if line.dropped is not None:
        cross = (
            {"ms": 9, "mec": "white", "mew": 0.8, "zorder": 5} if marker else {"ms": 4, "mew": 0}
        )
        axes.plot(line.pulls[-1:], line.gaps[-1:], "X", color=colour, **cross)
    look = {"color": colour, "ls": dashes, "marker": marker, "label": name, "zorder": 3} | look
    return axes.plot(line.pulls, line.gaps, **look)[0]


def _draw_radii(axes: Axes, trace: Sequence[Phase], edges: Sequence[float]) -> list[Artist]:
    """The range of the radii of each phase; the scale is linear below them, logarithmic above."""
    radii = [
        [r for t, r in zip(phase.active, phase.radii, strict=True) if t != phase.leader]
        for phase in trace
    ]
    finite = [[radius for radius in part if math.isfinite(radius)] or [math.nan] for part in radii]
    pulls, low, high = np.array(edges[1:-1]), np.array([*map(min, finite)]), [*map(max, finite)]
    if len(trace) == 1:  # a single radius is a level, not a line
        pulls, low, high = np.array(edges)[[0, -1]], low.repeat(2), high * 2
    positive = low[low > 0]
    size = 10.0 ** math.floor(math.log10(positive.min())) if positive.size else 1.0
    bottom = min(0.0, *axes.dataLim.intervaly)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=size, linscale=0.6)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.fill_between(pulls, low, high, color="0.80", lw=0, zorder=0.5)
    axes.plot(pulls, low, color="0.45", lw=1.0, zorder=1)
    name = "radius: dropped at or above it"
    radius = axes.plot(pulls, high, color="0.45", lw=1.0, zorder=1, label=name)
    close = axes.fill_between(pulls, 0, high, color="0.93", lw=0, zorder=0)
    close.set_label("too close to the leader to tell")
    axes.set_ylim(bottom - 0.15 * size, None)
    return [*radius, close]


def _mark_phases(upper: Axes, lower: Axes, ends: Sequence[int]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator  # noqa: PLC0415

    numbered, room = [0], max(1.16, (ends[-1] / ends[0]) ** (1 / _NUMBERED_PHASES))
    for index, end in enumerate(ends):
        if end >= ends[numbered[-1]] * room:
            numbered.append(index)
    numbered = sorted({0, *numbered[:-1], len(ends) - 1})  # the first and the last have numbers
    for axes in (upper, lower):
        for end in ends if len(ends) <= 60 else [ends[index] for index in numbered]:
            axes.axvline(end, color="0.85", lw=0.6, zorder=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    top = upper.secondary_xaxis("top")
    top.xaxis.set_major_locator(FixedLocator([float(ends[index]) for index in numbered]))
    top.xaxis.set_major_formatter(FixedFormatter([str(index + 1) for index in numbered]))
    top.xaxis.set_minor_locator(NullLocator())
    top.tick_params(length=0, labelsize=8, colors="0.35", pad=1)
    top.spines["top"].set_visible(False)
    top.set_xlabel("end of phase", fontsize=8.5, color="0.35")


def _verdict(recommendation: Recommendation, problem: Problem) -> str:
    label, pulls = shorten(recommendation.label), f"{recommendation.pulls:,} pulls"
    if recommendation.final:
        return f"Target {label} identified as the best of {problem.targets} after {pulls}"
    remain = f"{len(recommendation.active)} of {problem.targets} targets remain"
    return f"Target {label} leads after {pulls}; {remain}"


def evidence(
    pulls: Sequence[int], values: object, problem: Problem, *, title: str | None = None
) -> Figure:
    """The e-values of all targets over the pulls of one run, and the level at which one is dropped.

    A target whose e-value reaches 1/δ is dropped, and its line ends in a cross. E-values are valid
    after every batch, and so is the picture.

    Args:
        pulls: the pulls at each look, ascending.
        values: the result of `AnytimeBAI.evidence()` at each look, one row per look.
        problem: the problem, for labels and δ.
        title: the first line; by default who is left.

    Raises:
        InvalidInputError: there are no looks, or the shapes do not fit.
        MissingDependencyError: Matplotlib is not installed.
    """
    looks = np.asarray(values, dtype=float)
    if not len(pulls) or looks.shape != (len(pulls), problem.targets):
        raise InvalidInputError(
            "`values` must have one row per look and one column per target; got shape "
            f"{looks.shape} for {len(pulls)} looks and {problem.targets} targets.",
            field="values",
            value=looks.shape,
        )
    figure = new_figure(8, 5.0)
    axes: Axes = figure.subplots()
    threshold = 1 / problem.delta
    out = np.maximum.accumulate(looks, axis=0) >= threshold
    last = np.where(out.any(axis=0), out.argmax(axis=0), len(pulls))  # the look that drops it
    order = np.argsort(-last, kind="stable")  # targets that stayed longest first
    styles = [
        (NAMED, "-", 2.0),
        *((colour, dashes, 1.6) for colour, dashes, _ in RIVALS[:_MOST_RIVALS]),
    ]
    shown = np.clip(looks, _FLOOR, None)
    for place, target in enumerate(order):
        colour, dashes, width = styles[place] if place < len(styles) else (QUIET, "-", 0.9)
        end = min(int(last[target]), len(pulls) - 1)
        course = shown[: end + 1, target]
        axes.plot(pulls[: end + 1], course, color=colour, ls=dashes, lw=width)
        dropped = bool(out[-1, target])
        if dropped:
            axes.plot(pulls[end], course[-1], "x", color=colour, ms=7, mew=1.8, clip_on=False)
        if place < 2:
            text = axes.annotate(
                f"target {shorten(problem.target_labels[target])}",
                (pulls[end], course[-1]),
                (8, 9 if dropped else 0),  # clear of the line
                textcoords="offset points",
                va="center",
            )
            text.set_parse_math(False)
    axes.axhline(threshold, color="black", lw=1.0, ls=(0, (5, 3)))
    axes.set_yscale("log")
    axes.set_ylim(max(_FLOOR, min(0.3, float(looks.min())) / 2), 4 * threshold)
    axes.set_xlim(pulls[0], pulls[-1] * 2.2)
    pulls_axis(axes)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("pulls so far")
    axes.set_ylabel("evidence against being the best (e-value)")
    axes.annotate(
        f"1/δ = {threshold:g}: out", (pulls[0], threshold), (4, 4), textcoords="offset points"
    )
    axes.spines[["top", "right"]].set_visible(False)
    left = f"{int((~out[-1]).sum())} of {problem.targets} targets are left"
    if not out[-1, order[0]] and out[-1, order[1:]].all():
        label = shorten(problem.target_labels[order[0]])
        left = f"Target {label} is the best of {problem.targets}, shown"
    words = "Each line is a target; it ends in a cross where the evidence against it reaches 1/δ."
    add_heading(figure, title or f"{left} after {pulls[-1]:,} pulls", words)
    return figure


def draw_ends(axes: Axes, pulls: NDArray[np.int64], label: str) -> Axes:
    """Add the share of runs that have ended after so many pulls, as a line, and return the axes."""
    if len(pulls):
        share = np.arange(len(pulls) + 1) / len(pulls)
        ends = np.sort(pulls)
        draw_line(axes, np.r_[ends[:1], ends], share, label, drawstyle="steps-post")
        low, high = axes.dataLim.intervalx
        axes.set_xlim(low / 1.2, high * 1.2)
        pulls_axis(axes)
    axes.set_xlabel("pulls")
    axes.set_ylabel("share of runs that have ended")
    return axes


def draw_line(axes: Axes, x: Array, y: Array, label: str, **look: Any) -> None:
    """Add a line in the next colour, with dashes of its own, and name it in the legend.

    The legend of more than four lines is below the picture.
    """
    place, styles = len(axes.lines), len(RIVALS)
    dashes = ("-", *(style[1] for style in RIVALS[1:]))[(place + place // styles) % styles]
    axes.plot(x, y, label=label, color=RIVALS[place % styles][0], ls=dashes, lw=1.8, **look)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
    where = below if len(axes.lines) > 4 else {}
    for text in axes.legend(frameon=False, fontsize=9, handlelength=3.4, **where).get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)


class Distance(NamedTuple):
    """How far an option is from the leader, negative if it is worse, with the ends of an interval.

    NaN where it is not known; `possible` says whether the option may still be the best.
    """

    label: str
    estimate: float
    low: float
    high: float
    possible: bool


def draw_distances(axes: Axes, distances: Sequence[Distance], title: str) -> Axes:
    """Draw one line per option, the leader on top, and return the axes."""
    for place, each in enumerate(distances):
        colour = RIVALS[0][0] if each.possible else QUIET
        axes.hlines(place, each.low, each.high, color=colour, lw=2.2)
        face = colour if each.possible else "white"
        axes.plot(each.estimate, place, "o", color=colour, mfc=face, mew=1.6, ms=7)
    axes.axvline(0.0, color="0.5", lw=1.0, zorder=0.5)
    axes.set_yticks(range(len(distances)), [each.label for each in distances])
    axes.set_ylim(len(distances) - 0.5, -0.5)
    axes.set_xlabel("estimated difference from the leader, with its interval")
    letters = int(axes.bbox.width * 72 / axes.figure.dpi / 5.2)  # of 10 points
    heading = axes.set_title(fill(title, letters), loc="left", fontsize=10)
    for text in (heading, *axes.get_yticklabels()):
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def as_axes(ax: Axes | None, *, height: float = 4.2) -> Axes:
    """Axes to draw on: those given, or of a new picture of pyplot's, which notebooks then show.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="plots") from None
    return pyplot.subplots(figsize=(7.2, height), layout="constrained")[1]


def new_figure(width: float, height: float) -> Figure:
    """An empty picture of this size in inches.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def add_heading(figure: Figure, title: str, words: str, *, plain: Iterable[Text] = ()) -> None:
    """A title, a line on how to read the picture, and texts without mathematical markup."""
    heading = figure.suptitle(
        f"{title}\n", x=0.015, ha="left", fontsize=12.5, fontweight="bold", linespacing=1.5
    )
    for text in (heading, *plain):
        text.set_parse_math(False)
    below = 1 - 0.29 / figure.get_figheight()
    figure.text(0.015, below, words, ha="left", va="top", fontsize=9.5, color="0.25")


def pulls_axis(axes: Axes, *, separator: str = ",") -> None:
    """A logarithmic axis of pulls, between limits that are set already."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    span = high / low
    between = (1.0, 2.0, 3.0, 5.0) if span < 20 else (1.0, 3.0) if span < 300 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace(",", separator))
    axes.xaxis.set_minor_formatter(NullFormatter())


def shorten(label: str) -> str:
    """A label that fits."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def save(figure: Figure, path: str | Path) -> Path:
    """Write a picture, in the format of its ending, and return the path.

    The folder is made if necessary. Raises OSError if the file cannot be written.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)
    return file
