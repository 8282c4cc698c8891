"""The records of an experiment, its counters, and the error for records that cannot be right."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.live.values import Status
from bestarm.records import Plan, Rounds, Summary

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

_NEARLY_ALL = 16  # arrived outcomes for each that is outstanding

# What reading a text of another shape than it should have may raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """A plan, and the first assignment and the first round drawn under it."""

    plan: Plan
    first: int
    round: int


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


@dataclass(frozen=True)
class Report:
    """What was told of an assignment whose outcome has a window."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    reward: float
    told: float
    late: bool  # whether the assignment was settled before, or the experiment over


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
    losses: int = 0  # assignments whose outcome was given up
    late: int = 0  # outcomes told too late
    refusals: int = 0  # assignments for which a reward outside the bounds was refused
    lowest: float = math.inf  # reward told
    highest: float = -math.inf  # reward told

    phase: int = 0  # the open phase, or the last one
    planned: bool = False  # whether a plan is open
    open: bool = False  # whether that plan may be extended
    provisional: bool = False  # whether it may close while outcomes are outstanding
    pulls: int = 0  # that it asks for
    size: int = 1  # assignments in each of its rounds
    rounds: int = 0  # of all phases, and the number of the next
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
    events: int = 0  # in the log
    last_hash: str = ""  # of the last event
    requests_hash: str = ""  # of all named requests
    covariates_hash: str = ""  # of all covariates
    reports_hash: str = ""  # of all reports
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
        told = (self.outcomes, self.reports, self.losses, self.late, self.refusals)
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
        if not self.planned or self.over:
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
        if not self.planned or self.state != "running":
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
        if self.provisional or self.arrivals:
            # Enough have arrived to report them to the policy: as many as a plan asks for, or
            # nearly all that were outstanding.
            enough = min(self.pulls, _NEARLY_ALL * self.outstanding_before)
            return self.closing or (self.arrivals > 0 and self.arrivals >= enough)
        if self.outstanding_before:
            return False
        if self.open:
            return self.settled_end - self.first >= self.pulls
        return self.phase_outcomes >= self.pulls


def _count_below(ids: Sequence[int], end: int) -> int:
    return 0 if min(ids, default=end) >= end else sum(number < end for number in ids)


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
    """A plan or a summary as plain data."""
    if isinstance(record, Rounds):
        return record.data

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    return {each.name: plain(getattr(record, each.name)) for each in fields(record)}
