"""Roles of callers: every route names the least role that may call it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from bestarm.live.store.sql import Store
from bestarm.server.api.errors import Refusal
from bestarm.server.gathering import TaskGathering
from bestarm.server.security.guard import KNOWN
from bestarm.server.security.tokens import Role, find_role, pass_holds, token_number

COOKIE = "bestarm_view"
ANONYMOUS = "bestarm.anonymous"  # in the scope of a request that is allowed without a token

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_bearer = HTTPBearer(auto_error=False, description="A token of `bestarm token create`, as Bearer.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class Callers:
    """The roles of those who call, looked up together for those who call at the same time.

    A token is looked up after every request that brings it: once revoked, it allows nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lookups: TaskGathering[str, Role | None] = TaskGathering(
            lambda _, tokens: run_in_threadpool(self._find, tokens)
        )

    async def role_of(self, token: str) -> Role | None:
        """What a token allows, or None if it is not one, or not one any more."""
        return await self._lookups.add("", token)

    def refusals(self, tokens: Iterable[str | None], role: Role) -> dict[str | None, Refusal]:
        """The refusals of those tokens that do not allow what this role may do."""
        refused: dict[str | None, Refusal] = {}
        for token in {token for token in tokens if token is not None}:
            try:
                _check(find_role(self._store, token), role)
            except Refusal as refusal:
                refused[token] = refusal
        return refused

    def _find(self, tokens: list[str]) -> list[Role | None]:
        found = {token: find_role(self._store, token) for token in set(tokens)}
        return [found[token] for token in tokens]


def read_bearer(authorization: str) -> str | None:
    """The token that is sent as a header, which no other site can make a browser do."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def _role_of(request: Request) -> Role | None:
    """The role of the caller, or None.

    The cookie that the pages set allows viewing only. On a server that only this machine can reach,
    viewing needs no token, unless a proxy forwarded the request.
    """
    state = request.app.state
    token = read_bearer(request.headers.get("authorization", ""))
    if token is not None:
        request.state.caller = token_number(token)
        callers: Callers = state.experiments.callers
        return await callers.role_of(token)
    await run_in_threadpool(state.store.check_file)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and await run_in_threadpool(pass_holds, state.store, cookie):
        return Role.VIEW
    alone = state.local and not any(name in request.headers for name in _FORWARDED)
    request.scope[ANONYMOUS] = alone
    return Role.VIEW if alone else None


async def check_role(request: Request, role: Role) -> Role:
    """The role of the caller, which must be at least this one."""
    found = await _role_of(request)
    request.scope[KNOWN] = found is not None
    return _check(found, role)


def _check(found: Role | None, role: Role) -> Role:
    """A role, which must be at least another."""
    if found is None:
        raise Refusal(
            401,
            "unauthorized",
            "This needs a valid access token.",
            field="Authorization",
            remedy="Send it as `Authorization: Bearer …`; create one with `bestarm token create`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if found < role:
        raise Refusal(
            403,
            "forbidden",
            f"This needs an access token of role {role.word}.",
            field="Authorization",
            value=found.word,
            remedy=f"Create one with `bestarm token create --role {role.word}`.",
        )
    return found


@dataclass(frozen=True)
class Needs:
    """A dependency that lets only callers of at least this role pass."""

    role: Role

    async def __call__(self, request: Request, _: _Credentials) -> Role:
        """The role of the caller."""
        before: Role | None = getattr(request.state, "role", None)
        return before if before is not None else await check_role(request, self.role)
