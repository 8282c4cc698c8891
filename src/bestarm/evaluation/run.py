"""Judging: pairs are asked for as calls become free, and told as soon as they are judged."""

from __future__ import annotations

import asyncio
import random
import reprlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from bestarm.errors import JudgeError
from bestarm.evaluation.book import Book, Pair
from bestarm.evaluation.calling import Caller, Judge
from bestarm.evaluation.inputs import Question
from bestarm.evaluation.limits import Limits

T = TypeVar("T")

_LONGEST_PAUSE = 60.0  # seconds
KEPT = "Everything judged so far is kept: to continue, start the same evaluation again."


def pause_before(retry: int) -> float:
    """Seconds to wait before a retry: about 1, 2, 4, …, a minute at most.

    They differ at random, so that calls that failed at once are not made again at once.
    """
    return random.uniform(0.5, 1) * min(2.0 ** (retry - 1), _LONGEST_PAUSE)


class Run:
    """One run of an evaluation.

    Args:
        book: says what is to be judged, and keeps scores.
        question: the options and the items.
        limits: what it must not exceed.
        thread: the one thread that uses the book, as others would wait for its disk.
        stopping: set where no more calls are to be started; those in flight are waited for.
        report: called with the judgements made and the most there can be, whenever they change.

    Attributes:
        failures: calls that failed.
        capped: whether a call was not made because it would have exceeded the cost.
    """

    def __init__(
        self,
        book: Book,
        question: Question,
        limits: Limits,
        *,
        thread: Executor,
        stopping: asyncio.Event,
        report: Callable[[int, int], object],
    ) -> None:
        self._book, self._question, self._limits = book, question, limits
        self._thread, self._stopping, self._report = thread, stopping, report
        self._queue = deque(book.pending)
        self._calls: dict[asyncio.Task[float | None], Pair] = {}
        self._calls_left = limits.calls - book.judged - book.lost
        self._error: JudgeError | None = None
        self._judging = False  # whether a call was made
        self.failures, self.capped = 0, False

    async def work(self, judge: Judge) -> None:
        """Judge until it is clear, or a limit is reached, or it is stopped.

        Raises:
            JudgeError: the judge failed too often on a pair, or gave something that is not a score.
        """
        left = max(self._book.most - self._book.judged, 1)
        caller = Caller(judge, min(self._limits.concurrency, left))
        self._report(self._book.judged, self._book.most)
        try:
            while await self._start_calls(caller):
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
                # Scores that come while others are told may decide it too.
                while done := [call for call in self._calls if call.done()]:
                    await self._record(done)
        finally:
            caller.close()
            for call in self._calls:
                call.cancel()
            if self._judging:
                await self._in_thread(self._book.end, len(self._calls))
        if self._error is not None and not self._book.finished:
            raise self._error

    async def _start_calls(self, caller: Caller) -> bool:
        """Start as many calls as are free; whether there are any then."""
        while len(self._calls) < self._limits.concurrency and not self._over():
            if not self._affords_call():
                break
            if not self._queue:
                self._queue.extend(await self._in_thread(self._book.ask))
            if not self._queue:
                break
            if not self._judging:
                await self._in_thread(self._book.begin, self._limits.concurrency)
                self._judging = True
            self._calls_left -= 1
            pair = self._queue.popleft()
            self._calls[asyncio.create_task(self._judge(caller, pair))] = pair
        return bool(self._calls)

    def _over(self) -> bool:
        return self._stopping.is_set() or self._book.finished

    def _affords_call(self) -> bool:
        """Whether one more call is within the cost."""
        self.capped = self._calls_left < 1
        return not self.capped

    async def _judge(self, caller: Caller, pair: Pair) -> float | None:
        """The score of a pair, or None if it is left for another run."""
        option, item = self._question.options[pair.option], self._question.items[pair.item]
        for attempt in range(self._limits.retries + 1):
            if attempt:
                if await self._pause(attempt) or not self._affords_call():
                    return None
                self._calls_left -= 1
            try:
                value = await caller(option, item)
            except (Exception, SystemExit) as error:
                self.failures += 1
                cause: BaseException = error
            else:
                return self._read_score(value, pair)
        why = caller.describe(cause)
        times = "once" if not self._limits.retries else f"{self._limits.retries + 1} times"
        raise self._refusal(pair, f"failed {times}, last with {why}.", why) from cause

    async def _pause(self, attempt: int) -> bool:
        """Wait before a retry; whether it was stopped meanwhile."""
        try:
            await asyncio.wait_for(self._stopping.wait(), pause_before(attempt))
        except TimeoutError:
            return self._over()
        return True

    def _read_score(self, value: Any, pair: Pair) -> float:
        low, high = self._limits.bounds
        is_number = isinstance(value, (Real, np.bool_))
        if is_number and low <= value <= high:
            return float(value)
        what = f"returned {reprlib.repr(value)}, which is not a number from {low:g} to {high:g}."
        raise self._refusal(pair, what, value)

    def _refusal(self, pair: Pair, what: str, value: object) -> JudgeError:
        label, item = self._question.labels[pair.option], self._question.items[pair.item]
        return JudgeError(
            f"On the option {label!r} and item {pair.item + 1} ({reprlib.repr(item)}), the judge "
            f"{what}",
            field="judge",
            value=value,
            remedy=KEPT,
        )

    async def _record(self, done: Iterable[asyncio.Task[float | None]]) -> None:
        """Tell the scores of calls that ended."""
        scores: dict[int, float] = {}
        for call in done:
            pair = self._calls.pop(call)
            try:
                score = call.result()
            except JudgeError as error:
                self._error = self._error or error
                self._stopping.set()
            except asyncio.CancelledError:  # by the judge itself
                self._error = self._error or self._refusal(pair, "was cancelled.", None)
                self._stopping.set()
            else:
                if score is not None:
                    scores[pair.id] = score
        if scores:
            await self._in_thread(self._book.tell, scores)
            self._report(self._book.judged, self._book.most)
            if self._book.finished:
                self._stopping.set()  # also for pauses between attempts

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
