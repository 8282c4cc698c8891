"""The store contract: what an experiment needs of the place where it is kept.

A `Ledger` holds one experiment: a `Head` of counters, and rows that are only ever added. Everything
an experiment does is a short transaction on its ledger: a `Reading` or a `Writing`. An
implementation keeps the laws below; `bestarm.testing.check_store` tests each of them.

Threads and processes:
    A ledger may be used by any number of threads at once, and, where it is stored, by any number
    of processes that have opened it. A transaction belongs to the thread that began it.

Consistency:
    All that is read in one transaction belongs to one state: what others commit meanwhile is not
    in it. A transaction that begins after another has committed reads what that one wrote. Writers
    take turns: a `Writing` begins once no other writer of the same experiment is active, so that
    its head is the latest there is. Numbers are read back to the bit and texts to the letter.

Atomicity:
    What is written in one `Writing` is there whole, with its head, once the `with` block has ended
    without an exception, or else not at all: after an exception, or when the process is killed,
    everything is as it was. Where the ledger is stored, the end of the block means that the rows
    are on disk.

Errors:
    Any method of a stored ledger raises `StoreUnavailableError` where the database cannot be
    reached or written to (nothing was changed, and the call can be repeated), and any method that
    reads raises `DamagedStoreError` where a record cannot be read. `Raises` below names what else a
    method raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.records import Plan, Summary

__all__ = [
    "ANSWER",
    "ROW",
    "Event",
    "Head",
    "Ids",
    "Ledger",
    "PlanRecord",
    "Reading",
    "Request",
    "Rows",
    "SummaryRecord",
    "Writing",
    "answers_of",
]

_NEARLY_ALL = 16  # arrived outcomes for each that is outstanding

# One row per assignment. The reward is NaN while there is no outcome. `lost` is the time at which
# the outcome was given up, or NaN; an outcome that came after that is kept, and is not used.
ROW = np.dtype(
    [
        ("id", np.int64),
        ("phase", np.int64),
        ("arm", np.int64),
        ("probability", float),
        ("asked", float),
        ("reward", float),
        ("told", float),
        ("late", bool),
        ("lost", float),
    ]
)
# What a summary is made of, and what its digest covers. Where the assignment was lost, `reward` and
# `told` are NaN, even if an outcome came later.
ANSWER = np.dtype(
    [("arm", "<i8"), ("reward", "<f8"), ("asked", "<f8"), ("told", "<f8"), ("lost", "<f8")]
)
Rows = NDArray[Any]
Ids = NDArray[np.int64]


def answers_of(rows: Rows) -> Rows:
    """The answers among rows."""
    lost = ~np.isnan(rows["lost"])
    answers = np.empty(len(rows), dtype=ANSWER)
    for name in ("arm", "asked", "lost"):
        answers[name] = rows[name]
    for name in ("reward", "told"):
        answers[name] = np.where(lost, np.nan, rows[name])
    return answers


@dataclass
class Head:
    """The counters of an experiment: what it takes to ask, to tell and to report the status.

    An assignment is settled once it has an outcome or is lost, and outstanding before that.

    Attributes:
        state: `"running"`, `"paused"`, `"stopped"` or `"finished"`.
        lease: the number of seconds an outcome may take, or None for no limit.
        assigned: the number of assignments, and the id of the next.
        outcomes: outcomes told in time.
        losses: assignments whose outcome was given up.
        late: outcomes told too late.
        refusals: assignments for which a reward outside the bounds was refused.
        lowest: the smallest reward told.
        highest: the largest reward told.
        phase: the open phase, or the last one.
        planned: whether a plan is open.
        open: whether that plan may be extended.
        provisional: whether it may close while outcomes are outstanding.
        pulls: the number of pulls it asks for.
        limit: the number of pulls it may be extended to, or None; less the outstanding assignments
            of earlier plans when it was made.
        first: the id of the phase's first assignment.
        phase_outcomes: outcomes told in time for the phase's assignments.
        phase_losses: losses among the phase's assignments.
        outstanding_before: outstanding assignments with ids below `first`.
        summary_end: every assignment with an id below this is part of a summary.
        arrivals: settled assignments that the last summary of their phase counts as outstanding.
        amendments: such assignments that were reported to the policy under the open plan.
        settled_end: every assignment with an id below this is settled.
        oldest: no outstanding assignment was asked for before this time.
        summaries: the number of summaries the policy was told.
        events: the number of events in the log.
        last_hash: the hash of the last event.
        requests_hash: the hash of all named requests.
        last_time: the latest time of a writing transaction.
        clock_setback: the largest number of seconds by which a later transaction's clock was
            behind that.
    """

    state: str = "running"
    lease: float | None = None
    assigned: int = 0
    outcomes: int = 0
    losses: int = 0
    late: int = 0
    refusals: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    phase: int = 0
    planned: bool = False
    open: bool = False
    provisional: bool = False
    pulls: int = 0
    limit: int | None = None
    first: int = 0
    phase_outcomes: int = 0
    phase_losses: int = 0
    outstanding_before: int = 0
    summary_end: int = 0
    arrivals: int = 0
    amendments: int = 0
    settled_end: int = 0
    oldest: float = math.inf
    summaries: int = 0
    events: int = 0
    last_hash: str = ""
    requests_hash: str = ""
    last_time: float = -math.inf
    clock_setback: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing more will be assigned or decided."""
        return self.state in {"stopped", "finished"}

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
        return remaining

    @property
    def outstanding(self) -> int:
        """The number of outstanding assignments of all plans that still matter."""
        return self.phase_assigned - self.phase_settled + self.outstanding_before

    def available(self, count: int) -> int:
        """How many of `count` more assignments the open plan allows."""
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
    def due(self) -> bool:
        """Whether the policy may have something to do: make a plan, or take a summary."""
        if self.over:
            return False
        if not self.planned or (self.summary_end < self.first and not self.outstanding_before):
            return True
        if self.provisional or self.arrivals:
            return self.amendable or self.closable
        if self.outstanding_before:
            return False
        if self.open:
            return self.settled_end - self.first >= self.pulls
        return self.phase_outcomes >= self.pulls

    @property
    def amendable(self) -> bool:
        """Whether enough outcomes have arrived to report them to the policy.

        That is as many as a plan asks for, or nearly all that were outstanding.
        """
        enough = min(self.pulls, _NEARLY_ALL * self.outstanding_before)
        return self.arrivals > 0 and self.arrivals >= enough

    @property
    def closable(self) -> bool:
        """Whether a provisional plan is assigned in full, and as many outcomes have come.

        Outcomes of any phase count: where they are slow, those of earlier phases are the news.
        """
        news = self.phase_settled + self.arrivals + self.amendments
        return self.provisional and min(self.phase_assigned, news) >= self.pulls


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """A plan, and the id of the first assignment drawn under it."""

    plan: Plan
    first: int


