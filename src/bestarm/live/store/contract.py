"""The store contract: what an experiment needs of the place where it is kept.

A `Ledger` holds one experiment: a `Head` of counters, and rows that are only ever added. Everything
an experiment does is a short transaction on its ledger: a `Snapshot`, which only reads, or a
`Transaction`, which writes too. An implementation keeps the laws below;
`bestarm.testing.check_store` tests each of them.

Threads and processes:
    Any number of threads may use a ledger at once, and so may any number of processes that have
    opened it where it is stored. A snapshot or transaction belongs to the thread that began it.

Consistency:
    Everything read in one snapshot or transaction belongs to one state: what others commit
    meanwhile is not in it. Whatever begins after a commit reads what was committed. Writers take
    turns: a `Transaction` begins once no other one on the same experiment is active, so that its
    head is the latest. Numbers are read back to the bit and texts to the letter.

Atomicity:
    A `Transaction` is committed as a whole, with its head, when its `with` block ends without an
    exception. After an exception, or when the process is killed, everything is as it was before.
    Where the ledger is stored, the rows are on disk when the block has ended.

Errors:
    Any method of a stored ledger raises `StoreUnavailableError` where the database cannot be
    reached or written to (nothing was changed, and the call can be repeated), and any method that
    reads raises `DamagedStoreError` where a record cannot be read. `Raises` below names what else a
    method raises.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.live.values import Status
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Rounds, Summary

__all__ = [
    "ANSWER",
    "ROW",
    "Change",
    "Event",
    "GuardrailValue",
    "Head",
    "Ids",
    "Ledger",
    "PlanRecord",
    "Record",
    "Report",
    "Request",
    "Rows",
    "Snapshot",
    "SummaryRecord",
    "Transaction",
    "UnitKey",
    "UnitRecord",
    "answers_of",
    "is_outstanding",
]

# --- Records ------------------------------------------------------------------------------------

# One row per assignment; those of one round were drawn together. The reward is NaN while there is
# no outcome. `lost` is the time at which the outcome was given up, or NaN; an outcome that came
# after that is kept, and is not used. The forecast was fixed before the arm was drawn; NaN where
# there is none.
ROW = np.dtype(
    [
        *((name, np.int64) for name in ("id", "round", "phase", "arm")),
        *((name, float) for name in ("probability", "asked", "forecast", "reward", "told")),
        *(("late", bool), ("lost", float)),
    ]
)
# What a summary is made of, and what its digest covers. Where the assignment was lost, `reward` and
# `told` are NaN, even if an outcome came later.
_NUMBERS = ("reward", "asked", "told", "lost", "forecast")
ANSWER = np.dtype([("arm", "<i8"), *((name, "<f8") for name in _NUMBERS)])
Rows = NDArray[Any]
Ids = NDArray[np.int64]

ALL = 2**62  # above every number of a record, and every id
_MAX_GAP = 1000  # ids farther apart than this are read as two ranges
_NEARLY_ALL = 16  # arrived outcomes for each that is outstanding

# What reading a text of another shape than it should have may raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """A plan, the first assignment and the first round drawn under it, and the number of values
    that guardrails knew when it was made."""

    plan: Plan
    first: int
    round: int
    values: int = 0

    @property
    def number(self) -> int:
        """The phase: 1, 2, 3, …"""
        return self.plan.phase


@dataclass(frozen=True, eq=False)
class SummaryRecord:
    """A summary as the policy was told it.

    A late summary of a provisional plan covers assignments that were outstanding when the plan
    closed: some of those with ids from `first` to `end`. It holds their totals alone; under a plan
    over blocks, all rounds of the phase once more.
    """

    number: int  # 0, 1, 2, … in the order told
    phase: int  # under whose plan its pulls were drawn
    first: int  # the id of the first assignment it covers
    end: int  # the id after the last
    late: bool  # whether their phase was closed before
    summary: Summary  # the totals, less forecasts where there are any
    digest: str  # of the answers it was made from
    plain: Summary | None = None  # the totals of rewards as told, where there are forecasts

    @property
    def observed(self) -> Summary:
        """The totals of rewards as they were told."""
        return self.summary if self.plain is None else self.plain


@dataclass(frozen=True)
class Event:
    """A change of the experiment's state, chained to the event before it by its hash."""

    number: int
    at: float
    kind: str
    data: dict[str, Any] = field(hash=False)
    hash: str


