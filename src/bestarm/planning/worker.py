"""A plan in a process of its own: a request as JSON on stdin, a JSON document a line on stdout.

    {"progress": {"done": 0, "total": 600}}             at once, then now and then
    {"estimate": {"seconds": 45.0, "words": …, …}}      once, before anything is simulated
    {"plan": …} or {"error": {…}}                       once, at the end

It stops by itself when its time is up, with what it has by then, and dies with whoever reads it. A
plan is refused if that time is not enough for one run of every policy in every scenario.
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
from bestarm.planning.trial import DEFAULT_POLICIES, plan_trial
from bestarm.problem import Problem, features_of

__all__ = ["main", "planned"]

_PAUSE = 0.25  # seconds between two signs of progress
_NICE = 10  # whoever answers requests on the same machine goes first


def main() -> None:
    """Answer one request."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    request = json.load(sys.stdin)
    seconds = float(request.pop("seconds"))
    _alarm(seconds)
    try:
        plan = planned(request, _Signs(), partial(_announce, limit=seconds))
    except KeyboardInterrupt:
        _say(
            error={
                "message": "The time was up before anything had been simulated.",
                "field": "source",
                "remedy": "Plan for fewer options.",
            }
        )
    except BestArmError as error:
        _say(error={"message": error.message, "field": error.field, "remedy": error.remedy})
    else:
        _say(plan=plan)


def planned(
    request: Mapping[str, Any],
    progress: Callable[[int, int], object],
    on_estimate: Callable[[Effort], object],
) -> dict[str, Any]:
    """The plan a request asks for, as JSON has it."""
    given = {key: value for key, value in request.items() if value is not None}
    ends = given.get("bounds")
    bounds = None if ends is None else (ends[0], ends[1])
    noise, baseline = scales(bounds, given.get("noise"), given.get("baseline"))
    problem = Problem(
        features_of(given.get("source"), given.get("source_labels")),
        given.get("target"),
        delta=given["delta"],
        noise=noise,
        baseline=baseline,
        source_labels=given.get("source_labels"),
        target_labels=given.get("target_labels"),
    )
    documents = given.get("scenarios", ())
    if documents and ("level" in given or "drift" in given):
        raise InvalidInputError(
            "`level` and `drift` go with `gap`; scenarios say both for themselves.",
            field="scenarios",
        )
    return plan_trial(
        problem,
        gap=given.get("gap"),
        scenarios=[_scenario(each, number) for number, each in enumerate(documents, start=1)],
        drift=given.get("drift", "sine"),
        bounds=bounds,
        level=given.get("level"),
        policies=given.get("policies", DEFAULT_POLICIES),
        per_day=given.get("per_day"),
        runs=given["runs"],
        seed=given["seed"],
        progress=progress,
        on_estimate=on_estimate,
    ).to_dict()


def _announce(effort: Effort, *, limit: float) -> None:
    effort.refuse_beyond(limit, expected=effort.once, rounds=1)
    fewest, most = effort.pulls
    _say(
        estimate={
            "seconds": effort.seconds,
            "limit": limit,
            "fewest_pulls": fewest,
            "most_pulls": most,
            "words": effort.words(),
        }
    )


def _scenario(document: Mapping[str, Any], number: int) -> Any:
    stated = {key: value for key, value in document.items() if value is not None}
    return as_scenario(stated, name=str(number))


class _Signs:
    """Tells how far it has come, but not all the time."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= _PAUSE or done == total:
            self._last = now
            _say(progress={"done": done, "total": total})


def _say(**document: object) -> None:
    try:
        print(json.dumps(document, allow_nan=False), flush=True)
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)


def _alarm(seconds: float) -> None:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if hasattr(signal, "setitimer"):  # elsewhere whoever started it stops it
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
