"""A question about a trial or a database, answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEVELS", "Check", "worst"]

LEVELS = ("ok", "warning", "alarm")


@dataclass(frozen=True)
class Check:
    """One question about a trial or a database, answered.

    Attributes:
        name: the question, in a word.
        level: `"ok"`, `"warning"` or `"alarm"`.
        finding: the answer, in a sentence.
        action: what to do about it; empty if nothing.
    """

    name: str
    level: str
    finding: str
    action: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.name}: {self.finding} {self.action}".rstrip()


def worst(checks: Sequence[Check]) -> str:
    """The highest level among checks."""
    return max((check.level for check in checks), key=LEVELS.index, default="ok")
