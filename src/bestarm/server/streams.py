"""Streams of an experiment's status: each experiment is read once, however many follow it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from bestarm.errors import BestArmError
from bestarm.live import Experiment
from bestarm.server.api.errors import Refusal
from bestarm.server.security.limits import Limits

STREAMS = "bestarm.streams"  # where a running application keeps its streams, to stop them

_PULSE = 0.5  # seconds between two reads of an experiment that is followed
_SILENCE = 15.0  # seconds between two signs of life, and between two checks of the token
_FAREWELL = 8.0  # seconds in which a stream ends by itself once the server stops
_END = "\n"  # of a line
_RETRY = 2000  # milliseconds after which a browser connects again
_log = logging.getLogger("bestarm.server")


class EventStream(EventSourceResponse):
    """Server-sent events, sent within a context and ended in order when the server stops."""

    def __init__(
        self,
        events: AsyncIterator[dict[str, Any]],
        context: AbstractContextManager[None] | None = None,
    ) -> None:
        self._context = context or nullcontext()
        super().__init__(
            events,
            ping=_SILENCE,
            ping_message_factory=lambda: ServerSentEvent(comment="still here", sep=_END),
            sep=_END,
            shutdown_grace_period=_FAREWELL,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more, the client has gone, or the server stops."""
        with self._context:
            await super().__call__(scope, receive, send)


class _Latest:
    """The latest status of one experiment."""

    def __init__(self) -> None:
        self.revision, self.data = "", ""
        self.changed = asyncio.Event()

    def wake(self) -> None:
        """Wake all who wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()


class StatusStreams:
    """Who follows which experiment, of those that `open_experiment` finds by name."""

    def __init__(self, open_experiment: Callable[[str], Experiment], *, limits: Limits) -> None:
        self._open = open_experiment
        self._limits = limits
        self._latest: dict[str, tuple[_Latest, asyncio.Task[None]]] = {}
        self._followers: list[tuple[str, str | None]] = []  # as they joined
        self.stopping = False

    def stop(self) -> None:
        """End all streams: the server stops."""
        self.stopping = True
        for latest, _ in self._latest.values():
            latest.wake()

    def follow(
        self,
        name: str,
        *,
        known: str,
        check_allowed: Callable[[], Awaitable[object]],
        anonymous: str | None,
    ) -> EventStream:
        """The status of one experiment as a stream, or a refusal if too many follow already.

        The follower has the revision `known`; `check_allowed` raises once it may not follow any
        more; `anonymous` is the address of one without a token.
        """
        return EventStream(self._events(name, known, check_allowed), self._join(name, anonymous))

    @contextmanager
    def _join(self, name: str, anonymous: str | None) -> Iterator[None]:
        """Count one more follower; the first one of an experiment has it read."""
        full = len(self._followers) >= self._limits.streams
        if anonymous is not None:
            addresses = [address for _, address in self._followers if address is not None]
            full |= len(addresses) >= self._limits.anonymous_streams
            full |= addresses.count(anonymous) >= self._limits.anonymous_streams_per_address
        if full:
            raise Refusal(
                503,
                "too_many_streams",
                "Too many streams are open already.",
                field="stream",
                remedy="Poll the status instead, or send a token if you sent none.",
                headers={"Retry-After": "10"},
            )
        if name not in self._latest:
            latest = _Latest()
            self._latest[name] = latest, asyncio.create_task(self._keep_reading(name, latest))
        self._followers.append((name, anonymous))
        try:
            yield
        finally:
            self._followers.remove((name, anonymous))
            if not any(followed == name for followed, _ in self._followers):
                self._latest.pop(name)[1].cancel()

    async def _keep_reading(self, name: str, latest: _Latest) -> None:
        failed = False
        while not self.stopping:
            try:
                revision, data = await run_in_threadpool(self._read, name, latest.revision)
            except BestArmError:
                pass  # a database that cannot be read now: those who ask are told
            except Exception as error:
                if not failed:
                    _log.error("The status of %r cannot be read for now", name, exc_info=error)
                failed = True
            else:
                failed = False
                if revision != latest.revision:
                    latest.revision, latest.data = revision, data
                    latest.wake()
            await asyncio.sleep(_PULSE)

    def _read(self, name: str, known: str) -> tuple[str, str]:
        experiment = self._open(name)
        revision = experiment.revision
        if revision == known:
            return revision, ""
        return revision, json.dumps(asdict(experiment.status()))

    async def _events(
        self, name: str, known: str, check_allowed: Callable[[], Awaitable[object]]
    ) -> AsyncIterator[dict[str, Any]]:
        """The status whenever it changes."""
        loop, latest = asyncio.get_running_loop(), self._latest[name][0]
        checked = loop.time()
        while not self.stopping:
            if loop.time() - checked >= _SILENCE:
                try:
                    await check_allowed()
                except (BestArmError, Refusal):
                    return
                checked = loop.time()
            changed = latest.changed
            if latest.revision not in {"", known}:
                known = latest.revision
                yield {"event": "status", "id": known, "data": latest.data, "retry": _RETRY}
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_SILENCE):
                    await changed.wait()
