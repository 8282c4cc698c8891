"""The audit: all that is on record is held against the rest, and every draw is made once more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from bestarm.live import rules
from bestarm.live.audit.redraw import Ended, Notes, Recount
from bestarm.live.audit.remainder import Losses, Requests, check_failed, check_late, check_times
from bestarm.live.events import chained, digest, plan_data, summary_data
from bestarm.live.store.contract import Entry, Event, Head, Ids, Opened, Reading, Sizes
from bestarm.live.values import plural

__all__ = ["Audit", "audit"]

T = TypeVar("T")

_STATES = {"paused": "paused", "resumed": "running", "stopped": "stopped", "finished": "finished"}


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        findings: one sentence for each thing that does not agree; none if all is well.
        events: events whose hashes were checked.
        phases: plans compared with the log.
        summaries: summaries compared with the log and added up again.
        assignments: assignments whose draws were made again.
        outcomes: outcomes read.
    """

    findings: tuple[str, ...]
    events: int
    phases: int
    summaries: int
    assignments: int
    outcomes: int

    @property
    def sound(self) -> bool:
        """Whether everything agrees."""
        return not self.findings

    def __str__(self) -> str:
        summaries = "1 summary" if self.summaries == 1 else f"{self.summaries} summaries"
        checked = (
            f"{plural(self.assignments, 'draw')} made again, {plural(self.outcomes, 'outcome')} "
            f"and {summaries} added up, {plural(self.phases, 'plan')} and "
            f"{plural(self.events, 'event')} of the log compared"
        )
        if self.sound:
            return f"sound: {checked}"
        return "\n".join([f"NOT SOUND ({checked}):", *(f"- {each}" for each in self.findings)])


def audit(books: Reading, *, arms: int, seed: int, created: dict[str, Any]) -> Audit:
    """Check an experiment's books, in one reading of each table.

    Args:
        books: a transaction.
        arms: the number of source arms.
        seed: of the draws.
        created: what the first event must say.
    """
    notes = Notes()
    sizes = books.sizes()
    log = _Log(books, notes, created, sizes.assignments)
    log.read()
    losses = Losses(books, notes)
    losses.read(log.failed)
    check_times(books, notes)
    rows = Recount(
        books,
        notes,
        arms=arms,
        seed=seed,
        there=sizes.assignments,
        last_loss=losses.last,
        last_closed=log.closed,
        times=log.times,
        ended=log.ended,
    )
    rows.read()
    _check_head(books.head, notes, log, rows)
    if not notes.cut_short:
        _check_sizes(sizes, books.head, notes, log, rows)
    return Audit(
        notes.sentences(),
        events=log.events,
        phases=log.phases,
        summaries=log.summaries,
        assignments=rows.given,
        outcomes=rows.outcomes,
    )


