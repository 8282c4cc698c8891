"""Planning over HTTP and in the browser: simulated beside the server, one plan at a time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.types import Message, Receive, Scope, Send

from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.policies.registry import policies
from bestarm.server.api.errors import ErrorBody, Refusal
from bestarm.server.api.requests import CarefulRoute
from bestarm.server.api.schemas import Delta
from bestarm.server.feeds import gone
from bestarm.server.pages.panels import render
from bestarm.server.pages.routes import PageRoute
from bestarm.server.security.roles import COOKIE, needs
from bestarm.server.security.tokens import Role

__all__ = ["PlanBody", "Planner", "router"]

_GRACE = 5.0  # seconds beyond its time after which a simulation is ended from outside
_LONGEST_LINE = 2**24
_WORKER = ("-m", "bestarm.planning.worker")

Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Row = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=50)]
Arms = Annotated[list[Row], Field(fail_fast=True, min_length=1, max_length=200)]
Labels = Annotated[
    list[Annotated[str, Field(max_length=1000)]], Field(fail_fast=True, max_length=200)
]
Lines = AsyncGenerator[dict[str, Any], None]
DriftName = Literal["none", "sine", "walk", "switches"]
_PLANNABLE = [each for each in policies().values() if each.plannable]


def _plannable(policy: str) -> str:
    names = [each.name for each in _PLANNABLE]
    if policy not in names:
        raise ValueError(f"`policies` must be among {', '.join(names)}")
    return policy


PolicyName = Annotated[
    str,
    AfterValidator(_plannable),
    Field(json_schema_extra={"enum": [each.name for each in _PLANNABLE]}),
]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DriftIn(_In):
    """How the baseline moves."""

    kind: DriftName
    size: Positive | None = Field(default=None, description="How far to either side.")
    period: Annotated[float, Field(ge=2, allow_inf_nan=False)] | None = Field(
        default=None, description="Over how many outcomes."
    )


class ScenarioIn(_In):
    """One set of assumptions."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    gap: Positive | None = None
    theta: Literal["close", "typical"] | Row = "close"
    drift: DriftName | DriftIn = "sine"
    level: Number | None = None
    noise: Positive | None = None


class PlanBody(_In):
    """A trial to plan, with a gap or with scenarios."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source_labels": ["old", "new"],
                    "gap": 0.1,
                    "bounds": [0, 1],
                    "drift": ["none", "sine"],
                    "policies": ["anytime"],
                    "per_day": 500,
                    "runs": 20,
                }
            ]
        }
    )

    source: Arms | None = Field(
        default=None, description="Features, a row per arm; left out, there are names alone."
    )
    source_labels: Labels | None = Field(default=None, description="A name for each.")
    target: Arms | None = None
    target_labels: Labels | None = None
    delta: Delta = DELTA
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    baseline: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    bounds: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="The lowest and the highest reward, where there are such."
    )
    level: Number | None = Field(default=None, description="The mean reward.")
    gap: Positive | None = Field(default=None, description="The smallest lead worth finding.")
    drift: Annotated[list[DriftName], Field(min_length=1, max_length=4)] | None = None
    scenarios: Annotated[list[ScenarioIn], Field(min_length=1, max_length=6)] | None = None
    policies: Annotated[list[PolicyName], Field(min_length=1, max_length=7)] | None = None
    per_day: Positive | None = Field(default=None, description="Outcomes a day.")
    runs: Annotated[int, Field(ge=1, le=2000)] = 200
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Planner:
    """Simulates one plan at a time, in a process of its own that ends with whoever asked.

    Args:
        seconds: how long one may take.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._busy = False

    async def lines(self, request: dict[str, Any]) -> Lines:
        """What the process says, one document after another; it is ended where nobody reads on."""
        if self._busy:
            raise Refusal(
                429,
                "busy",
                "Another plan is being simulated.",
                field="request",
                remedy=f"It takes {self.seconds:g} seconds at most; try again then.",
                headers={"Retry-After": "5"},
            )
        self._busy = True
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request | {"seconds": self.seconds}).encode())
            process.stdin.close()
            async with asyncio.timeout(self.seconds + _GRACE):
                while line := await process.stdout.readline():
                    said = json.loads(line)
                    yield said
                    if "plan" in said or "error" in said:
                        return  # no need to await the end of the process
        except TimeoutError:
            yield {"error": {"message": "It took too long.", "field": "runs", "remedy": ""}}
        finally:
            self._busy = False
            if process is not None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


