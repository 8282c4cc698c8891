"""Streams of an experiment's status: each experiment is read once, however many follow it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from typing import Any
from weakref import WeakValueDictionary

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bestarm import compiling
from bestarm.errors import BestArmError
from bestarm.server.errors import ApiError
from bestarm.server.experiments import OpenExperiments
from bestarm.server.guard import Limits

_POLL_INTERVAL = 0.5  # seconds between two reads of an experiment that is followed
_PING_INTERVAL = 15.0  # seconds between two signs of life, and between two checks of the token
_SHUTDOWN_GRACE = 8.0  # seconds in which a stream ends by itself once the server stops
_RETRY = 2000  # milliseconds after which a browser connects again
_log = logging.getLogger("bestarm.server")


class EventStream(EventSourceResponse):
    """Server-sent events, sent within a context. `stopping` is set when the server stops."""

    def __init__(
        self,
        events: AsyncIterator[dict[str, Any]],
        context: AbstractContextManager[None] | None = None,
        stopping: anyio.Event | None = None,
    ) -> None:
        self._context = context or nullcontext()
        super().__init__(
            events,
            ping=_PING_INTERVAL,
            ping_message_factory=lambda: ServerSentEvent(comment="still here", sep="\n"),
            sep="\n",
            shutdown_event=stopping,
            shutdown_grace_period=_SHUTDOWN_GRACE,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more, the client has gone, or the server stops."""
        with self._context:
            await super().__call__(scope, receive, send)


class _Latest:
    """The latest status of one experiment, and when it was read."""

    def __init__(self) -> None:
        self.revision, self.data, self.at, self.failed = "", "", -_POLL_INTERVAL, False
        self.lock = asyncio.Lock()


class StatusStreams:
    """Who follows which experiment."""

    def __init__(self, experiments: OpenExperiments, limits: Limits) -> None:
        self._experiments, self._limits = experiments, limits
        self._followers: list[str | None] = []  # addresses of those without a token, else None
        self._latest: WeakValueDictionary[str, _Latest] = WeakValueDictionary()

    def follow(
        self,
        name: str,
        *,
        known: str,
        check_allowed: Callable[[], Awaitable[object]],
        anonymous: str | None,
    ) -> EventStream:
        """The status of one experiment as a stream, or an error if too many follow already.

        The follower has the revision `known`; `check_allowed` raises once it may not follow any
        more; `anonymous` is the address of one without a token.
        """
        stopping = anyio.Event()
        events = self._events(name, known, check_allowed, stopping)
        return EventStream(events, self._counting(anonymous), stopping)

    @contextmanager
    def _counting(self, anonymous: str | None) -> Iterator[None]:
        """Count one more follower, or refuse it."""
        full = len(self._followers) >= self._limits.streams
        if anonymous is not None:
            addresses = [address for address in self._followers if address is not None]
            full |= len(addresses) >= self._limits.anonymous_streams
            full |= addresses.count(anonymous) >= self._limits.anonymous_streams_per_address
        if full:
            raise ApiError(
                503,
                "too_many_streams",
                "Too many streams are open already.",
                field="stream",
                remedy="Poll the status, or send a token if you sent none.",
                headers={"Retry-After": "10"},
            )
        self._followers.append(anonymous)
        try:
            yield
        finally:
            self._followers.remove(anonymous)

    async def _events(
        self,
        name: str,
        known: str,
        check_allowed: Callable[[], Awaitable[object]],
        stopping: anyio.Event,
    ) -> AsyncIterator[dict[str, Any]]:
        """The status whenever it changes, and what is being compiled."""
        loop, latest = asyncio.get_running_loop(), self._latest.setdefault(name, _Latest())
        checked, shown = loop.time(), ""
        while not stopping.is_set():
            if loop.time() - checked >= _PING_INTERVAL:
                try:
                    await check_allowed()
                except (BestArmError, ApiError):
                    return
                checked = loop.time()
            async with latest.lock:
                if loop.time() - latest.at >= _POLL_INTERVAL:
                    await run_in_threadpool(self._read, name, latest)
                    latest.at = loop.time()
            if latest.revision not in {"", known}:
                known = latest.revision
                yield {"event": "status", "id": known, "data": latest.data, "retry": _RETRY}
            if shown != (now := compiling.in_progress() or ""):
                shown = now
                yield {"event": "compiling", "data": shown}
            with anyio.move_on_after(_POLL_INTERVAL):
                await stopping.wait()

    def _read(self, name: str, latest: _Latest) -> None:
        try:
            experiment = self._experiments.open(name)
            revision = experiment.revision
            if revision != latest.revision:
                latest.data = json.dumps(asdict(experiment.status()))
                latest.revision = revision
            latest.failed = False
        except BestArmError:
            pass  # a database that cannot be read now: those who ask are told
        except Exception as error:
            if not latest.failed:
                _log.error("The status of %r cannot be read for now", name, exc_info=error)
            latest.failed = True
