"""Group commit: calls that threads make at the same time share a transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

from bestarm.errors import StoreError, StoreUnavailableError

Call = TypeVar("Call")
Answer = TypeVar("Answer")


class _Entry(Generic[Call, Answer]):
    """A call, and its answer once there is one."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.answer: Answer | BaseException | None = None


class GroupCommit(Generic[Call, Answer]):
    """Carries out the calls of threads: those that come in while one is at work, together.

    A commit waits for the disk, so that eight threads record twice as many outcomes per second like
    this. A call that finds nobody at work is carried out at once, by its own thread; of those that
    wait, the first carries out all. A call returns when it is on disk, or raises; where the thread
    at work is interrupted (Ctrl-C), the calls that it carries out raise as well.

    Args:
        commit: carries out several calls in one transaction, and returns an answer for each: an
            exception is raised to that caller alone. After one that it raises itself nothing is
            kept. A `StoreError` is raised to all callers; after another, such as one of a caller's
            forecaster, each call is carried out alone.
    """

    def __init__(self, commit: Callable[[Sequence[Call]], Sequence[Answer | Exception]]) -> None:
        self._commit = commit
        self._lock = Lock()  # held by the thread at work
        self._waiting: deque[_Entry[Call, Answer]] = deque()

    def __call__(self, call: Call) -> Answer:
        """Have a call carried out, and return its answer."""
        mine = _Entry[Call, Answer](call)
        self._waiting.append(mine)
        try:
            with self._lock:
                if mine.answer is None:
                    self._carry_out([self._waiting.popleft() for _ in range(len(self._waiting))])
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(mine)  # what was interrupted is not carried out later
            raise
        if mine.answer is None:  # another thread was interrupted as it took the calls
            raise _interrupted()
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        return mine.answer

    def _carry_out(self, group: Sequence[_Entry[Call, Answer]]) -> None:
        try:
            answers = self._commit([entry.call for entry in group])
            for entry, answer in zip(group, answers, strict=True):
                entry.answer = answer
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreError):
                for entry in group:
                    entry.answer = error
            else:  # nothing was kept: each alone, so that the error reaches only its own call
                for entry in group:
                    self._carry_out([entry])
        except BaseException:
            for entry in group:
                entry.answer = _interrupted()
            raise


def _interrupted() -> StoreUnavailableError:
    return StoreUnavailableError(
        "The thread that carried out this call together with its own was interrupted.",
        field="thread",
        remedy="Make the same call again: it may be on record or not.",
    )
