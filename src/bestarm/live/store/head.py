"""The counters of an experiment, and what follows from them without reading anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_NEARLY_ALL = 16  # arrived outcomes for each that is outstanding


class Limits(NamedTuple):
    """How long an outcome may take; `Head` says what each means."""

    lease: float | None = None
    window: float | None = None
    otherwise: float | None = None


@dataclass
class Head:
    """The counters of an experiment: what it takes to ask, to tell and to report the status.

    An assignment is settled once it has an outcome or is lost, and outstanding before that.

    Attributes:
        state: `"running"`, `"paused"`, `"stopped"` or `"finished"`.
        lease: the number of seconds an outcome may take, or None for no limit.
        window: the number of seconds after which an outcome enters, or None if it does when told.
        otherwise: the outcome where nothing is told within the window.
        assigned: the number of assignments, and the id of the next.
        outcomes: outcomes told in time; where there is a window, those whose window has ended.
        reports: reports of outcomes that have a window.
        early: outstanding assignments with a report.
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
        size: the number of assignments in each of its rounds.
        rounds: the number of rounds of all phases, and the number of the next.
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
        covariates_hash: the hash of all covariates.
        reports_hash: the hash of all reports.
        last_time: the latest time of a writing transaction.
        clock_setback: the largest number of seconds by which a later transaction's clock was
            behind that.
        spread: where there are forecasts, the squared deviations of outcomes from the mean of their
            arm within a summary, added up over all summaries.
        spread_left: the same of outcomes less their forecasts.
    """

    state: str = "running"
    lease: float | None = None
    window: float | None = None
    otherwise: float | None = None
    assigned: int = 0
    outcomes: int = 0
    reports: int = 0
    early: int = 0
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
    size: int = 1
    rounds: int = 0
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
    covariates_hash: str = ""
    reports_hash: str = ""
    last_time: float = -math.inf
    clock_setback: float = 0.0
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
    def held_up(self) -> bool:
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
    def due(self) -> bool:
        """Whether the policy may have something to do: make a plan, or take a summary."""
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
