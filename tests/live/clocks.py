"""A clock for tests, in seconds since 1970."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Stands still until it is set, or moves on by a step whenever somebody looks."""

    def __init__(self, now: float = 1_800_000_000.0, *, step: float = 0.0) -> None:
        self.now, self._step = now, step

    def __call__(self) -> float:
        self.now += self._step
        return self.now
