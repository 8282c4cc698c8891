"""Charts as still pictures: SVG that needs no script, for paper and for browsers without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby

from markupsafe import Markup, escape

from bestarm.live.watch.overview import Line
from bestarm.server.pages.charts import COLOURS, Chart, number

_HEIGHT = 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 42


def style_of(line: Line) -> str:
    """The classes of a line in the style sheet: its own colour, quiet, or ink for a reference."""
    if 0 <= line.rank < COLOURS:
        return f"c{line.rank}"
    return "ink dashed" if line.rank == -2 else "quiet"


def draw(chart: Chart, width: int) -> Markup:
    """A chart as SVG: as wide as it is shown, so that letters are as large as the page's."""
    return _Drawing(chart, width).svg()


def _element(name: str, *content: str, **attributes: object) -> Markup:
    """An element, with `-` for `_` in names of attributes, places rounded, and texts escaped."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    inside = "".join(map(escape, content))
    return Markup(f"<{name}{shown}>{inside}</{name}>")


def _value(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else escape(value)


class _Drawing:
    """A chart of a width, with scales from values to places."""

    def __init__(self, chart: Chart, width: int) -> None:
        self._chart, self._width, self._right = chart, width, width - _RIGHT
        xs = [x for line in chart.lines for x in line.x] or [0.0, 1.0]
        low, high = min(xs) if chart.x_phases else 0.0, max(xs)
        room = 0.04 * (high - low) or 0.5
        self._x_range = low - room if low else low, high + room

    def _x(self, value: float) -> float:
        low, high = self._x_range
        return _LEFT + (value - low) / (high - low) * (self._right - _LEFT)

    def _y(self, value: float) -> float:
        low, high = self._chart.y_range
        inside = min(max((value - low) / (high - low), -0.5), 1.5)
        return _HEIGHT - _BOTTOM - inside * (_HEIGHT - _TOP - _BOTTOM)

    def _points(self, values: Iterable[tuple[float, float | None]]) -> str:
        return " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in values if y is not None)

    def svg(self) -> Markup:
        chart, clip = self._chart, f"clip-{self._chart.key}"
        width, height = self._right - _LEFT + 8, _HEIGHT - _TOP - _BOTTOM + 12
        frame = _element("rect", x=_LEFT, y=_TOP - 6, width=width, height=height)
        drawn = [*map(self._band, chart.lines), *self._levels(), *map(self._line, chart.lines)]
        return _element(
            "svg",
            _element("clipPath", frame, id=clip),
            *self._axes(),
            _element("g", *drawn, clip_path=f"url(#{clip})"),
            class_="drawing",
            viewBox=f"0 0 {self._width} {_HEIGHT}",
            role="img",
            aria_label=chart.words,
        )

    def _across(self, value: float, style: str) -> Markup:
        """A horizontal line."""
        y = self._y(value)
        return _element("line", class_=style, x1=_LEFT, x2=self._right, y1=y, y2=y)

    def _axes(self) -> Iterator[Markup]:
        chart = self._chart
        low, high = sorted(chart.y_range)
        for tick in _ticks(low, high, 5):
            yield self._across(tick, "grid")
            y = self._y(tick) + 4
            yield _element("text", number(tick), x=_LEFT - 8, y=y, text_anchor="end")
        for tick in _ticks(*self._x_range, 6, whole=chart.x_phases):
            x, y = self._x(tick), _HEIGHT - _BOTTOM + 18
            yield _element("text", _short(tick), x=x, y=y, text_anchor="middle")
        place = {"x": self._right, "y": _HEIGHT - 6, "text_anchor": "end"}
        yield _element("text", chart.x_title, class_="title", **place)
        turned = f"translate(13 {(_HEIGHT - _BOTTOM + _TOP) / 2:.0f}) rotate(-90)"
        place = {"transform": turned, "text_anchor": "middle"}
        yield _element("text", chart.y_title, class_="title", **place)

    def _levels(self) -> Iterator[Markup]:
        for value, words in self._chart.levels:
            yield self._across(value, "level")
            yield _element("text", words, x=_LEFT + 6, y=self._y(value) - 5)

    def _band(self, line: Line) -> Markup:
        if not line.low:
            return Markup("")
        ends = zip(line.x, line.low, line.high, strict=True)
        both = [(x, a, b) for x, a, b in ends if a is not None and b is not None]
        around = [(x, b) for x, _, b in both] + [(x, a) for x, a, _ in reversed(both)]
        return _element("polygon", class_=f"band {style_of(line)}", points=self._points(around))

    def _line(self, line: Line) -> Markup:
        style = style_of(line)
        points = list(zip(line.x, line.y, strict=True))
        there = [(x, y) for x, y in points if y is not None]
        parts = [_element("title", line.label)]
        parts += [
            _element("polyline", class_=f"line {style}", points=self._points(stretch))
            for known, stretch in groupby(points, key=lambda point: point[1] is not None)
            if known
        ]
        if (self._chart.dots and -2 < line.rank < COLOURS) or len(there) == 1:
            parts += [
                _element("circle", class_=f"dot {style}", cx=self._x(x), cy=self._y(y), r="2.4")
                for x, y in there
            ]
        if line.out and there:
            x, y = self._x(there[-1][0]) - 4, self._y(there[-1][1]) - 4
            cross = f"M{x:.1f},{y:.1f}l8,8m0,-8l-8,8"
            parts.append(_element("path", class_=f"line {style}", d=cross))
        return _element("g", *parts)


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
