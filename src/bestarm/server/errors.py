"""One shape for every error: what, which field, which value, and the remedy."""

from __future__ import annotations

import logging
import math
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from bestarm import errors

__all__ = ["ErrorBody", "add_handlers", "error_response"]

_STATUS: tuple[tuple[type[errors.BestArmError], int], ...] = (
    (errors.UnknownExperimentError, 404),
    (errors.UnknownAssignmentError, 404),
    (errors.ExperimentExistsError, 409),
    (errors.ConflictingOutcomeError, 409),
    (errors.InvalidInputError, 422),
    (errors.StoreUnavailableError, 503),
)


class ErrorDetail(BaseModel):
    """What went wrong."""

    kind: str = Field(description="A word for programs.", examples=["unknown_experiment"])
    message: str = Field(description="A sentence for people.")
    field: str = Field(description="What was at fault.")
    value: Any = Field(default=None, description="What was given for it.")
    remedy: str = Field(default="", description="What to do about it.")


class ErrorBody(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


def error_response(
    status: int,
    kind: str,
    message: str,
    *,
    field: str,
    value: object = None,
    remedy: str = "",
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """An error in the one shape."""
    detail = ErrorDetail(
        kind=kind, message=message, field=field, value=_plain(value), remedy=remedy
    )
    body = ErrorBody(error=detail).model_dump()
    return JSONResponse(body, status_code=status, headers=headers)


def add_handlers(app: FastAPI) -> None:
    """Answer every error in the one shape."""
    app.add_exception_handler(errors.BestArmError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.BestArmError)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
    headers = {"Retry-After": "1"} if status == 503 else None
    return error_response(
        status,
        kind,
        error.message,
        field=error.field,
        value=error.value,
        remedy=error.remedy,
        headers=headers,
    )


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ())) or "body"
    return error_response(
        422, "invalid_input", f"{first.get('msg')}.", field=where, value=first.get("input")
    )


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}.get(
        error.status_code, "refused"
    )
    headers = dict(error.headers) if error.headers else None
    return error_response(
        error.status_code, kind, f"{error.detail}.", field="request", headers=headers
    )


def _unforeseen(_: Request, error: Exception) -> JSONResponse:
    logging.getLogger("bestarm.server").exception("Unforeseen error", exc_info=error)
    return error_response(
        500,
        "unforeseen",
        "The server failed in a way that was not foreseen; its log says more.",
        field="request",
    )


def _plain(value: object, depth: int = 0) -> Any:
    """A value as JSON can carry it, cut where it is long."""
    if value is None or isinstance(value, (bool, int)):
        return value if value is None or abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)) and depth < 3:
        return [_plain(item, depth + 1) for item in value[:20]]
    return str(value)[:500].encode("utf-8", "replace").decode()
