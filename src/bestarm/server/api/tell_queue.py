"""Small tells that arrive at the same time are written together: one wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bestarm.errors import BestArmError
from bestarm.live import Receipt

Outcomes = Sequence[tuple[int, float]]
_Waiting = tuple[Outcomes, "asyncio.Future[Receipt]"]
Write = Callable[[str, list[Outcomes]], Awaitable[Sequence[Receipt | BestArmError]]]


class TellQueue:
    """Outcomes that wait to be written, by experiment.

    While one group is being written the next one gathers. Each caller is answered once its own
    outcomes are on disk, and is told of its own mistake alone.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def tell(self, name: str, outcomes: Outcomes) -> Receipt:
        """Have outcomes of an experiment written."""
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if name in self._waiting:
            self._waiting[name].append((outcomes, answer))
        else:
            self._waiting[name] = [(outcomes, answer)]
            # A task of its own: the first caller may go away before the others are answered.
            task = asyncio.create_task(self._write_all(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _write_all(self, name: str) -> None:
        try:
            while group := self._waiting[name]:
                self._waiting[name] = []
                answers: Sequence[Receipt | Exception]
                try:
                    answers = await self._write(name, [outcomes for outcomes, _ in group])
                except Exception as error:
                    answers = [error] * len(group)  # the callers raise it
                _answer(group, answers)
        finally:
            left = self._waiting.pop(name)
            _answer(left, [RuntimeError("The server stops.")] * len(left))


def _answer(group: Sequence[_Waiting], answers: Sequence[Receipt | Exception]) -> None:
    for (_, answer), each in zip(group, answers, strict=True):
        if answer.done():
            continue  # the caller has gone
        if isinstance(each, Receipt):
            answer.set_result(each)
        else:
            answer.set_exception(each)
