"""Replay: a policy is not stored, but made again and told what is on record.

Recorded plans are facts. Whoever opens, follows or replays an experiment hands its policy every
recorded plan and then its summary, through the one loop `go_through`; no design is solved for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bestarm.errors import DesignError, ProtocolError, ReplayError
from bestarm.geometry import Array
from bestarm.live.events import digest, plan_data, recommendation_data
from bestarm.live.store.contract import Event, Reading, SummaryRecord
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Recommendation, Summary

__all__ = [
    "Player",
    "Remark",
    "Replayed",
    "adopt",
    "after",
    "go_through",
    "recommend",
    "recorded_plans",
    "replay",
    "tell",
]

_SAME = 1e-6  # probabilities closer than this are the same plan, computed on another processor


class Player:
    """A policy, and how many of the recorded summaries it has been told.

    Args:
        make: makes the policy as it was at the start; or the policy itself, if it cannot be made
            again.
    """

    def __init__(self, make: Callable[[], Policy] | Policy) -> None:
        self._make = None if isinstance(make, Policy) else make
        self._policy = make if isinstance(make, Policy) else None
        self._told = 0
        self._phase = 1  # of the plan that was open then
        self._adopted = 0  # the phase whose plan on record it has adopted
        self._asked: tuple[int, Plan | None] | None = None

    def policy(self, books: Reading) -> Policy:
        """The policy, told all recorded summaries and with the open plan adopted.

        Raises:
            ReplayError: it refuses a plan or a summary on record.
        """
        if self._policy is None:
            assert self._make is not None
            self._policy, self._told, self._phase, self._adopted = self._make(), 0, 1, 0
        policy, head = self._policy, books.head
        try:
            if self._told < head.summaries:
                records, plan_of = books.summaries(self._told), recorded_plans(books)
                for record in go_through(policy, records, plan_of, phase=self._phase):
                    self.told(record)
            # A policy in memory made all plans on record itself.
            if self._make is not None and head.planned and self._adopted != head.phase:
                adopt(policy, books.plan(head.phase).plan)
                self._adopted, self._asked = head.phase, None
        except BaseException:
            self.forget()
            raise
        return policy

    def plan(self) -> Plan | None:
        """The policy's next plan; the policy is asked for it once."""
        assert self._policy is not None
        if self._asked is None or self._asked[0] != self._told:
            self._asked = self._told, self._policy.plan()
        return self._asked[1]

    def told(self, record: SummaryRecord) -> None:
        """Note that the policy has been told a summary."""
        self._told = record.number + 1
        self._phase = after(self._phase, record)

    def forget(self) -> None:
        """Start again from the first summary the next time, if the policy can be made again."""
        self._asked = None
        if self._make is not None:
            self._policy = None


def go_through(
    policy: Policy,
    records: Iterable[SummaryRecord],
    plan_of: Callable[[int], Plan],
    *,
    phase: int = 1,
) -> Iterator[SummaryRecord]:
    """Bring a policy forward: for every summary, adopt the recorded plan and tell the summary.

    Yields each record after it was told. The next plan is adopted once the next record is
    requested.

    Args:
        policy: the policy; it was told all summaries before these.
        records: summaries in the order told.
        plan_of: returns the recorded plan of a phase.
        phase: of the plan that was open when the first of them was told.

    Raises:
        ReplayError: the policy refuses a plan or a summary.
    """
    adopted = 0
    for record in records:
        if phase != adopted:
            adopt(policy, plan_of(phase))
            adopted = phase
        try:
            tell(policy, record.summary, phase=record.phase, late=record.late)
        except ProtocolError as error:
            raise _refused(f"summary {record.number}", error) from error
        phase = after(phase, record)
        yield record


def recorded_plans(books: Reading) -> Callable[[int], Plan]:
    """A function that returns the recorded plan of a phase; those after it are read with it."""
    read: dict[int, Plan] = {}

    def plan_of(phase: int) -> Plan:
        if phase not in read:
            read.update((record.plan.phase, record.plan) for record in books.plans(phase))
        # Where the plan is missing, `plan` raises the error.
        return read[phase] if phase in read else books.plan(phase).plan

    return plan_of


def adopt(policy: Policy, plan: Plan) -> None:
    """Hand a policy a recorded plan.

    Raises:
        ReplayError: it cannot be the policy's next plan.
    """
    try:
        policy.adopt(plan)
    except ProtocolError as error:
        raise _refused(f"the plan of phase {plan.phase}", error) from error


def after(phase: int, record: SummaryRecord) -> int:
    """The phase that is open after a summary, if `phase` was open before it."""
    return phase if record.late else record.phase + 1


