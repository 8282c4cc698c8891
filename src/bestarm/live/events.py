"""The log: every change of an experiment's state, each event chained to the one before by its hash.

The hash covers the event and the hash before it, so that no event can be changed, removed or
inserted without changing every hash after it. A copy of the last hash, kept elsewhere, shows it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import numpy as np

from bestarm.live.store.contract import Event, Head, PlanRecord, SummaryRecord, Writing
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Rounds, Summary


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


def next_event(head: Head, kind: str, at: float, **data: Any) -> Event:
    """The next event, counted in the head."""
    event = Event(head.events, at, kind, data, chained(head.events, at, kind, data, head.last_hash))
    head.events, head.last_hash = head.events + 1, event.hash
    return event


def log(tx: Writing, kind: str, at: float, **data: Any) -> None:
    """Add an event to the log."""
    tx.add_event(next_event(tx.head, kind, at, **data))


def as_data(record: Plan | Summary) -> dict[str, Any]:
    """A plan or a summary as plain data."""
    if isinstance(record, Rounds):
        return record.data

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    return {each.name: plain(getattr(record, each.name)) for each in fields(record)}


def plan_data(record: PlanRecord) -> dict[str, Any]:
    """What the log says of a plan."""
    plan = record.plan
    known = {"phase": plan.phase, "pulls": plan.pulls}
    known |= {"first": record.first, "round": record.round}
    return known | {"plan": digest(as_data(plan))}


def summary_data(record: SummaryRecord) -> dict[str, Any]:
    """What the log says of a summary."""
    known = {name: getattr(record, name) for name in ("phase", "first", "end")}
    parts = {"summary": record.summary, "plain": record.plain}
    digests = {name: digest(as_data(part)) for name, part in parts.items() if part is not None}
    return known | digests | {"rows": record.digest}


def recommendation_data(said: Recommendation) -> dict[str, Any]:
    """What the log says of a recommendation."""
    names = ("target", "label", "final", "reason", "pulls", "rounds", "error_bound")
    return {name: getattr(said, name) for name in names} | {"chosen": list(said.chosen)}
