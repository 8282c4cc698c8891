"""Serving the application: one process or several on one socket, stopped in order."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any, cast

import httptools
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.supervisors import Multiprocess

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.server.api.errors import Refusal
from bestarm.server.api.short_way import SHORT_WAY, Encode, ShortWay
from bestarm.server.app import create_app
from bestarm.server.security.guard import (
    MOST_HEAD,
    PROTECTING,
    WHOLE,
    head_too_large,
    log_answer,
)
from bestarm.server.security.limits import Limits
from bestarm.server.streams import STREAMS
from bestarm.server.transport import JoinedTransport

_STOPPING = 10  # seconds that requests are given to end once the server stops
_IDLE = 65  # seconds: longer than clients and proxies keep a connection that they may use again
_HANGING = 60  # seconds without an answer after which a worker process is replaced
_METHOD = re.compile(rb"([!#-'*+.^-z|~0-9A-Z-]+) [!-~]+ HTTP/1\.[01]\r\n")
_PLAIN = [(b"content-type", b"application/json"), *PROTECTING]  # headers of a plain answer
_HEAD = b"HTTP/1.1 200 OK\r\n" + b"".join(b"%s: %s\r\n" % each for each in _PLAIN)
_TURN = 0.0002  # seconds that one thread computes while others wait
_LINGER = 1.0  # seconds in which one who was refused can read why


@dataclass(frozen=True)
class Serving:
    """What every process of a server makes its application from, as `create_app` takes it."""

    url: str
    local: bool = True
    hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __call__(self) -> FastAPI:
        """The application, in this process."""
        # Whoever computes leaves the processor to the loop sooner: it takes turns for every event.
        sys.setswitchinterval(_TURN)
        parent = multiprocessing.parent_process()
        if parent is not None:
            # A supervisor that is killed cannot stop its workers.
            Thread(target=_end_with, args=(parent,), daemon=True).start()
        return create_app(self.url, local=self.local, hosts=self.hosts, limits=self.limits)


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    signal.raise_signal(signal.SIGTERM)


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with errors in our shape, limits on large and slow heads and on
    the number of connections, and streams that end when the server does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        served = self.config.app
        self._limits = served.limits if isinstance(served, Serving) else Limits()
        self._late: asyncio.TimerHandle | None = None
        self._idle_since = self.loop.time()
        self._refused = False
        self._received = b""
        self._awaited = True  # a head is, or the rest of one
        self._head = 0  # bytes of it
        self._reading = False  # whether what was received is being read
        self._first: RequestResponseCycle | None = None  # to be answered first, of what was read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it."""
        super().connection_made(cast("asyncio.Transport", JoinedTransport(transport, self.loop)))
        # Parts of a stream are small writes: held back, the second takes 40 ms.
        found = transport.get_extra_info("socket")
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._make_room():
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._held:  # else whatever comes is not read
            self._head += len(data)
            self._received = data
            self._reading = True
            try:
                super().data_received(data)
            finally:
                self._reading = False
            if self._first is not None:
                first, self._first = self._first, None
                self._start_asgi_task(first, self.app)
        if self._held:
            if self._awaited and self._head > MOST_HEAD:
                self._refuse(head_too_large())
            else:
                self._watch()

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        super().on_headers_complete()
        self._awaited = False

    def on_message_complete(self) -> None:
        """Await the next request."""
        super().on_message_complete()
        self._awaited, self._head = True, 0
        cast("dict[str, Any]", self.scope)[WHOLE] = True

    def _should_upgrade(self) -> bool:
        return True  # by `handle_websocket_upgrade`

    def handle_websocket_upgrade(self) -> None:
        """Answer a request that proposes another protocol as if it did not.

        The parser ends at such a head, and would take the body for another request.
        """
        upgrade = sys.exception()
        method = self.scope["method"].encode()
        if method == b"CONNECT" or not isinstance(upgrade, httptools.HttpParserUpgrade):
            self._refuse(Refusal(400, "bad_request", "This is no proxy.", field="request"))
            return
        self.parser = httptools.HttpRequestParser(self)  # one that was to close reads no more
        kept = [(name, value) for name, value in self.headers if name != b"upgrade"]
        head = [b"%s %s HTTP/1.1" % (method, self.url), *(b"%s: %s" % each for each in kept)]
        super().data_received(b"\r\n".join([*head, b"", self._received[upgrade.args[0] :]]))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin to answer a request, once all that was received of it is read."""
        if self._reading:
            self._first = cycle
        elif not self._take_short_way(cycle):
            super()._start_asgi_task(cycle, app)

    def _take_short_way(self, cycle: RequestResponseCycle) -> bool:
        """Have a request answered without a task, if it is there whole and plain."""
        way: ShortWay | None = self.app_state.get(SHORT_WAY)
        if way is None or cycle.more_body or cycle.disconnected:
            return False
        began = time.perf_counter()
        found = way.begin(cast("dict[str, Any]", cycle.scope), cycle.body)
        if found is None:
            return False
        found[0].add_done_callback(partial(self._answer, cycle, way, found[1], began))
        return True

    def _answer(
        self,
        cycle: RequestResponseCycle,
        way: ShortWay,
        encode: Encode,
        began: float,
        done: asyncio.Future[Any],
    ) -> None:
        """Answer a request that took the short way."""
        answer: bytes | Exception
        try:
            answer = encode(done.result())
        except Exception as error:
            answer = error
        gone = cycle.disconnected or self.transport.is_closing()  # but it was done: it is logged
        if gone or self.flow.write_paused or not isinstance(answer, bytes):
            super()._start_asgi_task(cycle, cast("Any", way.answering(answer, began)))
            return
        head = [b"%s: %s\r\n" % each for each in self.server_state.default_headers]
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\n\r\n" % len(answer))
        cycle.response_started = cycle.response_complete = True
        log_answer(cast("dict[str, Any]", cycle.scope), 200, began)
        cast("JoinedTransport", self.transport).write_whole(b"".join((_HEAD, *head, answer)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops: end streams, finish answers."""
        streams = self.app_state.get(STREAMS)
        if streams is not None:
            streams.stop()
        super().shutdown()

    def on_response_complete(self) -> None:
        """Note when the connection became idle."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not valid HTTP."""
        cause = sys.exception()
        method = _METHOD.match(self._received) if self._head == len(self._received) else None
        if method and isinstance(cause, httptools.HttpParserInvalidMethodError):
            # One that nobody knows is answered like one that is never allowed.
            self.parser = httptools.HttpRequestParser(self)
            super().data_received(b"TRACE" + self._received[method.end(1) :])
            return
        if not isinstance(cause, httptools.HttpParserCallbackError):
            msg = f"{msg.removesuffix('.')}: {cause}."
        self._refuse(Refusal(400, "bad_request", msg, field="request"))

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered, nor a body received."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _held(self) -> bool:
        return not self._refused and not self.transport.is_closing()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _make_room(self) -> bool:
        """Close an idle connection if there are too many; if there is none, refuse this one."""
        others = [
            each
            for each in self.connections
            if isinstance(each, Protocol) and each is not self and each._held
        ]
        held = Counter(each._address for each in others)
        if held[self._address] >= self._limits.connections_per_address:
            others = [each for each in others if each._address == self._address]
            too_many = "Too many connections from this address."
        elif len(others) >= self._limits.connections:
            too_many = "Too many are served already."
        else:
            return True
        idle = [each for each in others if each.idle]
        if not idle:
            self._refuse(Refusal(503, "too_many_connections", too_many, field="request"))
            return False
        # Of the address that has most: none may close the connections of others.
        victim = max(idle, key=lambda each: (held[each._address], -each._idle_since))
        victim.transport.close()
        return True

    def _watch(self) -> None:
        """Limit the time while a head is awaited, or a body that nobody reads."""
        if not self.idle:
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(self._limits.seconds, self._too_slow)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_slow(self) -> None:
        self._late = None
        if not self._held:
            return
        if self._awaited:
            message = "The request took too long to arrive."
            self._refuse(Refusal(408, "too_slow", message, field="request"))
        else:
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        self._refused = True
        cycle = self.cycle
        if not self.idle and self._awaited:
            cycle.keep_alive = False  # it ends with the answers to what came before
            return
        if not self.idle and (self.pipeline or cycle.response_started):
            self.transport.close()  # an answer has begun: too late for another
            return
        if cycle is not None:
            cycle.disconnected = True  # nothing else answers it
            cycle.message_event.set()
        refusal.headers = {"Connection": "close"}
        response = refusal.response()
        status = HTTPStatus(refusal.status_code)
        head = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
        head += [b"%s: %s" % header for header in response.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        if len(self.connections) < 2 * self._limits.connections:
            # Closed with something unread, it would be reset, and the answer lost with it.
            self.transport.write_eof()
            self.loop.call_later(_LINGER, self.transport.close)
        else:
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket on which connections are awaited. Raises InvalidInputError if there can be none."""
    whole(port, "port", least=0, below=65536)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise InvalidInputError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}.",
            field="port",
            value=port,
        ) from None


def uvicorn_config(
    serving: Serving, *, log: dict[str, Any] | None = None, workers: int = 1
) -> uvicorn.Config:
    """How the application is served."""
    return uvicorn.Config(
        serving,
        factory=True,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=log,
        access_log=False,  # ours leaves out the query
        server_header=False,
        timeout_graceful_shutdown=_STOPPING,
        timeout_keep_alive=_IDLE,
        timeout_worker_healthcheck=_HANGING,
        workers=workers,
    )


def run_server(
    serving: Serving, listener: socket.socket, *, workers: int = 1, quiet: bool = False
) -> None:
    """Serve until stopped by Ctrl-C or SIGTERM; log requests to stderr unless `quiet`."""
    config = uvicorn_config(serving, log=_logging(quiet), workers=workers)
    if workers > 1:
        Multiprocess(config, sockets=[listener]).run()
    else:
        uvicorn.Server(config).run(sockets=[listener])


def _logging(quiet: bool) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "loggers": {
            "bestarm": {"handlers": ["stderr"], "level": "INFO"},
            "bestarm.access": {"level": "WARNING" if quiet else "INFO"},
            "uvicorn": {"handlers": ["stderr"], "level": "WARNING"},
        },
    }
