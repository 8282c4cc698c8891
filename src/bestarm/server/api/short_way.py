"""The short way of the requests that come most often: outcomes told, one assignment asked for.

It does what the routes do, without what it takes to find one and its arguments, and checks tokens
where it writes. Whatever is not plain goes the long way, which knows what to say of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.errors import BestArmError
from bestarm.server.api.bodies import AskBody, TellBody
from bestarm.server.api.errors import refusal_of
from bestarm.server.api.requests import Name, read_json
from bestarm.server.api.schemas import AssignmentsOut, ReceiptOut
from bestarm.server.experiments import FEW, OpenExperiments
from bestarm.server.security.guard import RECENT
from bestarm.server.security.roles import bearer_token, check_role
from bestarm.server.security.tokens import Role

_PATH = re.compile(r"/api/v1/experiments/([^/]+)/(ask|tell)")
_SHORT = 10_000  # bytes of a body
_ONE = AskBody()
_name: TypeAdapter[str] = TypeAdapter(Name)
_receipt: TypeAdapter[Any] = TypeAdapter(ReceiptOut)


class ShortWay:
    """Passes everything on but plain requests to ask and to tell."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        post = scope["type"] == "http" and scope["method"] == "POST"
        found = _PATH.fullmatch(scope["path"]) if post else None
        if found is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        messages: list[Message] = []
        try:
            token = bearer_token(request) if scope.get(RECENT) else None
            if token is None:  # a stranger's body is not read
                await check_role(request, Role.TELL)
            body = await _read(receive, messages)
            answer = _find(request, found[1], found[2], body, token)
            response = None if answer is None else await answer
        except (BestArmError, HTTPException) as error:
            response = refusal_of(error).response()
        if response is None:
            await self._app(scope, _again(messages, receive), send)
        else:
            await response(scope, receive, send)


def _find(
    request: Request, name: str, what: str, body: bytes, token: str | None
) -> Awaitable[Response] | None:
    """What answers a request; nothing where it takes the long way."""
    if not 0 < len(body) <= _SHORT or "idempotency-key" in request.headers:
        return None
    state = request.app.state
    try:
        name, data = _name.validate_python(name), read_json(body)
        if what == "ask":
            plain = AskBody.model_validate(data) == _ONE
            return _ask(state.experiments, name, token) if plain else None
        told = TellBody.model_validate(data)
    except (ValueError, RecursionError):
        return None
    if len(told.outcomes) > min(FEW, state.limits.batch):
        return None
    return _tell(state.experiments, name, told, token)


async def _ask(experiments: OpenExperiments, name: str, token: str | None) -> Response:
    return JSONResponse(AssignmentsOut.plain(await experiments.ask_one(name, token)))


async def _tell(
    experiments: OpenExperiments, name: str, told: TellBody, token: str | None
) -> Response:
    receipt = await experiments.tell(name, told.pairs(), token)
    return Response(_receipt.dump_json(receipt), media_type="application/json")


async def _read(receive: Receive, messages: list[Message]) -> bytes:
    """A short body, or a part of a longer one; the messages that it came in are kept."""
    size, more = 0, True
    while more and size <= _SHORT:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
        more = messages[-1].get("more_body", False)
    return b"".join(message.get("body", b"") for message in messages)


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Messages that were received before, and then those that follow."""
    kept = iter(messages)

    async def again() -> Message:
        message = next(kept, None)
        return await receive() if message is None else message

    return again
