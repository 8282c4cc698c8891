"""What stands before every route: sizes, rates, hosts, and headers that protect the pages."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import math

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.server.errors import error_response
from bestarm.server.limits import Buckets, Limits

__all__ = ["Guard"]

_PROTECTING = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Refuses what is too much or for somebody else, before anything is read of it.

    Args:
        app: what it guards.
        limits: how much is too much.
        local: refuse requests that name another host: a page elsewhere could have its own name
            lead here.
        hosts: names that are accepted besides.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, local: bool, hosts: tuple[str, ...]
    ) -> None:
        self._app = app
        self._limits = limits
        self._buckets = Buckets(limits)
        self._local = local
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        send = _protected(send)
        if not self._host_fits(headers.get(b"host", b"").decode("latin-1")):
            refused = error_response(
                421,
                "misdirected",
                "This server does not answer for that host.",
                field="Host",
                remedy="Name it with `bestarm serve --allow-host`.",
            )
            await refused(scope, receive, send)
            return
        wait = self._buckets.take(_caller(scope, headers))
        if wait:
            refused = error_response(
                429,
                "too_many_requests",
                "Too many requests from this caller.",
                field="request",
                remedy="Send several outcomes in one request.",
                headers={"Retry-After": str(math.ceil(wait))},
            )
            await refused(scope, receive, send)
            return
        if scope["method"] in {"POST", "PUT", "PATCH", "DELETE"}:
            await self._with_body(scope, receive, send, headers)
        else:
            await self._app(scope, receive, send)

    async def _with_body(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]
    ) -> None:
        body, refusal = b"", None
        try:
            body, refusal = await asyncio.wait_for(self._read(receive), self._limits.seconds)
        except TimeoutError:
            refusal = error_response(
                408, "too_slow", "The body took too long to arrive.", field="body"
            )
        if refusal is None and body:
            kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
            form = kind == "application/x-www-form-urlencoded" and scope["path"] == "/login"
            if kind != "application/json" and not form:
                refusal = error_response(
                    415,
                    "unsupported_media_type",
                    "The body must be JSON.",
                    field="Content-Type",
                    value=kind,
                    remedy="Send `Content-Type: application/json`.",
                )
            elif kind == "application/json":
                refusal = _unreadable(body)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)

    async def _read(self, receive: Receive) -> tuple[bytes, ASGIApp | None]:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            part = message.get("body", b"")
            size += len(part)
            if size > self._limits.body:
                return b"", error_response(
                    413,
                    "too_large",
                    f"The body is larger than {self._limits.body} bytes.",
                    field="body",
                    remedy="Send several requests.",
                    headers={"Connection": "close"},
                )
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts), None

    def _host_fits(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        if name in self._hosts:
            return True
        if not self._local:
            return not self._hosts
        if name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _unreadable(body: bytes) -> ASGIApp | None:
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        return error_response(
            400,
            "bad_request",
            "The body is not JSON that can be read.",
            field="body",
            value=str(error),
        )
    return None


def _caller(scope: Scope, headers: dict[bytes, bytes]) -> str:
    token = headers.get(b"authorization")
    if token is not None:
        return hashlib.sha256(token).hexdigest()
    client = scope.get("client")
    return client[0] if client else ""


def _protected(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.lower().encode(), value.encode())
                    for name, value in _PROTECTING.items()
                    if name.lower().encode() not in named
                ),
            ]
        await send(message)

    return protected