@dataclass(frozen=True)
class Request:
    """An `ask` that has a name."""

    name: str
    count: int  # rounds asked for: assignments, unless these come in blocks
    first: int  # the id of the first assignment it was given
    size: int  # how many it was given
    phase: int  # their phase

    @property
    def number(self) -> int:
        """Requests are in order of their assignments."""
        return self.first


@dataclass(frozen=True)
class Report:
    """What was told of an assignment whose outcome has a window."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    reward: float
    told: float
    late: bool  # whether the assignment was settled before, or the experiment over


@dataclass(frozen=True)
class GuardrailValue:
    """A value told of a guardrail."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    phase: int  # of the assignment
    arm: int
    guardrail: int  # its place among the guardrails of the experiment
    value: float
    told: float


class UnitKey(NamedTuple):
    """A unit and its decision point, which is empty where none was named."""

    unit: str
    decision_point: str = ""


@dataclass(frozen=True)
class UnitRecord:
    """What is known of a round before its draw: the unit it is about, and covariates.

    The digest covers it together with a random salt, and the log covers the digest. Erasing removes
    all but the digest, which without its salt says nothing.
    """

    round: int  # −1, −2, … where the unit was not available, and nothing was drawn
    first: int  # the id of the round's first assignment, or of the next one made
    size: int  # how many assignments it has
    digest: str
    salt: str | None  # None once it is erased
    unit: str | None = None
    decision_point: str | None = None  # empty where the unit has none
    covariates: str | None = None  # as JSON

    @property
    def number(self) -> int:
        """That of its round."""
        return self.round

    def erased(self) -> UnitRecord:
        """What is left of it once it is erased."""
        return UnitRecord(self.round, self.first, self.size, self.digest, None)


@dataclass(frozen=True)
class Change:
    """An option that was added or retired."""

    number: int  # 0, 1, 2, … in the order made
    phase: int  # in which it was made: that of the last plan by then, or 0
    kind: str  # "added" or "retired"
    label: str
    reason: str  # why it was retired; empty for an option that was added
    features: tuple[float, ...] | None  # of an option that was added; None: a dimension of its own
    made_by: str  # "hand", or what retired it by itself
    at: float


Record = (
    PlanRecord | SummaryRecord | Event | Change | Request | UnitRecord | Report | GuardrailValue
)
R = TypeVar("R", bound=Record)
T = TypeVar("T", Report, GuardrailValue)


class TimeLimits(NamedTuple):
    """How long an outcome may take; `Head` says what each means."""

    lease: float | None = None
    window: float | None = None
    otherwise: float | None = None


