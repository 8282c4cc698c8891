"""The short way of the requests that come most often: outcomes told, one assignment asked for.

It does what the routes do, without what it takes to find one and its arguments, and without a task:
the connection itself begins a request here once all of it has come, and answers it when it is
done. Whatever is not plain goes the long way, which knows what to say of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from fastapi.responses import JSONResponse, Response
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from bestarm.errors import BestArmError
from bestarm.live import Batch, Receipt
from bestarm.server.api.bodies import AskBody, TellBody
from bestarm.server.api.errors import refusal_of
from bestarm.server.api.requests import Name, read_json
from bestarm.server.api.schemas import AssignmentsOut, ReceiptOut
from bestarm.server.experiments import FEW, OpenExperiments
from bestarm.server.security.guard import Guard
from bestarm.server.security.limits import Limits
from bestarm.server.security.roles import read_bearer

SHORT_WAY = "bestarm.short_way"  # where a running application keeps it, for connections

_PATH = re.compile(r"/api/v1/experiments/([^/]+)/(ask|tell)")
_SHORT = 10_000  # bytes of a body
_ONE = AskBody()
# Headers that only the long way understands.
_SPECIAL = frozenset(
    {b"idempotency-key", b"transfer-encoding", b"expect", b"x-forwarded-for", b"x-forwarded-proto"}
)
_name: TypeAdapter[str] = TypeAdapter(Name)
_receipt: TypeAdapter[Receipt] = TypeAdapter(ReceiptOut)

Encode = Callable[[Any], bytes]


class ShortWay:
    """Begins plain requests to ask and to tell, of callers whose token was valid before.

    The token is looked up again just before anything is written.
    """

    def __init__(self, guard: Guard, experiments: OpenExperiments, limits: Limits) -> None:
        self._guard = guard
        self._experiments = experiments
        self._most = min(FEW, limits.batch)

    def begin(self, scope: Scope, body: bytearray) -> tuple[asyncio.Future[Any], Encode] | None:
        """What will be answered, and what makes JSON of it; nothing where it takes the long way."""
        found = _read_path(scope["path"]) if scope["method"] == "POST" else None
        if found is None:
            return None
        headers = dict(reversed(scope["headers"]))  # the first of each name
        bearer = read_bearer(headers.get(b"authorization", b"").decode("latin-1"))
        digest = self._guard.find_recent(headers) if _SPECIAL.isdisjoint(headers) else ""
        sent = self._read(found[1], body) if bearer and digest else None
        if sent is None:
            return None
        try:
            self._guard.check(scope, headers, digest)
        except HTTPException as error:
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused, _encode_receipt
        if isinstance(sent, AskBody):
            return self._experiments.begin_ask(found[0], bearer), _encode_batch
        return self._experiments.begin_tell(found[0], sent.pairs(), bearer), _encode_receipt

    def _read(self, what: str, body: bytearray) -> AskBody | TellBody | None:
        """A body, if it is plain."""
        if not 0 < len(body) <= _SHORT:
            return None
        try:
            data = read_json(bytes(body))
            if what == "ask":
                return _ONE if AskBody.model_validate(data) == _ONE else None
            told = TellBody.model_validate(data)
        except (ValueError, RecursionError):
            return None
        return told if len(told.outcomes) <= self._most else None

    def answering(self, answer: bytes | Exception, began: float) -> ASGIApp:
        """An application that answers with JSON, or with what an error says.

        The log has the time from when the request began, by `time.perf_counter`.
        """

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            if isinstance(answer, bytes):
                response = Response(answer, media_type="application/json")
            elif isinstance(answer, (BestArmError, HTTPException)):
                response = refusal_of(answer).response()
            else:
                raise answer
            await response(scope, receive, send)

        return partial(self._guard.answer, respond, began=began)


@lru_cache(1000)
def _read_path(path: str) -> tuple[str, str] | None:
    """The name of an experiment, and what is wanted of it."""
    found = _PATH.fullmatch(path)
    try:
        return None if found is None else (_name.validate_python(found[1]), found[2])
    except ValueError:
        return None


@lru_cache(1000)
def _encode_receipt(receipt: Receipt) -> bytes:
    return _receipt.dump_json(receipt)


def _encode_batch(batch: Batch) -> bytes:
    return bytes(JSONResponse(AssignmentsOut.plain(batch)).body)
