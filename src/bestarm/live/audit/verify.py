"""The audit: the log's chain of hashes, every draw and every summary, computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError, InvalidInputError
from bestarm.live.draws import PlanDraws
from bestarm.live.events import as_data, chained, plan_data, summary_data
from bestarm.live.store.contract import (
    ROW,
    Event,
    Ids,
    PlanRecord,
    Reading,
    Rows,
    SummaryRecord,
    answers_of,
)
from bestarm.live.summaries import (
    RunningTotals,
    answers_at_end,
    chain_covariates,
    chain_request,
    digest_of,
    ids_in,
    late_data,
)
from bestarm.live.values import plural
from bestarm.records import Summary

SHOWN = 20  # findings of one kind that are written out: there may be millions
_PIECE = 50_000  # assignments whose covariates are read at a time
_STATES = {"paused": "paused", "resumed": "running", "stopped": "stopped", "finished": "finished"}

Progress = Callable[[int, int], object]
_Known = tuple[str, dict[str, Any]]  # a record's name, and what its event says of it
T = TypeVar("T")


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        findings: one sentence for each contradiction; none if the record is sound.
        events: events whose hashes were checked.
        phases: plans compared with the log.
        summaries: summaries compared with the log and added up again.
        assignments: assignments whose arms were drawn again.
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
        """Whether there are no contradictions."""
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


def audit(
    books: Reading,
    *,
    arms: int,
    seed: int,
    created: dict[str, Any],
    progress: Progress | None = None,
) -> Audit:
    """Audit an experiment, reading each table once; `created` is what the first event must say."""
    findings = _Findings()
    log = _Log(books, findings, created)
    log.read()
    redraw = _Redraw(books, findings, arms, seed, log.end, log.failed, progress)
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


class _Findings:
    """Sentences, of each kind no more than can be read."""

    def __init__(self) -> None:
        self._sentences: dict[str, list[str]] = {}
        self._more: Counter[str] = Counter()

    def add(self, kind: str, sentence: str) -> None:
        known = self._sentences.setdefault(kind, [])
        if len(known) == SHOWN:
            self._more[kind] += sentence not in known
        elif sentence not in known:
            known.append(sentence)

    def add_unless(self, agrees: bool, kind: str, sentence: str) -> None:
        """Add a finding where something does not agree."""
        if not agrees:
            self.add(kind, sentence)

    def add_each(self, rows: Rows, wrong: NDArray[np.bool_], kind: str, what: str) -> None:
        """Add a finding for each assignment that is wrong."""
        for number in rows["id"][wrong].tolist():
            self.add(kind, f"Assignment {number} {what}.")

    def readable(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first that cannot be read."""
        try:
            yield from items
        except DamagedStoreError as error:
            self.add("unreadable", f"{error.message} What follows it was not checked.")

    def sentences(self) -> tuple[str, ...]:
        every = []
        for kind, known in self._sentences.items():
            more = self._more[kind]
            rest = f"There are {more} more findings of this kind ({kind})."
            every += [*known, rest] if more else known
        return tuple(every)


class _Log:
    """The events, one hash after the other, and what they say of other records.

    The chain ends at the first event that is not as it was written: what follows proves nothing.
    """

    def __init__(self, books: Reading, findings: _Findings, created: dict[str, Any]) -> None:
        self._books = books
        self._findings = findings
        self._created = created
        known = _covariates(books)
        self._links: dict[str, _Links[Any]] = {
            "requests": _Links("requests", books.requests(), chain_request, findings),
            "covariates": _Links("covariates", known, chain_covariates, findings),
        }
        self._last_hash = ""
        self._state = "running"
        self._lease: float | None = None
        self._end = 0  # of the last summary
        self._provisional = False
        self.broken = False  # whether the chain ends before the log does
        self.events = self.plans = self.summaries = 0
        self.late = 0  # outcomes that came too late
        self.end: dict[str, Any] | None = None  # what the last event of an ended experiment says
        self.failed: Ids = np.empty(0, dtype=np.int64)  # assignments given up after the end

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


class _Links(Generic[T]):
    """Records that `chain` hashes one after the other, as far as events have the hash of them."""

    def __init__(
        self, name: str, records: Iterator[T], chain: Callable[[str, T], str], findings: _Findings
    ) -> None:
        self._name, self._records, self._chain = name, findings.readable(records), chain
        self._findings = findings
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


def _covariates(books: Reading) -> Iterator[tuple[int, str]]:
    first, size, end = 0, _PIECE, books.head.assigned
    while first < end:
        found = books.covariates(first, min(first + size, end))
        yield from sorted(found.items())
        # A damaged counter may say any number.
        first, size = first + size, _PIECE if found else 2 * size


