"""The threads of linear algebra."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import scipy.linalg  # noqa: F401 - a library loaded later would escape the limit on threads
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_limits: list[Any] = []  # an entry per holder; the first one is the limit
_lock = Lock()


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """The libraries of linear algebra that are loaded when there are so many modules."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _changing() -> Iterator[ThreadpoolController]:
    """The libraries, whose limits no other thread changes within this block.

    threadpoolctl from 3.8 on leaves them to the thread that set one first, and ignores all others
    as long as that thread lives: whoever lifts the limit is often another one.
    """
    with _lock:
        libraries = _libraries(len(sys.modules))
        _release_control(libraries)
        yield libraries
        _release_control(libraries)


def _release_control(libraries: ThreadpoolController) -> None:
    for each in libraries.lib_controllers:
        if (clear := getattr(each, "clear_controlling_thread", None)) is not None:
            clear(force=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread.

    Sums keep their order then, and on small matrices threads that wait for each other cost more
    than they save. The limit is of the whole process: its first holder sets it and its last one
    lifts it, however they overlap.
    """
    with _changing() as libraries:
        _limits.append(None if _limits else libraries.limit(limits=1))
    try:
        yield
    finally:
        with _changing():
            limit = _limits.pop()
            if limit is not None:
                limit.restore_original_limits()