class _Log:
    """The events, one hash after the other, and what they say of plans and summaries."""

    def __init__(self, books: Reading, notes: Notes, created: dict[str, Any], there: int) -> None:
        self._books = books
        self._notes = notes
        self._created = created
        self.events = self.phases = self.summaries = 0
        self.tip = ""
        self.state = "running"
        self.lease: float | None = None
        self.closed: int | None = None  # the last phase that was
        self.planned: int | None = None
        self.end = 0  # of the last summary
        self.out = 0  # drawn under the plan before, and not summed up when the last one was made
        self.format = 1
        self.times: dict[int, str] = {}  # of what each summary covers
        self.ended: Ended | None = None
        self.late = 0
        self.failed: list[tuple[Ids, str]] = []  # after the end, and why
        self.latest = -math.inf
        self.setback = 0.0
        self.told_open = 0  # all up to here was settled when an open plan closed
        self.amended = 0  # assignments that were told later, since the last plan
        self.read_of: dict[str, int] = {}
        self._requests = Requests(books, notes)
        self._there = there
        self._open = self._provisional = False

    def read(self) -> None:
        notes, books = self._notes, self._books
        phases = self._counted("plans", books.phases())
        entries = self._counted("summaries", books.entries())
        for event in self._counted("events", books.events()):
            self._chain(event)
            data = event.data if isinstance(event.data, dict) else {}
            if event.kind == "planned":
                self._check_plan(event, data, next(phases, None))
            elif event.kind in {"closed", "answered"}:
                self._check_entry(event, data, next(entries, None))
            else:
                self._note(event, data)
            self.state = _STATES.get(event.kind, self.state)
            if self.format >= 2 and "requests" in data:
                self._requests.check(event.number, data["requests"])
        if self.format >= 2:
            self._requests.end(books.head)
        for opened in phases:
            notes.add("plan", f"The log does not know of the plan of phase {opened.plan.phase}.")
        for entry in entries:
            notes.add("summary", f"The log does not know of summary {entry.number}.")
        head = books.head
        notes.unless(
            self.events == head.events,
            "event",
            f"The log has {plural(self.events, 'event')}, its counter says {head.events}.",
        )
        notes.unless(
            self.tip == head.tip,
            "event",
            "The hash of the last event is not the one kept with the counters: the log was "
            "written again, or cut short.",
        )

    def _note(self, event: Event, data: dict[str, Any]) -> None:
        """What an event says that is neither a plan nor a summary."""
        books, notes = self._books, self._notes
        if event.kind == "created":
            self._check_created(event, data)
        elif event.kind == "changed":
            self.lease = data.get("lease", self.lease)
        elif event.kind == "late":
            self.late += check_late(books, notes, event, data, self._there)
        elif event.kind == "failed":
            failed = check_failed(books, notes, event, data, self._there)
            if self.ended is not None:
                self.ended.failed.append(failed)
            if isinstance(data.get("reason"), str):
                self.failed.append((failed, data["reason"]))
        elif event.kind in {"stopped", "finished"}:
            first, end = data.get("first"), data.get("end")
            if isinstance(first, int) and isinstance(end, int):
                waiting = data.get("waiting")
                self.ended = Ended(first, end, str(data.get("rest")), waiting=waiting)

    def _counted(self, what: str, items: Iterator[T]) -> Iterator[T]:
        self.read_of[what] = 0
        for item in self._notes.readable(items):
            self.read_of[what] += 1
            yield item

    def _chain(self, event: Event) -> None:
        notes = self._notes
        notes.unless(
            event.number == self.events,
            "event",
            f"Event {event.number} follows event {self.events - 1}: what was between is gone.",
        )
        try:
            expected = chained(event.number, event.at, event.kind, event.data, self.tip)
        except ValueError:  # a number that is none
            expected = ""
        notes.unless(
            event.hash == expected,
            "event",
            f"Event {event.number} ({event.kind}) does not have the hash it should: it, or the one "
            "before it, was changed.",
        )
        self.events, self.tip = event.number + 1, event.hash
        self.setback = max(self.setback, self.latest - event.at)
        self.latest = max(self.latest, event.at)

    def _check_created(self, event: Event, data: dict[str, Any]) -> None:
        self.lease = data.get("lease")
        self.format = 2 if data.get("format") == 2 else 1
        for name, value in self._created.items():
            if name == "description" and self.format < 2:
                continue
            what = "the problem, the policy or its options" if name == "document" else f"its {name}"
            self._notes.unless(
                data.get(name) == value,
                "created",
                f"Event {event.number} was about another experiment than this one: {what} differs.",
            )

    def _check_plan(self, event: Event, data: dict[str, Any], opened: Opened | None) -> None:
        self.planned = data.get("phase")
        self.out = 0 if opened is None else opened.first - self.end
        if opened is None:
            self._notes.add(
                "plan", f"Event {event.number} opens phase {self.planned}, whose plan is gone."
            )
            return
        plan = opened.plan
        self.phases += 1
        self.amended = 0
        self._provisional = plan.provisional
        self._open = plan.open and not plan.provisional
        said: dict[str, object] = {"phase": plan.phase, "pulls": plan.pulls}
        said["first"] = opened.first
        said["plan"] = digest(plan_data(plan))
        self._notes.unless(
            all(data.get(name) == value for name, value in said.items()),
            "plan",
            f"The plan of phase {plan.phase} is not the one of event {event.number}: it was "
            "changed.",
        )

    def _check_entry(self, event: Event, data: dict[str, Any], entry: Entry | None) -> None:
        if event.kind == "closed":
            self.closed = data.get("phase")
        if entry is None:
            self._notes.add(
                "summary", f"Event {event.number} tells of a summary, which is gone ({event.kind})."
            )
            return
        notes, number = self._notes, entry.number
        amends = entry.late and self._provisional
        follows = entry.end <= self.end if amends else entry.first == self.end
        notes.unless(
            number == self.summaries and follows,
            "summary",
            f"Summary {number} begins at assignment {entry.first}; the one before ends at "
            f"{self.end}.",
        )
        self.summaries = number + 1
        if amends:
            self.amended += int(entry.summary.drawn.sum())
        else:
            self.end = entry.end
        if event.kind == "closed" and self._open:
            self.told_open = entry.end
        if "times" in data:
            self.times[number] = data["times"]
        said: dict[str, object] = {"phase": entry.phase, "first": entry.first, "end": entry.end}
        said |= {"summary": digest(summary_data(entry.summary)), "rows": entry.digest}
        notes.unless(
            all(data.get(name) == value for name, value in said.items())
            and entry.late == (event.kind == "answered"),
            "summary",
            f"Summary {number} is not the one of event {event.number}: it was changed.",
        )


