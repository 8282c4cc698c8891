"""Checks before every route: hosts and sizes; the access log; headers that protect pages."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from urllib.parse import quote

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


TOKEN_VALID = "bestarm.valid"  # in the scope of a request whose token is valid
TOKEN_KNOWN = "bestarm.known"  # in the scope of a request whose token was valid before
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
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
_NOT_JSON = "unsupported_media_type"
_MOST_KNOWN = 10_000
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(:[0-9]*)?")
_log = logging.getLogger("bestarm.access")
_failures = logging.getLogger("bestarm.server")


class Guard:
    """Refuses requests that are too large or for another host, before reading them.

    `local` and `hosts` are those of `create_app`: another site could have its own name lead here.
    `answered` is called with the scope and the status of each request as its answer starts.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        local: bool,
        hosts: tuple[str, ...],
        answered: Callable[[Scope, int], object],
    ) -> None:
        self._app = app
        self._answered = answered
        self._limits = limits
        self._known: OrderedDict[str, None] = OrderedDict()
        self._any_host = not local and not hosts
        self._hosts = {"localhost", "[::1]", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))  # the first of each name
        sent = headers.get(b"authorization")
        token = "" if sent is None else hashlib.sha256(sent).hexdigest()
        scope[TOKEN_KNOWN] = token in self._known
        called = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        answered = _LoggedResponse(scope, send, partial(self._answered, called))
        try:
            self._check(scope, headers)
            await self._app(called, self._limited(receive), answered)
        except ApiError as api_error:
            await api_error.response()(called, receive, answered)
        except Exception as error:
            _failures.error("Internal error", exc_info=error)
            if answered.began:
                raise  # too late for another answer
            message = "The server failed unexpectedly; its log says more."
            remedy = "Tell whoever runs the server."
            answer = ApiError(
                500, "internal_error", message, field="request", remedy=remedy
            ).response()
            await answer(called, receive, answered)
        if token and called.get(TOKEN_VALID):
            self._known[token] = None
            self._known.move_to_end(token)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse a request that must not pass."""
        _check_head(scope)
        found = _HOST.fullmatch(headers.get(b"host", b"").decode("latin-1").lower())
        host = "" if found is None else found[1]
        known = self._any_host or host in self._hosts or _is_loopback(host)
        if not known and scope["path"] not in PROBES:
            message = "This server does not answer for that host."
            remedy = "Name it with `bestarm serve --allow-host`."
            raise ApiError(421, "misdirected", message, field="Host", remedy=remedy)
        if scope["method"] in _CHANGING:
            # Browsers name the site that made a request; programs do not.
            if headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
                message = "A page of another site made this request."
                remedy = "Make it from a page of this server, or from a program."
                raise ApiError(403, "cross_site", message, field="Sec-Fetch-Site", remedy=remedy)
            self._check_body(scope["path"], headers)

    @staticmethod
    def _check_body(path: str, headers: dict[bytes, bytes]) -> None:
        if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
            return
        if headers.get(b"content-encoding", b"identity") != b"identity":
            message, field = "The body must not be compressed.", "Content-Encoding"
            raise ApiError(415, _NOT_JSON, message, field=field, remedy="Send it as it is.")
        kind = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        form = kind == "application/x-www-form-urlencoded" and path in _FORMS
        if kind != "application/json" and not form:
            message, remedy = "The body must be JSON.", "Send `Content-Type: application/json`."
            raise ApiError(415, _NOT_JSON, message, field="Content-Type", value=kind, remedy=remedy)

    def _limited(self, receive: Receive) -> Receive:
        """The receiver, with a limit on the size of the body."""
        size, most = 0, self._limits.body

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                words, remedy = f"The body is larger than {most} bytes.", "Send several requests."
                raise ApiError(413, "too_large", words, field="body", remedy=remedy)
            return message

        return limited


@lru_cache(100)
def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def _check_head(scope: Scope) -> None:
    sent = scope["headers"]
    size = len(scope.get("raw_path", b"")) + len(scope["query_string"]) + 4 * len(sent) + 4
    if size + sum(map(len, chain.from_iterable(sent))) > _MOST_HEAD:
        message = f"The head is larger than {_MOST_HEAD:,} bytes."
        closing = {"Connection": "close"}
        remedy = "Send a shorter address and fewer headers."
        raise ApiError(
            431, "head_too_large", message, field="request", remedy=remedy, headers=closing
        )


class _LoggedResponse:
    """A sender that adds protecting headers, and logs the request when its answer starts.

    Of the answer to HEAD it sends the head alone; the body ends at once, even of a stream.
    """

    def __init__(self, scope: Scope, send: Send, answered: Callable[[int], object]) -> None:
        self._scope, self._send, self._answered = scope, send, answered
        self._since, self.began = time.perf_counter(), False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            headers = message.setdefault("headers", [])
            named = {name.lower() for name, _ in headers}
            added = [each for each in _PROTECTING if each[0] not in named]
            message["headers"] = [*headers, *added]
            self._log(message["status"])
            self._answered(message["status"])
            await self._send(message)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
            if self._scope["method"] != "HEAD":
                return
        elif self._scope["method"] == "HEAD":
            return
        await self._send(message)

    def _log(self, status: int) -> None:
        if _log.isEnabledFor(logging.INFO):
            # Never the query, and the path as it was sent: it cannot break a line.
            path = hide_tokens(quote(self._scope["path"]))
            took = 1000 * (time.perf_counter() - self._since)
            caller = (self._scope.get("client") or ("-",))[0]
            facts = (caller, self._scope["method"], path, status, took)
            _log.info("%s %s %s %d %.1f ms", *facts)
