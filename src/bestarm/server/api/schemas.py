"""The answers of the API, with an example of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bestarm.defaults import DELTA
from bestarm.live import Batch, Listed, Receipt, Status
from bestarm.live.store.contract import Event
from bestarm.records import Recommendation
from bestarm.server.api.bodies import example

__all__ = [
    "AssignmentsOut",
    "CheckOut",
    "EventOut",
    "EventsOut",
    "ExperimentOut",
    "HealthOut",
    "ListOut",
    "ReceiptOut",
    "RecommendationOut",
    "StatusOut",
]

State = Literal["running", "paused", "stopped", "finished"]
_STATUS = {
    "state": "running",
    "phase": 3,
    "given": 40,
    "answered": 38,
    "outstanding": 2,
    "remaining": 60,
    "pulls": 240,
    "lost": 0,
    "late": 0,
    "needs_lease": False,
    "waits_for": None,
    "waits_since": None,
}


class StatusOut(BaseModel):
    """Where an experiment stands."""

    model_config = ConfigDict(json_schema_extra=example(**_STATUS))

    state: State
    phase: int = Field(description="The open phase, or the last one.")
    given: int = Field(description="Assignments made in that phase.")
    answered: int = Field(description="How many of those have an outcome, or are lost.")
    outstanding: int = Field(description="How many outcomes are outstanding.")
    remaining: int = Field(description="Assignments of that phase still to be made.")
    pulls: int = Field(description="Assignments made in all phases.")
    lost: int = Field(description="Assignments whose outcome will not come, or came too late.")
    late: int = Field(description="Outcomes that came too late to be used.")
    needs_lease: bool = Field(
        description="Whether one outcome that never comes would hold up the decision for ever: "
        "set a lease."
    )
    waits_for: int | None = Field(
        description="The assignment whose outcome holds up the decision, or null."
    )
    waits_since: float | None = Field(description="When it was made, in seconds since 1970.")

    @classmethod
    def of(cls, status: Status) -> StatusOut:
        """From the library's."""
        return cls.model_construct(**{name: getattr(status, name) for name in cls.model_fields})


class ExperimentOut(BaseModel):
    """An experiment."""

    name: str
    description: str
    created: float = Field(description="When, in seconds since 1970.")
    status: StatusOut

    @classmethod
    def of(cls, listed: Listed) -> ExperimentOut:
        """From the library's."""
        return cls(
            name=listed.name,
            description=listed.description,
            created=listed.created,
            status=StatusOut.of(listed.status),
        )


class ListOut(BaseModel):
    """Experiments, oldest first."""

    model_config = ConfigDict(
        json_schema_extra=example(
            experiments=[
                {
                    "name": "checkout",
                    "description": "Which checkout do more people finish?",
                    "created": 1767225600.0,
                    "status": _STATUS,
                }
            ],
            next=None,
        )
    )

    experiments: list[ExperimentOut]
    next: str | None = Field(
        description="What to send as `after` for those that follow; null at the end."
    )


class AssignmentOut(BaseModel):
    """One option to try."""

    id: int
    arm: int = Field(description="Its row in the source.")
    label: str = Field(description="The option's name.")
    probability: float = Field(description="With which it was drawn; 1 under a fixed plan.")
    phase: int


class AssignmentsOut(BaseModel):
    """The assignments of one request: fewer than asked for while a phase waits for outcomes."""

    model_config = ConfigDict(
        json_schema_extra=example(
            assignments=[
                {"id": 0, "arm": 2, "label": "express", "probability": 0.25, "phase": 1},
                {"id": 1, "arm": 0, "label": "one page", "probability": 0.5, "phase": 1},
            ],
            phase=1,
            waiting=0,
            state="running",
        )
    )

    assignments: list[AssignmentOut]
    phase: int
    waiting: int = Field(
        description="If fewer were made than asked for: how many outcomes must arrive first."
    )
    state: State

    @staticmethod
    def plain(batch: Batch) -> dict[str, Any]:
        """From the library's, as plain data, because a batch may be large."""
        columns = zip(batch.ids, batch.arms.tolist(), batch.probabilities.tolist(), strict=True)
        rows = [
            {"id": id_, "arm": arm, "label": batch.labels[arm], "probability": p, "phase": phase}
            for phase in (batch.phase,)
            for id_, arm, p in columns
        ]
        return {
            "assignments": rows,
            "phase": batch.phase,
            "waiting": batch.waiting,
            "state": batch.state,
        }


