"""The rules by which an experiment advances, the same for every ledger.

Each function is one step inside a transaction. A process that is killed between two steps leaves
the ledger consistent, and whoever comes next continues from there.
"""

from __future__ import annotations

import math
import secrets
from importlib.metadata import version
from typing import Any

import numpy as np

from bestarm.checks import duration, finite
from bestarm.errors import ClockError, InvalidInputError
from bestarm.live import summaries
from bestarm.live.events import digest, log, plan_data, recommendation_data, record, summary_data
from bestarm.live.replay import Player, tell
from bestarm.live.store.contract import (
    Event,
    Head,
    PlanRecord,
    Reading,
    SummaryRecord,
    Writing,
    answers_of,
)
from bestarm.policies.policy import Policy
from bestarm.records import Plan

__all__ = [
    "begin",
    "change_lease",
    "change_state",
    "check_leap",
    "expire",
    "find_settled",
    "lose",
    "overdue",
    "stamp",
    "step",
    "waits_for",
]

_DAY = 86_400.0
_YEAR = 365 * _DAY


def begin(at: float, *, lease: float | str | None, **data: object) -> tuple[Head, Event]:
    """The counters of a new experiment, and the first event of its log.

    The event holds the seed, and its hash may be read by those who must not know the seed: with a
    salt that they cannot read either, trying all seeds does not reveal it.
    """
    head = Head(lease=None if lease is None else duration(lease, "lease"), last_time=at)
    maker = {"version": version("bestarm"), "salt": secrets.token_hex(16)}
    return head, record(head, "created", at, lease=head.lease, **maker, **data)


def stamp(head: Head, now: float) -> float:
    """Note the time of a transaction, and by how much the clock was set back since the last."""
    now = finite(now, "clock")
    if now < head.last_time:
        head.clock_setback = max(head.clock_setback, head.last_time - now)
    head.last_time = max(head.last_time, now)
    return now


def check_leap(head: Head, now: float) -> None:
    """Refuse to give up all outstanding outcomes because a clock was set wrong by years.

    Raises:
        ClockError: the last transaction was more than a year and a lease ago.
    """
    ahead = now - head.last_time
    if head.lease is None or head.over or ahead <= _YEAR + head.lease:
        return
    raise ClockError(
        f"The clock is {ahead / _DAY:.0f} days ahead of the last recorded time: by it, all "
        "outstanding outcomes would be lost.",
        field="clock",
        value=now,
        remedy="Set the clock. If it is right, pause and resume the experiment, and continue.",
    )


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
        lose(tx, ids.tolist(), reason="expired", at=now)


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


def lose(tx: Writing, ids: list[int], *, reason: str, at: float) -> None:
    """Give up the outcomes of outstanding assignments."""
    head = tx.head
    tx.add_losses(ids, reason=reason, at=at)
    before = sum(number < head.first for number in ids)
    head.losses += len(ids)
    head.phase_losses += len(ids) - before
    head.outstanding_before -= before
    head.arrivals += sum(number < head.summary_end for number in ids)
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


def change_state(tx: Writing, kind: str, states: tuple[str, ...], at: float, **data: Any) -> None:
    """Pause, resume or stop an experiment.

    Args:
        tx: a transaction.
        kind: the event: `"paused"`, `"resumed"` or `"stopped"`.
        states: in which it may happen.
        at: the time.
        data: what else the event says.

    Raises:
        InvalidInputError: the experiment is in another state.
    """
    head = tx.head
    if head.state not in states:
        raise InvalidInputError(
            f"An experiment that is {head.state} cannot be {kind}.",
            field="state",
            value=head.state,
        )
    head.state = "running" if kind == "resumed" else kind
    if kind == "stopped":
        data |= summaries.rest_data(tx)
    log(tx, kind, at, **data)


def change_lease(tx: Writing, lease: float | None, at: float) -> None:
    """Set how long outcomes may take.

    Raises:
        InvalidInputError: the experiment is over.
    """
    head = tx.head
    if head.over:
        raise InvalidInputError(
            f"The lease of an experiment that is {head.state} cannot be changed.",
            field="state",
            value=head.state,
        )
    if lease != head.lease:
        log(tx, "changed", at, lease=lease, before=head.lease)
        head.lease = lease


