"""The counters of an experiment, and what follows from them alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from bestarm.live.values import Status

_NEARLY_ALL = 16  # arrived outcomes for each that is outstanding


class Stage(Enum):
    """What an experiment can be in."""

    OPEN = "assignments are made under the plan"
    WAITING = "the plan allows no more assignments until outcomes come, or the experiment is paused"
    REPORTING = "the policy is to be told a summary, and assignments are made meanwhile"
    CLOSING = "the policy is to be told a summary before more assignments are made"
    PLANNING = "the policy is to make a plan"
    OVER = "nothing more is assigned or decided"

    @property
    def is_pending(self) -> bool:
        """Whether a step is pending: the policy has to make a plan or to be told a summary."""
        return self in _PENDING


_PENDING = {Stage.REPORTING, Stage.CLOSING, Stage.PLANNING}


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
    archived: bool = False  # whether lists leave it out
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
    requests: int = 0  # asks that have a name
    units: int = 0  # rounds of which something is known
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

    def is_overdue(self, now: float) -> bool:
        """Whether the lease or the window of an outstanding assignment may have ended."""
        limit = self.lease if self.window is None else self.window
        return limit is not None and self.oldest + limit <= now and not self.over

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
        if min(ids, default=self.assigned) >= max(self.first, self.summary_end):  # as most are
            return len(ids)
        before = sum(number < self.first for number in ids)
        self.outstanding_before -= before
        self.arrivals += sum(number < self.summary_end for number in ids)
        return len(ids) - before

    @property
    def is_blocked(self) -> bool:
        """Whether the phase has enough outcomes to close, unless one before them is outstanding."""
        if not self.open or self.provisional or self.outstanding_before:
            return False
        return self.phase_outcomes + self.phase_losses >= self.pulls

    def available(self, count: int) -> int:
        """How many of `count` more assignments the open plan allows, in whole rounds."""
        if not self.planned or self.is_changed or self.state != "running":
            return 0
        assigned = self.assigned - self.first
        if not self.open:
            count = min(count, max(0, self.pulls + self.phase_losses - assigned))
        elif self.limit is not None:
            # Whether the plan's own pulls are needed is known once those of earlier plans are
            # settled.
            exact = self.provisional or self.summary_end < self.first
            limit = self.limit if exact else max(self.limit, self.pulls)
            count = min(count, max(0, limit - assigned))
        return count // self.size * self.size

    @property
    def stage(self) -> Stage:
        """What the experiment is in, by its counters alone."""
        if self.over:
            return Stage.OVER
        if not self.planned:
            return Stage.PLANNING
        # A provisional plan closes when it is assigned in full and as many outcomes have come, of
        # any phase: where they are slow, those of earlier phases are the news.
        news = self.phase_outcomes + self.phase_losses + self.arrivals + self.amendments
        full = self.provisional and min(self.assigned - self.first, news) >= self.pulls
        if self.summary_end < self.first and not self.outstanding_before:
            pending = True
        elif self.is_changed:  # a closed plan waits for the outcomes of what was assigned
            pending = self.open or not self.outstanding
        elif self.provisional or self.arrivals:
            # Enough have arrived to report them to the policy: as many as a plan asks for, or
            # nearly all that were outstanding.
            enough = min(self.pulls, _NEARLY_ALL * self.outstanding_before)
            pending = full or (self.arrivals > 0 and self.arrivals >= enough)
        else:
            ready = self.settled_end - self.first if self.open else self.phase_outcomes
            pending = not self.outstanding_before and ready >= self.pulls
        if pending:
            return Stage.CLOSING if full or self.is_changed else Stage.REPORTING
        return Stage.OPEN if self.available(self.size) else Stage.WAITING
