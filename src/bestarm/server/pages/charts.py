"""The charts of an experiment as data, which the page's script draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bestarm.live.watch.overview import BaselineView, Line, Numbers, Overview, Timeline

COLOURS = 6  # options that have a colour of their own; the first is the leader's
_BANDED = 1  # competitors whose intervals are drawn
_SETTLED = 0.25  # share of the pulls before which estimates may leave the picture
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


def number(value: float | None, digits: int = 3) -> str:
    """A number as people read it."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def charts(overview: Overview) -> dict[str, Chart]:
    """The charts of an experiment by name; one that would be empty is left out."""
    drawn = [
        *_gaps(overview.timeline, leaders=len(overview.leaders)),
        *_evidence(overview),
        *_baseline(overview.baseline),
    ]
    return {chart.key: chart for chart in drawn}


def _ordered(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines without a colour below, the leader on top."""
    return tuple(
        sorted(lines, key=lambda line: -line.rank if 0 <= line.rank < COLOURS else -COLOURS)
    )


def _values(lines: Iterable[Sequence[float | None]]) -> list[float]:
    return [value for line in lines for value in line if value is not None]


def _padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    room = (high - low) * share or max(abs(high), 1.0) * share
    return low - room, high + room


def _gaps(timeline: Timeline, *, leaders: int) -> Iterator[Chart]:
    if not timeline.lines:
        return
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
        "behind the leader",
        (high, low),
        _ordered(lines),
        x_phases=phased,
        dots=phased,
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
    shown = [
        _from_start(line, last) for line in lines if line.rank >= leaders or len(lines) <= leaders
    ]
    values = _values(line.y for line in shown)
    low = max(-0.6, min([0.0, *values]))
    yield Chart(
        "evidence",
        "The share collected of the evidence needed to rule out each option, over the outcomes.",
        "outcomes",
        "share of the evidence needed",
        _padded(low, max([1.0, *(min(value, 2.0) for value in values)])),
        _ordered(shown),
        ((1.0, "ruled out"),),
    )


def _baseline(baseline: BaselineView) -> Iterator[Chart]:
    if not baseline.level.x:
        return
    raw = [baseline.level, *baseline.raw]
    free = [replace(line, out=False) for line in baseline.contrasts]
    raw_values = _values(line.y for line in raw) or [0.0]
    free_values = [0.0, *_values(line.y for line in free)]
    # One scale for both, so that what moves and what does not can be compared.
    span = 1.1 * max(max(raw_values) - min(raw_values), max(free_values) - min(free_values), 1e-9)
    middle = (max(raw_values) + min(raw_values)) / 2
    center = (max(free_values) + min(free_values)) / 2
    yield Chart(
        "raw",
        "The mean raw outcome of the leading options over time: the baseline moves them all.",
        "outcomes so far",
        "mean outcome",
        (middle - span / 2, middle + span / 2),
        _ordered(raw),
        dots=True,
    )
    yield Chart(
        "free",
        "The distance of the same options from the leader, estimated from all outcomes so far, "
        "with the baseline removed.",
        "outcomes so far",
        "behind the leader",
        (center + span / 2, center - span / 2),
        _ordered(free),
    )
