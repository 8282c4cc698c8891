"""Requests: who may send them, what they name, and bodies that can be read in one way only."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar, get_type_hints

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AfterValidator, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bestarm.errors import UnknownExperimentError
from bestarm.live.inputs import normal_form
from bestarm.server.errors import ApiError, error_responses
from bestarm.server.experiments import OpenExperiments
from bestarm.server.tokens import (
    Role,
    digest,
    find_role,
    is_view_session,
    require,
    require_bearer,
)

COOKIE = "bestarm_view"

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_bearer = HTTPBearer(auto_error=False, description="A token of `bestarm token create`, as Bearer.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def read_bearer(request: Request) -> str:
    """The token sent as a header, which no other site can make a browser do; empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def check_role(request: Request, role: Role) -> Role:
    """The role of the caller, which must be at least this one."""
    found = await _role_of(request)
    if "authorization" in request.headers and not read_bearer(request):
        require_bearer(found, role)
    return require(found, role)


async def _role_of(request: Request) -> Role | None:
    """The role of the caller, or None.

    The cookie that the pages set allows viewing only. On a server that only this machine can reach,
    viewing needs no token, unless a proxy forwarded the request.
    """
    state, token = request.app.state, read_bearer(request)
    if token:
        return await run_in_threadpool(find_role, state.store, token)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and await run_in_threadpool(is_view_session, state.store, cookie):
        return Role.VIEW
    alone = state.local and not any(name in request.headers for name in _FORWARDED)
    return Role.VIEW if alone else None


@dataclass(frozen=True)
class RequireRole:
    """A dependency that lets only callers of at least this role pass."""

    role: Role

    async def __call__(self, request: Request, _: _Credentials) -> Role:
        """The role of the caller."""
        before: Role | None = getattr(request.state, "role", None)
        return before if before is not None else await check_role(request, self.role)


_ANYWHERE = (400, 401, 403, 421, 422, 500, 503)  # errors of every route
WITH_BODY = (413, 415)  # errors of routes that take a body
VIEW = Depends(RequireRole(Role.VIEW))
Name = Annotated[
    str,
    Path(description="The experiment's name.", min_length=1, max_length=200, examples=["checkout"]),
    AfterValidator(normal_form),
]


IfNoneMatch = Annotated[
    str | None, Header(max_length=500, description="The ETag of what is known already.")
]


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether If-None-Match names this ETag."""
    known = {each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")}
    return not known.isdisjoint({"*", tag.removeprefix("W/")})


async def _experiments(request: Request) -> OpenExperiments:
    experiments: OpenExperiments = request.app.state.experiments
    return experiments


_name: TypeAdapter[str] = TypeAdapter(Name)
T = TypeVar("T")
Experiments = Annotated[OpenExperiments, Depends(_experiments)]

_MOST_NAMES = 1000  # in one object of a body: nothing has more
_LARGE = 100_000  # bytes: more take long enough that others should not wait for it
_MOST_TOKENS = 10_000


class StrictRoute(APIRoute):
    """A route that reads no body before it knows that the caller may send one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """How a request is answered."""
        answer, role = super().get_route_handler(), role_needed(self)

        async def checked(request: Request) -> Response:
            if role is not None:
                request.state.role = await check_role(request, role)
            return await answer(_StrictRequest(request.scope, request.receive))

        return checked


class PlainRoute(StrictRoute):
    """A route without FastAPI's work on every request: telling was half as fast with it.

    Its endpoint takes an experiment's name, a body and the request, and looks up the token when it
    writes: once revoked, it allows nothing. So only a token that was not valid before is looked up
    before the body is read.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        role, self.app = role_needed(self), self._answer
        assert role is not None
        self._role = role
        self._body: TypeAdapter[Any] = TypeAdapter(get_type_hints(self.endpoint)["body"])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _StrictRequest(scope, receive)
        valid, token = request.app.state.token_digests, digest(read_bearer(request))
        if token not in valid:
            await check_role(request, self._role)
            if len(valid) >= _MOST_TOKENS:
                valid.clear()
            valid.add(token)
        name = _validate(_name, request.path_params["name"], ("path", "name"))
        body = await request.read(partial(_validate, self._body, where=("body",)))
        try:
            response: Response = await self.endpoint(name, body, request)
        except UnknownExperimentError:
            await check_role(request, self._role)  # who may not look learns nothing
            raise
        await response(scope, receive, send)


def api_router(role: Role, *codes: int, route_class: type[APIRoute] = StrictRoute) -> APIRouter:
    """A router of the API, for callers of at least this role; its routes may answer with errors."""
    return APIRouter(
        prefix="/api/v1",
        dependencies=[Depends(RequireRole(role))],
        responses=error_responses(*_ANYWHERE, *codes),
        route_class=route_class,
    )


def _validate(kind: TypeAdapter[T], value: object, where: tuple[str, ...]) -> T:
    """A value, or the error that FastAPI would raise for it."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise RequestValidationError(
            [{**each, "loc": (*where, *each["loc"])} for each in found], body=value
        ) from None


def role_needed(route: APIRoute) -> Role | None:
    """The least role that may call a route, or None where it names none."""
    named = [each.dependency for each in route.dependencies]
    return next((each.role for each in named if isinstance(each, RequireRole)), None)


class _StrictRequest(Request):
    async def json(self) -> Any:
        """The body, read as JSON that means one thing only."""
        return await self.read(lambda data: data)

    async def read(self, make: Callable[[Any], T]) -> T:
        """What a function makes of the body. Large bodies are read one after the other, as each
        takes thirty times its size until it is read."""
        body, state = b"".join([part async for part in self.stream()]), self.app.state
        if len(body) <= _LARGE:
            return _read_body(body, make, state.limits.batch)
        read = partial(_read_body, body, make, state.limits.batch)
        return await to_thread.run_sync(read, limiter=state.parsing)


def _read_body(body: bytes, make: Callable[[Any], T], most: int) -> T:
    """What a function makes of a body, unless it has too many items."""
    try:
        data = read_json(body)
    except (ValueError, RecursionError) as error:
        message = "The body is not JSON that can be read."
        remedy = "Send one JSON document in UTF-8, of finite numbers, with each name once."
        raise ApiError(
            400, "bad_request", message, field="body", value=str(error), remedy=remedy
        ) from None
    try:
        for field, items in data.items() if isinstance(data, dict) else ():
            if isinstance(items, list) and len(items) > most:
                raise _too_many(field, len(items), most)
        return make(data)
    finally:
        del data  # the traceback of an error would keep it


def check_size(field: str, size: int, most: int, remedy: str = "Send several requests.") -> None:
    """Raise if a request brings more than it may."""
    if size > most:
        raise _too_many(field, size, most, remedy)


def _too_many(field: str, size: int, most: int, remedy: str = "Send several requests.") -> ApiError:
    message = f"`{field}` comes to {size}; one request may bring {most} at most."
    return ApiError(422, "invalid_input", message, field=field, value=size, remedy=remedy)


def read_json(body: bytes) -> Any:
    """A body as JSON that means one thing only; else raises ValueError or RecursionError."""
    return _decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each of whose names is there once."""
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a name is there twice in one object")
    if len(read) > _MOST_NAMES:
        raise ValueError(f"an object has more than {_MOST_NAMES} names")
    return read


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_decoder = json.JSONDecoder(object_pairs_hook=_unique_names, parse_constant=_reject_constant)
