"""The routes of the API. Each names the least role that may call it."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, StreamingResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from bestarm.errors import InvalidInputError
from bestarm.live import Experiment
from bestarm.problem import Problem
from bestarm.server import schemas as io
from bestarm.server.access import needs
from bestarm.server.errors import ErrorBody
from bestarm.server.tokens import Role
from bestarm.server.trials import Trials

__all__ = ["router"]

_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorBody, "description": words}
    for code, words in {
        400: "The request could not be read.",
        401: "A token is needed.",
        403: "The token does not allow this.",
        404: "There is no such thing.",
        409: "It contradicts what is on record.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        422: "Something in it is not as it must be.",
        429: "Too many requests.",
        503: "The database cannot be reached now.",
    }.items()
}

router = APIRouter(prefix="/api/v1", responses=_ERRORS)

Name = Annotated[str, InPath(description="The trial's name.", min_length=1, max_length=200)]
_view = Depends(needs(Role.VIEW))
_tell = Depends(needs(Role.TELL))
_manage = Depends(needs(Role.MANAGE))
_PULSE = 0.5  # seconds between two looks at a trial that is followed
_SILENCE = 15.0  # seconds without news after which a sign of life is sent


def _trials(request: Request) -> Trials:
    trials: Trials = request.app.state.trials
    return trials


_Trials = Annotated[Trials, Depends(_trials)]


def _open(name: Name, trials: _Trials) -> Experiment:
    return trials.open(name)


Trial = Annotated[Experiment, Depends(_open)]


def _limited(count: int, request: Request, field: str) -> None:
    most = request.app.state.limits.batch
    if count > most:
        raise InvalidInputError(
            f"`{field}` is {count}; one request takes {most} at most.",
            field=field,
            value=count,
            remedy="Send several.",
        )


@router.get("/experiments", dependencies=[_view], summary="List all trials")
def list_experiments(trials: _Trials) -> io.ListOut:
    """All trials of the store, oldest first."""
    return io.ListOut(
        experiments=[
            io.ExperimentOut(
                name=each.name,
                description=each.description,
                created=each.created,
                status=io.StatusOut.of(each.status),
            )
            for each in trials.listed()
        ]
    )


@router.post("/experiments", status_code=201, dependencies=[_manage], summary="Begin a trial")
def create_experiment(body: io.CreateBody, trials: _Trials) -> io.StatusOut:
    """Begin a trial; its name must be new."""
    problem = Problem(
        body.source,
        body.target,
        delta=body.delta,
        noise=body.noise,
        baseline=body.baseline,
        source_labels=body.source_labels,
        target_labels=body.target_labels,
    )
    seed = secrets.randbits(62) if body.seed is None else body.seed
    experiment = trials.create(
        body.name,
        problem,
        policy=body.policy,
        options=body.options,
        seed=seed,
        lease=body.lease,
        description=body.description,
    )
    return io.StatusOut.of(experiment.status())


@router.get(
    "/experiments/{name}",
    dependencies=[_view],
    summary="Where a trial stands",
    responses={304: {"description": "Nothing has changed since the ETag given."}},
)
def get_status(
    experiment: Trial,
    response: Response,
    if_none_match: Annotated[str | None, Header(max_length=500)] = None,
) -> Any:
    """Counters of the trial. Send the ETag back as If-None-Match to poll cheaply."""
    tag = f'W/"{experiment.revision}"'
    if if_none_match == tag:
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return io.StatusOut.of(experiment.status())


@router.post("/experiments/{name}/ask", dependencies=[_tell], summary="Ask for assignments")
def ask(
    experiment: Trial,
    body: io.AskBody,
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="A name for this request: sent again, it gives the same assignments.",
        ),
    ] = None,
) -> io.AssignmentsOut:
    """Draw arms. Fewer than asked for are given while a phase awaits its outcomes."""
    _limited(body.count, request, "count")
    return io.AssignmentsOut.of(experiment.ask(body.count, request_id=idempotency_key))


@router.post("/experiments/{name}/tell", dependencies=[_tell], summary="Tell outcomes")
def tell(experiment: Trial, body: io.TellBody, request: Request) -> io.ReceiptOut:
    """Record outcomes: all or none. Telling the same again is harmless."""
    _limited(len(body.outcomes), request, "outcomes")
    pairs = [(each.id, each.reward) for each in body.outcomes]
    return io.ReceiptOut.of(experiment.tell_many(pairs))


@router.post("/experiments/{name}/fail", dependencies=[_tell], summary="Give outcomes up")
def fail(experiment: Trial, body: io.FailBody, request: Request) -> io.StatusOut:
    """Record that outcomes will never come."""
    _limited(len(body.ids), request, "ids")
    experiment.fail_many(body.ids, body.reason)
    return io.StatusOut.of(experiment.status())


@router.get(
    "/experiments/{name}/recommendation", dependencies=[_view], summary="What would be named now"
)
def get_recommendation(experiment: Trial) -> io.RecommendationOut:
    """The target the policy would name now, and how far that can be relied on."""
    return io.RecommendationOut.of(experiment.recommendation())


@router.get("/experiments/{name}/health", dependencies=[_view], summary="Health checks")
def get_health(experiment: Trial) -> io.HealthOut:
    """Whether the trial runs as it should, and what to do where it does not."""
    checks = [io.CheckOut(**vars(check)) for check in experiment.health()]
    return io.HealthOut(checks=checks)


@router.get("/experiments/{name}/events", dependencies=[_view], summary="The log")
def get_events(
    experiment: Trial,
    after: Annotated[int, Query(ge=0, lt=2**62, description="`next` of the part before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> io.EventsOut:
    """Every change of the trial's state, hash-chained."""
    events = experiment.events(after)[:limit]
    return io.EventsOut(
        events=[io.EventOut.of(event) for event in events],
        next=events[-1].number + 1 if events else after,
    )


