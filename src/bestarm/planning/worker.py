"""A plan in a separate process: a request as JSON on stdin, one JSON document per line on stdout.

    {"progress": {"done": 0, "total": 600}}                  at once, then repeatedly
    {"words": ["4 options …", …, {"title": "", "rows": …}]}  once, sentences and tables
    {"curve": …}                                             once, if the page can draw one
    {"plan": …}, {"lifts": …} or {"error": {…}}              once, at the end

A request with visitors is answered with the lifts that these can find. The time limit is among the
request, as `seconds`; the process also ends when its reader does. It is a process of its own, and
not of a pool, because the server ends it as soon as its client has gone.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from bestarm.errors import BestArmError
from bestarm.planning.curve import visitor_curve
from bestarm.planning.forecasts import ExperimentPlan
from bestarm.planning.request import read_request
from bestarm.planning.wording import plan_in_words
from bestarm.tables import TextTable

_PAUSE = 0.25  # seconds between two reports of progress
_NICE = 10  # the server on the same machine goes first


def main() -> None:
    """Answer one request."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    document = json.load(sys.stdin)
    seconds, visitors = float(document.pop("seconds")), document.pop("visitors", None)
    try:
        found, words = plan_in_words(
            read_request(document), visitors=visitors, seconds=seconds, progress=_reports()
        )
    except BestArmError as error:
        known = {"message": error.message, "field": error.field, "remedy": error.remedy}
        _write(error=known | {"value": _plain(error.value)})
    else:
        _write(words=[_encoded(part) for part in words if part])
        if isinstance(found, ExperimentPlan) and (curve := visitor_curve(found)) is not None:
            _write(curve=asdict(curve))
        _write(**{"plan" if visitors is None else "lifts": found.to_dict()})


def _encoded(part: str | TextTable) -> str | dict[str, Any]:
    """A sentence, or a table as its title and its rows, with the headings first."""
    if isinstance(part, str):
        return part
    rows = [[line.name, *(entry.text for entry in line.entries)] for line in part.lines]
    return {"title": part.title, "rows": [[column.heading for column in part.columns], *rows]}


def _reports() -> Callable[[int, int], None]:
    """A function that reports progress, but not after every run."""
    next_report = 0.0

    def report(done: int, total: int) -> None:
        nonlocal next_report
        if time.monotonic() >= next_report or done == total:
            next_report = time.monotonic() + _PAUSE
            _write(progress={"done": done, "total": total})

    return report


def _write(**document: object) -> None:
    try:
        print(json.dumps(document, allow_nan=False), flush=True)
    except BrokenPipeError:  # the reader has gone
        os._exit(1)


def _plain(value: object) -> object:
    """A value as JSON can carry it."""
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    return value if finite or value is None or isinstance(value, str) else reprlib.repr(value)


if __name__ == "__main__":
    main()
