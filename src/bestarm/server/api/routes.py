"""The routes of the API. Each names the least role that may call it."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import TypeAdapter
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from bestarm.errors import ConflictingRequestError, InvalidInputError
from bestarm.live import Batch, Experiment, Receipt
from bestarm.live.events import sha256
from bestarm.live.spec import check_scale
from bestarm.live.store.rows import UnitKey
from bestarm.live.tell import read_told
from bestarm.live.watch.overview import Watch
from bestarm.problem import problem_of
from bestarm.server.api import schemas
from bestarm.server.api.requests import (
    WITH_BODY,
    Experiments,
    IfNoneMatch,
    Name,
    PlainRoute,
    api_router,
    check_size,
    is_known,
    read_bearer,
)
from bestarm.server.errors import ApiError
from bestarm.server.experiments import OpenExperiments
from bestarm.server.tokens import Role, check_token, token_number

_FEW = 1000  # outcomes: more take long enough to read that others should not wait for it
_SERVED_FOR = 3600  # seconds for which the option served after the end may be cached
_MOST_NUMBERS = 100_000  # features of an experiment: designs for more take minutes
_receipt: TypeAdapter[Receipt] = TypeAdapter(schemas.ReceiptOut)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A name for this request: sent again, it gives the same assignments. "
    "With another count it is refused. Every token has its own keys.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_PROBLEM = {"options", "source", "target", "target_labels", "delta", "noise", "baseline"}

viewing = api_router(Role.VIEW, 404)
telling = api_router(Role.TELL, *WITH_BODY, 404, 409)
asking = api_router(Role.TELL, *WITH_BODY, 404, 409, route_class=PlainRoute)
managing = api_router(Role.MANAGE, *WITH_BODY, 404, 409)


@viewing.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """The API's description."""
    return JSONResponse(request.app.openapi())


@viewing.get("/experiments", summary="List experiments", response_model=schemas.ListOut)
async def list_experiments(
    experiments: Experiments,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    after: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="`next` of the part before."),
    ] = None,
    archived: Annotated[bool, Query(description="Whether archived ones are listed too.")] = False,
) -> Any:
    """Experiments of the store, oldest first, in parts: send `next` as `after` until it is null."""
    part = partial(Experiment.list, limit=limit + 1, after=after, archived=archived)
    found = await run_in_threadpool(part, experiments.store)
    last = found[limit - 1].name if len(found) > limit else None
    return {"experiments": found[:limit], "next": last}


@managing.post("/experiments", status_code=201, summary="Create an experiment")
async def create_experiment(
    body: schemas.CreateBody, experiments: Experiments
) -> schemas.StatusOut:
    """Create an experiment; its name must be new."""
    return await experiments.writing.run(body.name, partial(_create, experiments, body))


def _create(experiments: OpenExperiments, body: schemas.CreateBody) -> schemas.StatusOut:
    sizes = {field: sum(map(len, getattr(body, field) or ())) for field in ("source", "target")}
    if body.source is None:
        sizes["options"] = len(body.options or ()) ** 2
    for field, size in sizes.items():
        check_size(field, size, _MOST_NUMBERS, "Create it with `Experiment.create`.")
    problem = problem_of(**body.model_dump(include=_PROBLEM))
    settings = body.model_dump(exclude=_PROBLEM)
    bounds = {} if body.bounds is None else {"bounds": body.bounds}
    declared = not body.model_fields_set.isdisjoint({"noise", "baseline"})
    check_scale(body.policy, body.policy_options | bounds, declared=declared)
    return experiments.create(problem=problem, **settings).status()


