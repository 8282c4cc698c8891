"""A limit on the time that a test may take: one that hangs fails, and shows where it hangs."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

__all__ = ["LONGEST", "limited"]

LONGEST = 600.0  # seconds: many times what the longest test takes on a slow, busy machine
_STDERR = 2
_GRACE = 60.0  # seconds until the process is ended where the test cannot be interrupted


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail whatever takes longer; the traceback shows what it was waiting for.

    Code that is not Python's may never let the test fail. Then the process is ended, after all
    its threads' stacks are printed.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        pytest.fail(f"The test did not end within {seconds:g} seconds.")

    handler = signal.signal(signal.SIGALRM, stop)
    rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=_STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, rest)
