"""Small tells that come at the same time are written down together: one wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bestarm.errors import BestArmError
from bestarm.live import Receipt

__all__ = ["Tellers"]

Outcomes = Sequence[tuple[int, float]]
_Waiting = tuple[Outcomes, "asyncio.Future[Receipt]"]
Write = Callable[[str, list[Outcomes]], Awaitable[Sequence[Receipt | BestArmError]]]

_MOST = 2000  # outcomes at a time: nobody waits for a large write because of others


class Tellers:
    """Those who wait to have their outcomes written down, by trial.

    While one lot is being written the next gathers. Each is answered once its own are on disk, and
    is told its own mistake alone.

    Args:
        write: writes down, for a trial, what several have told.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def tell(self, name: str, outcomes: Outcomes) -> Receipt:
        """Have outcomes of a trial written down."""
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if name in self._waiting:
            self._waiting[name].append((outcomes, answer))
        else:
            self._waiting[name] = [(outcomes, answer)]
            # A task of its own: whoever came first may go away before the others are answered.
            task = asyncio.create_task(self._go_on(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _go_on(self, name: str) -> None:
        try:
            while self._waiting[name]:
                lot = self._next(name)
                _answer(lot, await self._written(name, lot))
        finally:
            left = self._waiting.pop(name)
            _answer(left, [RuntimeError("The server stops.")] * len(left))

    async def _written(self, name: str, lot: Sequence[_Waiting]) -> Sequence[Receipt | Exception]:
        try:
            return await self._write(name, [outcomes for outcomes, _ in lot])
        except Exception as error:
            return [error] * len(lot)  # theirs who wait

    def _next(self, name: str) -> list[_Waiting]:
        waiting, size = self._waiting[name], 0
        for at, (outcomes, _) in enumerate(waiting):
            size += len(outcomes)
            if at and size > _MOST:
                break
        else:
            at = len(waiting)
        self._waiting[name] = waiting[at:]
        return waiting[:at]


def _answer(lot: Sequence[_Waiting], found: Sequence[Receipt | Exception]) -> None:
    for (_, answer), each in zip(lot, found, strict=True):
        if answer.done():
            continue  # whoever asked has gone
        if isinstance(each, Receipt):
            answer.set_result(each)
        else:
            answer.set_exception(each)
