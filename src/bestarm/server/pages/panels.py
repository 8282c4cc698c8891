"""The panels of an experiment as HTML: for the page, for its updates and for the report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bestarm.defaults import DELTA
from bestarm.live.watch.views import Allocated, Option, Overview
from bestarm.server.pages.assets import address_of, read_asset
from bestarm.server.pages.charts import COLOURS, Chart, charts, number
from bestarm.server.pages.snippets import Snippets
from bestarm.server.pages.svg import draw, style_of

__all__ = ["PANELS", "panels", "render"]

PANELS = (
    "verdict",
    "guarantee",
    "health",
    "leaderboard",
    "timeline",
    "baseline",
    "allocation",
    "progress",
    "events",
    "snippets",
)
_ROWS = 100  # of a table; an experiment may have thousands of options


@dataclass(frozen=True)
class _Bar:
    """The places of a number and its interval on a scale that all rows share, in percent."""

    left: float
    width: float
    point: float
    zero: float


def panels(overview: Overview, pasted: Snippets, *, printed: bool = False) -> dict[str, Markup]:
    """Each panel's content, by name.

    Args:
        overview: the experiment.
        pasted: code for it, ready to paste.
        printed: whether it is for paper, where nothing can be clicked.
    """
    module: Any = _environment().get_template("panels.html").module
    drawn = charts(overview)
    further: dict[str, Any] = {
        "leaderboard": (_bars(overview), _ROWS),
        "timeline": (drawn,),
        "baseline": (drawn,),
        "allocation": (_shares(overview), _ROWS),
        "snippets": (pasted, printed),
    }
    return {name: getattr(module, name)(overview, *further.get(name, ())) for name in PANELS}


def render(template: str, **values: object) -> str:
    """A page."""
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("bestarm.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=number,
        count=_count,
        clock=_clock,
        iso=_iso,
        lasting=_lasting,
        part=_part,
        plain=_plain,
        tied=_tied,
    )
    made.globals.update(
        asset=address_of,
        draw=draw,
        version=version("bestarm"),
        colours=COLOURS,
        default_delta=DELTA,
        address=lambda name: quote(name, safe=""),
        styles=lambda: Markup(read_asset("style.css").decode()),
        legend=_legend,
    )
    return made


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _part(value: float) -> str:
    """A share in percent, rounded down: 100 % means all of it."""
    return f"{math.floor(100 * value)}\N{NO-BREAK SPACE}%"


def _tied(text: str) -> str:
    """A text without a line break between a number and its percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _plain(value: object) -> str:
    """An option of a policy as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at > -1e10 else ""


def _clock(at: float) -> str:
    if not -1e10 < at < 2.5e11:
        return "–"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _hours(value: float | None) -> str:
    """A duration in words, rounded."""
    if value is None:
        return "unknown"
    for length, name in ((24 * 365.25, "year"), (24.0, "day"), (1.0, "hour"), (1 / 60, "minute")):
        if value >= length:
            count = value / length
            shown = f"{count:.0f}" if count >= 9.5 else f"{count:.1f}".removesuffix(".0")
            return f"{shown} {name}" if shown == "1" else f"{shown} {name}s"
    return "less than a minute"


def _lasting(hours: tuple[float | None, ...]) -> str:
    """A duration in words, from its middle, low and high estimate."""
    middle, low, high = hours
    words = _hours(low if middle is None else middle)
    rough = words if middle is not None and middle < 1 / 60 else f"about {words}"
    text = f"at least {words}" if middle is None else rough
    return text if high is None or _hours(high) == words else f"{text}, up to {_hours(high)}"


def _legend(chart: Chart) -> list[tuple[str, str]]:
    """Colours with their labels, the leader first."""
    by_style: dict[str, list[str]] = {}
    for line in chart.lines:
        by_style.setdefault(style_of(line).split()[0], []).append(line.label)
    coloured = sorted(style for style in by_style if style.startswith("c"))
    shown = [(style, by_style[style][0]) for style in coloured]
    for style in ("quiet", "ink"):
        labels = by_style.get(style, [])
        if labels:
            several = f"{len(labels)} {'others' if coloured else 'arms'}"
            shown.append((style, labels[0] if len(labels) == 1 else several))
    return shown


def _bars(overview: Overview) -> Mapping[int, _Bar]:
    """The bar of each option's distance from the leader."""
    ends = [
        end
        for option in overview.leaderboard[:_ROWS]
        for end in (option.low, option.high, option.behind)
        if end is not None
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    size = (high - low) or 1.0

    def place(value: float) -> float:
        return 100 * (value - low) / size

    def bar(option: Option) -> _Bar | None:
        if option.behind is None or option.status in {"best", "leads"}:
            return None
        left = option.behind if option.low is None else option.low
        right = option.behind if option.high is None else option.high
        return _Bar(place(left), place(right) - place(left), place(option.behind), place(0.0))

    found = {option.target: bar(option) for option in overview.leaderboard[:_ROWS]}
    return {target: each for target, each in found.items() if each is not None}


def _shares(overview: Overview) -> list[tuple[Allocated, float, float]]:
    """Options with the widths of their bars, planned and drawn."""
    most = max((max(row.planned, row.drawn) for row in overview.allocation), default=0.0) or 1.0
    return [
        (row, 100 * row.planned / most, 100 * row.drawn / most)
        for row in overview.allocation[:_ROWS]
    ]
