"""Checks before every route: hosts, rates, sizes; the access log; headers that protect pages."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
import math
import re
import time
from collections import OrderedDict
from functools import lru_cache
from itertools import chain
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.server.api.errors import Refusal
from bestarm.server.security.limits import Buckets, Limits
from bestarm.server.security.tokens import hide_tokens

KNOWN = "bestarm.known"  # in the scope of a request whose token is valid
WHOLE = "bestarm.whole"  # in the scope of a request whose body is there already
MOST_HEAD = 16_384  # bytes of a request's first line and headers together

_PROTECTING = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
PROTECTING = [(name.lower().encode(), value.encode()) for name, value in _PROTECTING.items()]
_FORMS = {"/login"}  # the paths that take a form; all others take JSON
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
_MOST_KNOWN = 10_000
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(:[0-9]*)?")
_ANSWERED = "bestarm.answered"  # in the scope of a request whose answer has started
_log = logging.getLogger("bestarm.access")
_failures = logging.getLogger("bestarm.server")


class Guard:
    """Refuses requests that are too many, too large or for another host, before reading them.

    `local` and `hosts` are those of `create_app`: another site could have its own name lead here.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, local: bool, hosts: tuple[str, ...]
    ) -> None:
        self._app = app
        self._limits = limits
        self._buckets = Buckets(limits)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._any_host = not local and not hosts
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._fits = lru_cache(100)(self._host_fits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))  # the first of each name
        token = _digest(headers)
        try:
            self.check(scope, headers, token)
        except Refusal as refusal:
            await refusal.response()(scope, receive, _watched(scope, send))
            return
        await self.answer(self._app, scope, self._limited(scope, receive), send)
        if token and scope.get(KNOWN):
            self._known[token] = None
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    async def answer(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        began: float | None = None,
    ) -> None:
        """Have an application answer a request that was checked; it began then, or begins now."""
        send, answered, called = _watched(scope, send, began), scope, scope
        if scope["method"] == "HEAD":
            called, send = {**scope, "method": "GET"}, _without_body(send)
        try:
            await app(called, receive, send)
        except Exception as error:
            _failures.error("Unforeseen error", exc_info=error)
            if answered.get(_ANSWERED):
                raise  # too late for another answer
            message = "The server failed unexpectedly; its log says more."
            answer = Refusal(500, "unforeseen", message, field="request").response()
            await answer(called, receive, send)

    def find_recent(self, headers: dict[bytes, bytes]) -> str:
        """The digest of a token that was valid before; empty if it was not."""
        token = _digest(headers)
        return token if token in self._known else ""

    def check(self, scope: Scope, headers: dict[bytes, bytes], token: str) -> None:
        """Refuse a request that must not pass; `token` is the digest of the one that it brings."""
        _check_head(scope, headers)
        if not self._fits(headers.get(b"host", b"").decode("latin-1")):
            raise Refusal(
                421,
                "misdirected",
                "This server does not answer for that host.",
                field="Host",
                remedy="Name it with `bestarm serve --allow-host`.",
            )
        wait = self._buckets.take(self._caller(scope, token))
        if wait:
            raise Refusal(
                429,
                "too_many_requests",
                "Too many requests from this caller.",
                field="request",
                remedy="Send several outcomes in one request.",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        if scope["method"] in _CHANGING:
            # Browsers name the site that made a request; programs do not.
            if headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
                message = "A page of another site made this request."
                raise Refusal(403, "cross_site", message, field="Sec-Fetch-Site")
            self._check_body(scope["path"], headers)

    def _caller(self, scope: Scope, token: str) -> str:
        # Only a token that was valid before names a caller: others could be invented without end.
        if token in self._known:
            self._known.move_to_end(token)
            return token
        client = scope.get("client")
        return client[0] if client else ""

    def _check_body(self, path: str, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() and len(length) < 20 else self._limits.body + 1
        if size > self._limits.body:
            raise self._too_large()
        if not size and b"transfer-encoding" not in headers:
            return
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Refusal(
                415,
                "unsupported_media_type",
                "The body must not be compressed.",
                field="Content-Encoding",
                remedy="Send it as it is.",
            )
        kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        form = kind == "application/x-www-form-urlencoded" and path in _FORMS
        if kind != "application/json" and not form:
            raise Refusal(
                415,
                "unsupported_media_type",
                "The body must be JSON.",
                field="Content-Type",
                value=kind,
                remedy="Send `Content-Type: application/json`.",
            )

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "too_large",
            f"The body is larger than {self._limits.body} bytes.",
            field="body",
            remedy="Send several requests.",
        )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """The receiver, with limits on size and time."""
        size, more = 0, True
        deadline: float | None = None

        async def limited() -> Message:
            nonlocal size, more, deadline
            if not more:
                return await receive()
            if scope.get(WHOLE):
                message = await receive()
            else:
                now = asyncio.get_running_loop().time()
                deadline = deadline or now + self._limits.seconds
                try:
                    async with asyncio.timeout(deadline - now):
                        message = await receive()
                except TimeoutError:
                    raise Refusal(
                        408,
                        "too_slow",
                        "The body took too long to arrive.",
                        field="body",
                        headers={"Connection": "close"},
                    ) from None
            size += len(message.get("body", b""))
            if size > self._limits.body:
                raise self._too_large()
            more = message.get("more_body", False)
            return message

        return limited

    def _host_fits(self, host: str) -> bool:
        if self._any_host:
            return True
        found = _HOST.fullmatch(host.lower())
        name = "" if found is None else found[1]
        if name in self._hosts or name == "[::1]":
            return True
        try:
            return ipaddress.IPv4Address(name).is_loopback
        except ValueError:
            return False


def head_too_large() -> Refusal:
    """The refusal of a request whose first line and headers are too large."""
    message = f"The head is larger than {MOST_HEAD:,} bytes."
    closing = {"Connection": "close"}
    return Refusal(431, "head_too_large", message, field="request", headers=closing)


def _check_head(scope: Scope, headers: dict[bytes, bytes]) -> None:
    sent = scope["headers"]
    size = len(scope.get("raw_path", b"")) + len(scope["query_string"]) + 4 * len(sent) + 4
    if size + sum(map(len, chain.from_iterable(sent))) > MOST_HEAD:
        raise head_too_large()
    # A proxy that reads it in another way sees other requests than we do.
    hosts = [name for name, _ in sent].count(b"host")
    if hosts > 1 or (not hosts and scope["http_version"] == "1.1"):
        raise _ambiguous("A request names one host.")
    if {b"content-length", b"transfer-encoding"} <= headers.keys():
        raise _ambiguous("A request has a Content-Length or a Transfer-Encoding, not both.")
    if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        raise _ambiguous("The only Transfer-Encoding is chunked.")


def _ambiguous(message: str) -> Refusal:
    closing = {"Connection": "close"}
    return Refusal(400, "bad_request", message, field="request", headers=closing)


def _digest(headers: dict[bytes, bytes]) -> str:
    token = headers.get(b"authorization")
    return "" if token is None else hashlib.sha256(token).hexdigest()


def _without_body(send: Send) -> Send:
    """A sender of the head alone; the body ends at once, even of a stream."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return head


def _watched(scope: Scope, send: Send, began: float | None = None) -> Send:
    """A sender that logs the request when its answer starts, and adds protecting headers."""
    since = time.perf_counter() if began is None else began

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            scope[_ANSWERED] = True
            headers = message.setdefault("headers", [])
            named = {name.lower() for name, _ in headers}
            added = [each for each in PROTECTING if each[0] not in named]
            message["headers"] = [*headers, *added]
            log_answer(scope, message["status"], since)
        await send(message)

    return watched


def log_answer(scope: Scope, status: int, began: float) -> None:
    """Log a request that began at a time of `time.perf_counter`."""
    if _log.isEnabledFor(logging.INFO):
        # Never the query, and the path as it was sent: it cannot break a line.
        path = hide_tokens(quote(scope["path"]))
        took = 1000 * (time.perf_counter() - began)
        caller = (scope.get("client") or ("-",))[0]
        facts = (caller, scope["method"], path, status, took)
        _log.info("%s %s %s %d %.1f ms", *facts)
