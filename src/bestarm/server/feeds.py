"""Following trials: each is looked at once, however many follow it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bestarm.errors import BestArmError
from bestarm.live import Experiment
from bestarm.server.api.errors import error_response
from bestarm.server.api.schemas import StatusOut
from bestarm.server.security.limits import Limits

__all__ = ["FEEDS", "Feeds", "Following", "gone"]

FEEDS = "bestarm.feeds"  # where a running application's feeds are, for what stops it

_PULSE = 0.5  # seconds between two looks at a trial that is followed
_SILENCE = 15.0  # seconds without news after which a sign of life is sent


class _Feed:
    """The latest news of one trial."""

    def __init__(self) -> None:
        self.revision, self.data = "", ""
        self.followers = 0
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Wake all who wait."""
        self.changed.set()
        self.changed = asyncio.Event()


class Feeds:
    """Who follows which trial.

    Args:
        open_trial: finds a trial by its name.
        limits: how many may follow trials at a time.
    """

    def __init__(self, open_trial: Callable[[str], Experiment], *, limits: Limits) -> None:
        self._open = open_trial
        self._limits = limits
        self._feeds: dict[str, _Feed] = {}
        self._stopping = False
        self._followers = 0
        self._anonymous: Counter[str] = Counter()  # followers without a token, by address

    def full(self, anonymous: str | None) -> bool:
        """Whether no more may follow; for one without a token, from this address."""
        if self._followers >= self._limits.streams:
            return True
        return anonymous is not None and (
            self._anonymous.total() >= self._limits.anonymous_streams
            or self._anonymous[anonymous] >= self._limits.anonymous_streams_per_address
        )

    def stop(self) -> None:
        """End all streams: the server stops."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.tell()

    @contextmanager
    def joined(self, name: str, anonymous: str | None) -> Iterator[_Feed]:
        """Be counted among those who follow a trial; whoever comes first has it looked at.

        Args:
            name: the trial's.
            anonymous: the address of one without a token, or None.
        """
        feed = self._feeds.setdefault(name, _Feed())
        if feed.task is None:
            feed.task = asyncio.create_task(self._look(name, feed))
        feed.followers += 1
        self._followers += 1
        if anonymous is not None:
            self._anonymous[anonymous] += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            self._followers -= 1
            if anonymous is not None:
                self._anonymous[anonymous] -= 1
                self._anonymous += Counter()  # forgets those that have none
            if not feed.followers:
                feed.task.cancel()
                del self._feeds[name]

    async def news(
        self, feed: _Feed, *, seen: str, still_allowed: Callable[[], Awaitable[object]]
    ) -> AsyncIterator[str]:
        """Server-sent events: the trial's status whenever it changes, until the server stops.

        Args:
            feed: the trial's.
            seen: the revision that the follower knows already.
            still_allowed: raises where the follower may not follow any more.
        """
        yield "retry: 2000\n\n"
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while not self._stopping:
            if loop.time() - checked >= _SILENCE:
                await still_allowed()
                checked = loop.time()
            changed = feed.changed
            if feed.revision not in {"", seen}:
                seen = feed.revision
                yield f"event: status\nid: {seen}\ndata: {feed.data}\n\n"
                continue
            try:
                async with asyncio.timeout(_SILENCE):
                    await changed.wait()
            except TimeoutError:
                yield ": still here\n\n"

    async def _look(self, name: str, feed: _Feed) -> None:
        while not self._stopping:
            # While the database cannot be read there is no news; what is wrong with it is said to
            # those who ask.
            with suppress(BestArmError):
                revision, data = await run_in_threadpool(self._read, name, feed.revision)
                if revision != feed.revision:
                    feed.revision, feed.data = revision, data
                    feed.tell()
            await asyncio.sleep(_PULSE)

    def _read(self, name: str, known: str) -> tuple[str, str]:
        experiment = self._open(name)
        revision = experiment.revision
        if revision == known:
            return revision, ""
        return revision, json.dumps(StatusOut.of(experiment.status()).model_dump())


class Following(Response):
    """The answer to one who follows a trial: a stream, or a refusal if too many do already."""

    media_type = "text/event-stream"

    def __init__(
        self,
        feeds: Feeds,
        name: str,
        *,
        seen: str,
        still_allowed: Callable[[], Awaitable[object]],
        anonymous: str | None,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feeds, self._name = feeds, name
        self._seen, self._still_allowed = seen, still_allowed
        self._anonymous = anonymous

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is new until the client has gone, may look no more, or the server stops."""
        if self._feeds.full(self._anonymous):
            known = self._anonymous is None
            refused = error_response(
                503,
                "too_many_streams",
                "Too many follow trials already.",
                field="stream",
                remedy="Poll the status instead." if known else "Send a token, or poll the status.",
                headers={"Retry-After": "10"},
            )
            await refused(scope, receive, send)
            return
        with self._feeds.joined(self._name, self._anonymous) as feed:
            sending = asyncio.ensure_future(self._send(feed, send))
            leaving = asyncio.ensure_future(gone(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending

    async def _send(self, feed: _Feed, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        with suppress(BestArmError):  # may look no more
            news = self._feeds.news(feed, seen=self._seen, still_allowed=self._still_allowed)
            async for each in news:
                await send({"type": "http.response.body", "body": each.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
