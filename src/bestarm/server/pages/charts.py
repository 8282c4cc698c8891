"""The charts of an experiment as data, which the page's script draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bestarm.live.watch.overview import BaselineView, Line, Numbers, Overview, Timeline
from bestarm.units import Unit

COLOURS = 6  # options drawn in colour; which colour depends on the option, never on its rank
_BANDED = 1  # competitors whose intervals are drawn
_SETTLED = 0.25  # share of the pulls before which estimates may leave the picture
_MARGIN = 0.06  # above and below what is drawn, as a share of its height
_START = 0.04  # share of the pulls before which nothing is drawn


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes:
        key: its name in the page.
        words: a description for those who do not see it.
        x_title: of the axis.
        y_title: of the axis.
        y_range: from the bottom to the top; the first is the larger if down is more.
        lines: those without a colour first, the leader last. Lines of reference are dashed; a line
            of an option that was ruled out ends in a cross; bands are drawn where there are ends.
        levels: horizontal lines with their captions.
        x_phases: whether x counts phases; else pulls or outcomes, from 0.
        dots: whether the points of coloured lines are marked.
        suffix: what follows a value.
    """

    key: str
    words: str
    x_title: str
    y_title: str
    y_range: tuple[float, float]
    lines: tuple[Line, ...]
    levels: tuple[tuple[float, str], ...] = ()
    x_phases: bool = False
    dots: bool = False
    suffix: str = ""


def number(value: float | None, digits: int = 3) -> str:
    """A number as people read it."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.{digits}g}"
    return text.replace("-", "−")


def style(line: Line) -> str:
    """The classes of a line's colour: the same for an option whatever its place."""
    if line.rank == -2:
        return "ink"
    return option_style(line.option, line.rank)


def option_style(option: int, rank: int) -> str:
    """The classes of an option's colour; beyond the first few places it is grey."""
    if not 0 <= rank < COLOURS:
        return "quiet"
    return f"c{option % COLOURS} s{option // COLOURS % 3}"


def charts(overview: Overview) -> dict[str, Chart]:
    """The charts of an experiment by name; one that would be empty is left out."""
    drawn = [
        *_gaps(overview.timeline, overview.unit, leaders=len(overview.leaders)),
        *_evidence(overview),
        *_raw(overview.baseline, overview.unit),
    ]
    return {chart.key: chart for chart in drawn}


def _ordered(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines without a colour below, the leader on top."""
    return tuple(
        sorted(lines, key=lambda line: -line.rank if 0 <= line.rank < COLOURS else -COLOURS)
    )


def _values(lines: Iterable[Sequence[float | None]]) -> list[float]:
    return [value for line in lines for value in line if value is not None]


def _padded(low: float, high: float) -> tuple[float, float]:
    room = _MARGIN * ((high - low) or max(abs(high), 1.0))
    return low - room, high + room


def _gaps(timeline: Timeline, unit: Unit, *, leaders: int) -> Iterator[Chart]:
    if not timeline.lines:
        return
    radius = None if timeline.radius is None else _scaled(timeline.radius, unit)
    scaled = tuple(_scaled(line, unit) for line in timeline.lines)
    timeline = replace(timeline, lines=scaled, radius=radius)
    phased = timeline.kind == "phases"
    last = max(x for line in timeline.lines for x in line.x)
    lines = [
        replace(line, low=(), high=())
        if phased
        else _from_start(line, last, banded=leaders <= line.rank < leaders + _BANDED)
        for line in timeline.lines
    ]
    settled = [
        [y for x, y in zip(line.x, line.y, strict=True) if phased or x >= _SETTLED * last]
        for line in timeline.lines
    ]
    ends = [
        end[-1:]
        for line in timeline.lines
        if not phased and 0 < line.rank <= _BANDED and not line.out
        for end in (line.low, line.high)
    ]
    if timeline.radius is not None:
        most = timeline.radius
        lines.append(replace(most, low=tuple(0.0 for _ in most.x), high=most.y))
        ends.append(most.y)
    inside = [0.0, *_values(settled), *_values(ends)]
    low, high = _padded(min(inside), max(inside))
    words = (
        "The estimated distance of every option from the leader, phase by phase. At or below the "
        "dashed radius an option is ruled out."
        if phased
        else "The estimated distance of every option from the leader, over the outcomes. The band "
        "of the closest competitor holds at all times at once."
    )
    yield Chart(
        "gaps",
        words,
        "phase" if phased else "outcomes",
        "points behind the leader" if unit.percent else "behind the leader",
        (high, low),
        _ordered(lines),
        x_phases=phased,
        dots=phased,
        suffix=" points" if unit.percent else "",
    )


def _from_start(line: Line, last: float, *, banded: bool = False) -> Line:
    """A line without its first, uncertain part, and with or without its band."""
    start = sum(x < _START * last for x in line.x[:-1])
    low, high = _band(line) if banded else ((), ())
    return replace(line, x=line.x[start:], y=line.y[start:], low=low[start:], high=high[start:])


def _band(line: Line) -> tuple[Numbers, Numbers]:
    """The interval since this option was last the leader itself."""
    led = [at for at, ends in enumerate(zip(line.low, line.high, strict=True)) if ends == (0, 0)]
    since = max(led, default=-1) + 1
    low, high = (
        tuple(value if at >= since else None for at, value in enumerate(values))
        for values in (line.low, line.high)
    )
    return low, high


def _evidence(overview: Overview) -> Iterator[Chart]:
    lines = overview.timeline.evidence
    if not lines:
        return
    last, leaders = lines[0].x[-1], len(overview.leaders)
    # Evidence below zero is none, as the table says.
    shown = [
        replace(each, y=tuple(None if y is None else 100 * max(y, 0.0) for y in each.y))
        for each in (_from_start(line, last) for line in lines)
        if each.rank >= leaders or len(lines) <= leaders
    ]
    values = _values(line.y for line in shown)
    yield Chart(
        "evidence",
        "The share collected of the evidence needed to rule out each option, over the outcomes.",
        "outcomes",
        "% of the evidence needed",
        (0.0, 1.06 * max([100.0, *(min(value, 200.0) for value in values)])),
        _ordered(shown),
        ((100.0, "ruled out"),),
        suffix=" %",
    )


def _raw(baseline: BaselineView, unit: Unit) -> Iterator[Chart]:
    if not baseline.level.x:
        return
    lines = [_scaled(line, unit) for line in (baseline.level, *baseline.raw)]
    values = _values(line.y for line in lines) or [0.0]
    yield Chart(
        "raw",
        "The mean outcome of the leading options over time, as told: the baseline moves them all.",
        "outcomes so far",
        "rate, %" if unit.percent else "mean outcome",
        _padded(min(values), max(values)),
        _ordered(lines),
        dots=True,
        suffix=" %" if unit.percent else "",
    )


def _scaled(line: Line, unit: Unit) -> Line:
    """A line in percent, where rewards are."""
    if not unit.percent:
        return line
    y, low, high = (
        tuple(None if value is None else 100 * value for value in part)
        for part in (line.y, line.low, line.high)
    )
    return replace(line, y=y, low=low, high=high)
