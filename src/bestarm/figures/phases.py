"""A run in phases: estimated gaps to the leader, and the targets left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.figures.ink import NAMED, QUIET, RIVALS, head, new_figure, pulls_axis, short
from bestarm.problem import Problem
from bestarm.recommendation import Phase, Recommendation

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUMBERS = 26  # phases that get a number, about
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
    head(figure, title or verdict, _READING, plain=legend.get_texts())
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
        return f"target {short(self.label)}, {end}"


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
    count = min(len(others), len(RIVALS))
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

    numbered, room = [0], max(1.16, (ends[-1] / ends[0]) ** (1 / _NUMBERS))
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
    label, pulls = short(recommendation.label), f"{recommendation.pulls:,} pulls"
    if recommendation.final:
        return f"Target {label} identified as the best of {problem.targets} after {pulls}"
    remain = f"{len(recommendation.active)} of {problem.targets} targets remain"
    return f"Target {label} leads after {pulls}; {remain}"
