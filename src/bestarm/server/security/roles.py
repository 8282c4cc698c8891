"""Roles of callers: every route names the least role that may call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from bestarm.server.security.guard import VALID
from bestarm.server.security.tokens import Role, find_role, pass_holds, require

COOKIE = "bestarm_view"
ANONYMOUS = "bestarm.anonymous"  # in the scope of a request that is allowed without a token

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_bearer = HTTPBearer(auto_error=False, description="A token of `bestarm token create`, as Bearer.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def read_bearer(request: Request) -> str:
    """The token sent as a header, which no other site can make a browser do; empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def check_role(request: Request, role: Role) -> Role:
    """The role of the caller, which must be at least this one.

    A token is looked up after every request that brings it: once revoked, it allows nothing.
    """
    found = await _role_of(request)
    request.scope[VALID] = found is not None
    return require(found, role)


async def _role_of(request: Request) -> Role | None:
    """The role of the caller, or None.

    The cookie that the pages set allows viewing only. On a server that only this machine can reach,
    viewing needs no token, unless a proxy forwarded the request.
    """
    state, token = request.app.state, read_bearer(request)
    if token:
        return await run_in_threadpool(find_role, state.store, token)
    await run_in_threadpool(state.store.check_file)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and await run_in_threadpool(pass_holds, state.store, cookie):
        return Role.VIEW
    alone = state.local and not any(name in request.headers for name in _FORWARDED)
    request.scope[ANONYMOUS] = alone
    return Role.VIEW if alone else None


@dataclass(frozen=True)
class Needs:
    """A dependency that lets only callers of at least this role pass."""

    role: Role

    async def __call__(self, request: Request, _: _Credentials) -> Role:
        """The role of the caller."""
        before: Role | None = getattr(request.state, "role", None)
        return before if before is not None else await check_role(request, self.role)
