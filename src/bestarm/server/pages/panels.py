"""The panels of a trial as HTML: the same for the page, for its updates and for the report."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bestarm.defaults import DELTA
from bestarm.live.watch.views import Allocated, Option, Overview
from bestarm.server.pages.charts import COLOURS, Chart, charts, number
from bestarm.server.pages.svg import draw

__all__ = ["PANELS", "asset", "panels", "render"]

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
_ROWS = 100  # of a table; a trial may have thousands of options


@dataclass(frozen=True)
class _Bar:
    """Where a number and its interval lie on a scale that all rows share, in percent."""

    left: float
    width: float
    point: float
    zero: float


def panels(seen: Overview, *, printed: bool = False) -> dict[str, Markup]:
    """Each panel's content, by name.

    Args:
        seen: the trial.
        printed: that there is nothing to click.
    """
    module: Any = _environment().get_template("panels.html").module
    drawn = charts(seen)
    given: dict[str, Any] = {
        "leaderboard": (_bars(seen), _ROWS),
        "timeline": (drawn,),
        "baseline": (drawn,),
        "allocation": (_shares(seen), _ROWS),
        "snippets": (printed,),
    }
    return {name: getattr(module, name)(seen, *given.get(name, ())) for name in PANELS}


def render(template: str, **values: object) -> str:
    """A page."""
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=32)
def asset(name: str) -> bytes:
    """A file that goes with the pages; Plotly's script is the one in its own package."""
    if name == "plotly.min.js":
        found = resources.files("plotly").joinpath("package_data", name)
    else:
        found = resources.files("bestarm.server").joinpath("static", name)
    return found.read_bytes()


@lru_cache(maxsize=32)
def _address(name: str) -> str:
    """Where an asset is served; it changes with its content, so that it can be kept for ever."""
    # Plotly's version stands for its content, so that its megabytes are read when asked for.
    tag = version("plotly") if name == "plotly.min.js" else None
    tag = tag or hashlib.sha256(asset(name)).hexdigest()[:12]
    return f"/static/{name}?v={tag}"


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
        asset=_address,
        draw=draw,
        version=version("bestarm"),
        colours=COLOURS,
        default_delta=DELTA,
        address=lambda name: quote(name, safe=""),
        styles=lambda: Markup(asset("style.css").decode()),
        legend=_legend,
    )
    return made


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _part(value: float) -> str:
    """A share in percent; never quite all before it is all."""
    return f"{math.floor(100 * value)}\N{NO-BREAK SPACE}%"


def _tied(text: str) -> str:
    """Without a break between a number and its sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _plain(value: object) -> str:
    """An option of a policy as it was given."""
    return json.dumps(value, ensure_ascii=False)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at > -1e10 else ""


def _clock(at: float) -> str:
    if not -1e10 < at < 2.5e11:
        return "–"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _hours(value: float | None) -> str:
    """A time in words, as rough as it is known."""
    if value is None:
        return "no end in sight"
    for length, name in ((24 * 365.25, "year"), (24.0, "day"), (1.0, "hour"), (1 / 60, "minute")):
        if value >= length:
            count = value / length
            shown = f"{count:.0f}" if count >= 9.5 else f"{count:.1f}".removesuffix(".0")
            return f"{shown} {name}" if shown == "1" else f"{shown} {name}s"
    return "less than a minute"


def _lasting(hours: tuple[float | None, float | None, float | None]) -> str:
    """How long it may take, from the middle, the low and the high end."""
    middle, low, high = hours
    words = _hours(low if middle is None else middle)
    rough = words if middle is not None and middle < 1 / 60 else f"about {words}"
    text = f"{words} at least" if middle is None else rough
    return text if high is None or _hours(high) == words else f"{text}, up to {_hours(high)}"


def _legend(chart: Chart) -> list[tuple[str, str]]:
    """Colours and whose they are: the leader first."""
    named = {series.colour: series.label for series in chart.series if series.colour >= 0}
    shown = [(f"c{colour}", named[colour]) for colour in sorted(named)]
    for colour, name in ((-1, "quiet"), (-2, "ink")):
        there = [series.label for series in chart.series if series.colour == colour]
        if there:
            text = there[0] if len(there) == 1 else f"{len(there)} {'others' if named else 'arms'}"
            shown.append((name, text))
    return shown


def _bars(seen: Overview) -> Mapping[int, _Bar]:
    """What is drawn of each option's distance to the leader."""
    ends = [
        end
        for option in seen.leaderboard[:_ROWS]
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

    found = {option.target: bar(option) for option in seen.leaderboard[:_ROWS]}
    return {target: each for target, each in found.items() if each is not None}


def _shares(seen: Overview) -> list[tuple[Allocated, float, float]]:
    """Arms with the widths of their bars, planned and drawn."""
    most = max((max(row.planned, row.drawn) for row in seen.allocation), default=0.0) or 1.0
    return [
        (row, 100 * row.planned / most, 100 * row.drawn / most) for row in seen.allocation[:_ROWS]
    ]
