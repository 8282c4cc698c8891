"""One shape for every error: what, which field, which value, and the remedy."""

from __future__ import annotations

import json
import logging
import re
import reprlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from bestarm import errors
from bestarm.checks import suggestion


class UnauthorizedError(errors.BestArmError):
    """A request brings no valid token."""


class ForbiddenError(errors.BestArmError):
    """A token does not allow what it was sent for."""


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
    409: "It contradicts what is on record.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer for that host.",
    422: "A value is not valid.",
    429: "Another plan is being simulated.",
    500: "The server, or the database behind it, is in a state it should not be in.",
    503: "The database or the experiment cannot be used now, or too many are served already.",
}
PROBLEM = "application/problem+json"
_TITLES = {each.value: each.phrase for each in HTTPStatus} | {499: "Client Closed Request"}
_KINDS = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}
_log = logging.getLogger("bestarm.server")


def error_responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer with, for the API's description."""
    return {code: {"model": Problem, "description": _MEANINGS[code]} for code in codes}


class Problem(BaseModel):
    """The shape of every error, `application/problem+json` of RFC 9457."""

    type: str = Field(default="about:blank", description="Always `about:blank`.")
    title: str = Field(description="The meaning of the status.", examples=["Not Found"])
    status: int = Field(description="That of the answer.", examples=[404])
    detail: str = Field(
        description="A sentence for people.", examples=["There is no experiment 'checkout'."]
    )
    kind: str = Field(description="A word for programs.", examples=["unknown_experiment"])
    field: str = Field(description="The name of what was wrong.", examples=["name"])
    value: Any = Field(default=None, description="Its value.", examples=["checkout"])
    remedy: str = Field(default="", description="What to do about it.")


class ApiError(HTTPException):
    """An error in the one shape: a request that is refused, or that failed."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        field: str,
        value: object = None,
        remedy: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.kind, self.field, self.value, self.remedy = kind, field, value, remedy

    def response(self) -> JSONResponse:
        """The answer. Long values are cut, and tokens are hidden."""
        problem = {
            "type": "about:blank",
            "title": _TITLES.get(self.status_code, ""),
            "status": self.status_code,
            "detail": _text(self.detail, 1000),
            "kind": self.kind,
            "field": _text(self.field, 200),
            "value": _plain(self.value),
            "remedy": _text(self.remedy, 2000),
        }
        return JSONResponse(problem, self.status_code, self.headers, media_type=PROBLEM)


def to_api_error(error: Exception, request: Request) -> ApiError:
    """An expected error of a request in the one shape."""
    match error:
        case ApiError():
            return error
        case errors.BestArmError():
            return _from_bestarm_error(error)
        case RequestValidationError():
            return _from_validation_error(error, request.scope.get("route"))
        case HTTPException():
            return _from_http_exception(error, request.method)
    raise error


def _from_bestarm_error(error: errors.BestArmError) -> ApiError:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
    if status >= 500:
        _log.error("%s: %s", kind, hide_tokens(str(error)), exc_info=error)
    if isinstance(error, errors.StoreError):
        # The database's address and message are for the server's log, not for callers.
        again = "What was not acknowledged was not recorded; send the same request again."
        return ApiError(
            status,
            kind,
            "The database cannot be used now." if status == 503 else _MEANINGS[500],
            field="store",
            remedy=again if status == 503 else "The server's log says more.",
            headers={"Retry-After": "1"} if status == 503 else None,
        )
    # A replay happens when a phase closes: after the outcomes are on record.
    kept = "The outcomes sent are recorded. " if isinstance(error, errors.ReplayError) else ""
    return ApiError(
        status,
        kind,
        error.message,
        field=error.field,
        value=error.value,
        remedy=f"{kept}{error.remedy}",
        headers={"WWW-Authenticate": "Bearer"} if status == 401 else None,
    )


def _from_http_exception(error: HTTPException, method: str) -> ApiError:
    status, headers = error.status_code, error.headers
    kind, message = _KINDS.get(status, "refused"), f"{error.detail}."
    remedy = "GET /api/v1/openapi.json lists what there is."
    if status == 404:
        message = "There is nothing at this address."
    elif status == 405:
        allowed = (headers or {}).get("Allow", "another method")
        message, remedy = f"{method} is not allowed here.", f"Allowed is {allowed}."
    return ApiError(status, kind, message, field="request", remedy=remedy, headers=headers)


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


def _from_validation_error(error: RequestValidationError, route: BaseRoute | None) -> ApiError:
    """The first thing that is wrong with a request: as our own check says it, or Pydantic."""
    first = error.errors()[0]
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, errors.InvalidInputError):
        return _from_bestarm_error(ours)
    _, *place = first["loc"]
    kind, value, field = first["type"], first["input"], ".".join(map(str, place)) or "body"
    message = f"`{field}` must {_SUBJECT.sub('', first['msg'])}."
    remedy = "GET /api/v1/openapi.json describes it."
    body = get_type_hints(getattr(route, "endpoint", None)).get("body")
    described = TypeAdapter(body).json_schema() if body else {}
    if kind == "missing":
        message, value, remedy = f"`{field}` is missing.", None, "Send it."
        example = described.get("examples", [{}])[0]
        if len(place) == 1 and field in example:
            remedy = f"Send it, as in {json.dumps(example, ensure_ascii=False)}."
    elif kind == "extra_forbidden":
        message = f"`{field}` is not known."
        top = len(place) == 1 and "properties" in described
        models = [described] if top else described.get("$defs", {}).values()
        known = [name for each in models for name in each.get("properties", ())]
        remedy = suggestion(str(place[-1]), known) or f"Known are {', '.join(known)}."
    return ApiError(422, "invalid_input", message, field=field, value=value, remedy=remedy)


_SUBJECT = re.compile(r"^\w+ should ")
_LIKE_A_TOKEN = re.compile(r"(bestarm-\d+-)[\w-]+")


def hide_tokens(text: str) -> str:
    """A text without the secrets of the tokens in it, for logs and for errors."""
    return _LIKE_A_TOKEN.sub(r"\1…", text)
