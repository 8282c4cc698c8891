"""Calls of several threads that are carried out together, as they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock, get_ident
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
        self.woken = Lock()
        self.woken.acquire()


class Gathering(Generic[Call, Answer]):
    """Carries out the calls of threads, those that come in meanwhile together.

    A call that finds nobody at work is carried out at once, by its own thread. Those that come in
    while it is wait, and the first of them then carries out all that wait: what takes long once,
    as waiting for a disk, takes that long for all of them together.

    Args:
        carry_out: carries out several calls, and returns an answer for each. If it raises an
            exception, each of the callers raises it.
    """

    def __init__(self, carry_out: Callable[[Sequence[Call]], Sequence[Answer]]) -> None:
        self._carry_out = carry_out
        self._worker = 0  # the thread that is at work
        self._lock = Lock()
        self._busy = False
        self._waiting: list[_Waiting[Call, Answer]] = []

    def __call__(self, call: Call) -> Answer:
        """Have a call carried out, and return its answer."""
        if self._worker == get_ident():  # as in a signal handler: nobody else would carry it out
            return self._carry_out([call])[0]
        mine: _Waiting[Call, Answer] | None = None
        at_work = False
        try:
            with self._lock:
                if self._busy:
                    mine = _Waiting(call)
                    self._waiting.append(mine)
                else:
                    at_work = self._busy = True
            if mine is None:
                return self._work([call])[0]
            mine.woken.acquire()
        except BaseException:
            if mine is not None:
                self._leave(mine)
            raise
        finally:
            if at_work:
                self._hand_over()
        if mine.group is not None:
            self._carry_out_group(mine.group)
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _leave(self, mine: _Waiting[Call, Answer]) -> None:
        """Wait no longer, as the user has interrupted it; what others wait for is carried out."""
        with self._lock:
            mine.gone = True
            if mine in self._waiting:
                self._waiting.remove(mine)
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
        done = group
        try:
            answers = self._work([each.call for each in group])
            for each, answer in zip(group, answers, strict=True):
                each.answer = answer
        except Exception as error:
            for each in group:
                each.error = error
        except BaseException:  # this thread has to end: another carries out what is left
            done = group[:1]
            with self._lock:
                self._waiting[:0] = [each for each in group[1:] if not each.gone]
            raise
        finally:
            for each in done[1:]:
                each.woken.release()
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the first of those that wait carry out all their calls."""
        try:
            self._wake_first()
        except BaseException:  # the user has interrupted it, and nobody else would do it
            self._wake_first()
            raise

    def _wake_first(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
            if group:
                group[0].group = group
                group[0].woken.release()
            else:
                self._busy = False
