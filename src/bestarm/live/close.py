"""Close: the policy takes its next step, from what is on record to the rows that are written.

A step tells the policy a summary, which closes the open phase or reports outcomes that came after
that; or it makes the next plan; or it ends the experiment. What the policy computes may take long,
so `prepare` makes a step from a snapshot, before the transaction, and `apply` records it if it
still fits. A process that is killed in between leaves nothing behind, and another takes the step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.live import change, events, summaries
from bestarm.live.events import log
from bestarm.live.guardrails import Finding, GuardrailReplayer
from bestarm.live.options import Options
from bestarm.live.replay import PolicyReplayer, tell
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import Ids, PlanRecord, Rows, SummaryRecord, answers_of, damaged
from bestarm.policies.policy import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan


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
    plan: PlanRecord | None = None  # else the next plan
    rows: Mapping[str, str] | None = None  # digests of what was told since the plan before
    final: Recommendation | None = None  # else that of a policy that makes no plan
    found: Sequence[Finding] = ()  # what guardrails found before it

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
    if not head.stage.is_pending:
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
        if plan is None:
            return Step(made_for, final=policy.recommend(), found=found)
        opened = PlanRecord(plan, head.assigned, head.rounds, head.reports, head.values)
        return Step(made_for, plan=opened, rows=events.told_data(snapshot), found=found)
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
        log(tx, "guardrail", at, **data)
        if finding.guardrail.action == "retire" and finding.target not in options.retired:
            by = f"guardrail {finding.guardrail.name}"
            options = change.retire(tx, options, labels[finding.target], finding.reason, at, by=by)
    for told in step.told:
        _record_summary(tx, told, labels, at)
    if step.plan is not None:
        _open_phase(tx, step.plan, step.rows or {}, at)
    final = step.told[-1].final if step.told else step.final
    if final is not None:
        tx.head.state, tx.head.planned = "finished", False
        log(tx, "finished", at, **events.recommendation_data(final), **events.rest_data(tx))


def _open_phase(tx: Transaction, record: PlanRecord, told: Mapping[str, str], at: float) -> None:
    head, plan = tx.head, record.plan
    head.outstanding_before += head.phase_assigned - head.phase_settled
    head.phase, head.first, head.planned = plan.phase, head.assigned, True
    head.open, head.provisional = plan.open, plan.provisional
    head.pulls, head.size = plan.pulls, plan.size
    # The plan does not know of the assignments that no summary covers yet.
    unknown = head.first - head.summary_end
    head.limit = None if plan.most is None else max(0, plan.most - unknown)
    head.phase_outcomes = head.phase_losses = head.amendments = 0
    head.planned_changes = head.changes
    tx.add(record)
    log(tx, "planned", at, **events.plan_data(record), told=told)


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
    kind = "answered" if record.late else "closed"
    log(tx, kind, at, **events.summary_data(record), drawn=drawn)
    if told.dropped:  # by outcomes of this phase; if they came late, a later one is open
        names = [labels[target] for target in told.dropped]
        log(tx, "eliminated", at, phase=record.phase, targets=told.dropped, labels=names)
