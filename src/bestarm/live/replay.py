"""Replay: a policy is not stored, but made again and told what is on record.

Recorded plans are facts. Whoever opens, follows or replays an experiment hands its policy every
recorded plan, then its summary, then the options that were added or retired under that plan,
through the one loop `PolicyReplayer.follow`; no design is solved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from bestarm.errors import DesignError, ProtocolError, ReplayError
from bestarm.live.events import digest, recommendation_data
from bestarm.live.spec import Spec
from bestarm.live.state import disagreement, last_recommendation
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import Change, SummaryRecord, as_data, damaged
from bestarm.policies.policy import Policy
from bestarm.recommendation import Recommendation
from bestarm.records import Plan

_DECISIONS = {"planned", "closed", "answered", "eliminated", "finished"}
_CHANGES = {"added", "retired"}
_SAME = 1e-6  # probabilities closer than this are the same plan, computed on another processor


class PolicyReplayer:
    """A policy, and how many of the recorded plans, summaries and changes it knows.

    Args:
        made_of: what the policy is made of; or the policy itself, if it cannot be made again.
        adopts: whether it is handed the plans on record; else it made them itself. One that is made
            here always is.
    """

    def __init__(self, made_of: Spec | Policy, *, adopts: bool = False) -> None:
        self._spec = made_of if isinstance(made_of, Spec) else None
        self._policy = made_of if isinstance(made_of, Policy) else None
        self._adopts = adopts or self._spec is not None
        # Summaries, phases, plans, changes of options.
        self._told = self._closed = self._adopted = self._changed = 0
        self._plan: Plan | None = None  # that it adopted last

    def policy(self, snapshot: Snapshot) -> Policy:
        """The policy, told all recorded summaries and with the open plan adopted: see `follow`."""
        for _ in self.follow(snapshot):
            pass
        assert self._policy is not None
        return self._policy

    def follow(self, snapshot: Snapshot) -> Iterator[tuple[Policy, Plan | SummaryRecord | Change]]:
        """Bring the policy forward: it adopts each recorded plan and is told its summary, and then
        of the options that were added or retired before the next plan was made.

        Yields each plan before the policy adopts it, and each summary and each change after the
        policy was told it.

        Raises:
            ReplayError: the policy refuses a plan or a summary.
        """
        if self._policy is None:
            assert self._spec is not None
            self._policy = self._spec.make()
            self._told = self._closed = self._adopted = self._changed = 0
        policy, head = self._policy, snapshot.head
        records = snapshot.summaries(self._told) if self._told < head.summaries else ()
        what = ""  # the policy is handed
        try:
            for record in chain(records, (None,)):
                for change in self._changes(snapshot):
                    what = f"the change of option {change.label!r}"
                    _tell_change(policy, change)
                    self._changed = change.number + 1
                    yield policy, change
                phase = self._closed + 1
                known = not self._adopts or self._adopted == phase
                if not known and (record is not None or head.planned):
                    plan, what = snapshot.plan(phase).plan, f"the plan of phase {phase}"
                    yield policy, plan
                    policy.adopt(plan)
                    self._plan, self._adopted = plan, phase
                if record is not None:
                    what = f"summary {record.number}"
                    if not (record.late or self._plan is None or self._ended_early(snapshot)):
                        self._plan.check(record.summary)
                    tell(policy, record)
                    self.told(record)
                    yield policy, record
        except BaseException as error:
            self.forget()
            if not isinstance(error, ProtocolError):
                raise
            raise ReplayError(
                f"In the replay, the policy refuses {what} on record: {error.message}",
                field="replay",
                value=error.value,
                remedy="Use the version of bestarm, or of your own policy, that began the "
                "experiment; `Experiment.verify` shows whether the record was changed.",
            ) from error

    def _ended_early(self, snapshot: Snapshot) -> bool:
        """Whether options changed under the plan that is out: its summary may be short."""
        if self._changed == snapshot.head.changes:
            return False
        return any(change.phase > self._closed for change in snapshot.changes(self._changed))

    def _changes(self, snapshot: Snapshot) -> Iterator[Change]:
        """The changes that come before the next plan, and that the policy does not know yet."""
        if self._changed < snapshot.head.changes:
            for change in snapshot.changes(self._changed):
                if change.phase > self._closed:  # the policy is not told the summary yet
                    return
                yield change

    def told(self, record: SummaryRecord) -> None:
        """Note that the policy has been told a summary."""
        self._told = record.number + 1
        self._closed += not record.late

    def forget(self) -> None:
        """Start again from the first summary the next time, if the policy can be made again."""
        if self._spec is not None:
            self._policy = None

    def copy(self) -> PolicyReplayer:
        """A replayer that knows the same, with a policy of its own.

        A policy that cannot be copied is made again, and told all.
        """
        assert self._spec is not None
        made = PolicyReplayer(self._spec)
        with suppress(Exception):  # of a user's policy
            made._policy = deepcopy(self._policy)
            made._told, made._closed = self._told, self._closed
            made._adopted, made._changed, made._plan = self._adopted, self._changed, self._plan
        return made


def tell(policy: Policy, record: SummaryRecord) -> None:
    """Tell a policy a summary."""
    if record.late:
        policy.amend(record.summary, phase=record.phase)
    else:
        policy.update(record.summary)


def _tell_change(policy: Policy, change: Change) -> None:
    if change.kind == "added":
        policy.add(policy.problem.with_option(change.label, change.features))
    elif change.label in policy.problem.target_labels:
        policy.retire(policy.problem.target_labels.index(change.label))
    else:
        raise damaged(f"Option {change.label!r} cannot have been retired.", change.label)


def recommend(policy: Policy, state: str) -> Recommendation:
    """The policy's recommendation for an experiment in a state."""
    recommendation = policy.recommend()
    if recommendation.tied:  # the log counts them as dropped, as it names one target
        left = sorted({*recommendation.active, *recommendation.tied})
        recommendation = replace(recommendation, active=tuple(left))
    stopped = state == "stopped" and recommendation.reason == "running"
    return replace(recommendation, reason="stopped") if stopped else recommendation