@dataclass(eq=False)
class _Redraw:
    """The assignments, read once in order of id: counted, drawn again and added up again."""

    books: Reading
    findings: _Findings
    arms: int
    seed: int
    end: dict[str, Any] | None  # what the last event of an ended experiment says
    failed: Ids  # assignments given up after the end
    progress: Progress | None = None  # called with (assignments checked, in total)
    assigned: int = 0
    rounds: int = 0
    outcomes: int = 0
    late: int = 0

    def __post_init__(self) -> None:
        self._pieces = self._checked()
        self._rows: Rows = np.empty(0, dtype=ROW)
        self._plans = self.findings.readable(self.books.plans())
        self._draws: PlanDraws | None = None
        self._next_plan = next(self._plans, None)
        self._deferred: dict[int, list[Rows]] = {}  # rows by the summary that covers them, or −1

    def read(self) -> None:
        """Read all assignments, and compare."""
        for record in self.findings.readable(self.books.summaries()):
            self._check_summary(record)
        for number in sorted(self._deferred.keys() - {-1}):
            self.findings.add("deferral", f"Summary {number}, which covers outcomes, is missing.")
        if self.end is not None:
            self._check_rest(self.end)
        for _ in self._pieces:
            pass
        head = self.books.head
        for noun, found, counted in (
            ("assignment", self.assigned, head.assigned),
            ("round", self.rounds, head.rounds),
        ):
            what = f"There are {plural(found, noun)}, the counter says {counted}."
            self.findings.add_unless(found == counted, noun, what)

    def _checked(self) -> Iterator[Rows]:
        """All assignments in pieces, each compared with its plan."""
        last = -1
        every = self.books.rows(0, self.books.head.assigned + 1)  # one more than are counted
        for rows in self.findings.readable(every):
            ids = np.concatenate([[last], rows["id"]])
            for place in np.flatnonzero(np.diff(ids) != 1):
                missing = f"{ids[place] + 1} to {ids[place + 1] - 1}"
                self.findings.add("assignment", f"Assignments {missing} are missing.")
            last = int(ids[-1])
            told, lost, late = ~np.isnan(rows["reward"]), ~np.isnan(rows["lost"]), rows["late"]
            self.assigned += len(rows)
            self.rounds = int(rows["round"][-1]) + 1 if len(rows) else self.rounds
            self.outcomes += int(told.sum())
            self.late += int(late.sum())
            wrong, what = lost & told & ~late, "was lost, but its outcome is not flagged"
            self.findings.add_each(rows, wrong, "late", what)
            if not self.books.head.over:
                self._check_in_time(rows)
            self._check_draws(rows)
            if self.progress is not None:
                self.progress(self.assigned, self.books.head.assigned)
            yield rows

    def _between(self, first: int, end: int) -> Iterator[Rows]:
        """The rows of a range that follows the one before."""
        while first < end:
            while not len(self._rows) or self._rows["id"][-1] < first:
                rows = next(self._pieces, None)
                if rows is None:
                    return
                self._rows = rows
            yield self._rows[slice(*np.searchsorted(self._rows["id"], [first, end]))]
            first = int(self._rows["id"][-1]) + 1

    def _check_in_time(self, rows: Rows) -> None:
        flagged = rows["late"] & np.isnan(rows["lost"])
        what = "was told in time, but its outcome is flagged as late"
        self.findings.add_each(rows, flagged, "late", what)

    def _check_draws(self, rows: Rows) -> None:
        while len(rows):
            while self._next_plan is not None and self._next_plan.first <= rows["id"][0]:
                # No more than there are assignments: a changed plan may ask for any number.
                most = self.books.head.assigned
                self._draws = PlanDraws(self._next_plan, self.seed, most=most)
                self._next_plan = next(self._plans, None)
            end = len(rows)
            if self._next_plan is not None:
                end = int(np.searchsorted(rows["id"], self._next_plan.first))
            part, rows = rows[:end], rows[end:]
            for run in np.split(part, np.flatnonzero(np.diff(part["id"]) != 1) + 1):
                self._draw_again(run, self._draws)

    def _draw_again(self, rows: Rows, draws: PlanDraws | None) -> None:
        """Compare assignments without a gap with what their plan draws."""
        findings, start, size = self.findings, int(rows["id"][0]), len(rows)
        if draws is None:
            findings.add_each(rows, rows["id"] >= 0, "draw", "belongs to no plan")
            return
        try:
            drawn, chances = draws.arms(self.books, start, size)
        except DamagedStoreError as error:
            findings.add("draw", error.message)
            return
        arms, probabilities = np.full(size, -1), np.ones(size)
        arms[: len(drawn)], probabilities[: len(drawn)] = drawn, chances
        phase = draws.plan.phase
        what = f"was drawn in phase {phase} and is on record under another"
        findings.add_each(rows, rows["phase"] != phase, "phase", what)
        for place in np.flatnonzero(rows["arm"] != arms)[: 2 * SHOWN]:
            again = f"the draw gives {arms[place]}" if arms[place] >= 0 else "none was to be drawn"
            row = rows[place]
            findings.add("draw", f"Assignment {row['id']} has arm {row['arm']} on record; {again}.")
        wrong = rows["round"] != draws.rounds(rows["id"])
        findings.add_each(rows, wrong, "round", "is on record in another round than it was drawn")
        wrong = (rows["probability"] != probabilities) & (arms >= 0)
        what = "does not have the probability of its plan on record"
        findings.add_each(rows, wrong, "probability", what)

    def _check_summary(self, record: SummaryRecord) -> None:
        findings, number = self.findings, record.number
        try:
            plan = self.books.plan(record.phase).plan
        except DamagedStoreError:
            findings.add("summary", f"Summary {number} is of phase {record.phase}, unknown here.")
            return
        if len(record.summary.counts) != self.arms:
            findings.add("summary", f"Summary {number} is not of {self.arms} arms.")
            return
        totals = RunningTotals(plan, self.arms)
        if plan.provisional and record.late:
            for rows in self._deferred.pop(number, []):
                wrong = rows["phase"] != record.phase
                what = f"is covered by summary {number}, which is of another phase"
                findings.add_each(rows, wrong, "deferral", what)
                if plan.size == 1:
                    self._add(totals, rows)
            if plan.size > 1:
                self._add_again(totals, record)
        else:
            self._add_range(totals, record)
        covered = f"assignments {record.first} to {record.end - 1}"
        findings.add_unless(
            totals.digest() == record.digest,
            "outcomes",
            f"Of {covered}, not all are as summary {number} has them: an arm, an outcome, a "
            "forecast, a loss or a time was changed since.",
        )
        try:
            same = _data(totals.summary(), totals.plain()) == _data(record.summary, record.plain)
        except InvalidInputError:  # totals that are not finite
            same = False
        findings.add_unless(same, "totals", f"Summary {number} is not what {covered} add up to.")

    def _add_range(self, totals: RunningTotals, record: SummaryRecord) -> None:
        """Add the rows of a summary up; those that were outstanding then are kept for later."""
        ids, covered_by = self._deferrals(record)
        for rows in self._between(record.first, record.end):
            pending = np.isin(rows["id"], ids)
            self._add(totals, rows, pending)
            waiting = rows[pending]
            summaries = covered_by[np.searchsorted(ids, waiting["id"])]
            for each in np.unique(summaries).tolist():
                self._deferred.setdefault(each, []).append(waiting[summaries == each])

    def _add_again(self, totals: RunningTotals, record: SummaryRecord) -> None:
        """Add all rows of a phase up as they were when a later summary was made of them."""
        ids, covered_by = self._deferrals(record)
        waiting = ids[(covered_by > record.number) | (covered_by < 0)]
        for rows in self.findings.readable(self.books.rows(record.first, record.end)):
            self._add(totals, rows, np.isin(rows["id"], waiting))

    def _deferrals(self, record: SummaryRecord) -> tuple[Ids, Ids]:
        found = self.findings.readable(map(self.books.deferrals, [record.first], [record.end]))
        none = np.empty(0, dtype=np.int64)
        return next(found, (none, none))

    def _add(self, totals: RunningTotals, rows: Rows, pending: Any = None) -> None:
        """Add rows up; all but the pending ones must be settled, and in time."""
        due = np.ones(len(rows), dtype=bool) if pending is None else ~pending
        unsettled = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        what = "was summed up, but is neither told nor lost"
        self.findings.add_each(rows, due & unsettled, "outcomes", what)
        self._check_in_time(rows[due])
        answers = answers_of(rows)
        answers["arm"] = np.where(answers["arm"] < self.arms, np.maximum(answers["arm"], 0), 0)
        totals.add(answers, pending)

    def _check_rest(self, end: dict[str, Any]) -> None:
        """Compare all that no summary covers with the digests that the last event has of it."""
        changed = "are not as they were at the end: an outcome, a loss or a time was changed since."
        rest = self._between(end["first"], end["end"])
        self.findings.add_unless(
            digest_of(answers_at_end(rows, self.failed) for rows in rest) == end["rest"]
            and end["end"] == self.books.head.assigned,
            "rest",
            f"Assignments {end['first']} to {end['end'] - 1} {changed}",
        )
        waiting = self._deferred.get(-1, [])
        self.findings.add_unless(
            digest_of(answers_at_end(rows, self.failed) for rows in waiting) == end["waiting"],
            "rest",
            f"Assignments that were outstanding when their phase closed {changed}",
        )


def _data(*parts: Summary | None) -> list[dict[str, Any] | None]:
    return [None if part is None else as_data(part) for part in parts]
