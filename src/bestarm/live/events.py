"""The log: every change of an experiment's state, each event chained to the one before by its hash.

The hash covers the event and the hash before it, so that no event can be changed, removed or
inserted without changing every hash after it. A copy of the last hash, kept elsewhere, shows it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from bestarm.live.store.contract import Event, Head, Writing
from bestarm.records import Plan, Recommendation, Summary

__all__ = [
    "canonical",
    "chained",
    "digest",
    "log",
    "plan_data",
    "recommendation_data",
    "record",
    "sha256",
    "summary_data",
]


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
    event = Event(head.events, at, kind, data, chained(head.events, at, kind, data, head.last_hash))
    head.events, head.last_hash = head.events + 1, event.hash
    return event


def log(tx: Writing, kind: str, at: float, **data: Any) -> None:
    """Add an event to the log."""
    tx.add_event(record(tx.head, kind, at, **data))


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan as plain data."""
    return {
        "phase": plan.phase,
        "pulls": plan.pulls,
        "open": plan.open,
        "most": plan.most,
        "provisional": plan.provisional,
        "center": plan.center,
        "weights": None if plan.weights is None else plan.weights.tolist(),
        "counts": None if plan.counts is None else plan.counts.tolist(),
    }


def summary_data(summary: Summary) -> dict[str, Any]:
    """A summary as plain data."""
    return {
        "counts": summary.counts.tolist(),
        "sums": summary.sums.tolist(),
        "squares": summary.squares.tolist(),
        "missing": summary.missing.tolist(),
        "pending": summary.pending.tolist(),
        "center": summary.center,
    }


def recommendation_data(said: Recommendation) -> dict[str, Any]:
    """What the log says of a recommendation."""
    return {
        "target": said.target,
        "label": said.label,
        "chosen": list(said.chosen),
        "final": said.final,
        "reason": said.reason,
        "pulls": said.pulls,
        "error_bound": said.error_bound,
    }
