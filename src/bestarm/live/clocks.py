"""What counts as a time: seconds, of this age of the world where others must understand them.

A wrong time does lasting harm: leases end by it, and what is lost is never used.
"""

from __future__ import annotations

import math

from bestarm.errors import ClockError
from bestarm.live.store.contract import Head

__all__ = ["EARLIEST", "LATEST", "check_leap", "read_time"]

EARLIEST = 946_684_800.0  # the beginning of the year 2000, in seconds since 1970
LATEST = 7_258_118_400.0  # the beginning of the year 2200

_DAY = 86_400.0
_YEAR = 365 * _DAY
_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}


def read_time(value: object, *, stored: bool) -> float:
    """The time that a clock tells, in seconds.

    A stored experiment takes dates alone, as other processes go on with it. One in memory may run
    in simulated time, on a clock that begins anywhere; milliseconds are refused all the same.

    Args:
        value: what the clock told.
        stored: whether it is for a stored experiment.

    Raises:
        ClockError: this cannot be the time.
    """
    number = math.nan
    if not isinstance(value, (bool, str)):
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if (EARLIEST if stored else -LATEST) <= number < LATEST:
        return number
    raise ClockError(
        f"`clock` must tell the time in seconds since 1970; got {value!r}.",
        field="clock",
        value=value,
        remedy=_remedy(number),
    )


def _remedy(number: float) -> str:
    for unit, size in _UNITS.items():
        if EARLIEST * size <= number < LATEST * size:
            return f"Did you give {unit}? Divide by {size:,.0f}."
    if -LATEST < number < EARLIEST:
        return "A stored experiment needs real times; one in memory may run on a clock of its own."
    return "`time.time` tells it."


def check_leap(head: Head, now: float) -> None:
    """Refuse to give up all that is out because a clock was set wrong by years.

    Args:
        head: the counters of a stored experiment.
        now: the time.

    Raises:
        ClockError: nothing was recorded for a year and the length of a lease.
    """
    if head.lease is None or head.over or now - head.at <= _YEAR + head.lease:
        return
    raise ClockError(
        f"The clock is {(now - head.at) / _DAY:.0f} days ahead of what was last recorded: by it, "
        "all outstanding outcomes would be lost.",
        field="clock",
        value=now,
        remedy="Set the clock. If it is right, pause and resume the experiment, and go on.",
    )
