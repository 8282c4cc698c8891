"""Ctrl-C at a moment that is chosen."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

__all__ = ["Interrupting"]


class Interrupting:
    """Interrupts this thread at the n-th entry to a function of some modules, or exit from one.

    Python looks for signals wherever a function begins, and after one of C has returned.

    Attributes:
        done: whether it came to that.
    """

    def __init__(self, number: int, *modules: ModuleType, exits: bool = True) -> None:
        self.left, self.done = number, False
        self._events = {"call", "return"} if exits else {"call"}
        self._files = {module.__file__ for module in modules}

    def __enter__(self) -> None:
        sys.settrace(self._enter)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_lines = False
        return self._look(frame, event, _)

    def _look(self, frame: FrameType, event: str, _: object) -> Any:
        if event in self._events and not self.done:
            self.left -= 1
            if not self.left:
                self.done = True
                raise KeyboardInterrupt
        return self._look