def _check_sizes(sizes: Sizes, head: Head, notes: Notes, log: _Log, rows: Recount) -> None:
    """Nothing may be in the books that belongs to nothing."""
    for what, there, belong in (
        ("assignments", sizes.assignments, rows.given),
        ("outcomes", sizes.outcomes, rows.outcomes),
        ("losses", sizes.losses, rows.lost),
        ("plans", sizes.phases, log.read_of["plans"]),
        ("deferrals", sizes.deferred, rows.deferred),
        ("summaries", sizes.summaries, log.read_of["summaries"]),
        ("events", sizes.events, log.read_of["events"]),
    ):
        notes.unless(
            there == belong,
            "stray",
            f"There are {there} {what} on record; {there - belong} of them belong to nothing.",
        )
    if log.format >= 2:
        notes.unless(
            sizes.refusals == head.refused,
            "counter",
            f"The counter `refused` says {head.refused}; counted again it is {sizes.refusals}.",
        )
        notes.unless(
            log.late == rows.late,
            "late",
            f"{plural(rows.late, 'outcome')} flagged as late, where the log tells of {log.late}.",
        )


def _check_head(head: Head, notes: Notes, log: _Log, rows: Recount) -> None:
    """Hold the counters against what was counted."""
    counted: dict[str, object] = {
        "told": rows.told,
        "lost": rows.lost,
        "late": rows.late,
        "lowest": rows.lowest,
        "highest": rows.highest,
        "phase_told": rows.phase_told,
        "phase_lost": rows.phase_lost,
        "behind": rows.behind,
        "fresh": rows.fresh,
        "amended": log.amended,
        "summaries": log.summaries,
        "handed": log.end,
        "state": log.state,
        "lease": log.lease,
        "phase": log.planned if log.planned is not None else head.phase,
        "planned": log.planned not in {None, log.closed} and log.state != "finished",
    }
    if rows.phase is not None:
        plan = rows.phase.plan
        counted |= {"pulls": plan.pulls, "open": plan.open, "provisional": plan.provisional}
        # Older ones did not mind what was out under the plan before.
        whole = log.format < 2 and head.most == plan.most
        counted["most"] = plan.most if whole else rules.extent(plan, log.out)
        counted["first"] = rows.phase.first
    for name, value in counted.items():
        said = getattr(head, name)
        notes.unless(
            said == value,
            "counter",
            f"The counter `{name}` says {said}; counted again it is {value}.",
        )
    _check_bounds(head, notes, log, rows)


def _check_bounds(head: Head, notes: Notes, log: _Log, rows: Recount) -> None:
    """Counters that are brought up to date only when they matter, or by calls that leave nothing
    else on record: what they can be."""
    first_free = rows.given if rows.settled is None else rows.settled
    notes.unless(
        head.settled <= first_free,
        "counter",
        f"The counter `settled` says {head.settled}, but assignment {first_free} is not settled.",
    )
    notes.unless(
        head.oldest <= rows.oldest or (log.format < 2 and head.setback > 0),
        "counter",
        "The counter `oldest` is later than an assignment that is not settled.",
    )
    notes.unless(
        max(rows.latest, log.latest) <= head.at < math.inf,
        "counter",
        "There are times on record later than the last one, which the counter `at` says.",
    )
    back = max(rows.setback, log.setback)
    notes.unless(
        back <= head.setback < math.inf,
        "counter",
        f"The counter `setback` says {head.setback:g}; times on record go back by {back:g}.",
    )
    if log.format < 2:
        return
    least = log.told_open
    if head.waits and not head.behind and head.phase_told + head.phase_lost >= head.pulls:
        least = first_free
    elif not head.setback and rows.settled_by_loss is not None:
        least = max(least, rows.settled_by_loss)
    notes.unless(
        head.settled >= least,
        "counter",
        f"The counter `settled` says {head.settled}; all up to {least} was known to be settled.",
    )
    notes.unless(
        math.isinf(head.oldest) or rows.oldest_asked,
        "counter",
        "The counter `oldest` is no time at which an assignment was given out.",
    )
