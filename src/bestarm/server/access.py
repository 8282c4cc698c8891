"""Who may do what: every route names the least role that may call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from bestarm.errors import BestArmError
from bestarm.live.sql import Store
from bestarm.server.tokens import Role, find_role

__all__ = ["COOKIE", "ForbiddenError", "UnauthorizedError", "needs", "role_of"]

COOKIE = "bestarm_view"

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
    can reach, looking needs no token.
    """
    store: Store = request.app.state.store
    if credentials is not None:
        return find_role(store, credentials.credentials)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and find_role(store, cookie) is not None:
        return Role.VIEW
    return Role.VIEW if request.app.state.local else None


def needs(role: Role) -> Callable[[Request, HTTPAuthorizationCredentials | None], Role]:
    """A dependency that lets only callers of at least this role pass."""

    def check(request: Request, credentials: _Credentials) -> Role:
        found = role_of(request, credentials)
        if found is None:
            raise UnauthorizedError(
                "This needs a valid token.",
                field="Authorization",
                remedy="Send it as `Authorization: Bearer …`; `bestarm token create` makes one.",
            )
        if found < role:
            raise ForbiddenError(
                f"This needs a token that may {role.word}.",
                field="Authorization",
                value=found.word,
                remedy=f"`bestarm token create --role {role.word}` makes one.",
            )
        return found

    check.role = role  # type: ignore[attr-defined]
    return check
