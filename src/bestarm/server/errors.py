"""One shape for every error: what, which field, which value, and the remedy."""

from __future__ import annotations

import json
import logging
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
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
_KINDS = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}
_log = logging.getLogger("bestarm.server")


def error_responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer with, for the API's description."""
    return {code: {"model": ErrorBody, "description": _MEANINGS[code]} for code in codes}


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
        error = {
            "kind": self.kind,
            "message": _text(self.detail, 1000),
            "field": _text(self.field, 200),
            "value": _plain(self.value),
            "remedy": _text(self.remedy, 2000),
        }
        return JSONResponse({"error": error}, self.status_code, self.headers)


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


_DESCRIBED = "GET /api/v1/openapi.json describes it."
# What a value must be, and the remedy, by Pydantic's kinds of errors. A union has one per member.
_EXPECTED: dict[str, tuple[str, str]] = {
    "bool_type": ("true or false", _DESCRIBED),
    "int_type": ("a whole number", _DESCRIBED),
    "int_from_float": ("a whole number", _DESCRIBED),
    "int_parsing": ("a whole number", _DESCRIBED),
    "int_parsing_size": ("a smaller number", "Send a smaller number."),
    "float_type": ("a number", _DESCRIBED),
    "finite_number": ("a finite number", "Send a smaller number."),
    "string_type": ("a text", _DESCRIBED),
    "string_unicode": ("a text of whole characters", "Send it in UTF-8."),
    "string_too_short": ("a text of {min_length} or more characters", "Send a longer text."),
    "string_too_long": ("a text of at most {max_length} characters", "Send a shorter text."),
    "list_type": ("a list", _DESCRIBED),
    "too_short": ("a list of at least {min_length} entries", "Send more entries."),
    "too_long": ("a list of at most {max_length} entries", "Send fewer entries."),
    "dict_type": ("an object", _DESCRIBED),
    "model_type": ("an object", _DESCRIBED),
    "model_attributes_type": ("an object", _DESCRIBED),
    "literal_error": ("{expected}", _DESCRIBED),
    "greater_than": ("greater than {gt:g}", "Send a larger number."),
    "greater_than_equal": ("at least {ge:g}", "Send a larger number."),
    "less_than": ("less than {lt:g}", "Send a smaller number."),
    "less_than_equal": ("at most {le:g}", "Send a smaller number."),
    "value_error": ("{error}", _DESCRIBED),  # of a validator of ours
    "null_name": (
        "a text or a whole number, or be left out",
        "Null, as of a cookie that is missing, is nobody's name: each request would be somebody "
        "else's. Send the name, or leave it out.",
    ),
}
_OTHER = ("of another form", _DESCRIBED)
_NUMBERS = {"bool_type", "int_type", "float_type"}


def _from_validation_error(error: RequestValidationError, route: BaseRoute | None) -> ApiError:
    """The first thing that is wrong, as deep in the body as it can be located."""
    errors: Sequence[dict[str, Any]] = error.errors()
    places = [_place(each["loc"], error.body, missing=each["type"] == "missing") for each in errors]
    first = places[0]
    place = max((each for each in places if each[: len(first)] == first), key=len)
    found = [each for each, where in zip(errors, places, strict=True) if where == place]
    kind, value = found[0]["type"], found[0]["input"]
    field = ".".join(map(str, place)) or "body"
    body = get_type_hints(getattr(route, "endpoint", None)).get("body")
    if kind == "missing":
        message, value, remedy = f"`{field}` is missing.", None, "Send it."
        extra = [
            where
            for each, where in zip(errors, places, strict=True)
            if each["type"] == "extra_forbidden" and where[:-1] == place[:-1]
        ]
        if example := _example(body, place):
            remedy = f"Send it, as in {example}."
        elif len(extra) == 1:
            message = f"`{field}` is missing, and `{extra[0][-1]}` is not known."
            remedy = f"Did you mean {place[-1]}?"
    elif kind == "extra_forbidden":
        known = _names(body, place[:-1])
        message = f"`{field}` is not known."
        remedy = suggestion(str(place[-1]), known) or f"Known are {', '.join(known)}."
    else:
        expected = [(each, *_EXPECTED.get(each["type"], _OTHER)) for each in found]
        wanted = [words.format(**each.get("ctx", {})) for each, words, _ in expected]
        message = f"`{field}` must be {', or '.join(dict.fromkeys(wanted))}; got {_shown(value)}."
        remedy = next((each for *_, each in expected if each != _DESCRIBED), _DESCRIBED)
        if isinstance(value, str) and any(each["type"] in _NUMBERS for each in found):
            remedy = "Send it without quotes if it is one."
        elif kind == "string_type" and len(found) == 1 and isinstance(value, (int, float)):
            remedy = "Send it in quotes."
    return ApiError(422, "invalid_input", message, field=field, value=value, remedy=remedy)


def _place(loc: Sequence[str | int], body: object, *, missing: bool) -> tuple[str | int, ...]:
    """Where an error is in a request, without the members of unions that Pydantic names."""
    source, *parts = loc
    if source != "body":
        return tuple(parts)
    place: list[str | int] = []
    value: Any = body
    for number, part in enumerate(parts, 1):
        try:
            value = value[part]
        except (TypeError, LookupError):
            if not missing or number < len(parts):
                continue
        place.append(part)
    return tuple(place)


def _names(kind: object, place: tuple[str | int, ...]) -> list[str]:
    """The names that an object at a place of a body may have."""
    models = list(_models(kind))
    for part in place:
        if isinstance(part, str):
            fields = [each.model_fields[part] for each in models if part in each.model_fields]
            models = [model for each in fields for model in _models(each.annotation)]
    return [name for model in models for name in model.model_fields]


def _example(kind: object, place: tuple[str | int, ...]) -> str:
    """The example of a body as JSON, if it has what is at a place; else empty."""
    for model in _models(kind):
        described = model.model_config.get("json_schema_extra")
        examples: Any = described.get("examples") if isinstance(described, dict) else None
        if examples and len(place) == 1 and place[0] in examples[0]:
            return json.dumps(examples[0], ensure_ascii=False)
    return ""


def _models(kind: object) -> Iterator[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _shown(value: object) -> str:
    """A value as JSON writes it; of what is large, its kind."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # among others, a number of very many digits
        return "something else"
    return text if len(text) <= 60 else f"{text[:59]}…"


_LIKE_A_TOKEN = re.compile(r"(bestarm-\d+-)[\w-]+")


def hide_tokens(text: str) -> str:
    """A text without the secrets of the tokens in it, for logs and for errors."""
    return _LIKE_A_TOKEN.sub(r"\1…", text)