class _Planned(Response):
    """Server-sent events: `progress` and `estimate` first, and `plan` or `error` at the end."""

    media_type = "text/event-stream"

    def __init__(self, first: dict[str, Any], rest: Lines) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._first, self._rest = first, rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send what there is until the end, or until the client has gone."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await self._rest.aclose()

    async def _send(self, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await send(_event(self._first))
        async for document in self._rest:
            await send(_event(document))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _event(document: dict[str, Any]) -> Message:
    ((kind, data),) = document.items()
    text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


_WORDS = {
    400: "The request could not be read.",
    401: "A token is needed.",
    403: "The token does not allow this, or a page of another site made the request.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer for that host.",
    422: "Something in it is not as it must be.",
    429: "Another plan is being simulated, or too many requests.",
    500: "The server, or the database behind it, is in a state it should not be in.",
    503: "The database cannot be used now, or too many are served already.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorBody, "description": words} for code, words in _WORDS.items()
}

_CHECKED = {"anytime", "sp-bai-sharp"}  # planned with unless one chooses otherwise
_DRIFTS = (
    ("none", "stays", False),
    ("sine", "a slow wave", True),
    ("walk", "a random walk", False),
    ("switches", "sudden jumps", False),
)

router = APIRouter()
_api = APIRouter(prefix="/api/v1", responses=_ERRORS, route_class=CarefulRoute)
_pages = APIRouter(route_class=PageRoute, include_in_schema=False)


@_api.post(
    "/plan",
    dependencies=[Depends(needs(Role.TELL))],
    summary="Plan a trial",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/event-stream": {
                    "example": 'event: progress\ndata: {"done": 0, "total": 400}\n\n',
                }
            },
            "description": "Server-sent events.",
        },
    },
)
async def plan(body: PlanBody, request: Request) -> Response:
    """Simulate a trial before it is run: how many outcomes it takes, and how often it errs.

    The answer is a stream of server-sent events: `progress` with `done` and `total`, at once and
    then now and then; `estimate` with the `seconds` it would take and the `limit` after which it
    gives what it has; and at the end `plan`, or `error`. Closing the connection ends the
    simulation. It costs processor time, so it needs a token that may tell, one is simulated at a
    time, and each has an end.
    """
    planner: Planner = request.app.state.planner
    lines = planner.lines(body.model_dump())
    try:
        first = await _unless_gone(_begun(lines), request.receive)
    except BaseException:
        await lines.aclose()
        raise
    return _Planned(first, lines)


async def _unless_gone(
    doing: Coroutine[Any, Any, dict[str, Any]], receive: Receive
) -> dict[str, Any]:
    """Await something, as long as the client does."""
    done, leaving = asyncio.ensure_future(doing), asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait({done, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not done.done():
            done.cancel()
            with suppress(asyncio.CancelledError):
                await done
    if done.cancelled():
        raise Refusal(499, "gone", "The client has gone.", field="request")
    return done.result()


async def _begun(lines: Lines) -> dict[str, Any]:
    """The first sign that it is being simulated."""
    first = await anext(lines, None)
    if first is None:
        raise Refusal(500, "unforeseen", "The simulation ended abruptly.", field="request")
    if "error" in first:
        said = first["error"]
        raise InvalidInputError(said["message"], field=said["field"], remedy=said["remedy"])
    return first


@_pages.get("/plan", dependencies=[Depends(needs(Role.VIEW))])
async def page(request: Request) -> HTMLResponse:
    """The form."""
    words = render(
        "plan.html",
        signed_in=COOKIE in request.cookies,
        seconds=request.app.state.planner.seconds,
        policies=[(each.name, each.summary, each.name in _CHECKED) for each in _PLANNABLE],
        drifts=_DRIFTS,
    )
    return HTMLResponse(words)


router.include_router(_api)
router.include_router(_pages)