@dataclass
class Head:
    """The counters of an experiment: what it takes to ask, to tell and to report the status.

    An assignment is settled once it has an outcome or is lost, and outstanding before that.
    """

    state: str = "running"  # or "paused", "stopped", "finished"
    lease: float | None = None  # seconds an outcome may take, or None for no limit
    window: float | None = None  # seconds after which an outcome enters, or None: when it is told
    otherwise: float | None = None  # the outcome where nothing is told within the window

    assigned: int = 0  # the number of assignments, and the id of the next
    outcomes: int = 0  # told in time; where there is a window, those whose window has ended
    reports: int = 0  # of outcomes that have a window
    early: int = 0  # outstanding assignments with a report
    values: int = 0  # told of guardrails
    losses: int = 0  # assignments whose outcome was given up
    late: int = 0  # outcomes told too late
    refusals: int = 0  # assignments for which a reward outside the bounds was refused
    refused_values: int = 0  # and those for which a value of a guardrail was
    lowest: float = math.inf  # reward told
    highest: float = -math.inf  # reward told

    last_told: float = -math.inf  # when an outcome was told last
    options: int = 0  # targets that are not ruled out

    phase: int = 0  # the open phase, or the last one
    planned: bool = False  # whether a plan is open
    open: bool = False  # whether that plan may be extended
    provisional: bool = False  # whether it may close while outcomes are outstanding
    pulls: int = 0  # that it asks for
    size: int = 1  # assignments in each of its rounds
    rounds: int = 0  # of all phases, and the number of the next
    units: int = 0  # that rounds were about, each counted once
    unit_rounds: int = 0  # that were about a unit
    most_unit_rounds: int = 0  # that were about one unit
    busiest_round: int = 0  # the last round of that unit
    unavailable: int = 0  # decision points at which a unit was not available
    # Pulls that the plan may be extended to, or None; less the outstanding assignments of earlier
    # plans when it was made.
    limit: int | None = None
    first: int = 0  # the id of the phase's first assignment
    phase_outcomes: int = 0  # told in time for the phase's assignments
    phase_losses: int = 0  # among the phase's assignments
    outstanding_before: int = 0  # outstanding assignments with ids below `first`

    summary_end: int = 0  # every assignment with an id below this is part of a summary
    arrivals: int = 0  # settled assignments that their phase's last summary counts as outstanding
    amendments: int = 0  # such assignments that the policy was told of under the open plan
    settled_end: int = 0  # every assignment with an id below this is settled
    oldest: float = math.inf  # no outstanding assignment was asked for before this time

    summaries: int = 0  # that the policy was told
    changes: int = 0  # options added and retired
    planned_changes: int = 0  # of these, those that the last plan was made after
    events: int = 0  # in the log
    last_hash: str = ""  # of the last event
    requests_hash: str = ""  # of all named requests
    units_hash: str = ""  # of what is known of rounds
    reports_hash: str = ""  # of all reports
    guardrails_hash: str = ""  # of all values told of guardrails
    changes_hash: str = ""  # of all changes of options
    last_time: float = -math.inf  # the latest time of a transaction
    clock_setback: float = 0.0  # the most seconds by which a later clock was behind that
    # Where there are forecasts: the squared deviations of outcomes from the mean of their arm
    # within a summary, added up over all summaries; and the same of outcomes less their forecasts.
    spread: float = 0.0
    spread_left: float = 0.0

    def copy(self) -> Head:
        """The counters as they are now. Every transaction needs them, and `replace` is slow."""
        made = Head.__new__(Head)
        vars(made).update(vars(self))
        return made

    @property
    def over(self) -> bool:
        """Whether nothing more will be assigned or decided."""
        return self.state in {"stopped", "finished"}

    def status(self, waits_for: int | None = None, since: float | None = None) -> Status:
        """The status by the counters, and what holds up the decision."""
        return Status(
            phase=self.phase,
            given=self.phase_assigned,
            answered=self.phase_settled,
            outstanding=self.outstanding,
            remaining=self.remaining,
            pulls=self.assigned,
            rounds=self.rounds,
            state=self.state,
            lost=self.losses,
            late=self.late,
            early=self.early,
            needs_lease=self.waits and self.time_limit is None and not self.over,
            waits_for=waits_for,
            waits_since=since,
            variance_left=self.variance_left,
        )

    @property
    def revision(self) -> str:
        """A text that changes whenever anything is recorded."""
        told = (self.outcomes, self.reports, self.values, self.losses, self.late, self.refusals)
        return "-".join(map(str, (self.assigned, *told, self.events)))

    @property
    def time_limit(self) -> float | None:
        """Seconds after which an assignment is settled, whatever is told: its window or lease."""
        return self.lease if self.window is None else self.window

    @property
    def variance_left(self) -> float | None:
        """The share of the variance of outcomes that forecasts leave; None if nothing is known."""
        return self.spread_left / self.spread if self.spread > 0 else None

    @property
    def is_changed(self) -> bool:
        """Whether options were added or retired under the open plan: nothing more is assigned
        under it, and it closes with what was assigned so far."""
        return self.planned and self.changes > self.planned_changes

    @property
    def waits(self) -> bool:
        """Whether decisions wait for the first outstanding outcome."""
        return self.open and not self.provisional

    @property
    def phase_assigned(self) -> int:
        """The number of assignments of the phase."""
        return self.assigned - self.first

    @property
    def phase_settled(self) -> int:
        """How many of them are settled."""
        return self.phase_outcomes + self.phase_losses

    @property
    def needed(self) -> int:
        """How many assignments the phase needs, as far as is known."""
        return self.pulls if self.open else self.pulls + self.phase_losses

    @property
    def remaining(self) -> int:
        """How many of them are still to be assigned."""
        if not self.planned or self.over or self.is_changed:
            return 0
        remaining = max(0, self.needed - self.phase_assigned)
        if self.provisional and self.limit is not None:
            remaining = min(remaining, max(0, self.limit - self.phase_assigned))
        return remaining // self.size * self.size

    @property
    def outstanding(self) -> int:
        """The number of outstanding assignments of all plans that still matter."""
        return self.phase_assigned - self.phase_settled + self.outstanding_before

    def settle(self, ids: Sequence[int]) -> int:
        """Note that assignments are settled, and return how many of them are of the phase."""
        before = _count_below(ids, self.first)
        self.outstanding_before -= before
        self.arrivals += _count_below(ids, self.summary_end)
        return len(ids) - before

    @property
    def is_blocked(self) -> bool:
        """Whether the phase has enough outcomes to close, unless one before them is outstanding."""
        return self.waits and not self.outstanding_before and self.phase_settled >= self.pulls

    def available(self, count: int) -> int:
        """How many of `count` more assignments the open plan allows, in whole rounds."""
        return self._available(count) // self.size * self.size

    def _available(self, count: int) -> int:
        if not self.planned or self.is_changed or self.state != "running":
            return 0
        if not self.open:
            return min(count, max(0, self.needed - self.phase_assigned))
        if self.limit is None:
            return count
        # Whether the plan's own pulls are needed is known once those of earlier plans are settled.
        exact = self.provisional or self.summary_end < self.first
        limit = self.limit if exact else max(self.limit, self.pulls)
        return min(count, max(0, limit - self.phase_assigned))

    @property
    def closing(self) -> bool:
        """Whether a provisional plan is to be closed: until it is, nothing is assigned under it.

        That is when it is assigned in full and as many outcomes have come, of any phase: where they
        are slow, those of earlier phases are the news.
        """
        news = self.phase_settled + self.arrivals + self.amendments
        return self.planned and self.provisional and min(self.phase_assigned, news) >= self.pulls

    @property
    def has_pending_step(self) -> bool:
        """Whether the policy has to make a plan or to be told a summary."""
        if self.over:
            return False
        if not self.planned or (self.summary_end < self.first and not self.outstanding_before):
            return True
        if self.is_changed:  # a closed plan waits for the outcomes of what was assigned
            return self.open or not self.outstanding
        if self.provisional or self.arrivals:
            # Enough have arrived to report them to the policy: as many as a plan asks for, or
            # nearly all that were outstanding.
            enough = min(self.pulls, _NEARLY_ALL * self.outstanding_before)
            return self.closing or (self.arrivals > 0 and self.arrivals >= enough)
        ready = self.settled_end - self.first if self.open else self.phase_outcomes
        return not self.outstanding_before and ready >= self.pulls


