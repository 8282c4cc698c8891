"""The transitions of an experiment, the same for every ledger: what its transactions do.

A process that is killed between two transactions leaves the ledger consistent, and whoever comes
next continues from there. What the policy computes is computed before a transaction: `prepare`
makes a step from a snapshot, and `apply` records it if no other step was taken since.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bestarm import __version__
from bestarm.checks import vector
from bestarm.errors import (
    ClockError,
    ConflictingOutcomeError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.live import events, guarding, serving, summaries
from bestarm.live.draws import seed_data
from bestarm.live.events import log
from bestarm.live.guarding import Finding, GuardrailReplayer, Value
from bestarm.live.inputs import conflict
from bestarm.live.options import Options, read_reason
from bestarm.live.replay import PolicyReplayer, tell
from bestarm.live.store.contract import (
    Change,
    Event,
    GuardrailValue,
    Head,
    Ids,
    PlanRecord,
    Report,
    Rows,
    Snapshot,
    SummaryRecord,
    Transaction,
    answers_of,
    damaged,
    is_outstanding,
)
from bestarm.live.store.head import TimeLimits
from bestarm.live.units import AskedRounds
from bestarm.live.values import Receipt
from bestarm.policies.guardrail import Guardrail
from bestarm.policies.policy import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan, Plan

_DAY = 86_400.0
_YEAR = 365 * _DAY
_PIECE = 1000  # assignments looked through at a time


def begin(
    at: float, limits: TimeLimits, *, seed: int, document: str | None = None, **data: object
) -> tuple[Head, Event]:
    """The counters of a new experiment, and the first event of its log.

    The event holds the seed, and so does the document, of which it holds a digest. The hash of the
    event may be read by those who must not know the seed: with a salt that they cannot read either,
    trying seeds does not reveal it.
    """
    known, salt = limits._asdict(), secrets.token_hex(16)
    head = Head(**known, last_time=at)
    data |= {"version": __version__, "salt": salt, "seed": seed_data(seed)}
    if document is not None:
        data["document"] = events.salted(salt, document)
    return head, events.next_event(head, "created", at, **known, **data)


def stamp(head: Head, now: float, *, leaps: bool) -> float:
    """Note the time of a transaction, and by how much the clock was set back since the last.

    Unless it may leap, all outstanding outcomes are not settled because it is wrong by years.

    Raises:
        ClockError: the last transaction was more than a year and a lease or a window ago.
    """
    ahead, limit = now - head.last_time, head.time_limit
    if not (leaps or limit is None or head.over or ahead <= _YEAR + limit):
        lost = "be lost" if head.window is None else "have come to the end of their window"
        raise ClockError(
            f"The clock is {ahead / _DAY:.0f} days ahead of the last recorded time: by it, all "
            f"outstanding outcomes would {lost}.",
            field="clock",
            value=now,
            remedy="Set the clock. If it is right, pause and resume the experiment, and continue.",
        )
    if ahead < 0:
        head.clock_setback = max(head.clock_setback, -ahead)
    head.last_time = max(head.last_time, now)
    return now


def overdue(head: Head, now: float) -> bool:
    """Whether the lease or the window of an outstanding assignment may have ended."""
    limit = head.time_limit
    return not head.over and limit is not None and head.oldest + limit <= now


def expire(tx: Transaction, now: float) -> bool:
    """Settle the assignments whose lease or window has ended; return whether there were any."""
    head = tx.head
    if not overdue(head, now):
        return False
    _find_settled(tx)
    head.oldest = _oldest(tx)
    if not overdue(head, now):
        return False
    assert head.time_limit is not None
    ids = _outstanding_since(tx, now - head.time_limit)
    if head.window is None:
        _lose(tx, ids, reason="expired", at=now)
    elif ids.size:
        _end_windows(tx, ids.tolist(), now)
        _find_settled(tx)
        head.oldest = _oldest(tx)
    return bool(ids.size)


def _outstanding_since(tx: Transaction, time: float) -> Ids:
    """The outstanding ids that were asked for by a time."""
    head = tx.head
    if head.clock_setback:
        return tx.outstanding(head.settled_end, head.assigned, asked_by=time)
    found, first = [np.empty(0, dtype=np.int64)], head.settled_end
    # Times are in order of id, and most assignments may be younger.
    while first < head.assigned and tx.asked_at(first) <= time:
        end = min(first + _PIECE, head.assigned)
        found.append(tx.outstanding(first, end, asked_by=time))
        first = end
    return np.concatenate(found)


def _oldest(tx: Transaction) -> float:
    """A time before which no outstanding assignment was asked for."""
    head = tx.head
    if head.settled_end == head.assigned:
        return math.inf
    if not head.clock_setback:
        return tx.asked_at(head.settled_end)
    # The clock was set back, so that the times are not in order of id.
    oldest = math.inf
    for rows in tx.rows(head.settled_end, head.assigned):
        oldest = min(oldest, rows["asked"][is_outstanding(rows)].min(initial=math.inf))
    return oldest


def _lose(tx: Transaction, ids: Ids, *, reason: str, at: float) -> None:
    """Give up the outcomes of outstanding assignments."""
    head, lost = tx.head, ids.tolist()
    tx.add_losses(lost, reason=reason, at=at)
    head.losses += len(lost)
    head.phase_losses += head.settle(lost)
    _find_settled(tx)


def _find_settled(tx: Transaction) -> None:
    """Move `settled_end` to the first outstanding assignment."""
    head = tx.head
    found = tx.first_outstanding(head.settled_end, head.assigned)
    head.settled_end = head.assigned if found is None else found


def waits_for(snapshot: Snapshot) -> tuple[int | None, float | None]:
    """The assignment whose outcome holds up the decision, and when it was asked for.

    It does once as many outcomes have come as the plan asks for, and one before them has not.
    """
    head = snapshot.head
    enough = head.outstanding_before or head.phase_settled >= head.pulls
    if not head.waits or head.over or not head.planned or head.has_pending_step or not enough:
        return None, None
    found = snapshot.first_outstanding(head.settled_end, head.assigned)
    return (None, None) if found is None else (found, snapshot.asked_at(found))


def change_state(tx: Transaction, kind: str, at: float, **data: Any) -> None:
    """Pause, resume or stop an experiment, unless it is already paused, running or stopped.

    The event is `"paused"`, `"resumed"` or `"stopped"`.
    """
    head, goal = tx.head, "running" if kind == "resumed" else kind
    if head.state == goal:
        return
    _check_not_over(head, kind)
    head.state = goal
    if kind == "stopped":
        data |= events.rest_data(tx)
    log(tx, kind, at, **data)


def _check_not_over(head: Head, verb: str) -> None:
    if head.over:
        wrong = f"An experiment that is {head.state} cannot be {verb}."
        remedy = "Create another experiment to go on."
        raise InvalidInputError(wrong, field="state", value=head.state, remedy=remedy)


def change_lease(tx: Transaction, lease: float | None, at: float) -> None:
    """Set how long outcomes may take."""
    head = tx.head
    _check_not_over(head, "given another lease")
    if head.window is not None:
        message = "The outcomes of this experiment have a window, and none takes longer."
        remedy = "A window is settled at creation: what comes early depends on its length."
        raise InvalidInputError(message, field="lease", value=lease, remedy=remedy)
    if lease != head.lease:
        log(tx, "changed", at, lease=lease, before=head.lease)
        head.lease = lease


# --- options ------------------------------------------------------------------------------------


def retire(
    tx: Transaction, options: Options, label: object, reason: object, at: float, by: str = "hand"
) -> Options:
    """Retire an option for good: nothing more is drawn of it from this transaction on.

    To repeat it with the same reason is harmless.

    Args:
        tx: the transaction.
        options: the options as they are, before anything is changed.
        label: the option.
        reason: why, in words.
        at: the time.
        by: what retires it, if nobody did.

    Returns:
        The options as they are then.
    """
    why = read_reason(reason)
    if options.knows("retired", label, reason=why):
        return options
    _check_not_over(tx.head, "changed")
    name = options.problem.target_labels[options.check_retirable(label)]
    return _change_options(tx, options, "retired", name, at, reason=why, made_by=by)


def add(tx: Transaction, options: Options, label: object, features: object, at: float) -> Options:
    """Add an option: see `Experiment.add`. Returns the options as they are then."""
    row = None if features is None else tuple(vector(features, "features").tolist())
    if options.knows("added", label, features=row):
        return options
    _check_not_over(tx.head, "changed")
    row = options.check_addable(label, row)
    return _change_options(tx, options, "added", str(label), at, features=row)


def _change_options(
    tx: Transaction, options: Options, kind: str, label: str, at: float, **data: Any
) -> Options:
    """Record a change. The open phase closes with what was assigned so far: see `prepare`."""
    head = tx.head
    known = {"reason": "", "features": None, "made_by": "hand"} | data
    change = Change(head.changes, head.phase, kind, label, **known, at=at)
    after = options.after(change)
    events.add_chained(tx, change)
    head.changes += 1
    head.options += 1 if kind == "added" else -1  # until the policy says how many are left
    if head.waits:
        _find_settled(tx)
    log(tx, kind, at, **events.change_data(change, head))
    return after


# --- units ---------------------------------------------------------------------------------------


def record_unavailable(
    tx: Transaction, asked: AskedRounds, places: Sequence[int], at: float
) -> None:
    """Record that units are not available at decision points, unless the experiment is over."""
    if not tx.head.over:
        asked.record(tx, places)
        data = {"count": len(places), "assigned": tx.head.assigned}
        log(tx, "unavailable", at, **data, **events.request_data(tx.head))


# --- outcomes -----------------------------------------------------------------------------------

Outcomes = tuple[Sequence[int], Sequence[float]]  # ids, each once, and a reward for each


def record_told(
    tx: Transaction,
    outcomes: Outcomes,
    values: Sequence[Value],
    *,
    bounds: tuple[float, float] | None,
    guardrails: Sequence[Guardrail],
    now: float,
    served: int = 0,
) -> Receipt:
    """Record outcomes and values of guardrails, all or none: see `Experiment.tell_many`.

    Those of `served` more assignments, which were made after the end, are not recorded.
    """
    serving.check_served(tx.head, served)
    new = _check_values(tx, values, guardrails, now) if values else []
    receipt = replace(record_outcomes(tx, outcomes, bounds=bounds, now=now), served=served)
    if not new:
        return receipt
    events.add_chained(tx, *new)
    tx.head.values += len(new)
    return replace(receipt, values=len(new))


def _check_values(
    tx: Transaction, values: Sequence[Value], guardrails: Sequence[Guardrail], now: float
) -> list[GuardrailValue]:
    """The values that are new. Those outside their bounds are refused, and counted."""
    wrong = guarding.outside(values, guardrails)
    _check_assigned([number for number, _, _ in wrong or values], tx.head)
    if not wrong:
        return guarding.new_values(tx, values, guardrails, now)
    first: dict[int, float] = {}
    for number, _, value in wrong:
        first.setdefault(number, value)
    columns = np.array(list(first)), np.array(list(first.values()))
    tx.head.refused_values += tx.add_refusals(*columns, at=now)
    number, name, value = wrong[0]
    low, high = next(each.bounds for each in guardrails if each.name == name)
    raise InvalidInputError(
        f"`{name}` must lie between {low:g} and {high:g}; got {value:g}.",
        field=name,
        value=value,
        remedy="What is promised of a guardrail rests on its bounds.",
        about=number,
    )


def record_outcomes(
    tx: Transaction, outcomes: Outcomes, *, bounds: tuple[float, float] | None, now: float
) -> Receipt:
    """Record outcomes, or reports of those that have a window: see `Experiment.tell_many`.

    Rewards outside the bounds are refused, and counted once per assignment.
    """
    ids, rewards = outcomes
    head = tx.head
    expire(tx, now)
    _check_bounds(tx, ids, rewards, bounds, now)
    _check_assigned(ids, head)
    if head.window is not None:
        return _record_reports(tx, ids, rewards, now)
    known, lost = tx.settlements(ids)
    new: dict[int, float] = {}
    for number, reward in zip(ids, rewards, strict=True):
        before = known.get(number)
        if before is None:
            new[number] = reward
        elif before != reward:
            raise conflict(number, before, reward)
    lost &= new.keys()
    if new:
        head.last_told = max(head.last_told, now)
    late = set(new) if head.over else lost
    receipt = Receipt(len(new), len(ids) - len(new), len(late))
    if new:
        _add_outcomes(tx, new, now, late=late, lost=lost)
    if late:
        data = events.late_data(np.array([*late]), np.array([new[each] for each in late]))
        log(tx, "late", now, **data)
    return receipt


def _add_outcomes(
    tx: Transaction,
    new: dict[int, float],
    now: float,
    *,
    late: Set[int] = frozenset(),
    lost: Set[int] = frozenset(),
) -> None:
    """Add outcomes, of which some are late and some of these lost, and count them."""
    head = tx.head
    tx.add_outcomes(list(new), list(new.values()), at=now, late=[each in late for each in new])
    was_blocked = head.is_blocked
    head.phase_outcomes += head.settle([number for number in new if number not in lost])
    head.outcomes += len(new) - len(late)
    head.late += len(late)
    head.lowest = min(head.lowest, *new.values())
    head.highest = max(head.highest, *new.values())
    # While it is held up, `settled_end` is what it waits for.
    if head.is_blocked and (not was_blocked or head.settled_end in new):
        _find_settled(tx)


def _record_reports(
    tx: Transaction, ids: Sequence[int], rewards: Sequence[float], now: float
) -> Receipt:
    """Record what is told of outcomes that have a window: the last report within it counts.

    What is told later is kept, and is not used.
    """
    head, (settled, lost) = tx.head, tx.settlements(ids)
    reported = {report.assignment: report.reward for report in tx.records_of(Report, ids)}
    known = settled | reported
    new = {each: to for each, to in zip(ids, rewards, strict=True) if known.get(each) != to}
    late = [each for each in new if head.over or each in settled or each in lost]
    if new:
        head.last_told = max(head.last_told, now)
        flags = np.isin(list(new), late).tolist()
        rows = enumerate(zip(new.items(), flags, strict=True), head.reports)
        events.add_chained(tx, *(Report(number, *told, now, flag) for number, (told, flag) in rows))
        head.reports += len(new)
        head.late += len(late)
        head.early += len(new.keys() - reported.keys() - set(late))
    if late:
        ids_late = events.ranges(np.array(late))
        log(tx, "late", now, ids=ids_late, **events.request_data(head))
    return Receipt(len(new), len(ids) - len(new), len(late), held=len(new) - len(late))


def _end_windows(tx: Transaction, ids: Sequence[int], now: float) -> None:
    """Have outcomes enter whose window has ended, with what was told by then."""
    head = tx.head
    assert head.otherwise is not None
    told = {report.assignment: report.reward for report in tx.records_of(Report, ids)}
    head.early -= len(told)
    _add_outcomes(tx, {each: told.get(each, head.otherwise) for each in ids}, now)


def record_failures(tx: Transaction, ids: Ids, *, reason: str, now: float) -> None:
    """Give outcomes up: see `Experiment.fail_many`."""
    _check_assigned(ids.tolist(), tx.head)
    expire(tx, now)
    known, lost = tx.settlements(ids.tolist())
    remedy = "Outcomes cannot be changed: the plans after them rest on them."
    if tx.head.window is not None:
        reports = tx.records_of(Report, ids.tolist())
        known |= {report.assignment: report.reward for report in reports}
        remedy = "Within its window another reward can be told; after that it stands."
    ids = np.array([each for each in ids.tolist() if each not in lost], dtype=np.int64)
    for number in ids.tolist():
        if number in known:
            message = f"Assignment {number} has the outcome {known[number]:g}; it has not failed."
            raise ConflictingOutcomeError(message, field="id", value=number, remedy=remedy)
    if ids.size:
        _lose(tx, ids, reason=reason, at=now)
        if tx.head.over:
            log(tx, "failed", now, ids=events.ranges(ids), reason=reason)


def _check_bounds(
    tx: Transaction,
    ids: Sequence[int],
    rewards: Sequence[float],
    bounds: tuple[float, float] | None,
    now: float,
) -> None:
    low, high = bounds or (-math.inf, math.inf)
    pairs = zip(ids, rewards, strict=True)
    wrong = {number: reward for number, reward in pairs if not low <= reward <= high}
    if not wrong:
        return
    _check_assigned(list(wrong), tx.head)
    columns = np.array(list(wrong)), np.array(list(wrong.values()))
    tx.head.refusals += tx.add_refusals(*columns, at=now)
    number, reward = next(iter(wrong.items()))
    raise InvalidInputError(
        f"`reward` must lie between {low:g} and {high:g}; got {reward:g}.",
        field="reward",
        value=reward,
        remedy="The policy's guarantee rests on the bounds that it was made with.",
        about=number,
    )


def _check_assigned(ids: Sequence[int], head: Head) -> None:
    """Raise UnknownAssignmentError unless all these ids were assigned."""
    unknown = next((number for number in ids if not 0 <= number < head.assigned), None)
    if unknown is None:
        return
    last = f"the last id is {head.assigned - 1}" if head.assigned else "there are none yet"
    raise UnknownAssignmentError(
        f"Assignment {unknown} was never given out; {last}.",
        field="id",
        value=unknown,
        remedy="Tell outcomes under the ids that `ask` returned.",
        about=unknown,
    )


# --- steps --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SummaryStep:
    """A summary that the policy was told, and what came of it."""

    record: SummaryRecord
    answered: Ids | None  # ids of outcomes that were outstanding, and that it reports
    pending: Ids | None  # ids of outcomes that are outstanding: a later summary reports them
    dropped: Sequence[int]  # targets that the policy dropped
    left: int  # how many it did not
    final: Recommendation | None  # of a policy that stops here


# Counters that change with every step, and with every change of the options.
StepIdentity = tuple[int, int, bool, int]


@dataclass(frozen=True)
class Step:
    """The pending step of an experiment, computed from a snapshot."""

    made_for: StepIdentity | None  # what identifies the state that the policy has seen
    told: Sequence[_SummaryStep] = ()  # summaries that the policy was told, where it was told any
    plan: Plan | None = None  # else the next plan
    final: Recommendation | None = None  # else that of a policy that makes no plan
    found: Sequence[Finding] = ()  # what guardrails found before it
    values: int = 0  # of guardrails that were told before the next plan

    @property
    def changes(self) -> int:
        """How many changes of options it was made after."""
        return 0 if self.made_for is None else self.made_for[-1]

    def fits(self, head: Head) -> bool:
        """Whether no other step was taken since, no option came or went, and it is not over.

        Outcomes that arrived meanwhile do no harm: those of the summary's assignments were
        counted as outstanding. No assignment is made while a step is pending.
        """
        return self.made_for == pending_step(head)


def pending_step(head: Head) -> StepIdentity | None:
    """What identifies the pending step, or None if there is none."""
    if not head.has_pending_step:
        return None
    return head.phase, head.summaries, head.planned, head.changes


def prepare(
    snapshot: Snapshot,
    replayer: PolicyReplayer,
    guards: GuardrailReplayer | None = None,
    gone: Collection[int] = (),
) -> Step:
    """Make the pending step: have the policy plan, or tell it a summary.

    Where options were added or retired, the open phase closes at once, with what was assigned and,
    where decisions wait for the first outstanding outcome, is settled without a gap: maybe nothing.
    The rest follows as a late summary of that phase. Before the next plan the policy is told of the
    changes: see `PolicyReplayer.follow`.

    Guardrails are looked at first, as any step may be the last; those `gone` are retired already.
    """
    head, made_for = snapshot.head, pending_step(snapshot.head)
    found = [] if guards is None else guards.find(snapshot, gone)
    if any(each.guardrail.action == "retire" for each in found):
        return Step(made_for, found=found)  # the next step is taken without them
    policy = replayer.policy(snapshot)
    if not head.planned:
        plan = policy.plan()
        final = policy.recommend() if plan is None else None
        return Step(made_for, plan=plan, final=final, found=found, values=head.values)
    closes_early = head.is_changed and head.open
    if head.arrivals and not closes_early:
        return Step(made_for, _tell_arrivals(snapshot, replayer, policy), found=found)
    phase, first, end, pending = head.phase, head.summary_end, head.assigned, None
    if first < head.first and not head.provisional:
        # Drawn under a plan before, beyond what it asked for, and all settled by now.
        end = first
        if not closes_early:
            phase = _phase_of(snapshot, first)
            end = snapshot.plan(phase + 1).first
    elif head.waits:  # whole rounds
        end = max(first, head.settled_end - (head.settled_end - first) % head.size)
    plan = snapshot.plan(phase).plan
    if plan.provisional and head.outstanding:
        pending = snapshot.outstanding(first, end)
    totals = summaries.total(snapshot.answers(first, end), plan, first=first, pending=pending)
    record = SummaryRecord(head.summaries, phase, first, end, phase < head.phase, *totals)
    return Step(made_for, [_tell(replayer, policy, record, pending=pending)], found=found)


def _phase_of(snapshot: Snapshot, number: int) -> int:
    rows = snapshot.rows_of(np.array([number]))
    if not rows.size:
        raise damaged(f"Assignment {number} is missing.", number)
    return int(rows["phase"][0])


def _tell_arrivals(
    snapshot: Snapshot, replayer: PolicyReplayer, policy: Policy
) -> list[_SummaryStep]:
    """Tell the policy the outcomes that arrived since their phase closed, phase by phase."""
    rows, told = snapshot.rows_of(snapshot.arrivals()), list[_SummaryStep]()
    if not rows.size:  # or the step would be pending for ever
        raise damaged("Outcomes that were outstanding are counted as told, and none is on record.")
    for phase in np.unique(rows["phase"]).tolist():
        arrived = rows[rows["phase"] == phase]
        number = snapshot.head.summaries + len(told)
        record = _amendment(snapshot, phase, arrived, number)
        told.append(_tell(replayer, policy, record, answered=arrived["id"]))
        if told[-1].final is not None:  # the policy decides without the rest
            break
    return told


def _amendment(snapshot: Snapshot, phase: int, arrived: Rows, number: int) -> SummaryRecord:
    """The summary of outcomes that were outstanding; of rounds, all of the phase once more."""
    plan = snapshot.plan(phase).plan
    first, end = int(arrived["id"][0]), int(arrived["id"][-1]) + 1
    pieces, pending = iter([answers_of(arrived)]), None
    if isinstance(plan, BlockPlan):
        first, end = snapshot.plan(phase).first, snapshot.plan(phase + 1).first
        waiting = snapshot.deferrals(first, end, waiting=True)[0]
        pieces, pending = snapshot.answers(first, end), waiting[~np.isin(waiting, arrived["id"])]
    totals = summaries.total(pieces, plan, first=first, pending=pending)
    return SummaryRecord(number, phase, first, end, True, *totals)


def _tell(
    replayer: PolicyReplayer,
    policy: Policy,
    record: SummaryRecord,
    *,
    answered: Ids | None = None,
    pending: Ids | None = None,
) -> _SummaryStep:
    active = policy.recommend().active
    tell(policy, record)
    replayer.told(record)
    after = policy.recommend()
    # A summary that closes a phase leaves the end to the next plan.
    final = after if record.late and policy.plan() is None else None
    dropped, left = sorted(set(active) - set(after.active)), len(after.active)
    return _SummaryStep(record, answered, pending, dropped, left, final)


def apply(tx: Transaction, step: Step, options: Options, at: float) -> None:
    """Record a step that fits; these are the options before it."""
    labels = options.problem.target_labels
    for finding in step.found:
        data = finding.data(labels, tx.head.phase - tx.head.planned)
        log(tx, "guardrail", at, **data, **events.request_data(tx.head))
        if finding.guardrail.action == "retire" and finding.target not in options.retired:
            by = f"guardrail {finding.guardrail.name}"
            options = retire(tx, options, labels[finding.target], finding.reason, at, by=by)
    for told in step.told:
        _record_summary(tx, told, labels, at)
    if step.plan is not None:
        _open_phase(tx, step.plan, at, values=step.values)
    final = step.told[-1].final if step.told else step.final
    if final is not None:
        tx.head.state, tx.head.planned = "finished", False
        log(tx, "finished", at, **events.recommendation_data(final), **events.rest_data(tx))


def _open_phase(tx: Transaction, plan: Plan, at: float, *, values: int) -> None:
    head = tx.head
    head.outstanding_before += head.phase_assigned - head.phase_settled
    head.phase, head.first, head.planned = plan.phase, head.assigned, True
    head.open, head.provisional = plan.open, plan.provisional
    head.pulls, head.size = plan.pulls, plan.size
    # The plan does not know of the assignments that no summary covers yet.
    unknown = head.first - head.summary_end
    head.limit = None if plan.most is None else max(0, plan.most - unknown)
    head.phase_outcomes = head.phase_losses = head.amendments = 0
    head.planned_changes = head.changes
    record = PlanRecord(plan, head.first, head.rounds, values)
    tx.add(record)
    log(tx, "planned", at, **events.plan_data(record))


def _record_summary(tx: Transaction, told: _SummaryStep, labels: Sequence[str], at: float) -> None:
    head, record = tx.head, told.record
    drawn = int(record.summary.drawn.sum())
    if told.answered is not None:
        drawn = len(told.answered)
        head.arrivals -= drawn
        head.amendments += drawn
        tx.settle_deferrals(told.answered, summary=record.number)
    else:
        head.summary_end = record.end
        head.planned = record.late
        if told.pending is not None and told.pending.size:
            tx.add_deferrals(told.pending)
            # Those that arrived since the summary was made are reported by the next one.
            rewards, lost = tx.settlements(told.pending.tolist())
            head.arrivals += len(rewards.keys() | lost)
    tx.add(record)
    head.summaries += 1
    head.options = told.left
    if record.plain is not None:
        head.spread += summaries.spread_of(record.plain)
        head.spread_left += summaries.spread_of(record.summary)
    data = {"drawn": drawn, **events.request_data(head)}
    log(tx, "answered" if record.late else "closed", at, **events.summary_data(record), **data)
    if told.dropped:  # by outcomes of this phase; if they came late, a later one is open
        names = [labels[target] for target in told.dropped]
        log(tx, "eliminated", at, phase=record.phase, targets=told.dropped, labels=names)
