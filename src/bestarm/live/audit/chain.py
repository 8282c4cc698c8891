"""The audit: the log's chain of hashes, every draw and every summary, computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from bestarm.live.audit.findings import Audit, Findings
from bestarm.live.audit.redraw import Progress, Redraw
from bestarm.live.events import chained, plan_data, summary_data
from bestarm.live.store.contract import Event, Ids, PlanRecord, Reading, SummaryRecord
from bestarm.live.summaries import chain_covariates, chain_request, ids_in, late_data
from bestarm.live.values import plural

_PIECE = 50_000  # assignments whose covariates are read at a time
_T = TypeVar("_T")
_Known = tuple[str, dict[str, Any]]  # a record's name, and what its event says of it
_STATES = {"paused": "paused", "resumed": "running", "stopped": "stopped", "finished": "finished"}


def audit(
    books: Reading,
    *,
    arms: int,
    seed: int,
    created: dict[str, Any],
    progress: Progress | None = None,
) -> Audit:
    """Audit an experiment, reading each table once; `created` is what the first event must say."""
    findings = Findings()
    log = _Log(books, findings, created)
    log.read()
    redraw = Redraw(books, findings, arms, seed, log.end, log.failed, progress)
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


def _covariates(books: Reading) -> Iterator[tuple[int, str]]:
    first, size, end = 0, _PIECE, books.head.assigned
    while first < end:
        found = books.covariates(first, min(first + size, end))
        yield from sorted(found.items())
        # A damaged counter may say any number.
        first, size = first + size, _PIECE if found else 2 * size


class _Links(Generic[_T]):
    """Records that are hashed one after the other, as far as events have the hash of them.

    Args:
        name: what they are.
        records: in their order.
        chain: the hash of a record and of all before it.
        findings: where to say what is wrong.
    """

    def __init__(
        self, name: str, records: Iterator[_T], chain: Callable[[str, _T], str], findings: Findings
    ) -> None:
        self._name, self._records, self._chain, self._findings = name, records, chain, findings
        self._hash: str | None = ""  # of those read so far; None once one is wrong

    def read_to(self, expected: str, where: str) -> None:
        """Read on to the record whose hash is expected."""
        while self._hash not in {None, expected}:
            record = next(self._records, None)
            if record is None:
                self._findings.add(
                    self._name,
                    f"The {self._name} up to {where} are not those it knows of: some were changed "
                    "since, or removed.",
                )
                self._hash = None
                return
            self._hash = self._chain(self._hash or "", record)

    def end(self, expected: str) -> None:
        """Read on to the last record."""
        self.read_to(expected, "the counters")
        if self._hash is not None and next(self._records, None) is not None:
            self._findings.add(self._name, f"There are {self._name} on record that nobody sent.")


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
        asked = findings.readable(books.requests())
        known = findings.readable(_covariates(books))
        self._links: dict[str, _Links[Any]] = {
            "requests": _Links("requests", asked, chain_request, findings),
            "covariates": _Links("covariates", known, chain_covariates, findings),
        }
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
        plans = map(self._plan, findings.readable(books.plans()))
        summaries = map(self._summary, findings.readable(books.summaries()))
        for event in findings.readable(self._chain()):
            if event.kind == "planned":
                self._compare(event, next(plans, None), "plan")
            elif event.kind in {"closed", "answered"}:
                self._compare(event, next(summaries, None), "summary")
            else:
                self._note(event)
            self._state = _STATES.get(event.kind, self._state)
            for name, links in self._links.items():
                if name in event.data:
                    links.read_to(event.data[name], f"event {event.number}")
        if not self.broken:
            for what, _ in chain(plans, summaries):
                findings.add("log", f"{what} is not in the log.")
            self._check_head()

    def _chain(self) -> Iterator[Event]:
        self.broken = True  # unless it is read to its end
        for event in self._books.events():
            wrong = ""
            try:
                hashed = chained(event.number, event.at, event.kind, event.data, self._last_hash)
            except ValueError:  # something that is not JSON
                hashed = ""
            if event.number != self.events:
                last = self.events - 1
                wrong = f"Event {event.number} follows event {last}: events between are missing."
            elif event.hash != hashed:
                wrong = (
                    f"Event {event.number} ({event.kind}) does not have the hash it should: it, or "
                    "the event before it, was changed."
                )
            if wrong:
                self._findings.add("event", f"{wrong} What follows it was not checked.")
                return
            self.events, self._last_hash = event.number + 1, event.hash
            yield event
        self.broken = False

    def _check_head(self) -> None:
        head, findings = self._books.head, self._findings
        findings.add_unless(
            (self.events, self._last_hash) == (head.events, head.last_hash),
            "event",
            "The hash of the last event is not the one kept with the counters: the log was "
            "written again, or cut short.",
        )
        self._links["requests"].end(head.requests_hash)
        self._links["covariates"].end(head.covariates_hash)
        findings.add_unless(
            (self._state, self._lease) == (head.state, head.lease),
            "state",
            f"The log says {self._state} with the lease {self._lease}, the counters say "
            f"{head.state} with {head.lease}.",
        )

    def _note(self, event: Event) -> None:
        """What an event says that is neither about a plan nor about a summary."""
        if event.kind in {"created", "changed"}:
            self._lease = event.data.get("lease")
        if event.kind in {"stopped", "finished"}:
            self.end = event.data
        elif event.kind == "created":
            for name, value in self._created.items():
                what = f"its {name}" if name != "document" else "the problem, the policy or options"
                sentence = f"Event {event.number} is about another experiment: {what} differs."
                self._findings.add_unless(event.data.get(name) == value, "created", sentence)
        elif event.kind in {"late", "failed"}:
            self._check_after(event)

    def _check_after(self, event: Event) -> None:
        """Compare outcomes that came too late, or were given up after the end, with their event."""
        ids = ids_in(event.data["ids"])
        rows = self._books.rows_of(ids)
        if event.kind == "late":
            what, when = "outcomes that came too late", rows["told"]
            data = late_data(rows["id"], rows["reward"])
            same = bool(rows["late"].all()) and data["outcomes"] == event.data["outcomes"]
            self.late += len(ids)
        else:
            what, when, same = "assignments given up after the end", rows["lost"], True
            self.failed = np.concatenate([self.failed, ids])
        self._findings.add_unless(
            same and len(rows) == len(ids) and bool((when == event.at).all()),
            event.kind,
            f"The {what} are not those of event {event.number}: one was changed since, or removed.",
        )

    def _plan(self, record: PlanRecord) -> _Known:
        self.plans += 1
        self._provisional = record.plan.provisional
        return f"The plan of phase {record.plan.phase}", plan_data(record)

    def _summary(self, record: SummaryRecord) -> _Known:
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
        return f"Summary {record.number}", summary_data(record) | {"late": record.late}

    def _compare(self, event: Event, known: _Known | None, kind: str) -> None:
        """Compare an event with its record, None if that was removed."""
        if known is None:
            self._findings.add(kind, f"Event {event.number} is about a {kind} that was removed.")
            return
        what, data = known
        told = {**event.data, "late": event.kind == "answered"}
        self._findings.add_unless(
            all(told.get(name) == value for name, value in data.items()),
            kind,
            f"{what} is not the one of event {event.number}: it was changed.",
        )
