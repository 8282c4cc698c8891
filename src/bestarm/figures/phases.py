"""A run in phases: estimated gaps to the leader, and the targets left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.figures.ink import NAMED, QUIET, RIVALS, head, new_figure, short
from bestarm.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Phase, Recommendation

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["phases"]

_SPAN_FOR_LOG = 20.0  # gaps and radii that differ by more than this need a logarithmic axis
_LEAST_RATIO = 1.16  # phases closer than this on the pulls axis do not get a number each


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
    trace = recommendation.trace
    if not trace:
        raise InvalidInputError(
            "No phase has finished yet, so there is nothing to draw.",
            field="recommendation",
            value=recommendation.pulls,
            remedy="Draw it again once the first phase is complete.",
        )
    figure = new_figure(8, 5.8)
    story = _Story.of(recommendation, problem)
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3.6, 1]})
    handles, texts = _draw_gaps(upper, story)
    _draw_counts(lower, story)
    _mark_phases(upper, lower, story.ends)
    legend = figure.legend(
        handles,
        texts,
        loc="outside lower left",
        ncols=3,
        frameon=False,
        fontsize=9,
        handlelength=3.4,
    )
    head(
        figure,
        title or _verdict(recommendation, problem),
        "Estimated gap of every target to the leader; a line ends in a cross where its target is "
        "dropped.",
        plain=legend.get_texts(),
    )
    return figure


@dataclass(frozen=True)
class _Line:
    """One target: the ends of its phases, its estimated gaps there, and whether it was dropped."""

    label: str
    pulls: list[int]
    gaps: list[float]
    dropped: int | None  # the phase

    @property
    def last(self) -> int:
        return self.pulls[-1]


@dataclass(frozen=True)
class _Story:
    """The run, target by target, as it is drawn."""

    trace: Sequence[Phase]
    ends: list[int]  # pulls at the end of each phase
    named: _Line
    rivals: list[_Line]  # those that held out longest, drawn one by one
    others: list[_Line]
    low: Array  # the smallest and the largest radius of a phase, over all but its leader
    high: Array
    left: int

    @classmethod
    def of(cls, recommendation: Recommendation, problem: Problem) -> _Story:
        trace = recommendation.trace
        ends = list(accumulate(phase.pulls for phase in trace))
        lines: dict[int, _Line] = {}
        for phase, end in zip(trace, ends, strict=True):
            for target, gap in zip(phase.active, phase.contrasts, strict=True):
                label = problem.target_labels[target]
                line = lines.setdefault(target, _Line(label, [], [], None))
                line.pulls.append(end)
                line.gaps.append(gap)
        for phase in trace:
            for target in phase.eliminated:
                line = lines[target]
                lines[target] = _Line(line.label, line.pulls, line.gaps, phase.phase)
        named = lines.pop(recommendation.target)
        # Longest in the running first; of those that left together, the closest first.
        order = sorted(lines.values(), key=lambda line: (-line.last, line.gaps[-1]))
        count = _outstanding(order)
        low, high = _radius_range(trace)
        left = len(recommendation.active)
        return cls(trace, ends, named, order[:count], order[count:], low, high, left)


def _outstanding(order: Sequence[_Line]) -> int:
    """How many lines, from the first, stand out and get a colour each."""
    count = min(len(order), len(RIVALS))
    while 0 < count < len(order) and order[count - 1].last == order[count].last:
        count -= 1  # it left together with one that has no colour
    return count


def _radius_range(trace: Sequence[Phase]) -> tuple[Array, Array]:
    low, high = np.full(len(trace), np.nan), np.full(len(trace), np.nan)
    for i, phase in enumerate(trace):
        radii = [
            radius
            for target, radius in zip(phase.active, phase.radii, strict=True)
            if target != phase.leader and math.isfinite(radius)
        ]
        if radii:
            low[i], high[i] = min(radii), max(radii)
    return low, high


def _draw_gaps(axes: Axes, story: _Story) -> tuple[list[Artist], list[str]]:
    """The upper panel; returns the entries of its legend."""
    _choose_scale(axes, story)
    handles = [_draw_line(axes, story.named, color=NAMED, dashes="-", marker="*", width=2.4)]
    texts = [_describe(story.named, story.left == 1)]
    for line, (color, dashes, marker) in zip(story.rivals, RIVALS, strict=False):
        drawn = _draw_line(axes, line, color=color, dashes=dashes, marker=marker, width=1.8)
        handles.append(drawn)
        texts.append(_describe(line, False))
    for line in story.others:
        _draw_line(axes, line, color=QUIET, dashes="-", marker="", width=0.9)
    if story.others:
        handles += axes.plot([], [], color=QUIET, lw=0.9, marker="X", ms=5, mew=0)
        texts.append(f"{len(story.others)} {'other' if story.rivals else 'rival'} targets")
    axes.set_ylabel("estimated gap to the leader")
    return [*handles, *_draw_radii(axes, story)], [
        *texts,
        "radius: dropped at or above it",
        "too close to the leader to tell",
    ]


def _draw_radii(axes: Axes, story: _Story) -> list[Artist]:
    pulls, low, high = np.array(story.ends, dtype=float), story.low, story.high
    if len(pulls) == 1:  # a single radius is a level, not a line
        pulls, low, high = np.array(_edges(story))[[0, -1]], low.repeat(2), high.repeat(2)
    axes.fill_between(pulls, low, high, color="0.80", lw=0, zorder=0.5)
    axes.plot(pulls, low, color="0.45", lw=1.0, zorder=1)
    radius = axes.plot(pulls, high, color="0.45", lw=1.0, zorder=1)[0]
    return [radius, axes.fill_between(pulls, 0, high, color="0.93", lw=0, zorder=0)]


def _edges(story: _Story) -> list[float]:
    """The ends of the phases, with room on both sides."""
    first, last = story.ends[0], story.ends[-1]
    margin = 1.1 * (last / first) ** 0.02 if last > first else 2.0
    return [first / margin, *story.ends, last * margin]


def _draw_line(
    axes: Axes, line: _Line, *, color: str, dashes: object, marker: str, width: float
) -> Line2D:
    quiet = not marker
    drawn = axes.plot(
        line.pulls,
        line.gaps,
        color=color,
        ls=dashes,
        lw=width,
        marker=marker or None,
        ms=8 if marker == "*" else 4.5,
        alpha=0.55 if quiet else 1.0,
        zorder=2 if quiet else 4 if marker == "*" else 3,
    )[0]
    if line.dropped is not None:
        axes.plot(
            line.pulls[-1:],
            line.gaps[-1:],
            color=color,
            marker="X",
            ms=4 if quiet else 9,
            mec="white",
            mew=0 if quiet else 0.8,
            ls="none",
            zorder=2.5 if quiet else 5,
        )
    return drawn


def _choose_scale(axes: Axes, story: _Story) -> None:
    """Linear where all fits, else linear below the smallest radius and logarithmic above it."""
    from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: PLC0415 - optional

    axes.set_xscale("log")
    lines = [story.named, *story.rivals, *story.others]
    gaps = [gap for line in lines for gap in line.gaps if math.isfinite(gap)]
    sizes = [size for size in [*gaps, *story.high.tolist()] if math.isfinite(size)]
    top = max(sizes, default=1.0) or 1.0
    positive = [size for size in story.low.tolist() if size > 0]
    bottom = min(positive, default=top)
    if top <= _SPAN_FOR_LOG * bottom:
        axes.set_ylim(min(0.0, *gaps) - 0.04 * top, 1.08 * top)
        return
    threshold = 10.0 ** math.floor(math.log10(bottom))
    axes.set_yscale("symlog", linthresh=threshold, linscale=0.6)
    powers = range(round(math.log10(threshold)), math.ceil(math.log10(top)) + 1)
    axes.set_yticks([0.0, *(10.0**power for power in powers)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(min(0.0, *gaps) - 0.15 * threshold, 1.4 * top)


def _draw_counts(axes: Axes, story: _Story) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter  # noqa: PLC0415

    counts = [*(len(phase.active) for phase in story.trace), story.left]
    edges = _edges(story)
    axes.stairs(counts, edges, color="black", lw=1.6, baseline=None)
    axes.set_xlim(edges[0], edges[-1])
    if counts[0] > 20:
        axes.set_yscale("log")
        axes.set_ylim(0.8, counts[0] * 1.5)
        axes.set_yticks([1, 10, *([100] if counts[0] >= 100 else [])])
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(0, counts[0] * 1.15)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_ylabel("targets left")
    axes.set_xlabel("pulls so far")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(axis="x", which="both", length=3.5, pad=4)
    axes.xaxis.set_minor_formatter(FuncFormatter(_between_powers(edges[-1] / edges[0])))


def _between_powers(span: float) -> Callable[[float, int | None], str]:
    """Labels between the powers of ten: the fewer, the longer the axis."""
    shown = {2, 3, 4, 5, 7} if span < 10 else {2, 5} if span < 300 else set()

    def label(value: float, _position: int | None) -> str:
        leading = round(value / 10.0 ** math.floor(math.log10(value)))
        return f"{value:,.0f}" if leading in shown else ""

    return label


def _mark_phases(upper: Axes, lower: Axes, ends: Sequence[int]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator  # noqa: PLC0415

    numbered = [0]
    room = max(_LEAST_RATIO, (ends[-1] / ends[0]) ** (1 / 26))
    for index in range(1, len(ends)):
        if ends[index] >= ends[numbered[-1]] * room:
            numbered.append(index)
    if numbered[-1] != len(ends) - 1:  # the last phase always has its number
        if len(numbered) > 1:
            numbered.pop()
        numbered.append(len(ends) - 1)
    marked = ends if len(ends) <= 60 else [ends[index] for index in numbered]
    for axes in (upper, lower):
        for end in marked:
            axes.axvline(end, color="0.85", lw=0.6, zorder=0.2)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    top = upper.secondary_xaxis("top")
    top.xaxis.set_major_locator(FixedLocator([float(ends[index]) for index in numbered]))
    top.xaxis.set_major_formatter(FixedFormatter([str(index + 1) for index in numbered]))
    top.xaxis.set_minor_locator(NullLocator())
    top.tick_params(length=0, labelsize=8, colors="0.35", pad=1)
    top.spines["top"].set_visible(False)
    top.set_xlabel("end of phase", fontsize=8.5, color="0.35")


def _describe(line: _Line, alone: bool) -> str:
    if line.dropped is not None:
        return f"target {short(line.label)}, dropped in phase {line.dropped}"
    return f"target {short(line.label)}, {'the only one left' if alone else 'in the running'}"


def _verdict(recommendation: Recommendation, problem: Problem) -> str:
    label, pulls = short(recommendation.label), f"{recommendation.pulls:,} pulls"
    if recommendation.final:
        return f"Target {label} identified as the best of {problem.targets} after {pulls}"
    remain = f"{len(recommendation.active)} of {problem.targets} targets remain"
    return f"Target {label} leads after {pulls}; {remain}"
