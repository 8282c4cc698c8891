"""`GET /metrics`: counters of the server and of its experiments, as Prometheus reads them.

https://prometheus.io/docs/instrumenting/exposition_formats/. Counters of experiments are read in
one query, and no policy is asked: scraping costs little with many experiments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from bestarm import __version__
from bestarm.live.store import listing
from bestarm.live.store.head import Head
from bestarm.server.api.requests import VIEW, StrictRoute
from bestarm.server.experiments import Maintenance
from bestarm.server.guard import Counts

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("running", "paused", "stopped", "finished")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

# Metrics of an experiment: name, type, help text, and the counter of its head.
_COUNTERS = (
    ("assignments_total", "counter", "Assignments made.", "assigned"),
    ("outcomes_total", "counter", "Outcomes told in time.", "outcomes"),
    ("lost_total", "counter", "Assignments given up.", "losses"),
    ("late_total", "counter", "Outcomes told too late.", "late"),
    ("outstanding", "gauge", "Outcomes awaited.", "outstanding"),
    ("phase", "gauge", "The open phase, or the last.", "phase"),
    ("options_left", "gauge", "Options not ruled out.", "options"),
    ("last_outcome_timestamp_seconds", "gauge", "When an outcome was told last.", "last_told"),
)

router = APIRouter(dependencies=[VIEW], route_class=StrictRoute)
Sample = tuple[Mapping[str, str], float]


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Counters of the server and of all its experiments, in Prometheus' text format."""
    state = request.app.state
    heads = await run_in_threadpool(listing.heads, state.store)
    lines = "\n".join(_lines(state.requests, state.maintenance, heads))
    return Response(f"{lines}\n", media_type=_TYPE)


def _lines(
    requests: Counts, maintenance: Maintenance, heads: Sequence[tuple[str, Head]]
) -> Iterator[str]:
    yield from _metric("build_info", "gauge", "The version.", [({"version": __version__}, 1)])
    names, help_text = ("method", "route", "status"), "Requests answered by this process."
    answered = [(dict(zip(names, key, strict=True)), n) for key, n in requests.copy().items()]
    yield from _metric("http_requests_total", "counter", help_text, answered)
    experiments = [({"experiment": name}, head) for name, head in heads]
    for name, kind, words, counter in _COUNTERS:
        values = ((labels, float(getattr(head, counter))) for labels, head in experiments)
        known = [(labels, value) for labels, value in values if math.isfinite(value)]
        yield from _metric(f"experiment_{name}", kind, words, known)
    states = [
        ({**labels, "state": each}, float(head.state == each))
        for labels, head in experiments
        for each in _STATES
    ]
    yield from _metric("experiment_state", "gauge", "1 for the state that it is in.", states)
    alarms = [
        ({"experiment": name}, float(sum(check.level == "alarm" for check in checks)))
        for name, _ in heads
        if (checks := maintenance.checks.get(name)) is not None
    ]
    yield from _metric("experiment_alarms", "gauge", "Health checks that are alarms.", alarms)


def _metric(name: str, kind: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP bestarm_{name} {words}"
    yield f"# TYPE bestarm_{name} {kind}"
    for labels, value in samples:
        named = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
        yield f"bestarm_{name}{{{named}}} {value!r}"
