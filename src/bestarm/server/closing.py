"""Closing the phases of experiments after the outcomes that make it due were acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bestarm.errors import BestArmError

_log = logging.getLogger("bestarm.server")


class Closings:
    """Has `close` called with the name of an experiment for which something is due.

    One call at a time for each experiment: what becomes due meanwhile is left to one call after it.
    Nothing is lost with one that fails or never comes: the next who asks or tells closes the phase.

    Attributes:
        failed: the experiments whose last call failed. Those who tell are to know why.
    """

    def __init__(self, close: Callable[[str], Awaitable[object]]) -> None:
        self._close = close
        self.failed: set[str] = set()
        self._ends: dict[str, list[asyncio.Event]] = {}  # of the call at work, and of the next
        self._began: dict[str, float] = {}  # when the call at work began
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, name: str) -> None:
        """Something is due."""
        ends = self._ends.setdefault(name, [])
        if len(ends) < 2:
            ends.append(asyncio.Event())
        if name not in self._began:
            self._began[name] = asyncio.get_running_loop().time()
            task = asyncio.create_task(self._run(name, ends))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def done(self, name: str, *, patience: float | None = None) -> None:
        """Wait until all that is due by now was seen to.

        With `patience` it is no longer waited for once the call at work has taken so many seconds.
        """
        if ends := self._ends.get(name):
            now = asyncio.get_running_loop().time()
            left = None if patience is None else max(0.0, self._began[name] + patience - now)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await ends[-1].wait()

    async def finish(self) -> None:
        """Wait until nothing is at work."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, name: str, ends: list[asyncio.Event]) -> None:
        try:
            while ends:
                self._began[name] = asyncio.get_running_loop().time()
                await self._try(name)
                ends.pop(0).set()
        finally:
            del self._ends[name], self._began[name]
            for end in ends:
                end.set()

    async def _try(self, name: str) -> None:
        try:
            await self._close(name)
        except Exception as error:  # of the store, or of a user's own policy
            self.failed.add(name)
            foreseen = isinstance(error, BestArmError)
            cause = None if foreseen else error
            _log.warning("A phase of %r is closed later: %s", name, error, exc_info=cause)
        else:
            self.failed.discard(name)
