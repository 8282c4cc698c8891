"""Processes that stand in the line of a SQLite file, and do not move."""

from __future__ import annotations

import time
from multiprocessing.synchronize import Event as Signal

from bestarm.live import Experiment
from bestarm.live.store.sql.turns import _Line

__all__ = ["has_the_time", "is_first", "tells_in_between"]


def is_first(path: str, ready: Signal) -> None:
    """Take the first place in the line, and stay there."""
    line = _Line(path)
    with line.first():
        ready.set()
        time.sleep(600)


def has_the_time(path: str, ready: Signal) -> None:
    """Say that this process writes, again and again, and write nothing."""
    line = _Line(path)
    with line.first():
        line.begin_slice()
    for _ in range(600_000):
        line.sign()
        ready.set()
        time.sleep(0.0005)
        if not line.is_free():
            with line.first():
                line.begin_slice()


def tells_in_between(url: str, first: int, count: int, ready: Signal) -> None:
    """Tell some outcomes, one at a time."""
    with Experiment.open(url, "offer") as experiment:
        ready.set()
        for number in range(first, first + count):
            experiment.tell(number, float(number))
