"""A plan in a separate process: a request as JSON on stdin, one JSON document per line on stdout.

    {"progress": {"done": 0, "total": 600}}             at once, then repeatedly
    {"estimate": {"seconds": 45.0, "words": …, …}}      once, before anything is simulated
    {"plan": …} or {"error": {…}}                       once, at the end

The process stops when its time is up and returns the runs finished by then; it also ends when its
reader does. A plan is refused if the time is too short for one run of every policy in every
scenario.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from bestarm.errors import BestArmError
from bestarm.planning.effort import Effort
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import read_request

_PAUSE = 0.25  # seconds between two reports of progress
_NICE = 10  # the server on the same machine goes first


def main() -> None:
    """Answer one request."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    request = json.load(sys.stdin)
    seconds = float(request.pop("seconds"))
    _alarm(seconds)
    try:
        plan = make_plan(request, _reports(), partial(_announce, limit=seconds))
    except KeyboardInterrupt:
        _write(
            error={
                "message": "The time limit was reached before a run had finished.",
                "field": "source",
                "remedy": "Plan for fewer options.",
            }
        )
    except BestArmError as error:
        _write(error={"message": error.message, "field": error.field, "remedy": error.remedy})
    else:
        _write(plan=plan)


def make_plan(
    request: Mapping[str, Any],
    progress: Callable[[int, int], object],
    on_estimate: Callable[[Effort], object],
) -> dict[str, Any]:
    """The plan that a request asks for, as a dictionary for JSON."""
    wanted = read_request(request)
    return plan_experiment(wanted, progress=progress, on_estimate=on_estimate).to_dict()


def _announce(effort: Effort, *, limit: float) -> None:
    effort.refuse_beyond(limit, expected=effort.seconds_per_run, runs=1)
    fewest, most = effort.pulls
    _write(
        estimate={
            "seconds": effort.seconds,
            "limit": limit,
            "fewest_pulls": fewest,
            "most_pulls": most,
            "words": effort.words(),
        }
    )


def _reports() -> Callable[[int, int], None]:
    """A function that reports progress, but not after every run."""
    last = -math.inf

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PAUSE or done == total:
            last = now
            _write(progress={"done": done, "total": total})

    return report


def _write(**document: object) -> None:
    try:
        print(json.dumps(document, allow_nan=False), flush=True)
    except BrokenPipeError:  # the reader has gone
        os._exit(1)


def _alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # on other systems the starting process stops it
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
