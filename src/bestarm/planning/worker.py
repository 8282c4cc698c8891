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
from types import FrameType
from typing import Any

from bestarm.errors import BestArmError, InvalidInputError
from bestarm.planning.assumptions import as_scenario, scales
from bestarm.planning.effort import Effort
from bestarm.planning.plan import plan_experiment
from bestarm.planning.request import DEFAULT_POLICIES, PlanRequest
from bestarm.problem import Problem, features_of

__all__ = ["main", "make_plan"]

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
        plan = make_plan(request, _ProgressReports(), partial(_announce, limit=seconds))
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
    fields = {key: value for key, value in request.items() if value is not None}
    ends = fields.get("bounds")
    bounds = None if ends is None else (ends[0], ends[1])
    noise, baseline = scales(bounds, fields.get("noise"), fields.get("baseline"))
    problem = Problem(
        features_of(fields.get("source"), fields.get("source_labels")),
        fields.get("target"),
        delta=fields["delta"],
        noise=noise,
        baseline=baseline,
        source_labels=fields.get("source_labels"),
        target_labels=fields.get("target_labels"),
    )
    documents = fields.get("scenarios", ())
    if documents and ("level" in fields or "drift" in fields):
        raise InvalidInputError(
            "`level` and `drift` go with `gap`; scenarios have their own.",
            field="scenarios",
        )
    return plan_experiment(
        PlanRequest(
            problem,
            gap=fields.get("gap"),
            scenarios=[_scenario(each, number) for number, each in enumerate(documents, start=1)],
            drift=fields.get("drift", "sine"),
            bounds=bounds,
            level=fields.get("level"),
            policies=fields.get("policies", DEFAULT_POLICIES),
            per_day=fields.get("per_day"),
            runs=fields["runs"],
            seed=fields["seed"],
        ),
        progress=progress,
        on_estimate=on_estimate,
    ).to_dict()


def _announce(effort: Effort, *, limit: float) -> None:
    effort.refuse_beyond(limit, expected=effort.seconds_per_round, rounds=1)
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


def _scenario(document: Mapping[str, Any], number: int) -> Any:
    values = {key: value for key, value in document.items() if value is not None}
    return as_scenario(values, name=str(number))


class _ProgressReports:
    """Reports progress, but not after every run."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= _PAUSE or done == total:
            self._last = now
            _write(progress={"done": done, "total": total})


def _write(**document: object) -> None:
    try:
        print(json.dumps(document, allow_nan=False), flush=True)
    except BrokenPipeError:  # the reader has gone
        os._exit(1)


def _alarm(seconds: float) -> None:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if hasattr(signal, "setitimer"):  # on other systems the starting process stops it
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
