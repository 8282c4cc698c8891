"""Before every route: hosts, origins and sizes; around it: the log, counts, protecting headers."""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from urllib.parse import quote

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.server.errors import ApiError, hide_tokens
from bestarm.server.probes import PATHS as PROBES


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each of its processes counts for itself.

    Attributes:
        body: the largest body of a request, in bytes.
        batch: assignments or outcomes per request.
        connections: connections at a time; requests on further ones are refused.
        planning: the seconds that simulating a plan may take.
    """

    body: int = 8_000_000
    batch: int = 100_000
    connections: int = 500
    planning: float = 60.0


_MOST_HEAD = 16_384  # bytes of a request's first line and headers together

_HEADERS = {
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
_PROTECTING = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
_FORMS = {"/login"}  # the paths that take a form; all others take JSON
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(:[0-9]*)?")
_log = logging.getLogger("bestarm.access")
_failures = logging.getLogger("bestarm.server")

Counts = Counter[tuple[str, str, str]]  # of requests, by method, route and status


class Guard:
    """Refuses requests that are too large or for another host, before reading them.

    `local` and `hosts` are those of `create_app`: another site could have its own name lead here.
    Each request is counted as its answer starts.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, local: bool, hosts: tuple[str, ...], counts: Counts
    ) -> None:
        self._app = app
        # Pages and their files; answers of the API are small, or must be quick.
        self._compressed = GZipMiddleware(app, minimum_size=1000, compresslevel=5)
        self._limits, self._counts = limits, counts
        self._any_host = not local and not hosts
        self._hosts = {"localhost", "[::1]", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        called = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        exchange = _Exchange(scope, called, receive, send, self._limits.body, self._counts)
        app = self._app if scope["path"].startswith("/api/") else self._compressed
        try:
            self._check(scope)
            await app(called, exchange.receive, exchange.send)
        except ApiError as api_error:
            await api_error.response()(called, receive, exchange.send)
        except Exception as error:
            _failures.error("Internal error", exc_info=error)
            if exchange.answered:
                raise  # too late for another answer
            message = "The server failed unexpectedly; its log says more."
            remedy = "Tell whoever runs the server."
            failed = ApiError(500, "internal_error", message, field="request", remedy=remedy)
            await failed.response()(called, receive, exchange.send)

    def _check(self, scope: Scope) -> None:
        """Refuse a request that must not pass."""
        path, sent = scope["path"], scope["headers"]
        size = len(scope.get("raw_path", b"")) + len(scope["query_string"]) + 4 * len(sent) + 4
        if size + sum(map(len, chain.from_iterable(sent))) > _MOST_HEAD:
            message = f"The head is larger than {_MOST_HEAD:,} bytes."
            remedy, closing = "Send a shorter address and fewer headers.", {"Connection": "close"}
            raise ApiError(
                431, "head_too_large", message, field="request", remedy=remedy, headers=closing
            )
        headers = dict(reversed(sent))  # the first of each name
        found = _HOST.fullmatch(headers.get(b"host", b"").decode("latin-1").lower())
        host = "" if found is None else found[1]
        known = self._any_host or host in self._hosts or _is_loopback(host)
        if not known and path not in PROBES:
            message = "This server does not answer for that host."
            remedy = "Name it with `bestarm serve --allow-host`."
            raise ApiError(421, "misdirected", message, field="Host", remedy=remedy)
        if scope["method"] not in _CHANGING:
            return
        # Browsers name the site that made a request; programs do not.
        if headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
            message = "A page of another site made this request."
            remedy = "Make it from a page of this server, or from a program."
            raise ApiError(403, "cross_site", message, field="Sec-Fetch-Site", remedy=remedy)
        if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
            return
        kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        form = kind == "application/x-www-form-urlencoded" and path in _FORMS
        if kind != "application/json" and not form:
            message, remedy = "The body must be JSON.", "Send `Content-Type: application/json`."
            raise _not_json(message, "Content-Type", kind, remedy)
        if headers.get(b"content-encoding", b"identity") != b"identity":
            message, remedy = "The body must not be compressed.", "Send it as it is."
            raise _not_json(message, "Content-Encoding", None, remedy)


def _not_json(message: str, field: str, value: str | None, remedy: str) -> ApiError:
    kind = "unsupported_media_type"
    return ApiError(415, kind, message, field=field, value=value, remedy=remedy)


@lru_cache(100)
def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


class _Exchange:
    """A request and its answer: the size of the one is limited, the other is counted and logged.

    The answer has protecting headers. Of the answer to HEAD the head alone is sent; the body ends
    at once, even of a stream.
    """

    def __init__(
        self, scope: Scope, called: Scope, receive: Receive, send: Send, most: int, counts: Counts
    ) -> None:
        self._scope, self._called, self._receive, self._send = scope, called, receive, send
        self._most, self._read, self._counts = most, 0, counts
        self._since, self.answered = time.perf_counter(), False

    async def receive(self) -> Message:
        """The next part of the request, while its body is not too large."""
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            words, remedy = f"The body is larger than {self._most} bytes.", "Send several requests."
            raise ApiError(413, "too_large", words, field="body", remedy=remedy)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        method = self._scope["method"]
        if message["type"] == "http.response.start":
            self.answered = True
            headers = message.setdefault("headers", [])
            named = {name.lower() for name, _ in headers}
            message["headers"] = [*headers, *(each for each in _PROTECTING if each[0] not in named)]
            # What callers make up is not a label: there would be no end of them.
            route = getattr(self._called.get("route"), "path", "other")
            counted = self._called["method"] if method in _METHODS else "other"
            self._counts[counted, route, str(message["status"])] += 1
            if _log.isEnabledFor(logging.INFO):
                self._log(message["status"])
            await self._send(message)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
            if method != "HEAD":
                return
        elif method == "HEAD":
            return
        await self._send(message)

    def _log(self, status: int) -> None:
        # Never the query, and the path as it was sent: it cannot break a line.
        path = hide_tokens(quote(self._scope["path"]))
        took = 1000 * (time.perf_counter() - self._since)
        caller = (self._scope.get("client") or ("-",))[0]
        _log.info("%s %s %s %d %.1f ms", caller, self._scope["method"], path, status, took)
