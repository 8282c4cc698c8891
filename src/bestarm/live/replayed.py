"""A trial gone through once more: does its policy decide again what it decided?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bestarm.errors import DesignError, ReplayError
from bestarm.live import rules
from bestarm.live.events import digest, plan_data
from bestarm.live.replay import adopt, go_through, recorded_plans
from bestarm.live.store.contract import Event, Reading
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Recommendation

__all__ = ["Remark", "Replayed", "replay"]

_SAME = 1e-6  # probabilities closer than this are the same plan, computed on another processor


@dataclass(frozen=True)
class Remark:
    """A phase that would be planned otherwise here and now than it was.

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
    """What a fresh policy did with the record.

    Attributes:
        recommendation: what it says at the end of it, in agreement with the log.
        remarks: phases that would be planned otherwise here. No error: plans on record are adopted,
            and what is computed in floating point may differ between processors and versions.
    """

    recommendation: Recommendation
    remarks: tuple[Remark, ...] = ()


def replay(books: Reading, policy: Policy) -> Replayed:
    """Hand a fresh policy all recorded plans and summaries, and hold what it does against the log.

    Every plan is also computed afresh, only to say where it would be another.

    Raises:
        ReplayError: it refuses, drops or recommends otherwise than is on record, or a plan is not
            the one in the log.
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
    for entry in go_through(policy, books.entries(), plan_of):
        if event is None or event.kind not in {"closed", "answered"}:
            raise _disagree(f"The log does not know of summary {entry.number}")
        event = next(events, None)
        before, active = active, set(policy.recommend().active)
        gone = sorted(before - active)
        said: object = []
        if event is not None and event.kind == "eliminated":
            said, event = event.data.get("targets"), next(events, None)
        if gone != said:
            raise _disagree(f"Summary {entry.number} drops targets {gone}, in the log {said}")
    head = books.head
    if head.planned:
        adopt(policy, plan_of(head.phase))
    recommendation = policy.recommend()
    if head.state == "finished" or event is not None:
        _check_end(event, policy, recommendation)
    if head.state == "stopped" and recommendation.reason == "running":
        recommendation = replace(recommendation, reason="stopped")
    return Replayed(recommendation, tuple(remarks))


def _compared(
    policy: Policy,
    plan_of: Callable[[int], Plan],
    logged: Mapping[int, object],
    remarks: list[Remark],
) -> Callable[[int], Plan]:
    """The plans on record, each held against the log, and the policy's own against it."""
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


def _shares(plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if plan.weights is not None:
        return np.asarray(plan.weights)
    assert plan.counts is not None
    return np.asarray(plan.counts / plan.pulls)


def _check_end(event: Event | None, policy: Policy, said: Recommendation) -> None:
    if event is None or event.kind != "finished":
        raise _disagree("The log does not tell of the end, or of more than is on record")
    if policy.plan() is not None:
        raise _disagree("The policy goes on where it stopped in the log")
    found = {name: event.data.get(name) for name in rules.finished_data(said)}
    if found != rules.finished_data(said):
        raise _disagree(f"The policy ends with {said.label!r} ({said.reason}), in the log {found}")


def _disagree(what: str) -> ReplayError:
    return ReplayError(
        f"Replayed, the trial does not go as it went. {what}.",
        field="replay",
        remedy="Run `bestarm experiment verify`: if the record is sound, use the version of "
        "bestarm that began the trial.",
    )
