"""The audit: the log's chain of hashes, every draw and every summary, computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, tee
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError, InvalidInputError
from bestarm.live import events, units
from bestarm.live.draws import PlanDraws
from bestarm.live.events import Told
from bestarm.live.export import Progress
from bestarm.live.options import Options
from bestarm.live.store.head import TimeLimits
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import (
    ALL,
    ROW,
    Change,
    Event,
    Ids,
    PlanRecord,
    Report,
    Rows,
    SummaryRecord,
    UnitRecord,
    answers_of,
    as_data,
    is_outstanding,
)
from bestarm.live.summaries import RunningTotals
from bestarm.live.values import in_utc
from bestarm.records import Plan, Summary
from bestarm.units import plural

SHOWN = 20  # findings of one kind that are written out: there may be millions
_ROUNDING = 1e-3  # seconds
_STATES = {"paused": "paused", "resumed": "running", "stopped": "stopped", "finished": "finished"}

_NOTHING = events.digest_records([])

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
        erased: when units were erased, one time for each, in seconds since 1970.
    """

    findings: tuple[str, ...]
    events: int
    phases: int
    summaries: int
    assignments: int
    outcomes: int
    erased: tuple[float, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether there are no contradictions."""
        return not self.findings

    def __str__(self) -> str:
        several = "1 summary" if self.summaries == 1 else f"{self.summaries} summaries"
        checked = (
            f"{plural(self.assignments, 'draw')} made again, {plural(self.outcomes, 'outcome')} "
            f"and {several} added up, {plural(self.phases, 'plan')} and "
            f"{plural(self.events, 'event')} of the log compared"
        )
        if self.erased:
            checked += f"; {plural(len(self.erased), 'unit')} erased, "
            checked += f"the last {in_utc(self.erased[-1])}"
        if self.sound:
            return f"sound: {checked}"
        return "\n".join([f"NOT SOUND ({checked}):", *(f"- {each}" for each in self.findings)])


def audit(
    snapshot: Snapshot,
    *,
    options_at: Callable[[Snapshot], Options],
    seed: int,
    created: dict[str, Any],
    progress: Progress | None,
) -> Audit:
    """Audit an experiment; `created` is what the first event must say, and the document that it
    must have a digest of."""
    findings = _Findings()
    log = _Log(snapshot, findings, created)
    log.read()
    options = None
    with findings.reading():
        options = options_at(snapshot)
    redraw = _Redraw(snapshot, findings, options, seed)
    redraw.check_rows(progress)
    redraw.check_summaries()
    if log.end is not None:
        with findings.reading():
            redraw.check_rest(log.end, log.failed)
    flagged = redraw.late + log.late_reports
    if not log.broken and log.late != flagged:
        late = plural(flagged, "outcome")
        findings.add("late", f"{late} flagged as late, but {log.late} in the log.")
    counted = log.events, log.plans, log.summaries, redraw.assigned, redraw.outcomes
    return Audit(findings.sentences(), *counted, tuple(log.erased))


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

    def add_each(self, rows: Rows, wrong: NDArray[np.bool_], kind: str, what: str) -> None:
        """Add a finding for each assignment that is wrong."""
        for number in rows["id"][wrong].tolist():
            self.add(kind, f"Assignment {number} {what}.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Note what cannot be read, and leave the rest of the block out."""
        try:
            yield
        except DamagedStoreError as error:
            self.add("unreadable", f"{error.message} What follows it was not checked.")

    def readable(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first that cannot be read."""
        with self.reading():
            yield from items

    def sentences(self) -> tuple[str, ...]:
        every = []
        for kind, known in self._sentences.items():
            more = self._more[kind]
            there = "There is" if more == 1 else "There are"
            rest = f"{there} {plural(more, 'more finding')} of this kind ({kind})."
            every += [*known, rest] if more else known
        return tuple(every)


class _Log:
    """The events, one hash after the other, and what they say of other records.

    The chain ends at the first event that is not as it was written: what follows proves nothing.
    """

    def __init__(self, snapshot: Snapshot, findings: _Findings, created: dict[str, Any]) -> None:
        self._snapshot, self._findings, self._created = snapshot, findings, created
        self._told = {name: _Told(snapshot, name, findings) for name in events.TOLD}
        self._changes = findings.readable(snapshot.changes())
        self._last_hash = ""
        self._state = "running"
        self._limits: dict[str, float | None] = {}
        self._description: str | None = None  # its digest, by the log
        self._counts = {"changes": 0, "planned_changes": 0, "unavailable": 0}
        self._reached = events.reached(None)  # the records that events have covered
        self._changed_at: int | None = None  # what was assigned when options changed
        self._end = 0  # of the last summary
        self._provisional = False
        self.broken = False  # whether the chain ends before the log does
        self.events = self.plans = self.summaries = 0
        self.late = 0  # outcomes that came too late, by the events
        self.late_reports = 0  # and reports that are flagged as late
        self.end: dict[str, Any] | None = None  # what the last event of an ended experiment says
        self.failed: Ids = events.joined_ids([])  # assignments given up after the end
        self.erased: list[float] = []  # when units were erased
        self._erased_ids = set[int]()  # of their assignments, by the log

    def read(self) -> None:
        findings, snapshot = self._findings, self._snapshot
        every, opened = tee(findings.readable(snapshot.plans()))
        plans = map(self._plan, every)
        told = map(self._summary, findings.readable(snapshot.summaries()))
        for event in findings.readable(self._chain()):
            if event.kind == "planned":
                self._compare(event, next(plans, None), "plan")
                self._check_closed(event.data["first"])
                self._counts["planned_changes"] = self._counts["changes"]
                self._check_told(event, events.reached(next(opened, None)))
            elif event.kind in {"closed", "answered"}:
                self._compare(event, next(told, None), "summary")
            else:
                self._note(event)
            self._state = _STATES.get(event.kind, self._state)
        if not self.broken:
            for what, _ in chain(plans, told):
                findings.add("log", f"{what} is not in the log.")
            self._check_head()

    def _check_told(self, event: Event, end: dict[str, int]) -> None:
        """Compare what was told since the last plan with what an event says of it."""
        for name, records in self._told.items():
            expected = event.data["told"].get(name, _NOTHING)
            records.check(self._reached[name], end[name], expected, f"event {event.number}")
        self._reached = end

    def _check_erased(self) -> None:
        unknown = self._told["units"].erased
        for number in sorted(unknown - self._erased_ids)[: 2 * SHOWN]:
            what = f"What was known of {_noun(number)} is gone"
            self._findings.add("erased", f"{what}, and the log does not say that it was erased.")
        for number in sorted(self._erased_ids - unknown)[: 2 * SHOWN]:
            what = f"What was known of {_noun(number)} is on record"
            self._findings.add("erased", f"{what}, and the log says that it was erased.")

    def _chain(self) -> Iterator[Event]:
        self.broken = True  # unless it is read to its end
        for event in self._snapshot.events():
            wrong = ""
            try:
                hashed = events.event_hash(
                    event.number, event.at, event.kind, event.data, self._last_hash
                )
            except ValueError:  # something that is not JSON
                hashed = ""
            if event.number != self.events:
                last = self.events - 1
                wrong = f"Event {event.number} follows event {last}: events between are missing."
            elif event.hash != hashed:
                wrong = f"Event {event.number} ({event.kind}) does not have the hash it should: "
                wrong += "it, or the event before it, was changed."
            if wrong:
                self._findings.add("event", f"{wrong} What follows it was not checked.")
                return
            self.events, self._last_hash = event.number + 1, event.hash
            yield event
        self.broken = False

    def _check_head(self) -> None:
        head, findings = self._snapshot.head, self._findings
        if (self.events, self._last_hash) != (head.events, head.last_hash):
            what = "The hash of the last event is not the one kept with the counters"
            findings.add("event", f"{what}: the log was written again, or cut short.")
        totals = {"requests": head.requests, "units": head.units + self._counts["unavailable"]}
        totals |= {"reports": head.reports, "guardrails": head.values}
        for name, total in totals.items():
            self._told[name].check_total(self._reached[name], total)
        self.late_reports = self._told["reports"].late
        if next(self._changes, None) is not None:
            findings.add("option", "Options were changed, and the log does not say so.")
        self._check_erased()
        self._check_closed(head.assigned)
        if self._created.get("description") not in {None, self._description}:
            findings.add("created", "The description is not the one that the log has.")
        for name, value in {"state": self._state, **self._limits, **self._counts}.items():
            if getattr(head, name) != value:
                counted = f"the counters say {getattr(head, name)}"
                findings.add("state", f"By the log the {name} is {value}; {counted}.")

    def _check_closed(self, end: int) -> None:
        """Nothing is assigned under a plan after the options have changed."""
        if self._changed_at not in {None, end}:
            what = f"Assignments {self._changed_at} to {end - 1} were made under an open plan"
            self._findings.add("option", f"{what} after the options had changed.")
        self._changed_at = None

    def _note(self, event: Event) -> None:
        """What an event says that is neither about a plan nor about a summary."""
        if event.kind in {"added", "retired"}:
            self._counts["changes"] += 1
            self._check_change(event, next(self._changes, None))
            if self._changed_at is None:
                self._changed_at = event.data["assigned"]
        elif event.kind == "unavailable":
            self._check_unavailable(event)
        elif event.kind == "described":
            self._description = events.sha256(event.data["description"])
        elif event.kind == "changed":
            self._limits["lease"] = event.data.get("lease")
        elif event.kind in {"stopped", "finished"}:
            self.end = event.data
            numbers = ALL, ALL, event.data["reports"], event.data["values"]
            self._check_told(event, dict(zip(events.TOLD, numbers, strict=True)))
        elif event.kind == "created":
            self._check_created(event)
        elif event.kind == "erased":
            self.erased.append(event.at)
            self._erased_ids.update(events.ids_in(event.data["ids"]).tolist())
        elif event.kind in {"late", "failed"}:
            self._check_after(event)

    def _check_created(self, event: Event) -> None:
        """Compare what the experiment is made of with the first event."""
        self._limits = {name: event.data.get(name) for name in TimeLimits._fields}
        self._description = event.data.get("description")
        for name, value in self._created.items():
            if name == "description":  # which may change
                continue
            what, expected = f"its {name}", value
            if name == "document":
                what = "the problem, the policy or options"
                expected = events.salted(str(event.data.get("salt")), value)
            if event.data.get(name) != expected:
                other = f"Event {event.number} is about another experiment"
                self._findings.add("created", f"{other}: {what} differs.")

    def _check_change(self, event: Event, change: Change | None) -> None:
        """Compare an option that was added or retired with its event."""
        features = event.data.get("features")
        logged = {name: event.data[name] for name in ("number", "phase", "label", "made_by")}
        logged |= {"kind": event.kind, "reason": event.data.get("reason", ""), "at": event.at}
        logged["features"] = None if features is None else tuple(features)
        if change is None or vars(change) != logged:
            what = f"The change of options of event {event.number}"
            self._findings.add("option", f"{what} is not the one on record: it was changed.")

    def _check_unavailable(self, event: Event) -> None:
        """Compare units that were not available with the event that says so."""
        before, count = self._counts["unavailable"], event.data["count"]
        self._counts["unavailable"] += count
        records = [*self._snapshot.records(UnitRecord, -before - count, -before)][::-1]
        for record in records:
            self._told["units"].note(record)
        if events.digest_records(records) != event.data["units"]:
            what = f"The units that were not available, by event {event.number}"
            self._findings.add("units", f"{what}, are others on record: one was changed.")

    def _check_after(self, event: Event) -> None:
        """Compare outcomes that came too late, or were given up after the end, with their event."""
        ids = events.ids_in(event.data["ids"])
        if "reports" in event.data:
            every = self._snapshot.records(Report, *event.data["reports"])
            reports = [each for each in every if each.late]
            rows = np.zeros(len(reports), dtype=ROW)
            for column, field in (("id", "assignment"), ("reward", "reward"), ("told", "told")):
                rows[column] = [getattr(each, field) for each in reports]
            rows["late"] = True
        else:
            rows = self._snapshot.rows_of(ids)
        if event.kind == "late":
            what, when = "outcomes that came too late", rows["told"]
            data = events.late_data(rows["id"], rows["reward"])
            same = bool(rows["late"].all()) and data["outcomes"] == event.data["outcomes"]
            self.late += len(ids)
        else:
            what, when, same = "assignments given up after the end", rows["lost"], True
            self.failed = events.joined_ids([self.failed, ids])
        if not same or len(rows) != len(ids) or (when != event.at).any():
            other = f"The {what} are not those of event {event.number}"
            self._findings.add(event.kind, f"{other}: one was changed since, or removed.")

    def _plan(self, record: PlanRecord) -> _Known:
        self.plans += 1
        self._provisional = record.plan.provisional
        return f"The plan of phase {record.plan.phase}", events.plan_data(record)

    def _summary(self, record: SummaryRecord) -> _Known:
        amends = record.late and self._provisional
        follows = record.end <= self._end if amends else record.first == self._end
        if record.number != self.summaries or not follows:
            begins = f"Summary {record.number} begins at assignment {record.first}"
            self._findings.add("summary", f"{begins}; the one before ends at {self._end}.")
        self.summaries = record.number + 1
        self._end = max(self._end, record.end)
        return f"Summary {record.number}", events.summary_data(record) | {"late": record.late}

    def _compare(self, event: Event, known: _Known | None, kind: str) -> None:
        """Compare an event with its record, None if that was removed."""
        if known is None:
            self._findings.add(kind, f"Event {event.number} is about a {kind} that was removed.")
            return
        what, data = known
        told = {**event.data, "late": event.kind == "answered"}
        if any(told.get(name) != value for name, value in data.items()):
            sentence = f"{what} is not the one of event {event.number}: it was changed."
            self._findings.add(kind, sentence)


class _Told:
    """Records of one kind that come between plans, read once, in order."""

    def __init__(self, snapshot: Snapshot, name: str, findings: _Findings) -> None:
        self._snapshot, self._name, self._findings = snapshot, name, findings
        self._noun = "values of guardrails" if name == "guardrails" else name
        self.late = 0  # reports that are flagged as late
        self.erased = set[int]()  # ids of assignments of which everything is erased

    def _read(self, start: int, end: int) -> Iterator[Told]:
        records = self._snapshot.records(events.TOLD[self._name], start, end)
        for record in self._findings.readable(records):
            self.note(record)
            yield record

    def note(self, record: Told) -> None:
        """Look at what is known of a unit, and whether a report came too late."""
        if isinstance(record, Report):
            self.late += record.late
        elif isinstance(record, UnitRecord):
            known = record.salt, record.unit, record.decision_point, record.covariates
            if known == (None,) * 4:
                self.erased.update(units.members(record))
            elif units.digest_of(*known) != record.digest:
                known_of = _noun(units.members(record)[0])
                what = f"What is known of {known_of} is not what was recorded"
                self._findings.add("units", f"{what}: its unit or covariates were changed.")

    def check(self, start: int, end: int, expected: str, where: str) -> None:
        """Compare records with numbers from `start` up to `end` with their digest."""
        if events.digest_records(self._read(start, end)) != expected:
            what = f"The {self._noun} up to {where} are not those it knows of"
            self._findings.add(self._name, f"{what}: some were changed since, or removed.")

    def check_total(self, start: int, counted: int) -> None:
        """Read the rest, and compare the number of all with the counter.

        All: a row with a number that no record has is found by what it is about all the same.
        """
        for _ in self._read(start, ALL):
            pass
        if (total := self._snapshot.count(events.TOLD[self._name])) != counted:
            there = f"There are {total} {self._noun} on record"
            self._findings.add(self._name, f"{there}, the counter says {counted}.")


class _Redraw:
    """The assignments: counted, drawn again and added up again."""

    def __init__(
        self, snapshot: Snapshot, findings: _Findings, options: Options | None, seed: int
    ) -> None:
        self._snapshot, self._findings, self._seed = snapshot, findings, seed
        self._options = options  # None if they cannot be read
        self._last = -1  # the id of the last assignment read
        self.rounds = self.assigned = self.outcomes = self.late = 0
        # Ids that were outstanding when their phase closed, by the summary that covers them, or −1.
        self._deferred: dict[int, list[Ids]] = {}

    def check_rows(self, progress: Progress | None) -> None:
        """Compare all assignments with their plans, and their number with the counters."""
        head, findings = self._snapshot.head, self._findings
        plans = findings.readable(self._snapshot.plans())
        draws, following = None, next(plans, None)
        every = self._snapshot.rows(0, head.assigned + 1)  # one more than are counted
        for rows in findings.readable(every):
            self._check_rows(rows)
            rest = rows
            while len(rest):
                while following is not None and following.first <= rest["id"][0]:
                    self._check_options(following.plan)
                    draws = PlanDraws(following, self._seed)
                    following = next(plans, None)
                end = len(rest)
                if following is not None:
                    end = int(np.searchsorted(rest["id"], following.first))
                part, rest = rest[:end], rest[end:]
                for run in np.split(part, np.flatnonzero(np.diff(part["id"]) != 1) + 1):
                    self._draw_again(run, draws)
            if progress is not None:
                progress(self.assigned, head.assigned)
        for noun, found, counted in (
            ("assignment", self.assigned, head.assigned),
            ("round", self.rounds, head.rounds),
        ):
            if found != counted:
                there = "There is" if found == 1 else "There are"
                what = f"{there} {plural(found, noun)}, the counter says {counted}."
                findings.add(noun, what)

    def _check_options(self, plan: Plan) -> None:
        """A plan is over the options there were, and draws none that was retired before."""
        options, what = self._options, f"The plan of phase {plan.phase}"
        if options is None:
            return
        if plan.arms != (arms := options.arms(plan.phase)):
            self._findings.add("option", f"{what} is not of {arms} arms.")
            return
        for arm, change in options.retired.items():
            if change.phase < plan.phase and arm < plan.arms and plan.shares[arm]:
                gone = f"option {change.label!r}, which was retired before"
                self._findings.add("option", f"{what} draws {gone}.")

    def _check_rows(self, rows: Rows) -> None:
        ids = np.concatenate([[self._last], rows["id"]])
        for place in np.flatnonzero(np.diff(ids) != 1):
            missing = f"{ids[place] + 1} to {ids[place + 1] - 1}"
            self._findings.add("assignment", f"Assignments {missing} are missing.")
        self._last = int(ids[-1])
        told, lost, late = ~np.isnan(rows["reward"]), ~np.isnan(rows["lost"]), rows["late"]
        self.assigned += len(rows)
        self.rounds = int(rows["round"][-1]) + 1 if len(rows) else self.rounds
        self.outcomes += int(told.sum())
        self.late += int(late.sum())
        wrong, what = lost & told & ~late, "was lost, but its outcome is not flagged"
        self._findings.add_each(rows, wrong, "late", what)
        if not self._snapshot.head.over:
            self._check_in_time(rows)
        if self._snapshot.head.window is not None:
            with self._findings.reading():
                self._check_windows(rows, self._snapshot.head.window)

    def _check_windows(self, rows: Rows, window: float) -> None:
        """Compare outcomes with what was reported within their window."""
        reports = self._snapshot.records_of(Report, rows["id"].tolist())
        told = {report.assignment: report.reward for report in reports if not report.late}
        wrong = ~np.isnan(rows["lost"]) & np.isin(rows["id"], list(told))
        self._findings.add_each(rows, wrong, "window", "was reported in time, and is lost")
        rows = rows[~np.isnan(rows["reward"])]
        expected = [told.get(each, self._snapshot.head.otherwise) for each in rows["id"].tolist()]
        wrong, what = rows["reward"] != np.array(expected, dtype=float), "what was told in time"
        self._findings.add_each(rows, wrong, "window", f"has another outcome than {what}")
        wrong = rows["told"] - rows["asked"] < window - _ROUNDING
        self._findings.add_each(rows, wrong, "window", "entered before the end of its window")

    def _check_in_time(self, rows: Rows) -> None:
        flagged = rows["late"] & np.isnan(rows["lost"])
        what = "was told in time, but its outcome is flagged as late"
        self._findings.add_each(rows, flagged, "late", what)

    def _draw_again(self, rows: Rows, draws: PlanDraws | None) -> None:
        """Compare assignments without a gap with what their plan draws."""
        findings, size = self._findings, len(rows)
        if draws is None:
            findings.add_each(rows, rows["id"] >= 0, "draw", "belongs to no plan")
            return
        try:
            drawn, chances = draws.arms(self._snapshot, int(rows["id"][0]), size)
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

    def check_summaries(self) -> None:
        """Add up all outcomes again that summaries cover."""
        for record in self._findings.readable(self._snapshot.summaries()):
            with self._findings.reading():
                self._check_summary(record)
        for number in sorted(self._deferred.keys() - {-1}):
            self._findings.add("deferral", f"Summary {number}, which covers outcomes, is missing.")

    def _check_summary(self, record: SummaryRecord) -> None:
        findings, number = self._findings, record.number
        try:
            plan = self._snapshot.plan(record.phase).plan
        except DamagedStoreError:
            findings.add("summary", f"Summary {number} is of phase {record.phase}, unknown here.")
            return
        if len(record.summary.counts) != plan.arms:
            findings.add("summary", f"Summary {number} is not of {plan.arms} arms.")
            return
        totals = RunningTotals(plan, plan.arms)
        for rows, pending in self._covered(record, plan):
            self._add(totals, rows, pending, plan.arms)
        covered = f"assignments {record.first} to {record.end - 1}"
        if totals.digest() != record.digest:
            what = "an arm, an outcome, a forecast, a loss or a time was changed since"
            findings.add(
                "outcomes", f"Of {covered}, not all are as summary {number} has them: {what}."
            )
        try:
            same = _data(totals.summary(), totals.plain()) == _data(record.summary, record.plain)
        except InvalidInputError:  # totals that are not finite
            same = False
        if not same:
            findings.add("totals", f"Summary {number} is not what {covered} add up to.")

    def _covered(self, record: SummaryRecord, plan: Plan) -> Iterator[tuple[Rows, Any]]:
        """The assignments that a summary covers, and which were outstanding when it was made."""
        ids, covered_by = self._snapshot.deferrals(record.first, record.end)
        if plan.provisional and record.late:
            arrived = self._snapshot.rows_of(
                events.joined_ids(self._deferred.pop(record.number, []))
            )
            wrong = arrived["phase"] != record.phase
            what = f"is covered by summary {record.number}, which is of another phase"
            self._findings.add_each(arrived, wrong, "deferral", what)
            if plan.size == 1:
                yield arrived, np.zeros(len(arrived), dtype=bool)
                return
        else:
            for each in np.unique(covered_by).tolist():
                self._deferred.setdefault(each, []).append(ids[covered_by == each])
        outstanding = ids[(covered_by > record.number) | (covered_by < 0)]
        for rows in self._snapshot.rows(record.first, record.end):
            yield rows, np.isin(rows["id"], outstanding)

    def _add(
        self, totals: RunningTotals, rows: Rows, pending: NDArray[np.bool_], arms: int
    ) -> None:
        """Add rows up; all but the pending ones must be settled, and in time."""
        what = "was summed up, but is neither told nor lost"
        self._findings.add_each(rows, is_outstanding(rows) & ~pending, "outcomes", what)
        self._check_in_time(rows[~pending])
        answers = answers_of(rows)
        answers["arm"] = np.where(answers["arm"] < arms, np.maximum(answers["arm"], 0), 0)
        totals.add(answers, pending)

    def check_rest(self, end: dict[str, Any], failed: Ids) -> None:
        """Compare all that no summary covers with the digests that the last event has of it."""
        changed = "are not as they were at the end: an outcome, a loss or a time was changed since."

        def digest(pieces: Iterable[Rows]) -> str:
            return events.digest_of(events.answers_at_end(rows, failed) for rows in pieces)

        rest = digest(self._snapshot.rows(end["first"], end["end"]))
        if rest != end["rest"] or end["end"] != self._snapshot.head.assigned:
            what = f"Assignments {end['first']} to {end['end'] - 1}"
            self._findings.add("rest", f"{what} {changed}")
        waiting = events.joined_ids(self._deferred.get(-1, []))
        if digest([self._snapshot.rows_of(waiting)]) != end["waiting"]:
            what = "Assignments that were outstanding when their phase closed"
            self._findings.add("rest", f"{what} {changed}")


def _noun(number: int) -> str:
    """An assignment, or a decision point at which there is none."""
    return f"assignment {number}" if number >= 0 else f"unavailable decision point {-number}"


def _data(*parts: Summary | None) -> list[dict[str, Any] | None]:
    return [None if part is None else as_data(part) for part in parts]