def tell(policy: Policy, summary: Summary, *, phase: int, late: bool) -> None:
    """Tell a policy a summary of a phase; late if the phase had closed before."""
    if late:
        policy.amend(summary, phase=phase)
    else:
        policy.update(summary)


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
class Replayed:
    """The result of a replay.

    Attributes:
        recommendation: what the policy recommends at the end, in agreement with the log.
        remarks: phases that would be planned differently here. Not an error: recorded plans are
            adopted, and floating-point results may differ between processors and versions.
    """

    recommendation: Recommendation
    remarks: tuple[Remark, ...] = ()


def recommend(policy: Policy, state: str) -> Recommendation:
    """The policy's recommendation for an experiment in a state."""
    said = policy.recommend()
    stopped = state == "stopped" and said.reason == "running"
    return replace(said, reason="stopped") if stopped else said


def replay(books: Reading, policy: Policy) -> Replayed:
    """Hand a new policy all recorded plans and summaries, and compare what it does with the log.

    Every plan is also computed again, only to report where it differs.

    Raises:
        ReplayError: it refuses a record, it drops or recommends other targets than on record, or
            a plan is not the one in the log.
    """
    kinds = {"closed", "answered", "eliminated", "finished"}
    events = (event for event in books.events() if event.kind in kinds)
    event = next(events, None)
    remarks: list[Remark] = []
    logged = {
        event.data["phase"]: event.data.get("plan")
        for event in books.events()
        if event.kind == "planned"
    }
    plan_of = _compared(policy, recorded_plans(books), logged, remarks)
    active = set(policy.recommend().active)
    for told in go_through(policy, books.summaries(), plan_of):
        if event is None or event.kind not in {"closed", "answered"}:
            raise _disagree(f"The log does not know of summary {told.number}")
        event = next(events, None)
        before, active = active, set(policy.recommend().active)
        gone = sorted(before - active)
        said: object = []
        if event is not None and event.kind == "eliminated":
            said, event = event.data.get("targets"), next(events, None)
        if gone != said:
            raise _disagree(f"Summary {told.number} drops targets {gone}, in the log {said}")
    head = books.head
    if head.planned:
        adopt(policy, plan_of(head.phase))
    recommendation = recommend(policy, head.state)
    if head.state == "finished" or event is not None:
        _check_end(event, policy, recommendation)
    return Replayed(recommendation, tuple(remarks))


def _compared(
    policy: Policy,
    plan_of: Callable[[int], Plan],
    logged: Mapping[int, object],
    remarks: list[Remark],
) -> Callable[[int], Plan]:
    """The recorded plans, each compared with the log and with the policy's own."""
    compared = 0

    def recorded(phase: int) -> Plan:
        nonlocal compared
        plan = plan_of(phase)
        if phase > compared:
            compared = phase
            if logged.get(phase) != digest(plan_data(plan)):
                raise _disagree(f"The plan of phase {phase} is not the one in the log")
            remark = _remark(policy, plan)
            if remark is not None:
                remarks.append(remark)
        return plan

    return recorded


def _remark(policy: Policy, recorded: Plan) -> Remark | None:
    try:
        planned = policy.plan()
    except DesignError:
        planned = None
    if planned is None or planned.arms != recorded.arms:
        return Remark(recorded.phase, recorded.pulls, None, 1.0)
    difference = float(np.abs(_shares(planned) - _shares(recorded)).max())
    agree = (planned.pulls, planned.open, planned.most) == (
        recorded.pulls,
        recorded.open,
        recorded.most,
    )
    if agree and difference <= _SAME:
        return None
    return Remark(recorded.phase, recorded.pulls, planned.pulls, difference)


def _shares(plan: Plan) -> Array:
    if plan.weights is not None:
        return np.asarray(plan.weights)
    assert plan.counts is not None
    return np.asarray(plan.counts / plan.pulls)


def _check_end(event: Event | None, policy: Policy, said: Recommendation) -> None:
    if event is None or event.kind != "finished":
        raise _disagree("The log does not tell of the end, or of more than is on record")
    if policy.plan() is not None:
        raise _disagree("The policy continues where it stopped in the log")
    found = {name: event.data.get(name) for name in recommendation_data(said)}
    if found != recommendation_data(said):
        raise _disagree(f"The policy ends with {said.label!r} ({said.reason}), in the log {found}")


def _disagree(what: str) -> ReplayError:
    return ReplayError(
        f"The replay differs from the record. {what}.",
        field="replay",
        remedy="Call `Experiment.verify`: if the record is sound, use the version of bestarm that "
        "began the experiment.",
    )


def _refused(what: str, error: ProtocolError) -> ReplayError:
    return ReplayError(
        f"In the replay, the policy refuses {what} on record: {error.message}",
        field="replay",
        value=error.value,
        remedy="Use the version of bestarm, or of your own policy, that began the experiment; "
        "`Experiment.verify` shows whether the record was changed.",
    )
