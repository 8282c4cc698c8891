"""The panels of an experiment as HTML: for the page, for its updates and for the report."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from bestarm import __version__
from bestarm.defaults import DELTA
from bestarm.live import Experiment
from bestarm.live.values import in_rounds
from bestarm.live.watch.overview import ArmAllocation, Overview, Watch
from bestarm.live.watch.story import quoted
from bestarm.live.watch.wording import percent
from bestarm.server.pages.charts import COLOURS, charts, number, option_style
from bestarm.units import plural, rough


class Assets(StaticFiles):
    """Files whose addresses change with their content, so that browsers may keep them for ever."""

    def __init__(self) -> None:
        super().__init__(packages=[("bestarm.server", "static")])

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that it has not changed."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


@lru_cache(maxsize=32)
def read_asset(name: str) -> bytes:
    """The content of a file."""
    return resources.files("bestarm.server").joinpath("static", name).read_bytes()


@lru_cache(maxsize=32)
def address_of(name: str) -> str:
    """The address of a file, with a tag that changes with its content."""
    return f"/static/{name}?v={hashlib.sha256(read_asset(name)).hexdigest()[:12]}"


def snippets(
    name: str, *, address: str, forecaster: str | None = None, block: int = 1
) -> dict[str, str]:
    """Code for one experiment of the server at an address without a slash at its end, by title.

    Where there is a forecaster, what it needs comes along with the request. In blocks a unit has
    several assignments, and their outcomes are told by id.
    """
    place = f"{address}/api/v1/experiments/{quote(name, safe='')}"
    more = "".join(
        f", {json.dumps(key)}: {json.dumps(value)}"
        for key, value in _KNOWN.get(forecaster or "", {}).items()
    )
    named, single = f'"unit": visitor{more}', block == 1
    parts = {"place": json.dumps(place), "more": more, "named": named}
    parts["shell_more"] = more.replace("'", "'\\''")
    parts |= {"ask": shlex.quote(f"{place}/ask"), "tell": shlex.quote(f"{place}/tell")}
    codes = _BY_UNIT if single else _BY_ID
    return {title: code.format(**parts) for title, code in codes.items()}


_KNOWN: dict[str, dict[str, object]] = {
    "default": {"covariates": [{"age": 31, "country": "CH"}]},
    "own": {"forecasts": [0.5]},
}


_PYTHON = """\
import os, httpx

experiment = httpx.Client(
    base_url={place},
    headers={{"Authorization": "Bearer " + os.environ["BESTARM_TOKEN"]}},
)

"""
_JAVASCRIPT = """\
const experiment = async (verb, body) => {{
  const answer = await fetch({place} + "/" + verb, {{
    method: "POST",
    headers: {{
      Authorization: "Bearer " + process.env.BESTARM_TOKEN,
      "Content-Type": "application/json",
    }},
    body: JSON.stringify(body),
  }});
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}};

"""
_CURL = """\
curl {ask} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H "Content-Type: application/json" -d '{{"unit": "visitor-81"{shell_more}}}'
curl {tell} -H "Authorization: Bearer $BESTARM_TOKEN" \\
  -H "Content-Type: application/json" \\
"""
_BY_UNIT = {
    "Python": _PYTHON
    + """\
def choose(visitor):  # the same visitor gets the same option again
    answer = experiment.post("ask", json={{{named}}}).raise_for_status().json()
    return answer["assignments"][0]["label"]

def tell(visitor, reward):  # how it went, like 1 for a purchase
    outcome = {{"unit": visitor, "reward": reward}}
    experiment.post("tell", json={{"outcomes": [outcome]}}).raise_for_status()
""",
    "JavaScript": _JAVASCRIPT
    + """\
async function choose(visitor) {{ // the same visitor gets the same option again
  const {{ assignments }} = await experiment("ask", {{ {named} }});
  return assignments[0].label;
}}

async function tell(visitor, reward) {{ // how it went, like 1 for a purchase
  await experiment("tell", {{ outcomes: [{{ unit: visitor, reward }}] }});
}}
""",
    "curl": _CURL
    + """\
  -d '{{"outcomes": [{{"unit": "visitor-81", "reward": 1}}]}}'
""",
}
_BY_ID = {
    "Python": _PYTHON
    + """\
def choose(visitor):  # all that one visitor compares, each with an id and a label
    answer = experiment.post("ask", json={{{named}}}).raise_for_status().json()
    return answer["assignments"]

def tell(rewards):  # by id
    outcomes = [{{"id": each, "reward": reward}} for each, reward in rewards.items()]
    experiment.post("tell", json={{"outcomes": outcomes}}).raise_for_status()
""",
    "JavaScript": _JAVASCRIPT
    + """\
async function choose(visitor) {{ // all that one visitor compares, each with an id and a label
  return (await experiment("ask", {{ {named} }})).assignments;
}}

async function tell(outcomes) {{ // like [{{ id: 0, reward: 1 }}, {{ id: 1, reward: 0 }}]
  await experiment("tell", {{ outcomes }});
}}
""",
    "curl": _CURL
    + """\
  -d '{{"outcomes": [{{"id": 0, "reward": 1}}, {{"id": 1, "reward": 0}}]}}'
