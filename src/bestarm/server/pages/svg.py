"""Charts as still pictures: SVG that needs no script, for paper and for browsers without."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from bestarm.live.watch.views import Line
from bestarm.server.pages.charts import COLOURS, Chart, number

__all__ = ["draw", "style_of"]

_HEIGHT = 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 42


class _Scales:
    """From values to places."""

    def __init__(self, chart: Chart, width: int) -> None:
        self.right = width - _RIGHT
        xs = [x for line in chart.lines for x in line.x] or [0.0, 1.0]
        low, high = min(xs), max(xs)
        if not chart.x_phases:
            low = 0.0
        room = 0.04 * (high - low) or 0.5
        self.x_range = low - room if low else low, high + room
        self.y_range = chart.y_range

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (value - low) / (high - low) * (self.right - _LEFT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        inside = min(max((value - low) / (high - low), -0.5), 1.5)
        return _HEIGHT - _BOTTOM - inside * (_HEIGHT - _TOP - _BOTTOM)


def draw(chart: Chart, width: int) -> Markup:
    """A chart as SVG, with colours from the page's style sheet.

    Args:
        chart: the chart.
        width: about how wide it is shown, so that letters are as large as the page's.
    """
    scales = _Scales(chart, width)
    clip = f"clip-{chart.key}"
    parts = [
        Markup(
            '<svg class="drawing" viewBox="0 0 {} {}" role="img" aria-label="{}">'
            '<clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>'
        ).format(
            width,
            _HEIGHT,
            chart.words,
            clip,
            _LEFT,
            _TOP - 6,
            scales.right - _LEFT + 8,
            _HEIGHT - _TOP - _BOTTOM + 12,
        ),
        _axes(chart, scales),
        Markup('<g clip-path="url(#{})">').format(clip),
        *(_band(line, scales) for line in chart.lines),
        *(_level(value, words, scales) for value, words in chart.levels),
        *(_line(line, scales, dots=chart.dots) for line in chart.lines),
        Markup("</g></svg>"),
    ]
    return Markup("").join(parts)


def _axes(chart: Chart, scales: _Scales) -> Markup:
    parts = []
    low, high = sorted(scales.y_range)
    for tick in _ticks(low, high, 5):
        y = scales.y(tick)
        parts.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(_LEFT, scales.right, y, y, _LEFT - 8, y + 4, number(tick))
        )
    parts += [
        Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            scales.x(tick), _HEIGHT - _BOTTOM + 18, _short(tick)
        )
        for tick in _ticks(*scales.x_range, 6, whole=chart.x_phases)
    ]
    middle = (_HEIGHT - _BOTTOM + _TOP) / 2
    parts.append(
        Markup(
            '<text class="title" x="{}" y="{}" text-anchor="end">{}</text>'
            '<text class="title" transform="translate(13 {:.0f}) rotate(-90)" '
            'text-anchor="middle">{}</text>'
        ).format(scales.right, _HEIGHT - 6, chart.x_title, middle, chart.y_title)
    )
    return Markup("").join(parts)


def _short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:,g}"


def _ticks(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """Round numbers between two ends, about `count` of them."""
    step = (high - low) / count
    power = 10.0 ** math.floor(math.log10(step))
    step = next((power * m for m in (1, 2, 5) if power * m >= step), 10 * power)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _points(xs: Sequence[float], ys: Sequence[float | None], scales: _Scales) -> list[str]:
    """Points of consecutive values, one path per stretch without a gap."""
    paths: list[str] = []
    current: list[str] = []
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            if current:
                paths.append(" ".join(current))
            current = []
        else:
            current.append(f"{scales.x(x):.1f},{scales.y(y):.1f}")
    return [*paths, " ".join(current)] if current else paths


def style_of(line: Line) -> str:
    """The classes of a line in the style sheet: its own colour, quiet, or ink for a reference."""
    if 0 <= line.rank < COLOURS:
        return f"c{line.rank}"
    return "ink dashed" if line.rank == -2 else "quiet"


def _band(line: Line, scales: _Scales) -> Markup:
    if not line.low:
        return Markup("")
    both = [
        (x, low, high)
        for x, low, high in zip(line.x, line.low, line.high, strict=True)
        if low is not None and high is not None
    ]
    over = [f"{scales.x(x):.1f},{scales.y(high):.1f}" for x, _, high in both]
    under = [f"{scales.x(x):.1f},{scales.y(low):.1f}" for x, low, _ in reversed(both)]
    return Markup('<polygon class="band {}" points="{}"/>').format(
        style_of(line), " ".join(over + under)
    )


def _level(value: float, words: str, scales: _Scales) -> Markup:
    y = scales.y(value)
    return Markup(
        '<line class="level" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
        '<text x="{}" y="{:.1f}">{}</text>'
    ).format(_LEFT, scales.right, y, y, _LEFT + 6, y - 5, words)


def _line(line: Line, scales: _Scales, *, dots: bool) -> Markup:
    style = style_of(line)
    parts = [
        Markup('<polyline class="line {}" points="{}"/>').format(style, path)
        for path in _points(line.x, line.y, scales)
    ]
    there = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    if (dots and -2 < line.rank < COLOURS) or len(there) == 1:
        parts += [
            Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="2.4"/>').format(
                style, scales.x(x), scales.y(y)
            )
            for x, y in there
        ]
    if line.out and there:
        x, y = scales.x(there[-1][0]), scales.y(there[-1][1])
        parts.append(
            Markup('<path class="line {}" d="M{:.1f},{:.1f}l8,8m0,-8l-8,8"/>').format(
                style, x - 4, y - 4
            )
        )
    title = Markup("<title>{}</title>").format(escape(line.label))
    return Markup("<g>{}{}</g>").format(title, Markup("").join(parts))