@viewing.get(
    "/experiments/{name}",
    summary="The status of an experiment",
    response_model=schemas.StatusOut,
    responses={304: {"description": "Nothing has changed since the ETag given."}},
)
async def get_status(
    name: Name,
    experiments: Experiments,
    response: Response,
    if_none_match: IfNoneMatch = None,
) -> Any:
    """Counters of the experiment. Send the ETag back as If-None-Match to poll cheaply."""
    tag, status = await experiments.read(name, lambda each: (f'W/"{each.revision}"', each.status()))
    if is_known(tag, if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return status


@managing.delete("/experiments/{name}", summary="Archive an experiment")
async def archive(
    name: Name,
    experiments: Experiments,
    undo: Annotated[bool, Query(description="True to show it in lists again.")] = False,
) -> schemas.StatusOut:
    """Leave an experiment out of lists. It stays on record and goes on; repeating it is harmless.

    Only the command line really deletes one: `bestarm experiment delete`.
    """
    return await experiments.change(name, lambda each: each.archive(undo=undo))


@managing.post("/experiments/{name}/describe", summary="Change the description")
async def describe(
    name: Name, experiments: Experiments, body: schemas.DescriptionBody
) -> schemas.StatusOut:
    """Say in other words what the experiment is about. The log keeps what it was before."""
    return await experiments.change(name, lambda each: each.describe(body.description))


@viewing.get("/experiments/{name}/configuration", summary="What an experiment is made of")
async def get_configuration(name: Name, experiments: Experiments) -> schemas.ConfigurationOut:
    """Options, control, bounds, window, guardrails and policy, as they were created; options as
    they are now. The seed is left out: whoever knows it can predict the draws."""
    return await experiments.read(name, schemas.ConfigurationOut.of)


@asking.post(
    "/experiments/{name}/ask",
    summary="Ask for assignments",
    response_model=schemas.AssignmentsOut,
    openapi_extra={"parameters": [_KEY]},
)
async def ask(name: Name, body: schemas.AskBody, request: Request) -> Response:
    """Draw options. Fewer than asked for are assigned while a phase waits for its outcomes.

    Once the experiment is over, every assignment is of the option to use, with `experiment` false.
    """
    experiments: OpenExperiments = request.app.state.experiments
    most: int = request.app.state.limits.batch
    units = len(body.unit) if isinstance(body.unit, list) else 1
    rounds = body.count if body.unit is None else units
    check_size("count", rounds, most)
    token, key = read_bearer(request), request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        message = "`Idempotency-Key` must have 1 to 200 characters."
        remedy = "Use a short text that is new for every request."
        raise InvalidInputError(message, field="Idempotency-Key", value=key, remedy=remedy)
    if key is not None and body.unit is not None:
        message = "A request for a unit needs no `Idempotency-Key`."
        remedy = "Leave it out: the unit gets the same assignment again."
        raise InvalidInputError(message, field="Idempotency-Key", value=key, remedy=remedy)

    def assign() -> Batch:
        experiment = experiments.open(name)
        arms = experiment.stored_spec("asked").problem.arms  # a round has no more
        if rounds * arms > most:  # of rounds, fewer
            with experiment.read() as snapshot:
                check_size("count", rounds, max(1, most // snapshot.head.size))
        # The same key of another caller is another request.
        own = None if key is None else f"token {token_number(token)}: {sha256(key)}"
        return experiment.ask(
            body.count if body.unit is None or "count" in body.model_fields_set else None,
            unit=body.unit,
            decision_point=body.decision_point,
            available=body.available,
            request_id=own,
            covariates=body.covariates,
            forecasts=body.forecasts,
            precondition=partial(check_token, text=token, role=Role.TELL),
        )

    try:
        batch = await experiments.writing.run(name, assign)
    except ConflictingRequestError as error:
        if error.field != "request_id":
            raise
        raise ConflictingRequestError(
            error.message,
            field="Idempotency-Key",
            value=key,
            remedy="Use a new key for every new request.",
        ) from None
    return JSONResponse(schemas.AssignmentsOut.plain(batch))


@asking.post("/experiments/{name}/tell", summary="Tell outcomes", response_model=schemas.ReceiptOut)
async def tell(name: Name, body: schemas.TellBody, request: Request) -> Response:
    """Record outcomes: all or none. Repeating it is harmless."""
    experiments: OpenExperiments = request.app.state.experiments
    few = len(body.outcomes) <= _FEW
    allowed = partial(check_token, text=read_bearer(request), role=Role.TELL)
    pairs: Any = body.pairs()
    body.outcomes.clear()  # they take ten times as much memory, and a transaction may be waited for
    if any(isinstance(named, UnitKey) for named, _ in pairs):
        find = partial(Experiment.with_ids, pairs=pairs, precondition=allowed)
        pairs = await experiments.read(name, find)
    read = partial(read_told, precondition=allowed)
    call = read(pairs) if few else await run_in_threadpool(read, pairs)
    receipt = await experiments.tell(name, call)
    return Response(_receipt.dump_json(receipt), media_type="application/json")


@telling.get(
    "/experiments/{name}/served",
    summary="The option to use after the end",
    response_model=schemas.ServedOut,
    responses={304: {"description": "It is the one of the ETag given."}},
)
async def get_served(
    name: Name,
    experiments: Experiments,
    response: Response,
    if_none_match: IfNoneMatch = None,
) -> Any:
    """The winner, or the control if nothing was shown to be better: what `ask` serves from then on.

    It never changes, so it may be cached for an hour. While the experiment goes on it is a 409.
    """
    served, state = await experiments.compute(
        name, lambda watch: (watch.experiment.served(), watch.experiment.state)
    )
    if served is None:
        raise ApiError(
            409,
            "not_over",
            f"The experiment is {state}: no option is served yet.",
            field="state",
            value=state,
            remedy="Ask for assignments until it is over.",
        )
    tag = f'"{sha256(f"{state} {served.label}")[:16]}"'
    headers = {"ETag": tag, "Cache-Control": f"private, max-age={_SERVED_FOR}"}
    if is_known(tag, if_none_match):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return {"label": served.label, "arm": served.arm, "state": state, "experiment": False}


@telling.post("/experiments/{name}/fail", summary="Give up outcomes")
async def fail(name: Name, body: schemas.FailBody, experiments: Experiments) -> schemas.StatusOut:
    """Record that outcomes will never come. Repeating it is harmless."""
    return await experiments.change(name, lambda each: each.fail_many(body.ids, body.reason))


@managing.post("/experiments/{name}/pause", summary="Pause")
async def pause(name: Name, experiments: Experiments) -> schemas.StatusOut:
    """Make no assignments until the experiment is resumed. Repeating it is harmless."""
    return await experiments.change(name, Experiment.pause)


@managing.post("/experiments/{name}/resume", summary="Resume")
async def resume(name: Name, experiments: Experiments) -> schemas.StatusOut:
    """Continue after a pause. Repeating it is harmless."""
    return await experiments.change(name, Experiment.resume)


@managing.post("/experiments/{name}/lease", summary="Change how long outcomes may take")
async def change_lease(
    name: Name, body: schemas.LeaseBody, experiments: Experiments
) -> schemas.StatusOut:
    """Set it from now on; what is lost stays lost. Repeating it is harmless."""
    return await experiments.change(name, lambda each: each.change_lease(body.lease))


@managing.post("/experiments/{name}/add", summary="Add an option")
async def add(name: Name, body: schemas.AddBody, experiments: Experiments) -> schemas.StatusOut:
    """Add an option: it is drawn from the next plan on, which is made at once.

    Repeating it with the same features is harmless.
    """
    return await experiments.change(
        name, lambda each: each.add(body.option, features=body.features)
    )


@managing.post("/experiments/{name}/retire", summary="Retire an option")
async def retire(
    name: Name, body: schemas.RetireBody, experiments: Experiments
) -> schemas.StatusOut:
    """Retire an option for good: nothing more is drawn of it. Outcomes still count.

    Repeating it with the same reason is harmless.
    """
    return await experiments.change(name, lambda each: each.retire(body.option, reason=body.reason))


@managing.post("/experiments/{name}/erase", summary="Erase a unit")
async def erase(name: Name, body: schemas.EraseBody, experiments: Experiments) -> schemas.StatusOut:
    """Erase a unit's name, decision points and covariates. Its outcomes stay, without the name."""
    return await experiments.change(name, lambda each: each.erase(body.unit))


@managing.post("/experiments/{name}/stop", summary="Stop for good")
async def stop(
    name: Name, experiments: Experiments, body: schemas.StopBody | None = None
) -> schemas.StatusOut:
    """End the experiment. Outcomes that come later are kept and flagged.

    Whoever asks from then on gets the option that was shown to be the best, or else the control, or
    the leader where there is none.
    """
    reason = "" if body is None else body.reason
    return await experiments.change(name, lambda each: each.stop(reason))


@viewing.get("/experiments/{name}/recommendation", summary="The recommendation as of now")
async def get_recommendation(name: Name, experiments: Experiments) -> schemas.RecommendationOut:
    """The option that the policy would name now, and how far that can be relied on."""
    return await experiments.compute(
        name, lambda watch: schemas.RecommendationOut.of(watch.experiment)
    )


@viewing.get("/experiments/{name}/guardrails", summary="The guardrails")
async def get_guardrails(name: Name, experiments: Experiments) -> schemas.GuardrailsOut:
    """How much worse than the control each option is, in intervals that hold at every look."""
    rows = await experiments.compute(name, lambda watch: watch.experiment.guardrails())
    return schemas.GuardrailsOut(guardrails=list(rows))


@viewing.get(
    "/experiments/{name}/health", summary="Health checks", response_model=schemas.HealthOut
)
async def get_health(name: Name, experiments: Experiments) -> Any:
    """Whether the experiment runs as it should, and what to do if not."""
    return {"checks": await experiments.compute(name, lambda watch: watch.experiment.health())}


@viewing.get("/experiments/{name}/events", summary="The log", response_model=schemas.EventsOut)
async def get_events(
    name: Name,
    experiments: Experiments,
    after: Annotated[int, Query(ge=0, lt=2**62, description="`next` of the part before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> Any:
    """Every change of the experiment's state, hash-chained.

    The seed is left out: whoever knows it can predict the draws.
    """
    events = await experiments.read(name, lambda each: each.events(after, limit=limit))
    return {"events": events, "next": events[-1].number + 1 if events else after}


@viewing.get(
    "/experiments/{name}/export",
    summary="All assignments with their outcomes, as CSV",
    response_class=FileResponse,
    responses={
        200: {
            "content": {"text/csv": {"schema": {"type": "string"}, "example": "id,phase,arm\n"}},
            "description": "A CSV file.",
        }
    },
)
async def export(
    name: Name,
    experiments: Experiments,
    layout: Annotated[
        Literal["assignments", "mrt"],
        Query(description="All columns, or those of a micro-randomised trial."),
    ] = "assignments",
) -> Response:
    """One row per assignment."""
    return await experiments.compute(name, partial(_export, layout=layout))


def _export(watch: Watch, *, layout: str) -> Response:
    folder = tempfile.TemporaryDirectory(prefix="bestarm-")
    path = Path(folder.name) / "export.csv"
    try:
        watch.experiment.export(path, layout=layout)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        path,
        media_type="text/csv",
        filename=f"{layout}.csv",
        background=BackgroundTask(folder.cleanup),
    )
