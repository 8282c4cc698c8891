"""The charts of an experiment as data, which the page's script draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bestarm.live.watch.overview import BaselineView, Line, Overview, Timeline
from bestarm.live.watch.wording import percent
from bestarm.units import Unit

COLOURS = 6  # options drawn in colour; which colour depends on the option, never on its rank
_SETTLED = 0.25  # share of the pulls before which estimates may leave the picture
_MARGIN = 0.06  # above and below what is drawn, as a share of its height
_WIDEST = 2.0  # a band is drawn from where it is at most this many times as wide as at its end
_START = 0.04  # share of the pulls before which nothing is drawn


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes:
        key: its name in the page.
        view: the word that chooses it.
        title: what it shows, and in which unit.
        y_range: from the bottom to the top.
        lines: those without a colour first, the leader last. Lines of reference are dashed; a line
            of an option that was ruled out ends in a cross; bands are drawn where there are ends.
        levels: horizontal lines with their captions.
        marks: vertical lines with their captions.
        suffix: what follows a value.
    """

    key: str
    view: str
    title: str
    y_range: tuple[float, float]
    lines: tuple[Line, ...]
    levels: tuple[tuple[float, str], ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    suffix: str = ""


def number(value: float | None, digits: int = 3) -> str:
    """A number as people read it."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.{digits}g}"
    return text.replace("-", "−")


def option_style(option: int, rank: int) -> str:
    """The classes of an option's colour; beyond the first few places it is grey."""
    if not 0 <= rank < COLOURS:
        return "quiet"
    return f"c{option % COLOURS} s{option // COLOURS % 3}"


def charts(overview: Overview) -> dict[str, Chart]:
    """The charts of an experiment by name; one that would be empty is left out."""
    spec, timeline = overview.spec, overview.timeline
    if overview.contradictions:  # what intervals rest on does not hold
        lines = tuple(replace(line, low=(), high=()) for line in timeline.lines)
        timeline = replace(timeline, lines=lines)
    drawn = [
        *_leads(timeline, overview.unit, percent(spec.problem.delta)),
        *_evidence(overview),
        *_raw(overview.baseline, overview.unit, blind=spec.traits.blind),
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


def _leads(timeline: Timeline, unit: Unit, confidence: str) -> Iterator[Chart]:
    lines = [_scaled(line, unit) for line in timeline.lines]
    last = max((x for line in lines for x in line.x), default=0.0)
    if not last:
        return
    settled = [
        [y for x, y in zip(line.x, line.y, strict=True) if x >= _SETTLED * last] for line in lines
    ]
    ends = [end[-1:] for line in lines for end in (line.low, line.high)]
    inside = [0.0, *_values(settled), *_values(ends)]
    what = "Behind the leader"
    if timeline.control is not None:
        what = f"Lead over the control ‘{timeline.control}’"
    points = ", in points" if unit.percent else ""
    banded = [line.label for line in lines if any(end is not None for end in line.low)]
    interval = f"; the band is the {confidence} interval of ‘{banded[0]}’" if banded else ""
    yield Chart(
        "leads",
        "Lead",
        f"{what}{points}{interval}",
        _padded(min(inside), max(inside)),
        _ordered(_from_start(line, last) for line in lines),
        ((0.0, ""),),
        timeline.changes,
        suffix=" points" if unit.percent else "",
    )


def _from_start(line: Line, last: float) -> Line:
    """A line without its first, uncertain part, and with its band where that is not too wide."""
    start = sum(x < _START * last for x in line.x[:-1])
    widths = [
        math.inf if low is None or high is None else high - low
        for low, high in zip(line.low, line.high, strict=True)
    ]
    fits = [width <= _WIDEST * min(widths) < math.inf for width in widths]
    low, high = (
        tuple(end if shown else None for end, shown in zip(ends, fits, strict=True))[start:]
        for ends in (line.low, line.high)
    )
    return replace(line, x=line.x[start:], y=line.y[start:], low=low, high=high)


def _evidence(overview: Overview) -> Iterator[Chart]:
    lines = overview.timeline.evidence
    if not lines:
        return
    last, leaders = max((x for line in lines for x in line.x), default=0.0), len(overview.leaders)
    # Evidence below zero is none, as the table says.
    shown = [
        replace(each, y=tuple(None if y is None else 100 * max(y, 0.0) for y in each.y))
        for each in (_from_start(line, last) for line in lines)
        if each.rank >= leaders or len(lines) <= leaders
    ]
    values = _values(line.y for line in shown)
    yield Chart(
        "evidence",
        "Evidence",
        "Evidence against each option, in % of what rules it out",
        (0.0, 1.06 * max([100.0, *(min(value, 200.0) for value in values)])),
        _ordered(shown),
        ((100.0, "ruled out"),),
        overview.timeline.changes,
        suffix=" %",
    )


def _raw(baseline: BaselineView, unit: Unit, *, blind: bool) -> Iterator[Chart]:
    if not baseline.level.x:
        return
    lines = [_scaled(line, unit) for line in (baseline.level, *baseline.raw)]
    values = _values(line.y for line in lines) or [0.0]
    what = "Rates as they came, in %" if unit.percent else "Mean outcomes as they came"
    rests = "this policy decides by them" if blind else "what moves all of them decides nothing"
    yield Chart(
        "raw",
        "Raw rates" if unit.percent else "Raw means",
        f"{what}; {rests}",
        _padded(min(values), max(values)),
        _ordered(lines),
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