def step(tx: Writing, player: Player, at: float) -> None:
    """Do the next thing that is due: make a plan, or tell the policy a summary."""
    head = tx.head
    policy = player.policy(tx)
    if not head.planned:
        _open(tx, policy, player.plan(), at)
    elif head.arrivals:
        _amend(tx, player, policy, at)
    elif head.provisional:
        _close(tx, player, policy, head.assigned, at)
    elif head.summary_end < head.first:
        # Drawn under the plan before, beyond what it asked for, and all settled by now.
        phase = head.phase - 1
        _summarise(tx, player, policy, head.first, phase=phase, late=True, at=at)
        if policy.plan() is None:
            _finish(tx, policy, at)
    else:
        _close(tx, player, policy, head.settled_end if head.open else head.assigned, at)


def _open(tx: Writing, policy: Policy, plan: Plan | None, at: float) -> None:
    head = tx.head
    if plan is None:
        _finish(tx, policy, at)
        return
    head.outstanding_before += head.phase_assigned - head.phase_settled
    head.phase, head.first, head.planned = plan.phase, head.assigned, True
    head.open, head.provisional, head.pulls = plan.open, plan.provisional, plan.pulls
    # The plan does not know of the assignments that no summary covers yet.
    unknown = head.first - head.summary_end
    head.limit = None if plan.most is None else max(0, plan.most - unknown)
    head.phase_outcomes = head.phase_losses = head.amendments = 0
    tx.add_plan(PlanRecord(plan, head.first))
    data = plan_data(plan)
    log(tx, "planned", at, phase=plan.phase, pulls=plan.pulls, first=head.first, plan=digest(data))


def _finish(tx: Writing, policy: Policy, at: float) -> None:
    """The policy has stopped."""
    tx.head.state, tx.head.planned = "finished", False
    log(tx, "finished", at, **recommendation_data(policy.recommend()), **summaries.rest_data(tx))


def _close(tx: Writing, player: Player, policy: Policy, end: int, at: float) -> None:
    """Close the phase: tell the policy of its assignments up to an id.

    Under a provisional plan some may be outstanding; they follow in a later summary.
    """
    tx.head.planned = False
    _summarise(tx, player, policy, end, phase=tx.head.phase, late=False, at=at)


def _summarise(
    tx: Writing, player: Player, policy: Policy, end: int, *, phase: int, late: bool, at: float
) -> None:
    """Tell the policy the outcomes up to an id."""
    head = tx.head
    first, plan, pending = head.summary_end, tx.plan(phase).plan, None
    if plan.provisional and head.outstanding:
        pending = tx.outstanding(first, end)
        if pending.size:
            tx.add_deferrals(pending)
    summary, rows = summaries.total(
        tx.answers(first, end), plan=plan, arms=policy.problem.arms, first=first, pending=pending
    )
    head.summary_end = end
    _tell(
        tx,
        player,
        policy,
        SummaryRecord(head.summaries, phase, first, end, late, summary, rows),
        at,
    )


def _amend(tx: Writing, player: Player, policy: Policy, at: float) -> None:
    """Tell the policy the outcomes that have arrived since their phase closed, phase by phase."""
    head = tx.head
    rows = tx.rows_of(tx.arrivals())
    head.arrivals = 0
    head.amendments += len(rows)
    for phase in np.unique(rows["phase"]).tolist():
        part = rows[rows["phase"] == phase]
        plan, arms = tx.plan(phase).plan, policy.problem.arms
        summary, digested = summaries.total([answers_of(part)], plan=plan, arms=arms)
        first, end = int(part["id"][0]), int(part["id"][-1]) + 1
        told = SummaryRecord(head.summaries, phase, first, end, True, summary, digested)
        tx.settle_deferrals(part["id"], summary=told.number)
        _tell(tx, player, policy, told, at)
        if policy.plan() is None:
            # The policy decides without the rest and is not told of it.
            head.arrivals = int((rows["phase"] > phase).sum())
            head.amendments -= head.arrivals
            _finish(tx, policy, at)
            return


def _tell(tx: Writing, player: Player, policy: Policy, told: SummaryRecord, at: float) -> None:
    """Tell the policy a summary, and record it."""
    head, problem = tx.head, policy.problem
    active = policy.recommend().active
    tell(policy, told.summary, phase=told.phase, late=told.late)
    tx.add_summary(told)
    head.summaries += 1
    player.told(told)
    log(
        tx,
        "answered" if told.late else "closed",
        at,
        phase=told.phase,
        first=told.first,
        end=told.end,
        drawn=int(told.summary.drawn.sum()),
        summary=digest(summary_data(told.summary)),
        rows=told.digest,
        requests=head.requests_hash,
    )
    dropped = sorted(set(active) - set(policy.recommend().active))
    if dropped:
        labels = [problem.target_labels[target] for target in dropped]
        log(tx, "eliminated", at, phase=told.phase, targets=dropped, labels=labels)