def _count_below(ids: Sequence[int], end: int) -> int:
    return 0 if min(ids, default=end) >= end else sum(number < end for number in ids)


def is_outstanding(rows: Rows) -> NDArray[np.bool_]:
    """Which of these assignments have neither an outcome nor a loss."""
    outstanding: NDArray[np.bool_] = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
    return outstanding


def answers_of(rows: Rows) -> Rows:
    """The answers among rows."""
    answers = rows[list(ANSWER.names or ())].astype(ANSWER)
    for name in ("reward", "told"):
        answers[name][~np.isnan(rows["lost"])] = np.nan
    return answers


def damaged(sentence: str, what: object = None) -> DamagedStoreError:
    """The error for a damaged record."""
    return DamagedStoreError(
        sentence,
        field="store",
        value=what,
        remedy="Was the database edited, or restored in part? `Experiment.verify` lists what does "
        "not agree; restore the whole of it.",
    )


def check_arms(arms: Ids, size: int) -> None:
    """Raise unless all assignments have an arm of the problem."""
    wrong = arms[(arms < 0) | (arms >= size)]
    if wrong.size:
        raise damaged(f"An assignment has arm {wrong[0]} on record, of {size}.", int(wrong[0]))


def check_size(what: str, arms: int, size: int) -> None:
    """Raise unless a plan or a summary is of as many arms as there are."""
    if arms != size:
        raise damaged(f"{what} is of {arms} arms, of {size}.", arms)


