"""A clock for tests."""

from __future__ import annotations

from typing import Any

__all__ = ["Clock"]


class Clock:
    """Stands still until it is set, even to what is not a time; or moves on with every look."""

    def __init__(self, now: Any = 1_800_000_000.0, *, step: float = 0.0) -> None:
        self.now, self._step = now, step

    def __call__(self) -> Any:
        if self._step:
            self.now += self._step
        return self.now
