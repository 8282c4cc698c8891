"""The rules by which an experiment advances, the same for every ledger.

Each function is one step inside a transaction. A process that is killed between two steps leaves
the ledger consistent, and whoever comes next continues from there.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from bestarm.errors import ClockError, InvalidInputError
from bestarm.live import summaries
from bestarm.live.events import log, next_event, plan_data, recommendation_data, summary_data
from bestarm.live.replay import Player, tell
from bestarm.live.store.contract import (
    Event,
    Head,
    Ids,
    PlanRecord,
    Reading,
    Rows,
    SummaryRecord,
    Writing,
    answers_of,
)
from bestarm.policies.policy import Policy
from bestarm.records import BlockPlan, Plan

_DAY = 86_400.0
_YEAR = 365 * _DAY


def begin(at: float, *, lease: float | None, **data: object) -> tuple[Head, Event]:
    """The counters of a new experiment, and the first event of its log.

    The event holds the seed, and its hash may be read by those who must not know the seed: with a
    salt that they cannot read either, trying all seeds does not reveal it.
    """
    head = Head(lease=lease, last_time=at)
    maker = {"version": version("bestarm"), "salt": secrets.token_hex(16)}
    return head, next_event(head, "created", at, lease=lease, **maker, **data)


def stamp(head: Head, now: float, *, leaps: bool) -> float:
    """Note the time of a transaction, and by how much the clock was set back since the last.

    Unless it may leap, all outstanding outcomes are not given up because it is wrong by years.

    Raises:
        ClockError: the last transaction was more than a year and a lease ago.
    """
    ahead = now - head.last_time
    if not (leaps or head.lease is None or head.over or ahead <= _YEAR + head.lease):
        raise ClockError(
            f"The clock is {ahead / _DAY:.0f} days ahead of the last recorded time: by it, all "
            "outstanding outcomes would be lost.",
            field="clock",
            value=now,
            remedy="Set the clock. If it is right, pause and resume the experiment, and continue.",
        )
    if ahead < 0:
        head.clock_setback = max(head.clock_setback, -ahead)
    head.last_time = max(head.last_time, now)
    return now


def overdue(head: Head, now: float) -> bool:
    """Whether an outcome may be overdue."""
    return not head.over and head.lease is not None and head.oldest + head.lease <= now


def expire(tx: Writing, now: float) -> None:
    """Give up the outcomes that are overdue."""
    head = tx.head
    if not overdue(head, now):
        return
    find_settled(tx)
    head.oldest = _oldest(tx)
    if overdue(head, now):
        assert head.lease is not None
        ids = tx.outstanding(head.settled_end, head.assigned, asked_by=now - head.lease)
        lose(tx, ids, reason="expired", at=now)


def _oldest(tx: Writing) -> float:
    """A time before which no outstanding assignment was asked for."""
    head = tx.head
    if head.settled_end == head.assigned:
        return math.inf
    if not head.clock_setback:
        return tx.asked_at(head.settled_end)
    # The clock was set back, so that the times are not in order of id.
    oldest = math.inf
    for rows in tx.rows(head.settled_end, head.assigned):
        outstanding = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        oldest = min(oldest, rows["asked"][outstanding].min(initial=math.inf))
    return oldest


def lose(tx: Writing, ids: Ids, *, reason: str, at: float) -> None:
    """Give up the outcomes of outstanding assignments."""
    head = tx.head
    lost = ids.tolist()
    tx.add_losses(lost, reason=reason, at=at)
    head.losses += len(lost)
    head.phase_losses += head.settle(lost)
    find_settled(tx)


def find_settled(tx: Writing) -> None:
    """Move `settled_end` to the first outstanding assignment."""
    head = tx.head
    found = tx.first_outstanding(head.settled_end, head.assigned)
    head.settled_end = head.assigned if found is None else found


def waits_for(books: Reading) -> tuple[int | None, float | None]:
    """The assignment whose outcome holds up the decision, and when it was asked for.

    It does once as many outcomes have come as the plan asks for, and one before them has not.
    """
    head = books.head
    enough = head.outstanding_before or head.phase_settled >= head.pulls
    if not head.waits or head.over or not head.planned or head.due or not enough:
        return None, None
    found = books.first_outstanding(head.settled_end, head.assigned)
    return (None, None) if found is None else (found, books.asked_at(found))


def change_state(tx: Writing, kind: str, at: float, **data: Any) -> None:
    """Pause, resume or stop an experiment, unless it is already paused, running or stopped.

    The event is `"paused"`, `"resumed"` or `"stopped"`.

    Raises:
        InvalidInputError: the experiment is over.
    """
    head, goal = tx.head, "running" if kind == "resumed" else kind
    if head.state == goal:
        return
    _check_running(head, kind)
    head.state = goal
    if kind == "stopped":
        data |= summaries.rest_data(tx)
    log(tx, kind, at, **data)


def _check_running(head: Head, verb: str) -> None:
    if head.over:
        wrong = f"An experiment that is {head.state} cannot be {verb}."
        raise InvalidInputError(wrong, field="state", value=head.state)


def change_lease(tx: Writing, lease: float | None, at: float) -> None:
    """Set how long outcomes may take.

    Raises:
        InvalidInputError: the experiment is over.
    """
    head = tx.head
    _check_running(head, "given another lease")
    if lease != head.lease:
        log(tx, "changed", at, lease=lease, before=head.lease)
        head.lease = lease


def step(tx: Writing, player: Player, at: float) -> None:
    """Do the next thing that is due: make a plan, or tell the policy a summary."""
    head = tx.head
    due = _Step(tx, player, player.policy(tx), at)
    if not head.planned:
        due.open(player.plan())
    elif head.arrivals:
        due.amend()
    elif head.summary_end < head.first and not head.provisional:
        # Drawn under the plan before, beyond what it asked for, and all settled by now.
        due.summarise(head.first, phase=head.phase - 1, late=True)
        if due.policy.plan() is None:
            due.finish()
    else:
        head.planned = False
        end = head.assigned
        if head.waits:  # whole rounds
            end = head.settled_end - (head.settled_end - head.first) % head.size
        due.summarise(end, phase=head.phase, late=False)


@dataclass(frozen=True)
class _Step:
    """One step of an experiment: a transaction, the policy in it, and the time."""

    tx: Writing
    player: Player
    policy: Policy
    at: float

    def open(self, plan: Plan | None) -> None:
        if plan is None:
            self.finish()
            return
        head = self.tx.head
        head.outstanding_before += head.phase_assigned - head.phase_settled
        head.phase, head.first, head.planned = plan.phase, head.assigned, True
        head.open, head.provisional = plan.open, plan.provisional
        head.pulls, head.size = plan.pulls, plan.size
        # The plan does not know of the assignments that no summary covers yet.
        unknown = head.first - head.summary_end
        head.limit = None if plan.most is None else max(0, plan.most - unknown)
        head.phase_outcomes = head.phase_losses = head.amendments = 0
        record = PlanRecord(plan, head.first, head.rounds)
        self.tx.add_plan(record)
        log(self.tx, "planned", self.at, **plan_data(record))

    def finish(self) -> None:
        """The policy has stopped."""
        self.tx.head.state, self.tx.head.planned = "finished", False
        said = recommendation_data(self.policy.recommend())
        log(self.tx, "finished", self.at, **said, **summaries.rest_data(self.tx))

    def summarise(self, end: int, *, phase: int, late: bool) -> None:
        """Tell the policy the outcomes up to an id.

        Under a provisional plan some may be outstanding; they follow in a later summary.
        """
        tx, first = self.tx, self.tx.head.summary_end
        plan, pending = tx.plan(phase).plan, None
        if plan.provisional and tx.head.outstanding:
            pending = tx.outstanding(first, end)
            if pending.size:
                tx.add_deferrals(pending)
        totals = summaries.total(tx.answers(first, end), plan, first=first, pending=pending)
        tx.head.summary_end = end
        self._tell(SummaryRecord(tx.head.summaries, phase, first, end, late, *totals))

    def amend(self) -> None:
        """Tell the policy the outcomes that arrived since their phase closed, phase by phase."""
        tx, head = self.tx, self.tx.head
        rows = tx.rows_of(tx.arrivals())
        head.arrivals = 0
        head.amendments += len(rows)
        for phase in np.unique(rows["phase"]).tolist():
            part = rows[rows["phase"] == phase]
            tx.settle_deferrals(part["id"], summary=head.summaries)
            self._tell(self._amendment(phase, part), came=len(part))
            if self.policy.plan() is None:
                # The policy decides without the rest and is not told of it.
                head.arrivals = int((rows["phase"] > phase).sum())
                head.amendments -= head.arrivals
                self.finish()
                return

    def _amendment(self, phase: int, arrived: Rows) -> SummaryRecord:
        """The summary of outcomes that were outstanding; of rounds, all of the phase once more."""
        tx, plan = self.tx, self.tx.plan(phase).plan
        first, end = int(arrived["id"][0]), int(arrived["id"][-1]) + 1
        pieces, pending = iter([answers_of(arrived)]), None
        if isinstance(plan, BlockPlan):
            first, end = tx.plan(phase).first, tx.plan(phase + 1).first
            pieces, pending = tx.answers(first, end), tx.deferrals(first, end, waiting=True)[0]
        totals = summaries.total(pieces, plan, first=first, pending=pending)
        return SummaryRecord(tx.head.summaries, phase, first, end, True, *totals)

    def _tell(self, record: SummaryRecord, *, came: int | None = None) -> None:
        """Tell the policy a summary, of so many assignments, and record it."""
        tx, policy = self.tx, self.policy
        active = policy.recommend().active
        tell(policy, record)
        tx.add_summary(record)
        tx.head.summaries += 1
        if record.plain is not None:
            tx.head.spread += summaries.spread_of(record.plain)
            tx.head.spread_left += summaries.spread_of(record.summary)
        self.player.told(record)
        drawn = int(record.summary.drawn.sum()) if came is None else came
        data = {"drawn": drawn, **summaries.request_data(tx.head)}
        kind = "answered" if record.late else "closed"
        log(tx, kind, self.at, **summary_data(record), **data)
        dropped = sorted(set(active) - set(policy.recommend().active))
        if dropped:
            labels = [policy.problem.target_labels[target] for target in dropped]
            log(tx, "eliminated", self.at, phase=record.phase, targets=dropped, labels=labels)
