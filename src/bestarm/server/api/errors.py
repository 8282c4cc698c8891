"""One shape for every error: what, which field, which value, and the remedy."""

from __future__ import annotations

import logging
import re
import reprlib
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from bestarm import errors
from bestarm.server.api.validation import find_fault
from bestarm.server.security.tokens import ForbiddenError, UnauthorizedError, hide_tokens

_STATUS: tuple[tuple[type[errors.BestArmError], int], ...] = (
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (errors.UnknownExperimentError, 404),
    (errors.UnknownAssignmentError, 404),
    (errors.ExperimentExistsError, 409),
    (errors.ConflictingOutcomeError, 409),
    (errors.ConflictingRequestError, 409),
    (errors.ClockError, 503),  # the server's, or the database's
    (errors.InvalidInputError, 422),
    (errors.StoreUnavailableError, 503),
    (errors.ReplayError, 503),  # somewhere else it may go on
)
_MEANINGS = {
    400: "The request could not be read.",
    401: "A token is needed.",
    403: "The token does not allow this, or a page of another site made the request.",
    404: "It does not exist.",
    408: "The body took too long to arrive.",
    409: "It contradicts what is on record.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer for that host.",
    422: "A value is not valid.",
    429: "Too many requests, or another plan is being simulated.",
    500: "The server, or the database behind it, is in a state it should not be in.",
    503: "The database or the experiment cannot be used now, or too many are served already.",
}
_KINDS = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}
_log = logging.getLogger("bestarm.server")


def error_responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer with, for the API's description."""
    return {code: {"model": ErrorBody, "description": _MEANINGS[code]} for code in codes}


def event_stream(example: str, description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that streams events, for the API's description."""
    content = {"text/event-stream": {"example": example}}
    return {200: {"content": content, "description": description}}


class ErrorDetail(BaseModel):
    """What went wrong."""

    kind: str = Field(description="A word for programs.", examples=["unknown_experiment"])
    message: str = Field(
        description="A sentence for people.", examples=["There is no experiment 'checkout'."]
    )
    field: str = Field(description="The name of what was wrong.", examples=["name"])
    value: Any = Field(default=None, description="Its value.", examples=["checkout"])
    remedy: str = Field(default="", description="What to do about it.")


class ErrorBody(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


class Refusal(HTTPException):
    """An error in the one shape: a request that is refused, or that failed."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        field: str,
        value: object = None,
        remedy: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.kind, self.field, self.value, self.remedy = kind, field, value, remedy

    def response(self) -> JSONResponse:
        """The answer. Long values are cut, and tokens are hidden."""
        error = {
            "kind": self.kind,
            "message": _text(self.detail, 1000),
            "field": _text(self.field, 200),
            "value": _plain(self.value),
            "remedy": _text(self.remedy, 2000),
        }
        return JSONResponse({"error": error}, self.status_code, self.headers)


def refusal_of(error: Exception, request: Request) -> Refusal:
    """An expected error of a request in the one shape."""
    match error:
        case Refusal():
            return error
        case errors.BestArmError():
            return _ours(error)
        case RequestValidationError():
            message, field, value, remedy = find_fault(error, request.scope.get("route"))
            kind = "invalid_input"
            return Refusal(422, kind, message, field=field, value=value, remedy=remedy)
        case HTTPException():
            return _of_routing(error, request.method)
    raise error


def _ours(error: errors.BestArmError) -> Refusal:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
    if status >= 500:
        _log.error("%s: %s", kind, hide_tokens(str(error)), exc_info=error)
    if isinstance(error, errors.StoreError):
        # The database's address and message are for the server's log, not for callers.
        again = "What was not acknowledged was not recorded; send the same request again."
        return Refusal(
            status,
            kind,
            "The database cannot be used now." if status == 503 else _MEANINGS[500],
            field="store",
            remedy=again if status == 503 else "The server's log says more.",
            headers={"Retry-After": "1"} if status == 503 else None,
        )
    # A replay happens when a phase closes: after the outcomes are on record.
    kept = "The outcomes sent are recorded. " if isinstance(error, errors.ReplayError) else ""
    return Refusal(
        status,
        kind,
        error.message,
        field=error.field,
        value=error.value,
        remedy=f"{kept}{error.remedy}",
        headers={"WWW-Authenticate": "Bearer"} if status == 401 else None,
    )


def _of_routing(error: HTTPException, method: str) -> Refusal:
    status, headers = error.status_code, error.headers
    kind, message = _KINDS.get(status, "refused"), f"{error.detail}."
    remedy = "GET /api/v1/openapi.json lists what there is."
    if status == 404:
        message = "There is nothing at this address."
    elif status == 405:
        allowed = (headers or {}).get("Allow", "another method")
        message, remedy = f"{method} is not allowed here.", f"Allowed is {allowed}."
    return Refusal(status, kind, message, field="request", remedy=remedy, headers=headers)


def _plain(value: object) -> Any:
    """A value as JSON can carry it; what is long, in words."""
    if value is None or (isinstance(value, (int, float)) and abs(value) < 2**53):
        return value
    try:
        return _text(value if isinstance(value, str) else _repr.repr(value))
    except ValueError:  # a number of more digits than Python will write
        return "a very large number"


_repr = reprlib.Repr()
_repr.maxlong = _repr.maxstring = _repr.maxother = 60


def _text(value: str, most: int = 500) -> str:
    short = value if len(value) <= most else f"{value[: most - 1]}…"
    return hide_tokens(short).encode("utf-8", "replace").decode()
