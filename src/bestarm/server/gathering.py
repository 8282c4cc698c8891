"""Calls that are answered together: while some are being answered, the next ones gather.

They do so until a turn of the event loop brings no more: a thread that answers would only keep the
loop from reading those that are there already.
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

    `together` gives an answer for each call of a key, in their order: an exception is raised to
    that caller alone, one that it raises itself to all of them. It starts after the calls that it
    answers.
    """

    def __init__(self, together: Together[Asked, Answer]) -> None:
        self._together = together
        self._waiting: dict[str, list[tuple[Asked, asyncio.Future[Answer]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, key: str, asked: Asked) -> Answer:
        """The answer to a call."""
        return await self.begin(key, asked)

    def begin(self, key: str, asked: Asked) -> asyncio.Future[Answer]:
        """The answer to a call, once there is one."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((asked, answer))
        else:
            self._waiting[key] = [(asked, answer)]
            # A task of its own: the first caller may go away before the others are answered.
            task = asyncio.create_task(self._answer_all(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def finish(self) -> None:
        """Wait until every call is answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer_all(self, key: str) -> None:
        try:
            while group := self._waiting[key]:
                known = 0
                while known < len(group):  # until a turn of the loop brings no more
                    known = len(group)
                    await asyncio.sleep(0)
                self._waiting[key] = []
                answers: Sequence[Answer | Exception]
                try:
                    answers = await self._together(key, [asked for asked, _ in group])
                except Exception as error:
                    answers = [error] * len(group)  # the callers raise it
                _hand_out(group, answers)
        finally:
            left = self._waiting.pop(key)
            _hand_out(left, [RuntimeError("The server stops.")] * len(left))


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
