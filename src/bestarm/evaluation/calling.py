"""Calls of a judge: in threads if it is a plain function, in the event loop if it is async."""

from __future__ import annotations

import asyncio
import inspect
import os
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from bestarm.errors import InvalidInputError

#: Scores an option on an item: `judge(option, item)`, a plain or an async function.
Judge = Callable[[Any, Any], Any]

_Answer = tuple[Any, BaseException | None]


class Caller:
    """Calls a judge from an event loop, without ever blocking it.

    Threads are daemons: a call that hangs does not keep the process from ending.

    Args:
        judge: the judge.
        concurrency: how many calls there are at most at a time.

    Raises:
        InvalidInputError: there cannot be as many threads.
    """

    def __init__(self, judge: Judge, concurrency: int) -> None:
        self._judge, self._loop = judge, asyncio.get_running_loop()
        self._calls = SimpleQueue[tuple[asyncio.Future[_Answer], Any, Any] | None]()
        function: Any = judge
        plain = function if inspect.isroutine(function) else function.__call__
        self._code = getattr(inspect.unwrap(plain), "__code__", None)
        self._async = inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(plain)
        self._threads = 0 if self._async else concurrency
        for started in range(self._threads):
            try:
                Thread(target=self._serve, name="judge", daemon=True).start()
            except RuntimeError as error:  # the system gives no more
                self.close()
                raise InvalidInputError(
                    f"`concurrency` asks for {concurrency:,} threads, and the system gives no more "
                    f"than {started:,}.",
                    field="concurrency",
                    value=concurrency,
                    remedy="Make fewer calls at a time, or give an async judge, which needs no "
                    "threads.",
                ) from error

    async def __call__(self, option: Any, item: Any) -> Any:
        """What the judge returns, or raises."""
        if self._async:
            return await self._judge(option, item)
        answer: asyncio.Future[_Answer] = self._loop.create_future()
        self._calls.put((answer, option, item))
        value, error = await answer
        if error is not None:
            raise error
        return await value if isinstance(value, Awaitable) else value  # as of a lambda

    def describe(self, error: BaseException) -> str:
        """An exception of the judge in words, with the line of the judge that it passed last."""
        what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
        file = "" if self._code is None else self._code.co_filename
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        return f"{what} ({os.path.basename(file)}, line {lines[-1]})" if lines else what

    def close(self) -> None:
        """Let threads end as soon as their calls have."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            answer, option, item = call
            try:
                said: _Answer = self._judge(option, item), None
            except BaseException as error:  # raised again where it is awaited
                said = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(_give, answer, said)


def _give(answer: asyncio.Future[_Answer], said: _Answer) -> None:
    if not answer.done():  # nor cancelled
        answer.set_result(said)
