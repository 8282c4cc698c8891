"""No test of the server waits for ever: one that would hang fails instead."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

_LIMIT = 300.0  # seconds: far more than any of them takes on a busy machine


@pytest.fixture(autouse=True)
def _limited() -> Iterator[None]:
    """Every test, whatever it waits for, has an end."""

    def up(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"the test was not over after {_LIMIT:.0f} seconds")  # nothing catches it

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
