"""Planning over HTTP: simulated beside the server, one plan at a time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field

from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.planning.request import RUNS
from bestarm.policies.registry import policies
from bestarm.server.api import schemas
from bestarm.server.api.requests import WITH_BODY, api_router
from bestarm.server.errors import ApiError
from bestarm.server.tokens import Role

_STARTING = 60.0  # seconds in which it says its first words
_GRACE = 5.0  # seconds beyond its time after which a simulation is ended from outside
_LISTENING = 0.5  # seconds between two looks at whether the client is still there
_LONGEST_LINE = 2**24
_WORKER = ("-m", "bestarm.planning.worker")
_LAST = {"plan", "lifts", "error"}  # what a simulation says at its end
_ENDED = "The simulation ended abruptly."
_TRY_AGAIN = "Try again; what the server writes to its error output may say why."

_LINES = "application/x-ndjson"
Lines = AsyncGenerator[dict[str, Any], None]
Row = Annotated[list[schemas.Number], Field(fail_fast=True, min_length=1, max_length=50)]
Arms = Annotated[list[Row], Field(fail_fast=True, min_length=1, max_length=200)]
Labels = Annotated[list[schemas.Label], Field(fail_fast=True, max_length=200)]
DriftName = Literal["none", "sine", "walk", "switches", "people"]
PLANNABLE = {each.name: each for each in policies().values() if each.plannable}
_KNOWN = list(PLANNABLE)
PolicyName = Annotated[
    str, schemas.one_of(_KNOWN, "policies"), Field(json_schema_extra={"enum": _KNOWN})
]
Amount = Annotated[Any, schemas.json_type("number", {"type": "string", "maxLength": 50})]


class PlanBody(
    schemas.Body,
    json_schema_extra=schemas.example(
        options=["old", "new"],
        gap=0.1,
        bounds=[0, 1],
        drift=["none", "sine"],
        policies=["anytime"],
        per_day=500,
        runs=20,
    ),
):
    """An experiment to plan, with a gap; or with visitors, for what they can find.

    Attributes:
        options: their names.
        source: their features, one row per option; left out, there are names alone.
        bounds: the lowest and the highest outcome, if there are such.
        base: the base rate, such as "2 %": the mean outcome of the option next to the best.
            Without bounds or noise, outcomes are then 0 or 1.
        gap: the smallest lead worth finding: in units of the outcome, or "+10 %" of the base rate,
            or "0.2 pp".
        visitors: instead of a gap; the answer says which lift so many visitors can find, with which
            probability.
        policies: by default `anytime`.
        block: options per round, as when each person rates 2. Of the policies only those that take
            blocks can then be planned.
        per_day: outcomes per day; with blocks, rounds per day: people.
        window: how long after its assignment an outcome counts, in seconds or like "7d"; needs
            `per_day`. Days then include the delay.
    """

    options: Labels | None = None
    source: Arms | None = None
    target: Arms | None = None
    target_labels: Labels | None = None
    delta: schemas.Delta = DELTA
    noise: schemas.Scale | None = None
    baseline: schemas.Scale | None = None
    bounds: schemas.Bounds | None = None
    base: Amount | None = None
    gap: Amount | None = None
    visitors: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    drift: Annotated[list[DriftName], Field(min_length=1, max_length=5)] | None = None
    policies: Annotated[list[PolicyName], Field(min_length=1, max_length=7)] | None = None
    block: Annotated[int, Field(ge=1, le=200)] = 1
    per_day: schemas.Positive | None = None
    window: schemas.Duration | None = None
    runs: Annotated[int, Field(ge=1, le=2000)] = RUNS
    seed: schemas.Natural = 0


class Planner:
    """Simulates one plan at a time, for so many seconds, in a process that ends with its caller."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._busy = False

    async def lines(self, request: dict[str, Any]) -> Lines:
        """The documents that the process writes; closing the generator ends the process."""
        if self._busy:
            raise ApiError(
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
            async with asyncio.timeout(_STARTING):
                line = await process.stdout.readline()
            async with asyncio.timeout(self.seconds + _GRACE):
                while line.endswith(b"\n"):  # written whole
                    document = json.loads(line)
                    yield document
                    if not _LAST.isdisjoint(document):
                        return  # no need to await the end of the process
                    line = await process.stdout.readline()
        except TimeoutError:
            remedy = "Ask for fewer runs, fewer policies or a larger gap."
            yield {"error": {"message": "It took too long.", "field": "runs", "remedy": remedy}}
        finally:
            self._busy = False
            if process is not None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


router = api_router(Role.TELL, *WITH_BODY, 429)


@router.post(
    "/plan",
    summary="Plan an experiment",
    response_class=Response,
    responses={
        200: {
            "content": {_LINES: {"example": '{"progress": {"done": 0, "total": 400}}\n'}},
            "description": "One JSON document per line.",
        }
    },
)
async def plan(body: PlanBody, request: Request) -> Response:
    """Simulate an experiment before it is run: how many outcomes and rounds, how often it errs.

    The answer is one JSON document per line, sent as it comes, each with one name: `progress` with
    `done` and `total`, at once and then now and then; and at the end `words`, sentences and tables
    for people, `curve`, outcomes over the lead beside a test of fixed size, and `plan`; with
    `visitors`, `words` and `lifts`; or `error`. When the time limit is reached it is of the
    experiments simulated by then, with `timed_out` set. Closing the connection ends the simulation.
    It costs processor time, so it needs a token of role tell, and one plan is simulated at a time.
    """
    planner: Planner = request.app.state.planner
    lines = planner.lines(body.model_dump())
    waiting = asyncio.ensure_future(anext(lines, None))
    try:
        first = await _first(waiting, request)
    except BaseException:
        waiting.cancel()
        await asyncio.wait([waiting])
        await lines.aclose()
        raise
    return StreamingResponse(_written(first, lines), media_type=_LINES)


async def _first(
    waiting: asyncio.Future[dict[str, Any] | None], request: Request
) -> dict[str, Any]:
    """The first document, unless the client leaves before there is one."""
    while not waiting.done():
        await asyncio.wait([waiting], timeout=_LISTENING)
        if await request.is_disconnected():
            remedy = "Stay connected until the plan has come."
            raise ApiError(499, "gone", "The client has gone.", field="request", remedy=remedy)
    first = waiting.result()
    if first is None:
        raise ApiError(500, "internal_error", _ENDED, field="request", remedy=_TRY_AGAIN)
    if "error" in first:
        raise InvalidInputError(**first["error"])
    return first


async def _written(first: dict[str, Any], rest: Lines) -> AsyncIterator[str]:
    """One line per document; the last is a result or an error."""
    abrupt = {"error": {"message": _ENDED, "field": "request", "remedy": _TRY_AGAIN}}
    async with aclosing(rest):
        document = first
        yield f"{json.dumps(document)}\n"
        while _LAST.isdisjoint(document):
            document = await anext(rest, abrupt)
            yield f"{json.dumps(document)}\n"
