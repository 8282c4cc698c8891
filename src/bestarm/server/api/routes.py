"""The routes of the API. Each names the least role that may call it."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from pydantic import AfterValidator
from starlette.background import BackgroundTask

from bestarm.errors import ConflictingRequestError, InvalidInputError
from bestarm.live import Experiment
from bestarm.live.events import sha256
from bestarm.live.inputs import normal_form
from bestarm.problem import Problem, features_of
from bestarm.server.api import schemas as io
from bestarm.server.api.errors import ErrorBody
from bestarm.server.api.requests import CarefulRoute
from bestarm.server.experiments import Trials
from bestarm.server.feeds import Following
from bestarm.server.security.roles import ANONYMOUS, check_role, needs
from bestarm.server.security.tokens import Role

__all__ = ["router"]

_WORDS = {
    400: "The request could not be read.",
    401: "A token is needed.",
    403: "The token does not allow this, or a page of another site made the request.",
    404: "There is no such thing.",
    408: "The body took too long to arrive.",
    409: "It contradicts what is on record.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer for that host.",
    422: "Something in it is not as it must be.",
    429: "Too many requests.",
    500: "The server, or the database behind it, is in a state it should not be in.",
    503: "The database, or the trial, cannot be gone on with here now, or too many are served.",
}
_MOST_NUMBERS = 100_000  # features of a trial: designs for more take minutes
_ANYWHERE = (400, 401, 403, 421, 422, 429, 500, 503)
_WITH_BODY = (408, 413, 415)


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": ErrorBody, "description": _WORDS[code]} for code in codes}


router = APIRouter(prefix="/api/v1", responses=_errors(*_ANYWHERE), route_class=CarefulRoute)

Name = Annotated[
    str,
    InPath(description="The trial's name.", min_length=1, max_length=200, examples=["checkout"]),
    AfterValidator(normal_form),
]
_view = Depends(needs(Role.VIEW))
_tell = Depends(needs(Role.TELL))
_manage = Depends(needs(Role.MANAGE))


async def _trials(request: Request) -> Trials:
    trials: Trials = request.app.state.trials
    return trials


_Trials = Annotated[Trials, Depends(_trials)]


def _limited(count: int, request: Request, field: str) -> None:
    most = request.app.state.limits.batch
    if count > most:
        raise InvalidInputError(
            f"`{field}` is {count}; one request takes {most} at most.",
            field=field,
            value=count,
            remedy="Send several.",
        )


@router.get("/openapi.json", dependencies=[_view], include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """This description."""
    return JSONResponse(request.app.openapi())


@router.get("/experiments", dependencies=[_view], summary="List trials", responses=_errors(404))
def list_experiments(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    after: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="`next` of the part before."),
    ] = None,
) -> io.ListOut:
    """Trials of the store, oldest first, in parts: send `next` as `after` until it is null."""
    trials: Trials = request.app.state.trials
    found = trials.listed(limit=limit + 1, after=after)
    return io.ListOut(
        experiments=[io.ExperimentOut.of(each) for each in found[:limit]],
        next=found[limit - 1].name if len(found) > limit else None,
    )


@router.post(
    "/experiments",
    status_code=201,
    dependencies=[_manage],
    summary="Begin a trial",
    responses=_errors(*_WITH_BODY, 409),
)
async def create_experiment(body: io.CreateBody, trials: _Trials) -> io.StatusOut:
    """Begin a trial; its name must be new."""
    return await trials.change(partial(_create, trials, body))


def _create(trials: Trials, body: io.CreateBody) -> io.StatusOut:
    if body.source is None:
        _check_size("source_labels", len(body.source_labels or ()) ** 2)
    for field, rows in (("source", body.source or []), ("target", body.target or [])):
        _check_size(field, sum(map(len, rows)))
    problem = Problem(
        features_of(body.source, body.source_labels),
        body.target,
        delta=body.delta,
        noise=body.noise,
        baseline=body.baseline,
        source_labels=body.source_labels,
        target_labels=body.target_labels,
    )
    experiment = trials.create(
        body.name,
        problem,
        policy=body.policy,
        options=body.options,
        seed=body.seed,
        lease=body.lease,
        description=body.description,
    )
    return io.StatusOut.of(experiment.status())


def _check_size(field: str, size: int) -> None:
    if size > _MOST_NUMBERS:
        raise InvalidInputError(
            f"`{field}` makes {size} features; over HTTP there may be {_MOST_NUMBERS}.",
            field=field,
            value=size,
            remedy="Begin so large a trial with `Experiment.create`.",
        )


@router.get(
    "/experiments/{name}",
    dependencies=[_view],
    summary="Where a trial stands",
    response_model=io.StatusOut,
    responses={
        304: {"description": "Nothing has changed since the ETag given."},
        **_errors(404),
    },
)
async def get_status(
    name: Name,
    trials: _Trials,
    response: Response,
    if_none_match: Annotated[
        str | None, Header(max_length=500, description="The ETag of what is known already.")
    ] = None,
) -> Any:
    """Counters of the trial. Send the ETag back as If-None-Match to poll cheaply."""
    tag, status = await trials.look(name, _status)
    if if_none_match is not None and _matches(if_none_match, tag):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return status


def _status(experiment: Experiment) -> tuple[str, io.StatusOut]:
    return f'W/"{experiment.revision}"', io.StatusOut.of(experiment.status())


def _matches(given: str, tag: str) -> bool:
    tags = {each.strip().removeprefix("W/") for each in given.split(",")}
    return "*" in tags or tag.removeprefix("W/") in tags


@router.post(
    "/experiments/{name}/ask",
    dependencies=[_tell],
    summary="Ask for assignments",
    response_model=io.AssignmentsOut,
    responses=_errors(*_WITH_BODY, 404, 409),
)
async def ask(
    name: Name,
    body: io.AskBody,
    trials: _Trials,
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="A name for this request: sent again, it gives the same assignments. "
            "With another count it is refused. Every token has keys of its own.",
        ),
    ] = None,
) -> Response:
    """Draw arms. Fewer than asked for are given while a phase awaits its outcomes."""
    _limited(body.count, request, "count")
    caller: int = request.state.caller
    return await trials.write(
        name, partial(_ask, count=body.count, key=idempotency_key, caller=caller)
    )


def _ask(experiment: Experiment, *, count: int, key: str | None, caller: int) -> Response:
    try:
        given = experiment.ask(count, request_id=None if key is None else _own_key(key, caller))
    except ConflictingRequestError as error:
        raise ConflictingRequestError(
            error.message,
            field="Idempotency-Key",
            value=key,
            remedy="Use a new key for every new request.",
        ) from None
    return JSONResponse(io.AssignmentsOut.plain(given))


def _own_key(key: str, caller: int) -> str:
    """The name of a caller's request: under the same key others are given assignments of theirs."""
    name = f"token {caller}: {key}"
    # As long as a name may be, and no longer.
    return name if len(name) <= 200 else f"token {caller}: sha256 {sha256(key)}"


