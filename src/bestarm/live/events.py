"""The log: every change of an experiment's state, each event chained to the one before by its hash.

The hash covers the event and the hash before it, so that no event can be changed, removed or
inserted without changing every hash after it. A copy of the last hash, kept elsewhere, shows it.
Events hold digests of plans, summaries, outcomes and requests: an audit computes these again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import (
    Change,
    Event,
    GuardrailValue,
    Ids,
    PlanRecord,
    Report,
    Request,
    Rows,
    SummaryRecord,
    UnitRecord,
    answers_of,
    as_data,
    canonical,
)
from bestarm.numerics.geometry import Array
from bestarm.recommendation import Recommendation

Told = Request | UnitRecord | Report | GuardrailValue

# Records that come between plans. The event of a plan has a digest of those of each kind since the
# plan before, and the event that ends the experiment one of the rest.
TOLD: dict[str, type[Told]] = {
    "requests": Request,
    "units": UnitRecord,
    "reports": Report,
    "guardrails": GuardrailValue,
}
_OUTCOME = np.dtype([("id", "<i8"), ("reward", "<f8")])


def digest(data: object) -> str:
    """The SHA-256 of a value's canonical form."""
    return sha256(canonical(data))


def sha256(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def salted(salt: str, text: str) -> str:
    """The SHA-256 of a text that is secret: who lacks the salt cannot try texts against it."""
    return sha256(f"{salt} {text}")


def event_hash(number: int, at: float, kind: str, data: dict[str, Any], before: str) -> str:
    """The hash of an event."""
    return digest([number, at, kind, data, before])


def next_event(head: Head, kind: str, at: float, **data: Any) -> Event:
    """The next event, counted in the head."""
    event = Event(
        head.events, at, kind, data, event_hash(head.events, at, kind, data, head.last_hash)
    )
    head.events, head.last_hash = head.events + 1, event.hash
    return event


def log(tx: Transaction, kind: str, at: float, **data: Any) -> None:
    """Add an event to the log."""
    tx.add(next_event(tx.head, kind, at, **data))


def plan_data(record: PlanRecord) -> dict[str, Any]:
    """What the log says of a plan."""
    plan = record.plan
    known = {"phase": plan.phase, "pulls": plan.pulls}
    known |= {"first": record.first, "round": record.round}
    known |= {"reports": record.reports, "values": record.values}
    return known | {"plan": digest(as_data(plan))}


def summary_data(record: SummaryRecord) -> dict[str, Any]:
    """What the log says of a summary."""
    known = {name: getattr(record, name) for name in ("phase", "first", "end")}
    parts = {"summary": record.summary, "plain": record.plain}
    digests = {name: digest(as_data(part)) for name, part in parts.items() if part is not None}
    return known | digests | {"rows": record.digest}


def change_data(change: Change, assigned: int) -> dict[str, Any]:
    """What the log says of an option that was added or retired after so many assignments."""
    known = {name: getattr(change, name) for name in ("number", "phase", "label", "made_by")}
    if change.kind == "retired":
        known |= {"reason": change.reason}
    else:
        known |= {"features": None if change.features is None else list(change.features)}
    return known | {"assigned": assigned}


def recommendation_data(recommendation: Recommendation) -> dict[str, Any]:
    """What the log says of a recommendation."""
    names = ("target", "label", "final", "reason", "pulls", "rounds", "error_bound")
    data = {name: getattr(recommendation, name) for name in names}
    data["chosen"] = list(recommendation.chosen)
    if recommendation.reason == "exact":  # else none tie
        data["tied"] = list(recommendation.tied)
    return data


def digest_of(pieces: Iterable[Rows]) -> str:
    """The SHA-256 of rows, whatever the pieces they are read in."""
    running = hashlib.sha256()
    for piece in pieces:
        running.update(piece.tobytes())
    return running.hexdigest()


def rest_data(snapshot: Snapshot) -> dict[str, Any]:
    """What the last event says of all that no event before it covers."""
    first, end = snapshot.head.summary_end, snapshot.head.assigned
    waiting = snapshot.rows_of(snapshot.deferrals(waiting=True)[0])
    return {
        "first": first,
        "end": end,
        "rest": digest_of(map(answers_at_end, snapshot.rows(first, end))),
        "waiting": digest_of([answers_at_end(waiting)]),
        "told": told_data(snapshot),
        "reports": snapshot.head.reports,
        "values": snapshot.head.values,
    }


def answers_at_end(rows: Rows, failed: Ids | None = None) -> Rows:
    """The answers as they were when the experiment ended; `failed` were given up after that."""
    rows = rows.copy()
    if failed is not None:
        rows["lost"][np.isin(rows["id"], failed)] = np.nan
    for name in ("reward", "told"):
        rows[name][rows["late"]] = np.nan
    return answers_of(rows)


def late_data(ids: Ids, rewards: Array) -> dict[str, Any]:
    """What the log says of outcomes that came too late."""
    order = np.argsort(ids)
    outcomes = np.empty(len(ids), dtype=_OUTCOME)
    outcomes["id"], outcomes["reward"] = ids[order], rewards[order]
    return {"ids": ranges(ids), "outcomes": digest_of([outcomes])}


def ranges(ids: Ids) -> list[list[int]]:
    """Ids as ranges, each with its first id and the one after its last."""
    ordered = np.sort(ids)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return [[int(part[0]), int(part[-1]) + 1] for part in parts if len(part)]


def ids_in(several: Iterable[Iterable[int]]) -> Ids:
    """The ids of ranges."""
    return joined_ids(np.arange(first, end, dtype=np.int64) for first, end in several)


def joined_ids(parts: Iterable[Ids]) -> Ids:
    """The ids of all parts, of which there may be none."""
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def digest_records(records: Iterable[Told]) -> str:
    """The SHA-256 of records in order; of units, of what stays once they are erased."""
    running = hashlib.sha256()
    for record in records:
        values: Iterable[object] = vars(record).values()
        if isinstance(record, UnitRecord):
            values = record.round, record.first, record.size, record.digest
        running.update(canonical([*values]).encode())
    return running.hexdigest()


def reached(plan: PlanRecord | None) -> dict[str, int]:
    """The first number of each kind of record that comes after a plan."""
    if plan is None:
        return dict.fromkeys(TOLD, 0)
    numbers = plan.first, plan.round, plan.reports, plan.values
    return dict(zip(TOLD, numbers, strict=True))


def told_data(snapshot: Snapshot) -> dict[str, str]:
    """Digests of what was told since the last plan, by kind."""
    head = snapshot.head
    counts = head.requests, head.units, head.reports, head.values
    if not any(counts):
        return {}
    start = reached(snapshot.plan(head.phase) if head.phase else None)
    return {
        name: digest_records(snapshot.records(kind, start[name]))
        for (name, kind), count in zip(TOLD.items(), counts, strict=True)
        if count
    }
