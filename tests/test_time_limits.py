"""A test that hangs fails."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Event, Lock, Thread

import pytest
from time_limits import limited


@pytest.mark.parametrize("kind", ["event", "lock", "thread"])
def test_whoever_waits_for_ever_fails(kind: str) -> None:
    over, held = Event(), Lock()
    held.acquire()
    thread = Thread(target=over.wait, args=(60,))
    thread.start()
    waits: dict[str, Callable[[], object]] = {
        "event": over.wait,
        "lock": held.acquire,
        "thread": thread.join,
    }
    try:
        with pytest.raises(pytest.fail.Exception, match="did not end within"), limited(0.1):
            waits[kind]()
    finally:
        over.set()
        thread.join(60)


def test_the_limit_of_every_test_is_in_force() -> None:
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left <= 600
    with limited(5):
        pass
    after, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 5 < after <= left