@router.post(
    "/experiments/{name}/tell",
    dependencies=[_tell],
    summary="Tell outcomes",
    responses=_errors(*_WITH_BODY, 404, 409),
)
async def tell(name: Name, body: io.TellBody, trials: _Trials, request: Request) -> io.ReceiptOut:
    """Record outcomes: all or none. Telling the same again is harmless."""
    _limited(len(body.outcomes), request, "outcomes")
    pairs = [(each.id, float(each.reward)) for each in body.outcomes]
    return io.ReceiptOut.of(await trials.tell(name, pairs))


@router.post(
    "/experiments/{name}/fail",
    dependencies=[_tell],
    summary="Give outcomes up",
    responses=_errors(*_WITH_BODY, 404, 409),
)
async def fail(name: Name, body: io.FailBody, trials: _Trials, request: Request) -> io.StatusOut:
    """Record that outcomes will never come. Saying it again is harmless."""
    _limited(len(body.ids), request, "ids")
    return await trials.write(name, _then_status("fail_many", body.ids, body.reason))


def _then_status(method: str, *values: object) -> Any:
    def do(experiment: Experiment) -> io.StatusOut:
        getattr(experiment, method)(*values)
        return io.StatusOut.of(experiment.status())

    return do


@router.get(
    "/experiments/{name}/recommendation",
    dependencies=[_view],
    summary="What would be named now",
    responses=_errors(404),
)
async def get_recommendation(name: Name, trials: _Trials) -> io.RecommendationOut:
    """The target the policy would name now, and how far that can be relied on."""
    return await trials.think(
        name,
        lambda each: io.RecommendationOut.of(each.recommendation(), each.problem.target_labels),
    )