@router.get(
    "/experiments/{name}/export",
    dependencies=[_view],
    summary="All assignments with their outcomes, as CSV",
    response_class=FileResponse,
    responses={200: {"content": {"text/csv": {}}, "description": "A CSV file."}},
)
def export(experiment: Trial, layout: Literal["assignments", "mrt"] = "assignments") -> Response:
    """One row an assignment; `mrt` is the layout of micro-randomised trials."""
    folder = tempfile.TemporaryDirectory(prefix="bestarm-")
    path = Path(folder.name) / "export.csv"
    experiment.export(path, layout=layout)
    return FileResponse(
        path,
        media_type="text/csv",
        filename=f"{layout}.csv",
        background=BackgroundTask(folder.cleanup),
    )


@router.post("/experiments/{name}/pause", dependencies=[_manage], summary="Pause")
def pause(experiment: Trial) -> io.StatusOut:
    """Give nothing out until the trial is resumed."""
    experiment.pause()
    return io.StatusOut.of(experiment.status())


@router.post("/experiments/{name}/resume", dependencies=[_manage], summary="Go on")
def resume(experiment: Trial) -> io.StatusOut:
    """Go on after a pause."""
    experiment.resume()
    return io.StatusOut.of(experiment.status())


@router.post("/experiments/{name}/stop", dependencies=[_manage], summary="End for good")
def stop(experiment: Trial, body: io.StopBody | None = None) -> io.StatusOut:
    """End the trial. Outcomes that come later are kept and flagged."""
    experiment.stop("" if body is None else body.reason)
    return io.StatusOut.of(experiment.status())


@router.get(
    "/experiments/{name}/stream",
    dependencies=[_view],
    summary="Follow a trial",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def follow(name: Name, request: Request) -> StreamingResponse:
    """Server-sent events: `status` whenever the trial changes, until the client goes away."""
    trials: Trials = request.app.state.trials
    experiment = await run_in_threadpool(trials.open, name)
    return StreamingResponse(
        trials.followed(_news(experiment, request)),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


async def _news(experiment: Experiment, request: Request) -> AsyncIterator[str]:
    last, quiet = "", 0.0
    while not await request.is_disconnected():
        revision = await run_in_threadpool(lambda: experiment.revision)
        if revision != last:
            status = await run_in_threadpool(experiment.status)
            data = json.dumps(io.StatusOut.of(status).model_dump())
            yield f"event: status\nid: {revision}\ndata: {data}\n\n"
            last, quiet = revision, 0.0
        elif quiet >= _SILENCE:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(_PULSE)
        quiet += _PULSE
