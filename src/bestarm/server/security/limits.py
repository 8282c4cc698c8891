"""Limits on what callers may send: sizes of bodies, requests per second, connections."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

_MOST_CALLERS = 10_000


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each of its processes counts for itself.

    Attributes:
        body: the largest body of a request, in bytes.
        rate: requests per second from one caller, over time.
        burst: requests at once from one caller.
        batch: assignments or outcomes per request.
        seconds: how long the body of a request may take to arrive.
        streams: pages and programs that may follow experiments at a time.
        anonymous_streams: how many of them may be without a token.
        anonymous_streams_per_address: how many of those may be from one address.
        connections: connections at a time; requests on further ones are refused.
        planning: the seconds that simulating a plan may take.
    """

    body: int = 8_000_000
    rate: float = 1000.0
    burst: int = 2000
    batch: int = 100_000
    seconds: float = 30.0
    streams: int = 200
    anonymous_streams: int = 100
    anonymous_streams_per_address: int = 50
    connections: int = 500
    planning: float = 60.0


class Buckets:
    """Counts requests by caller: each has a bucket that fills at a rate, up to a burst."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Count a request: 0 if it may pass, else the seconds to wait."""
        now = time.monotonic()
        left, at = self._left.pop(caller, (float(self._limits.burst), now))
        left = min(self._limits.burst, left + (now - at) * self._limits.rate)
        passes = left >= 1
        self._left[caller] = (left - 1 if passes else left, now)
        while len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if passes else (1 - left) / self._limits.rate
