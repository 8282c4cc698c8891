"""The charts of a trial, as data: drawn by the page's script, or as still pictures for paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bestarm.live.watch.views import BaselineView, Line, Numbers, Overview, Timeline

__all__ = ["COLOURS", "Chart", "Series", "charts", "number"]

COLOURS = 6  # options that have one of their own; the first is the leader's
_BANDED = 1  # competitors whose intervals are drawn
_SETTLED = 0.25  # of the pulls: estimates before that may leave the picture
_BEGUN = 0.04  # of the pulls: what was known before that is not drawn


@dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        label: whose it is.
        colour: 0 for the leader's, 1, 2, … for others', −1 for a quiet one, −2 for ink.
        x: where.
        y: how much; None leaves a gap.
        low: lower ends of a band, or empty.
        high: upper ends.
        cross: whether it ends in a cross: dropped.
        dots: whether its points are marked.
        dashed: whether it is dashed.
    """

    label: str
    colour: int
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    cross: bool = False
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes:
        key: its name in the page.
        words: what is to be seen, for those who do not see it.
        x_title: of the axis.
        y_title: of the axis.
        y_range: from the bottom to the top; the first is the larger where down is more.
        series: the quiet ones first, the leader last.
        levels: lines across, with what is written at them.
        x_phases: whether x counts phases; else pulls or outcomes, from 0.
    """

    key: str
    words: str
    x_title: str
    y_title: str
    y_range: tuple[float, float]
    series: tuple[Series, ...]
    levels: tuple[tuple[float, str], ...] = ()
    x_phases: bool = False


def number(value: float | None, digits: int = 3) -> str:
    """A number as people read it."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def charts(seen: Overview) -> dict[str, Chart]:
    """The charts of a trial by name; one that would be empty is left out."""
    drawn = [
        *_gaps(seen.timeline, leaders=len(seen.leaders)),
        *_evidence(seen),
        *_baseline(seen.baseline),
    ]
    return {chart.key: chart for chart in drawn}


def _colour(line: Line) -> int:
    return line.rank if 0 <= line.rank < COLOURS else -1


def _ordered(series: Iterable[Series]) -> tuple[Series, ...]:
    """Quiet ones below, the leader on top."""
    return tuple(sorted(series, key=lambda each: -each.colour if each.colour >= 0 else -COLOURS))


def _values(lines: Iterable[Sequence[float | None]]) -> list[float]:
    return [value for line in lines for value in line if value is not None]


def _padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    room = (high - low) * share or max(abs(high), 1.0) * share
    return low - room, high + room


def _gaps(timeline: Timeline, *, leaders: int) -> list[Chart]:
    if not timeline.phases:
        return []
    phased = timeline.kind == "phases"
    place = {pulls: float(phase) for pulls, phase in timeline.phases}
    last = timeline.phases[-1][0]

    def series_of(line: Line) -> Series:
        start = 0 if phased else sum(x < _BEGUN * last for x in line.x[:-1])
        x = tuple(place[x] for x in line.x) if phased else line.x[start:]
        banded = not phased and leaders <= line.rank < leaders + _BANDED
        low, high = _band(line, start) if banded else ((), ())
        dots = phased and line.rank < COLOURS
        return Series(line.label, _colour(line), x, line.y[start:], low, high, line.out, dots)

    series = [series_of(line) for line in timeline.lines]
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
    if timeline.radius:
        most = timeline.radius[1]
        x, none = tuple(place[x] for x in most.x), tuple(0.0 for _ in most.x)
        series.append(Series("radius", -2, x, most.y, none, most.y, dashed=True))
        ends.append(most.y)
    seen = [0.0, *_values(settled), *_values(ends)]
    low, high = _padded(min(seen), max(seen))
    words = (
        "How far every option is estimated to be behind the leader, phase by phase. At or below "
        "the dashed radius an option is dropped."
        if phased
        else "How far every option is estimated to be behind the leader, over the pulls, with "
        "a band that holds at every moment at once for the closest competitor."
    )
    return [
        Chart(
            "gaps",
            words,
            "phase" if phased else "pulls",
            "behind the leader",
            (high, low),
            _ordered(series),
            x_phases=phased,
        )
    ]


def _band(line: Line, start: int) -> tuple[Numbers, Numbers]:
    """The interval since last this option was the leader itself."""
    led = [at for at, ends in enumerate(zip(line.low, line.high, strict=True)) if ends == (0, 0)]
    since = max(led, default=-1) + 1
    low, high = (
        tuple(value if at >= since else None for at, value in enumerate(values))
        for values in (line.low, line.high)
    )
    return low[start:], high[start:]


def _evidence(seen: Overview) -> list[Chart]:
    lines = seen.timeline.evidence
    if not lines:
        return []
    last, leaders = lines[0].x[-1], len(seen.leaders)
    series = [
        Series(line.label, _colour(line), line.x[start:], line.y[start:], cross=line.out)
        for line, start in ((line, sum(x < _BEGUN * last for x in line.x[:-1])) for line in lines)
        if line.rank >= leaders or len(lines) <= leaders
    ]
    values = _values(line.y for line in series)
    low = max(-0.6, min([0.0, *values]))
    return [
        Chart(
            "evidence",
            "Evidence against each option's being the best, over the pulls, as a share of what is "
            "needed to drop it.",
            "pulls",
            "share of the evidence needed",
            _padded(low, max([1.0, *(min(value, 2.0) for value in values)])),
            _ordered(series),
            ((1.0, "dropped"),),
        )
    ]


def _baseline(baseline: BaselineView) -> list[Chart]:
    if not baseline.level.x:
        return []
    raw = [Series("all outcomes", -2, baseline.level.x, baseline.level.y, dashed=True)]
    raw += [Series(line.label, _colour(line), line.x, line.y, dots=True) for line in baseline.raw]
    free = [Series(line.label, _colour(line), line.x, line.y) for line in baseline.contrasts]
    raw_values = _values(line.y for line in raw) or [0.0]
    free_values = [0.0, *_values(line.y for line in free)]
    # One scale for both, so that what moves and what does not can be compared.
    span = 1.1 * max(max(raw_values) - min(raw_values), max(free_values) - min(free_values), 1e-9)
    middle = (max(raw_values) + min(raw_values)) / 2
    center = (max(free_values) + min(free_values)) / 2
    return [
        Chart(
            "raw",
            "Mean raw outcome of the leading options, stretch by stretch: the baseline moves them "
            "all.",
            "outcomes so far",
            "mean outcome",
            (middle - span / 2, middle + span / 2),
            _ordered(raw),
        ),
        Chart(
            "free",
            "How far the same options are behind the leader, estimated from all stretches so far, "
            "with the baseline taken out.",
            "outcomes so far",
            "behind the leader",
            (center + span / 2, center - span / 2),
            _ordered(free),
        ),
    ]
