"""Closing the phases of experiments after the outcomes that make it due were acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bestarm.errors import BestArmError

_REST = 3.0  # times as long as the call took
_LONGEST = 0.2  # seconds
_log = logging.getLogger("bestarm.server")


class _Due:
    """What is due for one experiment."""

    def __init__(self) -> None:
        self.now: asyncio.Event | None = None  # set when the call at work ends
        self.next: asyncio.Event | None = None  # set when the call after it ends, if one is due
        self.wanted = asyncio.Event()  # somebody waits for the next
        self.began = 0.0  # when the last call began


class Closings:
    """Has `close` called with the name of an experiment for which something is due.

    It returns whether there is more to do.

    One call at a time for each experiment: what becomes due meanwhile is left to one call after it.
    Between two of them there is a rest, unless somebody waits for the next: one call for many
    outcomes takes less time than several for a few each.

    Nothing is lost with one that fails or never comes: the next who asks or tells closes the phase.

    Attributes:
        failed: the experiments whose last call failed. Those who tell are to know why.
    """

    def __init__(self, close: Callable[[str], Awaitable[bool]]) -> None:
        self._close = close
        self.failed: set[str] = set()
        self._due: dict[str, _Due] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finishing = False

    def add(self, name: str) -> None:
        """Something is due."""
        due = self._due.get(name)
        if due is None:
            due = self._due[name] = _Due()
            task = asyncio.create_task(self._run(name, due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if due.next is None:
            due.next = asyncio.Event()

    async def done(self, name: str, *, patience: float | None = None) -> None:
        """Wait until all that is due by now was seen to.

        With `patience` it is no longer waited for once the call at work has taken so many seconds.
        """
        due = self._due.get(name)
        end = None if due is None else due.next or due.now
        if due is None or end is None:
            return
        if due.next is not None:
            due.wanted.set()
        left = patience
        if patience is not None and due.now is not None:
            left = max(0.0, due.began + patience - asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await end.wait()

    async def finish(self) -> None:
        """Wait until nothing is due or at work; nothing rests from now on."""
        self._finishing = True
        for due in self._due.values():
            due.wanted.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, name: str, due: _Due) -> None:
        loop = asyncio.get_running_loop()
        try:
            while due.next is not None:
                due.now, due.next, due.began = due.next, None, loop.time()
                due.wanted.clear()
                while await self._try(name) and due.next is None:
                    pass  # what is left was due before
                due.now.set()
                due.now = None
                rest = 0.0 if self._finishing else min(_REST * (loop.time() - due.began), _LONGEST)
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest):
                        await due.wanted.wait()
        finally:
            del self._due[name]
            for end in (due.now, due.next):
                if end is not None:
                    end.set()

    async def _try(self, name: str) -> bool:
        """Have a phase closed, and return whether there is more to do."""
        try:
            more = await self._close(name)
        except Exception as error:  # of the store, or of a user's own policy
            self.failed.add(name)
            foreseen = isinstance(error, BestArmError)
            cause = None if foreseen else error
            _log.warning("A phase of %r is closed later: %s", name, error, exc_info=cause)
            return False
        self.failed.discard(name)
        return more
