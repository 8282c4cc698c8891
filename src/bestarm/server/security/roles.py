"""Who may do what: every route names the least role that may call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from bestarm.errors import BestArmError
from bestarm.server.experiments import OpenExperiments
from bestarm.server.security.guard import KNOWN
from bestarm.server.security.tokens import Role, find_role, pass_holds, token_number

__all__ = [
    "ANONYMOUS",
    "COOKIE",
    "ForbiddenError",
    "UnauthorizedError",
    "check_role",
    "needs",
    "role_of",
]

COOKIE = "bestarm_view"
ANONYMOUS = "bestarm.anonymous"  # set in the scope of a request that is allowed without a token

_PASSED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_bearer = HTTPBearer(
    auto_error=False, description="A token made with `bestarm token create`, as Bearer."
)
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class UnauthorizedError(BestArmError):
    """No token, or not a valid one."""


class ForbiddenError(BestArmError):
    """The token does not allow this."""


def role_of(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Role | None:
    """The role of whoever sent a request, or None.

    A token counts when it is sent as a header, which no other site can make a browser do. The
    cookie that the page keeps allows looking and nothing else. On a server that only this machine
    can reach, looking needs no token, unless a proxy passed the request on from elsewhere.
    """
    trials: OpenExperiments = request.app.state.experiments
    trials.store.check_file()
    if credentials is not None:
        request.state.caller = token_number(credentials.credentials)
        return find_role(trials.store, credentials.credentials)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and pass_holds(trials.store, cookie):
        return Role.VIEW
    alone = request.app.state.local and not any(name in request.headers for name in _PASSED_ON)
    request.scope[ANONYMOUS] = alone
    return Role.VIEW if alone else None


async def check_role(request: Request, role: Role) -> Role:
    """The role of whoever sent a request, which must be at least this one."""
    found = await run_in_threadpool(role_of, request, await _bearer(request))
    if found is None:
        raise UnauthorizedError(
            "This needs a valid token.",
            field="Authorization",
            remedy="Send it as `Authorization: Bearer …`; `bestarm token create` makes one.",
        )
    request.scope[KNOWN] = True
    if found < role:
        raise ForbiddenError(
            f"This needs a token that may {role.word}.",
            field="Authorization",
            value=found.word,
            remedy=f"`bestarm token create --role {role.word}` makes one.",
        )
    return found


def needs(role: Role) -> Callable[[Request, _Credentials], Awaitable[Role]]:
    """A dependency that lets only callers of at least this role pass."""

    async def check(request: Request, _: _Credentials) -> Role:
        before: Role | None = getattr(request.state, "role", None)
        return before if before is not None else await check_role(request, role)

    check.role = role  # type: ignore[attr-defined]
    return check