@dataclass(frozen=True)
class Remark:
    """A phase that would be planned differently now.

    Attributes:
        phase: its number.
        pulls: the pulls on record.
        planned: the pulls that would be planned; None where the policy would make no plan.
        difference: the largest difference of an arm's probability, or of its share of the pulls.
    """

    phase: int
    pulls: int
    planned: int | None
    difference: float


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        recommendation: what the policy recommends at the end, in agreement with the log.
        remarks: phases that would be planned differently here. Not an error: recorded plans are
            adopted, and floating-point results may differ between processors and versions.
    """

    recommendation: Recommendation
    remarks: tuple[Remark, ...] = ()


def replay(snapshot: Snapshot, policy: Policy) -> ReplayResult:
    """Hand a new policy all recorded plans and summaries, and compare what it does with the log.

    Every plan is also computed again, only to report where it differs.

    Raises:
        ReplayError: it refuses a record, it drops or recommends other targets than on record, or
            a plan is not the one in the log.
    """
    events = (event for event in snapshot.events() if event.kind in _DECISIONS)
    changes = (event for event in snapshot.events() if event.kind in _CHANGES)

    def expect(what: str, kind: str, **data: object) -> None:
        event = next(events, None)
        if event is None or event.kind != kind or not data.items() <= event.data.items():
            raise disagreement(f"{what} is not the one in the log")

    remarks = []
    active = set(policy.recommend().active)
    for _, step in PolicyReplayer(policy, adopts=True).follow(snapshot):
        if isinstance(step, Change):
            event = next(changes, None)
            if event is None or (event.kind, event.data["label"]) != (step.kind, step.label):
                raise disagreement(f"The change of option {step.label!r} is not the one in the log")
            active = set(policy.recommend().active)
            continue
        if isinstance(step, Plan):
            expect(f"The plan of phase {step.phase}", "planned", plan=digest(as_data(step)))
            remarks.append(_remark(policy, step))
            continue
        expect(f"Summary {step.number}", "answered" if step.late else "closed")
        before, active = active, set(policy.recommend().active)
        if gone := sorted(before - active):
            expect(f"The elimination of targets {gone}", "eliminated", targets=gone)
    recommendation = recommend(policy, snapshot.head.state)
    if snapshot.head.state == "finished":
        if policy.plan() is not None:
            raise disagreement("The policy continues where it stopped in the log")
        end = f"The end with {recommendation.label!r} ({recommendation.reason})"
        expect(end, "finished", **recommendation_data(recommendation))
    elif last_recommendation(snapshot) not in (None, recommendation_data(recommendation)):
        raise disagreement("The recommendation at the stop is not the one in the log")
    if next(events, None) is not None:
        raise disagreement("The log continues where the record ends")
    return ReplayResult(recommendation, tuple(remark for remark in remarks if remark is not None))


def _remark(policy: Policy, recorded: Plan) -> Remark | None:
    try:
        planned = policy.plan()
    except DesignError:
        planned = None
    if planned is None or planned.arms != recorded.arms:
        return Remark(recorded.phase, recorded.pulls, None, 1.0)
    difference = float(np.abs(planned.shares - recorded.shares).max())
    terms = [(plan.pulls, plan.open, plan.most) for plan in (planned, recorded)]
    if terms[0] == terms[1] and difference <= _SAME:
        return None
    return Remark(recorded.phase, recorded.pulls, planned.pulls, difference)