class ReceiptOut(BaseModel):
    """What became of the outcomes of a request."""

    model_config = ConfigDict(json_schema_extra=example(recorded=2, repeated=0, late=0))

    recorded: int = Field(description="On record from now on.")
    repeated: int = Field(description="On record before, with the same reward.")
    late: int = Field(description="Of those recorded: arrived too late to be used.")

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptOut:
        """From the library's."""
        return cls(**vars(receipt))


class RecommendationOut(BaseModel):
    """The option that the policy would name now, and how far that can be relied on."""

    model_config = ConfigDict(
        json_schema_extra=example(
            target=2,
            label="express",
            final=True,
            reason="identified",
            pulls=1210,
            claims=DELTA,
            error_bound=DELTA,
            contradicted=False,
            active=[2],
            active_labels=["express"],
            chosen=[2],
            chosen_labels=["express"],
            assumptions=["Every reward lies between 0 and 1."],
            statement="'express' is the best of 3 targets. The probability that this rule ever "
            f"says so wrongly, at any of its looks, is at most {DELTA:g}.",
        )
    )

    target: int = Field(description="Its row in the target, or in the source.")
    label: str = Field(description="Its name.")
    final: bool = Field(description="Whether it is identified; a stop at a limit is not that.")
    reason: str = Field(
        description="`identified`, `running`, or what stopped it short: `max_pulls`, "
        "`max_phases`, `max_phase_pulls`, `budget`, or `stopped` by hand."
    )
    pulls: int = Field(description="How many assignments it rests on.")
    claims: float | None = Field(
        description="The proven bound on the probability that a final answer is wrong, known "
        "before there is one; null where nothing is proven."
    )
    error_bound: float | None = Field(
        description="The same, once it is final and nothing contradicts the assumptions."
    )
    contradicted: bool = Field(
        description="Whether rewards contradict the assumptions: nothing is proven then."
    )
    active: list[int] = Field(description="Options that are not ruled out.")
    active_labels: list[str] = Field(description="Their names.")
    chosen: list[int] = Field(description="The options named; there may be several.")
    chosen_labels: list[str] = Field(description="Their names.")
    assumptions: list[str] = Field(description="What the bound rests on.")
    statement: str = Field(description="What may be claimed now, in words.")

    @classmethod
    def of(cls, said: Recommendation, labels: Sequence[str]) -> RecommendationOut:
        """From the library's, with the names of the targets."""
        named: dict[str, Any] = {
            "active_labels": [labels[target] for target in said.active],
            "chosen_labels": [labels[target] for target in said.chosen],
        }
        known = {name: getattr(said, name) for name in cls.model_fields if name not in named}
        return cls(**known, **named)


class CheckOut(BaseModel):
    """One of the experiment's health checks."""

    name: str
    level: Literal["ok", "warning", "alarm"]
    finding: str
    action: str


class HealthOut(BaseModel):
    """All of them."""

    model_config = ConfigDict(
        json_schema_extra=example(
            checks=[
                {
                    "name": "assignments",
                    "level": "ok",
                    "finding": "Traffic split matches the plan (240 assignments).",
                    "action": "",
                }
            ]
        )
    )

    checks: list[CheckOut]


class EventOut(BaseModel):
    """A change of the experiment's state."""

    number: int
    at: float = Field(description="When, in seconds since 1970.")
    kind: str
    data: dict[str, Any]
    hash: str = Field(description="Of this event and the hash before it.")

    @classmethod
    def of(cls, event: Event) -> EventOut:
        """From the library's, without the seed of the draws."""
        data = {name: value for name, value in event.data.items() if name not in {"seed", "salt"}}
        return cls(**{**vars(event), "data": data})


class EventsOut(BaseModel):
    """A part of the log, and where to go on reading."""

    model_config = ConfigDict(
        json_schema_extra=example(
            events=[
                {
                    "number": 4,
                    "at": 1767225600.0,
                    "kind": "paused",
                    "data": {},
                    "hash": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
                }
            ],
            next=5,
        )
    )

    events: list[EventOut]
    next: int = Field(description="Send it as `after` to read on.")