def canonical(data: object) -> str:
    """The one way to write a value as JSON: floats as Python writes them, so they read back."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_data(record: Plan | Summary) -> dict[str, Any]:
    """A plan or a summary as plain data, as it is stored and as the log's digests cover it."""
    if isinstance(record, Rounds):
        return record.data

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    data = {each.name: plain(getattr(record, each.name)) for each in fields(record)}
    if isinstance(record, Summary):
        # The name in all databases: with another, their experiments could not be read or verified.
        data["foreseen"] = data.pop("forecast_sum")
    return data


# --- The ledger ---------------------------------------------------------------------------------


class Snapshot(ABC):
    """The state of an experiment at one moment, to read.

    Attributes:
        head: the counters. In a `Transaction`, change them in place.
    """

    head: Head

    @abstractmethod
    def now(self) -> float:
        """The time in seconds since 1970, by the one clock of all who share the ledger.

        For a database server that is the server's clock, read once a `Transaction` has begun.
        """

    @abstractmethod
    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        """The records of a kind with numbers from `start` up to `end`, in order of number."""

    @abstractmethod
    def records_of(self, kind: type[T], ids: Sequence[int]) -> Sequence[T]:
        """The reports of these assignments, or the values of guardrails, in order of number."""

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on."""
        return self.records(PlanRecord, start)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on."""
        return self.records(SummaryRecord, start)

    def events(self, start: int = 0, end: int = ALL) -> Iterator[Event]:
        """The events with numbers from `start` up to `end`."""
        return self.records(Event, start, end)

    def changes(self, start: int = 0) -> Iterator[Change]:
        """The changes of options from a number on."""
        return self.records(Change, start)

    @abstractmethod
    def request(self, name: str) -> Request | None:
        """The request of exactly this name, or None."""

    @abstractmethod
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ROW, in order of id, in pieces.

        Ids that were never assigned are left out.
        """

    @abstractmethod
    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        """The rounds about these units at these decision points, as far as there are any."""

    @abstractmethod
    def rounds_of(self, unit: str) -> Ids:
        """The numbers of the rounds about a unit, in no order."""

    @abstractmethod
    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of `count` lost assignments of a phase, in the order of loss, from number
        `start` on; fewer where there are fewer."""

    @abstractmethod
    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id from `start` up to `end`, or None."""

    @abstractmethod
    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids from `start` up to `end` that were asked for by a time, in order."""

    @abstractmethod
    def deferrals(
        self, first: int = 0, end: int = ALL, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        """The deferred assignments, which were outstanding when their phase closed, in order of id,
        and the number of the summary that covers each, or −1.

        Args:
            first: the least id.
            end: the id after the last.
            waiting: only those that no summary covers.
        """

    @abstractmethod
    def arrivals(self) -> Ids:
        """Deferred assignments that are settled and that no summary covers, in order of id."""

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase.

        Raises:
            DamagedStoreError: the phase has no plan.
        """
        found = next(self.records(PlanRecord, phase, phase + 1), None)
        if found is None:
            raise damaged(f"The plan of phase {phase} cannot be read (it is missing).", phase)
        return found

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ANSWER, in order of id, in pieces.

        Raises:
            DamagedStoreError: an id was never assigned.
        """
        for rows in self.rows(first, end):
            if np.any(rows["id"] != np.arange(first, first + len(rows))):
                break
            first += len(rows)
            yield answers_of(rows)
        if first < end:
            raise damaged(f"Some of the assignments {first} to {end - 1} are missing.", first)

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for.

        Raises:
            DamagedStoreError: the id was never assigned.
        """
        return float(next(self.answers(number, number + 1))["asked"][0])

    def rows_of(self, ids: Ids) -> Rows:
        """These assignments as ROW, in order of id, as far as there are any."""
        found = []
        for run in id_ranges(ids):
            first, end = int(run[0]), int(run[-1]) + 1
            pieces, dense = self.rows(first, end), end - first == len(run)
            found += [rows if dense else rows[np.isin(rows["id"], run)] for rows in pieces]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=ROW), *found])

    def settlements(self, ids: Sequence[int]) -> tuple[dict[int, float], set[int]]:
        """Of these assignments, the rewards of those that have one, and those that are lost."""
        rows = self.rows_of(np.asarray(ids, dtype=np.int64))
        told = rows[~np.isnan(rows["reward"])]
        rewards = dict(zip(told["id"].tolist(), told["reward"].tolist(), strict=True))
        return rewards, set(rows["id"][~np.isnan(rows["lost"])].tolist())


def id_ranges(ids: Ids) -> Iterator[Ids]:
    """These ids in order, in parts that are each read as one range."""
    ordered = np.sort(ids)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > _MAX_GAP) + 1)
    return (part for part in parts if part.size)


class Transaction(Snapshot):
    """A transaction that writes; the head is saved when it ends.

    Rows that it has added can be read in it.
    """

    @abstractmethod
    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        forecasts: Array | None = None,
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on.

        They come in rounds of the head's `size`, numbered from the head's `rounds` on.

        Args:
            arms: one per assignment.
            probabilities: of the arms to be in their round.
            at: the time.
            forecasts: one per assignment, or None.

        Raises:
            StoreError: one of these ids is on record.
        """

    @abstractmethod
    def erase_units(self, rounds: Ids) -> None:
        """Erase what is known of rounds, but for its digest: the one change of what was added."""

    @abstractmethod
    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        """Add outcomes of assignments that have none.

        Raises:
            StoreError: one of these assignments has an outcome.
        """

    @abstractmethod
    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Add losses, in this order, after as many as the head's `losses`.

        Raises:
            StoreError: one of these assignments is lost already.
        """

    @abstractmethod
    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Add refused rewards, unless the assignment has one; return the number added."""

    @abstractmethod
    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes.

        Raises:
            StoreError: this is on record for one of them.
        """

    @abstractmethod
    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""

    @abstractmethod
    def add(self, *records: Record) -> None:
        """Add records of one kind.

        Raises:
            StoreError: one of its kind and number is on record; or another request of its name,
                another round of its unit at its decision point, or another value of its assignment
                and guardrail.
        """


class Ledger(Protocol):
    """One experiment, wherever it is kept."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Begin a snapshot of the committed state.

        Raises:
            StoreUnavailableError: the database cannot be reached, or its file was replaced.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction, once other writers are done; it is rolled back on an exception.

        Raises:
            StoreUnavailableError: the database cannot be reached or written to, its file was
                replaced, or other writers did not finish in time.
        """

    def purge(self) -> None:
        """Remove what was erased from files, as far as the ledger has files of its own.

        Raises:
            StoreUnavailableError: another program reads the file, and keeps it there.
        """

    def close(self) -> None:
        """Release connections and files."""