@router.get(
    "/experiments/{name}/health",
    dependencies=[_view],
    summary="Health checks",
    responses=_errors(404),
)
async def get_health(name: Name, trials: _Trials) -> io.HealthOut:
    """Whether the trial runs as it should, and what to do where it does not."""
    checks = await trials.think(name, lambda each: each.health())
    return io.HealthOut(checks=[io.CheckOut(**vars(check)) for check in checks])


@router.get(
    "/experiments/{name}/events",
    dependencies=[_view],
    summary="The log",
    responses=_errors(404),
)
async def get_events(
    name: Name,
    trials: _Trials,
    after: Annotated[int, Query(ge=0, lt=2**62, description="`next` of the part before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> io.EventsOut:
    """Every change of the trial's state, hash-chained.

    The seed is left out: whoever knows it can foresee the draws.
    """
    events = await trials.look(name, lambda each: each.events(after, limit=limit))
    return io.EventsOut(
        events=[io.EventOut.of(event) for event in events],
        next=events[-1].number + 1 if events else after,
    )


@router.get(
    "/experiments/{name}/export",
    dependencies=[_view],
    summary="All assignments with their outcomes, as CSV",
    response_class=FileResponse,
    responses={
        200: {
            "content": {"text/csv": {"schema": {"type": "string"}, "example": "id,phase,arm\n"}},
            "description": "A CSV file.",
        },
        **_errors(404),
    },
)
async def export(
    name: Name,
    trials: _Trials,
    layout: Annotated[
        Literal["assignments", "mrt"],
        Query(description="All columns, or those of a micro-randomised trial."),
    ] = "assignments",
) -> Response:
    """One row per assignment."""
    return await trials.think(name, partial(_export, layout=layout))


def _export(experiment: Experiment, *, layout: str) -> Response:
    folder = tempfile.TemporaryDirectory(prefix="bestarm-")
    path = Path(folder.name) / "export.csv"
    try:
        experiment.export(path, layout=layout)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        path,
        media_type="text/csv",
        filename=f"{layout}.csv",
        background=BackgroundTask(folder.cleanup),
    )


@router.post(
    "/experiments/{name}/pause", dependencies=[_manage], summary="Pause", responses=_errors(404)
)
async def pause(name: Name, trials: _Trials) -> io.StatusOut:
    """Give nothing out until the trial is resumed. Doing it again is harmless."""
    return await trials.write(name, _then_status("pause"))


@router.post(
    "/experiments/{name}/resume", dependencies=[_manage], summary="Go on", responses=_errors(404)
)
async def resume(name: Name, trials: _Trials) -> io.StatusOut:
    """Go on after a pause. Doing it again is harmless."""
    return await trials.write(name, _then_status("resume"))


@router.post(
    "/experiments/{name}/lease",
    dependencies=[_manage],
    summary="Change how long outcomes may take",
    responses=_errors(*_WITH_BODY, 404),
)
async def change_lease(name: Name, body: io.LeaseBody, trials: _Trials) -> io.StatusOut:
    """Set it from now on; what is lost stays lost. Doing it again is harmless."""
    return await trials.write(name, _then_status("change_lease", body.lease))


@router.post(
    "/experiments/{name}/stop",
    dependencies=[_manage],
    summary="End for good",
    responses=_errors(*_WITH_BODY, 404),
)
async def stop(name: Name, trials: _Trials, body: io.StopBody | None = None) -> io.StatusOut:
    """End the trial. Outcomes that come later are kept and flagged."""
    return await trials.write(name, _then_status("stop", "" if body is None else body.reason))


@router.get(
    "/experiments/{name}/stream",
    dependencies=[_view],
    summary="Follow a trial",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                "text/event-stream": {
                    "example": 'event: status\nid: 240-238-0-0-0-9\ndata: {"state": "running"}\n\n',
                }
            },
            "description": "Server-sent events, whose data is the status.",
        },
        **_errors(404),
    },
)
async def follow(
    name: Name,
    request: Request,
    trials: _Trials,
    last_event_id: Annotated[
        str | None, Header(max_length=500, description="The id of the last event received.")
    ] = None,
) -> Response:
    """Server-sent events: `status` whenever the trial changes, until the client goes away."""
    await trials.look(name, lambda each: each.name)
    address = request.client.host if request.client else ""
    return Following(
        trials.feeds,
        name,
        seen=last_event_id or "",
        still_allowed=partial(check_role, request, Role.VIEW),
        anonymous=address if request.scope.get(ANONYMOUS) else None,
    )