""",
}


PANELS = {  # with their titles, in the order of the page
    "verdict": "Verdict",
    "leaderboard": "Options",
    "guardrails": "Guardrails",
    "timeline": "Over time",
    "health": "Health",
    "progress": "Progress",
    "guarantee": "Guarantee",
    "allocation": "Traffic split",
    "events": "What happened",
    "snippets": "Code",
}
_FRESH = ("verdict", "snippets", "leaderboard", "guarantee", "events")  # before any assignment
_NEXT_STEP = "Next step: ask which option to show, and tell how it went"
_COLLAPSED = ("guarantee", "allocation", "snippets")  # on the page, not on paper
_EVENTS = 60  # of the story, on the page
_ROWS = 100  # of a table; an experiment may have thousands of options


def titles_of(overview: Overview) -> dict[str, str]:
    """The panels of an experiment with their titles; of a new one, what to do next."""
    if overview.head.assigned:
        return PANELS
    return {each: PANELS[each] for each in _FRESH} | {"snippets": _NEXT_STEP}


def panels(overview: Overview, pasted: Mapping[str, str] | None = None) -> dict[str, Markup]:
    """Each panel's content, by name. Without code to paste it is for paper."""
    module: Any = _environment().get_template("panels.html").module
    further: dict[str, Any] = {
        "leaderboard": (_bars(overview), _ROWS),
        "guardrails": (_guardrail_bars(overview),),
        "health": (pasted is None,),
        "timeline": (charts(overview),),
        "allocation": (_shares(overview), _ROWS),
        "events": (None if pasted is None else _EVENTS,),
        "snippets": (pasted,),
    }
    return {
        name: getattr(module, name)(overview, *further.get(name, ()))
        for name in titles_of(overview)
        if (pasted is not None or name != "snippets")
        and (overview.guardrails or name != "guardrails")
    }


def report(overview: Overview, *, whole: bool = True) -> str:
    """An experiment as one HTML file that needs nothing else, or only the scripts of a server."""
    return render(
        "report.html",
        overview=overview,
        panels=panels(overview),
        titles=titles_of(overview),
        charts=Markup(charts_json(overview).replace("<", "\\u003c")),
        printed=True,
        whole=whole,
    )


def charts_json(overview: Overview) -> str:
    """The numbers that charts are drawn from."""
    drawn = {key: asdict(chart) for key, chart in charts(overview).items()}
    return json.dumps(drawn, allow_nan=False)


def write_report(experiment: Experiment, path: str | Path) -> Path:
    """Write an experiment as it stands to an HTML file, and return its path.

    Raises OSError if the file cannot be written.
    """
    file = Path(path)
    file.write_text(report(Watch(experiment).overview()), encoding="utf-8")
    return file


def render(template: str, **values: object) -> str:
    """A page."""
    return _environment().get_template(template).render(**values)


def _plain(value: object) -> str:
    """An option of a policy as people write it: 0 and not 0.0."""
    text = json.dumps(value, ensure_ascii=False)
    whole = json.loads(text, parse_float=lambda x: int(x[:-2]) if x.endswith(".0") else float(x))
    return json.dumps(whole, ensure_ascii=False)


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
        confidence=percent,
        iso=_iso,
        lasting=_lasting,
        part=_part,
        plain=_plain,
        rough=rough,
        tied=_tied,
    )
    made.globals.update(
        asset=address_of,
        version=__version__,
        colours=COLOURS,
        default_delta=DELTA,
        address=lambda name: quote(name, safe=""),
        content=lambda name: Markup(read_asset(name).decode()),
        in_rounds=in_rounds,
        plural=plural,
        option_style=option_style,
        quoted=quoted,
        collapsed=_COLLAPSED,
    )
    return made


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _part(value: float) -> str:
    """A share in percent, rounded down: 100 % means all of it."""
    return f"{math.floor(100 * value)}\N{NO-BREAK SPACE}%"


def _tied(text: str) -> str:
    """A text without a line break between a number and its unit."""
    for unit in ("%", "points"):
        text = text.replace(f" {unit}", f"\N{NO-BREAK SPACE}{unit}")
    return text


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


def _bars(overview: Overview) -> Mapping[int, tuple[float, ...]]:
    """Each option's distance from the leader as a bar, on a scale that all share, in percent.

    These are the left end of its interval, its width, the distance itself, and the place of 0.
    """
    spans = {
        row.target: [row.behind if end is None else end for end in (row.low, row.high, row.behind)]
        for row in overview.leaderboard[:_ROWS]
        if row.behind is not None and row.status not in {"best", "leads"}
    }
    ends = [0.0, *(end for span in spans.values() for end in span)]
    low, scale = min(ends), 100 / ((max(ends) - min(ends)) or 1.0)
    return {
        target: tuple(scale * size for size in (left - low, right - left, point - low, -low))
        for target, (left, right, point) in spans.items()
    }


def _guardrail_bars(overview: Overview) -> Mapping[tuple[str, int], tuple[float, ...]]:
    """How much worse each option may be as a bar, on a scale that a guardrail's options share.

    In percent: its left end, its width, the estimate, and the places of 0 and of the margin.
    """
    bars: dict[tuple[str, int], tuple[float, ...]] = {}
    for name in dict.fromkeys(row.guardrail.name for row in overview.guardrails):
        rows = [row for row in overview.guardrails if row.guardrail.name == name]
        margin = rows[0].guardrail.worse_by
        low = min(0.0, *(row.low for row in rows))
        high = max(margin, *(row.high for row in rows))
        scale = 100 / ((high - low) or 1.0)
        for row in rows:
            point = (row.low + row.high) / 2 if row.estimate is None else row.estimate
            places = row.low - low, row.high - row.low, point - low, -low, margin - low
            bars[name, row.target] = tuple(scale * each for each in places)
    return bars


def _shares(overview: Overview) -> list[tuple[ArmAllocation, float, float]]:
    """Options with the widths of their bars, planned and drawn."""
    most = max((max(row.planned, row.drawn) for row in overview.allocation), default=0.0) or 1.0
    return [
        (row, 100 * row.planned / most, 100 * row.drawn / most)
        for row in overview.allocation[:_ROWS]
    ]
