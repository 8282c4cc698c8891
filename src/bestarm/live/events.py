"""The log: every change of an experiment's state, each entry bound to the one before by its hash.

The hash covers the entry and the hash before it, so that nothing in the log can be changed, left
out or put in without changing every hash after it. Whoever noted the last one elsewhere can tell.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from bestarm.live.store.contract import Event, Head, Writing
from bestarm.records import Plan, Summary

__all__ = [
    "FORMAT",
    "canonical",
    "chained",
    "digest",
    "log",
    "plan_data",
    "record",
    "sha256",
    "summary_data",
]


# What the log tells of. Since 2 also of late outcomes and of failures after the end, each time; of
# times and requests with every summary; and, at the end, of what no summary covers.
FORMAT = 2


def canonical(data: object) -> str:
    """The one way to write a value as JSON: floats as Python writes them, so they read back."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: object) -> str:
    """The SHA-256 of a value's canonical form."""
    return sha256(canonical(data))


def sha256(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def chained(number: int, at: float, kind: str, data: dict[str, Any], before: str) -> str:
    """The hash of an event."""
    return digest([number, at, kind, data, before])


def record(head: Head, kind: str, at: float, **data: Any) -> Event:
    """The next event, counted in the head."""
    event = Event(head.events, at, kind, data, chained(head.events, at, kind, data, head.tip))
    head.events, head.tip = head.events + 1, event.hash
    return event


def log(tx: Writing, kind: str, at: float, **data: Any) -> None:
    """Add an event to the log."""
    tx.add_event(record(tx.head, kind, at, **data))


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan as plain data. What is rare is left out where it is not so."""
    rare = {"provisional": plan.provisional, "center": plan.center}
    return {name: value for name, value in rare.items() if value} | {
        "phase": plan.phase,
        "pulls": plan.pulls,
        "open": plan.open,
        "most": plan.most,
        "weights": None if plan.weights is None else plan.weights.tolist(),
        "counts": None if plan.counts is None else plan.counts.tolist(),
    }


def summary_data(summary: Summary) -> dict[str, Any]:
    """A summary as plain data. What is rare is left out where it is not so."""
    rare: dict[str, Any] = {"center": summary.center} if summary.center else {}
    if summary.pending.any():
        rare["pending"] = summary.pending.tolist()
    return rare | {
        "counts": summary.counts.tolist(),
        "sums": summary.sums.tolist(),
        "squares": summary.squares.tolist(),
        "missing": summary.missing.tolist(),
    }
