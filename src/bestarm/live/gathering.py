"""Calls of several threads that are carried out together, as they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock, current_thread, get_ident, main_thread
from typing import Generic, TypeVar

Call = TypeVar("Call")
Answer = TypeVar("Answer")


class _Waiting(Generic[Call, Answer]):
    """A call that waits while others are carried out."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.group: list[_Waiting[Call, Answer]] | None = None  # those it is to carry out
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.gone = False  # whether nobody waits for it any more
        self.interruptible = current_thread() is main_thread()  # by Ctrl-C
        self.woken = Lock()
        self.woken.acquire()

    def wake(self) -> None:
        """Let its thread go on; twice does no harm."""
        with suppress(RuntimeError):
            self.woken.release()


class Gathering(Generic[Call, Answer]):
    """Carries out the calls of threads, those that come in meanwhile together.

    A call that finds nobody at work is carried out at once, by its own thread. Those that come in
    while it is wait, and one of them then carries out all that wait: what takes long once, as
    waiting for a disk, takes that long for all of them together.

    Ctrl-C interrupts the main thread, at any point. So another thread carries out a group where
    there is one, and whoever was interrupted as it handed over does so once more: each step is one
    assignment, or can be repeated.

    Args:
        carry_out: carries out several calls, and returns an answer for each. If it raises an
            exception, each of the callers raises it.
    """

    def __init__(self, carry_out: Callable[[Sequence[Call]], Sequence[Answer]]) -> None:
        self._carry_out = carry_out
        self._worker = 0  # the thread that is at work
        self._threads: set[int] = set()  # those that wait
        self._lock = Lock()
        # Who is at work: a call alone, a group, or nobody; and those that wait meanwhile.
        self._state: tuple[object, list[_Waiting[Call, Answer]]] = None, []

    @property
    def _waiting(self) -> list[_Waiting[Call, Answer]]:
        return self._state[1]

    def __call__(self, call: Call) -> Answer:
        """Have a call carried out, and return its answer."""
        me = get_ident()
        if self._worker == me or me in self._threads:
            # In a signal handler: this thread cannot wait for itself.
            return self._carry_out([call])[0]
        mine: _Waiting[Call, Answer] | None = None
        alone: object = None
        try:
            with self._lock:
                if self._state[0] is None:
                    alone = object()
                    self._state = alone, self._state[1]
                else:
                    mine = _Waiting(call)
                    self._state[1].append(mine)
            if mine is None:
                return self._work([call])[0]
            self._threads.add(me)
            mine.woken.acquire()
            if mine.group is not None:
                self._carry_out_group(mine.group)
        except BaseException:
            while mine is not None:
                try:
                    self._leave(mine)
                    mine = None
                except KeyboardInterrupt:  # once more
                    continue
            raise
        finally:
            while alone is not None:
                try:
                    self._hand_over(alone)
                    alone = None
                except KeyboardInterrupt:
                    self._hand_over(alone)
                    raise
            self._threads.discard(me)
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _leave(self, mine: _Waiting[Call, Answer]) -> None:
        """Wait no longer, as the user has interrupted it; what others wait for is carried out."""
        mine.gone = True
        with self._lock:
            at_work, waiting = self._state
            self._state = at_work, [each for each in waiting if each is not mine]
        if mine.group is not None:
            self._carry_out_group(mine.group)

    def _work(self, calls: Sequence[Call]) -> Sequence[Answer]:
        self._worker = get_ident()
        try:
            return self._carry_out(calls)
        finally:
            self._worker = 0

    def _carry_out_group(self, group: list[_Waiting[Call, Answer]]) -> None:
        """Carry out the calls of a group, whose first is of this thread, and wake the others."""
        if self._state[0] is not group:
            return  # it was handed over already
        done = group[1:]
        try:
            left = [each for each in group if not each.gone]
            answers = self._work([each.call for each in left]) if left else []
            for each, answer in zip(left, answers, strict=True):
                each.answer = answer
        except Exception as error:
            for each in group:
                each.error = error
        except BaseException:  # this thread has to end: another carries out what is left
            done = []
            with self._lock:
                again = [each for each in group[1:] if not each.gone]
                self._state = group, [*again, *self._state[1]]
            raise
        finally:
            try:
                self._finish(group, done)
            except KeyboardInterrupt:
                self._finish(group, done)
                raise

    def _finish(
        self, group: list[_Waiting[Call, Answer]], done: list[_Waiting[Call, Answer]]
    ) -> None:
        for each in done:
            each.wake()
        self._hand_over(group)

    def _hand_over(self, me: object) -> None:
        """Let one of those that wait carry out all their calls, if I have not done so yet."""
        with self._lock:
            at_work, waiting = self._state
            if at_work is me:
                group = sorted(waiting, key=lambda each: each.interruptible)
                if group:
                    group[0].group = group
                at_work = group or None
                self._state = at_work, []
        if isinstance(at_work, list):
            at_work[0].wake()
