"""The audit: the log's chain of hashes, every draw and every summary, computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bestarm.live.audit.findings import Audit, Findings
from bestarm.live.audit.redraw import Redraw
from bestarm.live.events import as_data, chained, digest
from bestarm.live.store.contract import Event, Ids, PlanRecord, Reading, SummaryRecord
from bestarm.live.summaries import chain_request, ids_in, late_data, rows_of
from bestarm.live.values import plural

__all__ = ["audit"]

_STATES = {"paused": "paused", "resumed": "running", "stopped": "stopped", "finished": "finished"}


def audit(books: Reading, *, arms: int, seed: int, created: dict[str, Any]) -> Audit:
    """Audit an experiment, reading each table once.

    Args:
        books: a transaction.
        arms: the number of source arms.
        seed: of the draws.
        created: what the first event must say.
    """
    findings = Findings()
    log = _Log(books, findings, created)
    log.read()
    redraw = Redraw(books, findings, arms=arms, seed=seed, end=log.end, failed=log.failed)
    redraw.read()
    findings.add_unless(
        log.broken or log.late == redraw.late,
        "late",
        f"{plural(redraw.late, 'outcome')} flagged as late, but {log.late} in the log.",
    )
    return Audit(
        findings.sentences(),
        events=log.events,
        phases=log.plans,
        summaries=log.summaries,
        assignments=redraw.assigned,
        outcomes=redraw.outcomes,
    )


class _Log:
    """The events, one hash after the other, and what they say of other records.

    The chain ends at the first event that is not as it was written: what follows proves nothing.

    Attributes:
        broken: whether it does.
        end: what the last event of an ended experiment says, or None.
        failed: the assignments given up after the end.
        late: the number of outcomes that came too late.
    """

    def __init__(self, books: Reading, findings: Findings, created: dict[str, Any]) -> None:
        self._books = books
        self._findings = findings
        self._created = created
        self._requests = findings.readable(books.requests())
        self._requests_hash: str | None = ""  # of those read so far; None once one is wrong
        self._last_hash = ""
        self._state = "running"
        self._lease: float | None = None
        self._end = 0  # of the last summary
        self._provisional = False
        self.broken = False
        self.events = self.plans = self.summaries = self.late = 0
        self.end: dict[str, Any] | None = None
        self.failed: Ids = np.empty(0, dtype=np.int64)

    def read(self) -> None:
        findings, books = self._findings, self._books
        plans, summaries = findings.readable(books.plans()), findings.readable(books.summaries())
        for event in findings.readable(self._chain()):
            if event.kind == "planned":
                self._check_plan(event, next(plans, None))
            elif event.kind in {"closed", "answered"}:
                self._check_summary(event, next(summaries, None))
            else:
                self._note(event)
            self._state = _STATES.get(event.kind, self._state)
            if "requests" in event.data:
                self._check_requests(event.data["requests"], f"event {event.number}")
        if self.broken:
            return
        for plan in plans:
            findings.add("plan", f"The plan of phase {plan.plan.phase} is not in the log.")
        for summary in summaries:
            findings.add("summary", f"Summary {summary.number} is not in the log.")
        self._check_head()

    def _chain(self) -> Iterator[Event]:
        self.broken = True  # unless it is read to its end
        for event in self._books.events():
            if event.number != self.events:
                self._break(f"Event {event.number} follows event {self.events - 1}: events between")
                return
            try:
                hashed = chained(event.number, event.at, event.kind, event.data, self._last_hash)
            except ValueError:  # something that is not JSON
                hashed = ""
            if event.hash != hashed:
                self._break(
                    f"Event {event.number} ({event.kind}) does not have the hash it should: it, or "
                    "the event before it,",
                    "was changed",
                )
                return
            self.events, self._last_hash = event.number + 1, event.hash
            yield event
        self.broken = False

    def _break(self, what: str, happened: str = "are missing") -> None:
        self._findings.add("event", f"{what} {happened}. What follows it was not checked.")

    def _check_head(self) -> None:
        head, findings = self._books.head, self._findings
        findings.add_unless(
            (self.events, self._last_hash) == (head.events, head.last_hash),
            "event",
            "The hash of the last event is not the one kept with the counters: the log was "
            "written again, or cut short.",
        )
        self._check_requests(head.requests_hash, "the counters")
        if self._requests_hash is not None and next(self._requests, None) is not None:
            findings.add("request", "There are requests on record that were never made.")
        findings.add_unless(
            (self._state, self._lease) == (head.state, head.lease),
            "state",
            f"The log says {self._state} with the lease {self._lease}, the counters say "
            f"{head.state} with {head.lease}.",
        )

    def _check_requests(self, expected: str, where: str) -> None:
        """Read on to the request whose hash is expected."""
        while self._requests_hash not in {None, expected}:
            request = next(self._requests, None)
            if request is None:
                self._findings.add(
                    "request",
                    f"The requests up to {where} are not those it knows of: one was changed since, "
                    "or removed.",
                )
                self._requests_hash = None
                return
            self._requests_hash = chain_request(self._requests_hash or "", request)

    def _note(self, event: Event) -> None:
        """What an event says that is neither about a plan nor about a summary."""
        if event.kind == "created":
            self._lease = event.data.get("lease")
            self._check_created(event)
        elif event.kind == "changed":
            self._lease = event.data.get("lease")
        elif event.kind == "late":
            self._check_late(event)
        elif event.kind == "failed":
            self._check_failed(event)
        elif event.kind in {"stopped", "finished"}:
            self.end = event.data

    def _check_created(self, event: Event) -> None:
        for name, value in self._created.items():
            what = "the problem, the policy or its options" if name == "document" else f"its {name}"
            self._findings.add_unless(
                event.data.get(name) == value,
                "created",
                f"Event {event.number} was about another experiment than this one: {what} differs.",
            )

    def _check_late(self, event: Event) -> None:
        """Compare outcomes that came too late with the event that names them."""
        ids = ids_in(event.data["ids"])
        rows = rows_of(self._books, ids)
        same = len(rows) == len(ids) and bool((rows["late"] & (rows["told"] == event.at)).all())
        self._findings.add_unless(
            same and late_data(ids, rows["reward"])["outcomes"] == event.data["outcomes"],
            "late",
            f"The outcomes that came too late are not those of event {event.number}: one was "
            "changed since, or removed.",
        )
        self.late += len(ids)

    def _check_failed(self, event: Event) -> None:
        """Compare what was given up after the end with the event that names it."""
        ids = ids_in(event.data["ids"])
        rows = rows_of(self._books, ids)
        self._findings.add_unless(
            len(rows) == len(ids) and bool((rows["lost"] == event.at).all()),
            "failed",
            f"The assignments given up after the end are not those of event {event.number}.",
        )
        self.failed = np.concatenate([self.failed, ids])

    def _check_plan(self, event: Event, record: PlanRecord | None) -> None:
        if record is None:
            phase = event.data["phase"]
            self._findings.add(
                "plan", f"Event {event.number} opens phase {phase}, whose plan was removed."
            )
            return
        plan = record.plan
        self.plans += 1
        self._provisional = plan.provisional
        self._compare(
            event,
            {
                "phase": plan.phase,
                "pulls": plan.pulls,
                "first": record.first,
                "plan": digest(as_data(plan)),
            },
            "plan",
            f"The plan of phase {plan.phase}",
        )

    def _check_summary(self, event: Event, record: SummaryRecord | None) -> None:
        if record is None:
            self._findings.add(
                "summary", f"Event {event.number} is about a summary that was removed."
            )
            return
        amends = record.late and self._provisional
        follows = record.end <= self._end if amends else record.first == self._end
        self._findings.add_unless(
            record.number == self.summaries and follows,
            "summary",
            f"Summary {record.number} begins at assignment {record.first}; the one before ends at "
            f"{self._end}.",
        )
        self.summaries = record.number + 1
        self._end = max(self._end, record.end)
        self._compare(
            event,
            {
                "phase": record.phase,
                "first": record.first,
                "end": record.end,
                "summary": digest(as_data(record.summary)),
                "rows": record.digest,
            },
            "summary",
            f"Summary {record.number}",
            same=record.late == (event.kind == "answered"),
        )

    def _compare(
        self, event: Event, data: dict[str, Any], kind: str, what: str, *, same: bool = True
    ) -> None:
        same = same and all(event.data.get(name) == value for name, value in data.items())
        sentence = f"{what} is not the one of event {event.number}: it was changed."
        self._findings.add_unless(same, kind, sentence)
