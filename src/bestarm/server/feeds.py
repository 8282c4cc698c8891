"""Following trials: each is looked at once, however many follow it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bestarm.errors import BestArmError
from bestarm.live import Experiment
from bestarm.server.errors import error_response
from bestarm.server.schemas import StatusOut

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
        most: how many may follow trials at a time.
    """

    def __init__(self, open_trial: Callable[[str], Experiment], *, most: int) -> None:
        self._open = open_trial
        self._most = most
        self._feeds: dict[str, _Feed] = {}
        self._stopping = False
        self.followers = 0

    @property
    def full(self) -> bool:
        """Whether no more may follow."""
        return self.followers >= self._most

    def stop(self) -> None:
        """End all streams: the server stops."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.tell()

    @contextmanager
    def joined(self, name: str) -> Iterator[_Feed]:
        """Be counted among those who follow a trial; whoever comes first has it looked at."""
        feed = self._feeds.setdefault(name, _Feed())
        if feed.task is None:
            feed.task = asyncio.create_task(self._look(name, feed))
        feed.followers += 1
        self.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            self.followers -= 1
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
        self, feeds: Feeds, name: str, *, seen: str, still_allowed: Callable[[], Awaitable[object]]
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feeds, self._name = feeds, name
        self._seen, self._still_allowed = seen, still_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is new until the client has gone, may look no more, or the server stops."""
        if self._feeds.full:
            refused = error_response(
                503,
                "too_many_streams",
                f"{self._feeds.followers} programs follow trials already.",
                field="stream",
                remedy="Poll the status instead.",
                headers={"Retry-After": "10"},
            )
            await refused(scope, receive, send)
            return
        with self._feeds.joined(self._name) as feed:
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