@dataclass(frozen=True, eq=False)
class SummaryRecord:
    """A summary as the policy was told it.

    A late summary of a provisional plan covers assignments that were outstanding when the plan
    closed: some of those with ids from `first` to `end`.

    Attributes:
        number: 0, 1, 2, … in the order told.
        phase: the phase under whose plan its pulls were drawn.
        first: the id of the first assignment it covers.
        end: the id after the last.
        late: whether their phase was closed before.
        summary: the totals.
        digest: of the answers it was made from.
    """

    number: int
    phase: int
    first: int
    end: int
    late: bool
    summary: Summary
    digest: str


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
    """An `ask` that has a name.

    Attributes:
        name: the name.
        count: the number of assignments asked for.
        first: the id of the first assignment it was given.
        size: how many it was given.
        phase: their phase.
        waiting: how many outcomes of the phase were outstanding, if it was given too few.
    """

    name: str
    count: int
    first: int
    size: int
    phase: int
    waiting: int


class Reading(Protocol):
    """A transaction that reads.

    Attributes:
        head: the counters. In a `Writing`, change them in place.
    """

    head: Head

    def now(self) -> float:
        """The time in seconds since 1970, by the one clock of all who share the ledger.

        For a database server that is the server's clock, read after a `Writing` got its turn.
        """
        ...

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase.

        Raises:
            DamagedStoreError: the phase has no plan (in memory: LookupError).
        """
        ...

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on, in order of phase."""
        ...

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on, in order of number."""
        ...

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The events from a number on, in order of number, at most `limit` of them."""
        ...

    def request(self, name: str) -> Request | None:
        """The request of exactly this name, or None."""
        ...

    def requests(self) -> Iterator[Request]:
        """All named requests, in the order made."""
        ...

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ROW, in order of id, in pieces.

        Ids that were never assigned are left out.
        """
        ...

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The same assignments as ANSWER, in pieces; quicker where all of them are settled.

        Raises:
            DamagedStoreError: an id was never assigned.
        """
        ...

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards of those of these assignments that have an outcome, late ones included."""
        ...

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments are lost."""
        ...

    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of `count` lost assignments of a phase, in the order of loss, from number
        `start` on; fewer where there are fewer."""
        ...

    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id from `start` up to `end`, or None."""
        ...

    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids from `start` up to `end` that were asked for by a time, in order."""
        ...

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for.

        Raises:
            DamagedStoreError: the id was never assigned.
        """
        ...

    def deferrals(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """The assignments that were outstanding when their phase closed, in order of id, in pieces,
        each with the number of the summary that covers it, or −1.

        Args:
            waiting: only those that no summary covers.
        """
        ...

    def arrivals(self) -> Ids:
        """Those of them that are settled and that no summary covers, in order of id."""
        ...


class Writing(Reading, Protocol):
    """A transaction that writes; the head is saved when it ends.

    What is added can be read in the same transaction.
    """

    def add_assignments(
        self, arms: Ids, probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on.

        Args:
            arms: one per assignment.
            probabilities: with which the arms were drawn.
            at: the time.
            request: the named request they are for, added along with them.

        Raises:
            StoreError: one of these ids is on record.
        """
        ...

    def add_outcomes(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; return the number added."""
        ...

    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Add losses, in this order.

        Raises:
            StoreError: one of these assignments is lost already.
        """
        ...

    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Add refused rewards, except where one is on record; return the number added."""
        ...

    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes.

        Raises:
            StoreError: this is on record for one of them.
        """
        ...

    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""
        ...

    def add_summary(self, record: SummaryRecord) -> None:
        """Add a summary; its number is the head's `summaries`."""
        ...

    def add_plan(self, record: PlanRecord) -> None:
        """Add a plan; its phase follows that of the plan before."""
        ...

    def add_event(self, event: Event) -> None:
        """Add an event; its number follows that of the event before."""
        ...


class Ledger(Protocol):
    """One experiment, wherever it is kept."""

    def reading(self) -> AbstractContextManager[Reading]:
        """A transaction that sees one state.

        Raises:
            StoreUnavailableError: the database cannot be reached, or its file was replaced.
        """
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """A transaction that waits for its turn; after an exception nothing of it remains.

        Raises:
            StoreUnavailableError: the database cannot be reached or written to, its file was
                replaced, or other writers did not finish in time.
        """
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...
