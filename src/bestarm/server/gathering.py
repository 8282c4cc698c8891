"""Calls that are answered together: while some are being answered, the next ones gather.

They do so until a turn of the event loop brings no more: a thread that answers would only keep the
loop from reading those that are there already. And those who were just answered mostly call again
at once, so that a moment's wait for them makes one group of two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Together = Callable[[str, list[Asked]], Awaitable[Sequence[Answer | Exception]]]


class TaskGathering(Generic[Asked, Answer]):
    """Has calls answered together, by key: they wait for a thread or for the disk once.

    Args:
        together: gives an answer for each call of a key, in their order: an exception is raised to
            that caller alone, one that it raises itself to all of them. It starts after the calls
            that it answers.
        moment: the seconds for which those who call wait, at most, until there are as many as last
            time.
    """

    def __init__(self, together: Together[Asked, Answer], *, moment: float = 0.0) -> None:
        self._together, self._moment = together, moment
        self._waiting: dict[str, list[tuple[Asked, asyncio.Future[Answer]]]] = {}
        self._enough: dict[str, tuple[int, asyncio.Future[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, key: str, asked: Asked) -> Answer:
        """The answer to a call."""
        return await self.begin(key, asked)

    def begin(self, key: str, asked: Asked) -> asyncio.Future[Answer]:
        """The answer to a call, once there is one."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((asked, answer))
            if key in self._enough and len(self._waiting[key]) >= self._enough[key][0]:
                _end(self._enough[key][1])
        else:
            self._waiting[key] = [(asked, answer)]
            # A task of its own: the first caller may go away before the others are answered.
            task = asyncio.create_task(self._answer_all(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def finish(self) -> None:
        """Wait until every call is answered."""
        self._moment = 0.0
        for _, enough in self._enough.values():
            _end(enough)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer_all(self, key: str) -> None:
        expected = 1
        try:
            while group := await self._gather(key, expected):
                answers: Sequence[Answer | Exception]
                try:
                    answers = await self._together(key, [asked for asked, _ in group])
                except Exception as error:
                    answers = [error] * len(group)  # the callers raise it
                _hand_out(group, answers)
                expected = len(group) + len(self._waiting[key])
        finally:
            left = self._waiting.pop(key)
            _hand_out(left, [RuntimeError("The server stops.")] * len(left))

    async def _gather(
        self, key: str, expected: int
    ) -> Sequence[tuple[Asked, asyncio.Future[Answer]]]:
        """Those who call, once there are as many as expected or a moment is over; maybe none."""
        group = self._waiting[key]
        if len(group) < expected and self._moment:
            loop = asyncio.get_running_loop()
            enough = loop.create_future()
            self._enough[key] = expected, enough
            timer = loop.call_later(self._moment, _end, enough)
            try:
                await enough
            finally:
                timer.cancel()
                del self._enough[key]
        known = 0
        while known < len(group):  # until a turn of the loop brings no more
            known = len(group)
            await asyncio.sleep(0)
        self._waiting[key] = []
        return group


def _end(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


def _hand_out(
    group: Sequence[tuple[Asked, asyncio.Future[Answer]]], answers: Sequence[Answer | Exception]
) -> None:
    for (_, future), answer in zip(group, answers, strict=True):
        if future.done():
            continue  # the caller has gone
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
