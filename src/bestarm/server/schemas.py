"""What goes in and out over HTTP, with an example of each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bestarm.live import Batch, Listed, Receipt, Status
from bestarm.live.ledger import Event
from bestarm.policies import POLICIES
from bestarm.records import Recommendation

__all__ = [
    "AskBody",
    "AssignmentsOut",
    "CheckOut",
    "CreateBody",
    "EventOut",
    "EventsOut",
    "ExperimentOut",
    "FailBody",
    "HealthOut",
    "LeaseBody",
    "ListOut",
    "ReceiptOut",
    "RecommendationOut",
    "StatusOut",
    "StopBody",
    "TellBody",
]

# Lists stop at their first fault: a body full of them would take more memory to describe than to
# read.
Number = Annotated[float, Field(allow_inf_nan=False)]
Row = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=200)]
Features = Annotated[list[Row], Field(fail_fast=True, min_length=1, max_length=10_000)]
Label = Annotated[str, Field(max_length=1000)]
Labels = Annotated[list[Label], Field(fail_fast=True, max_length=10_000)]
Id = Annotated[int, Field(ge=0, lt=2**63)]
State = Literal["running", "paused", "stopped", "finished"]


def _known(policy: str) -> str:
    # Over HTTP only those of ours: a module's name would have the server import it.
    if policy not in POLICIES:
        raise ValueError(f"`policy` must be one of {', '.join(POLICIES)}")
    return policy


PolicyName = Annotated[
    str, AfterValidator(_known), Field(json_schema_extra={"enum": list(POLICIES)})
]


def _like(**example: Any) -> dict[str, Any]:
    return {"examples": [example]}


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CreateBody(_In):
    """A trial to begin."""

    model_config = ConfigDict(
        json_schema_extra=_like(
            name="checkout",
            source=[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            source_labels=["one page", "two pages", "express"],
            delta=0.05,
            policy="anytime",
            options={"bounds": [0, 1]},
            lease=86400,
            description="Which checkout do more people finish?",
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=200)]
    source: Annotated[Features, Field(description="Features of what can be tried, a row an arm.")]
    source_labels: Labels | None = Field(default=None, description="A name for each.")
    target: Features | None = Field(
        default=None, description="Features of what is chosen among; the source if left out."
    )
    target_labels: Labels | None = Field(default=None, description="A name for each.")
    delta: Annotated[float, Field(gt=0, lt=1, description="The error probability allowed.")] = 0.05
    noise: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="The scale of the noise.")
    ] = 1.0
    baseline: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="A bound on the baseline's size.")
    ] = 1.0
    policy: PolicyName = "anytime"
    options: dict[str, Any] = Field(default_factory=dict, description="Of the policy.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="Of the draws; a random one if left out."
    )
    lease: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Seconds an outcome may take; any time if left out."
    )
    description: Annotated[
        str, Field(max_length=10_000, description="What it is about, in words.")
    ] = ""


class AskBody(_In):
    """How many assignments are wanted."""

    model_config = ConfigDict(json_schema_extra=_like(count=2))

    count: Annotated[int, Field(ge=1)] = 1


class OutcomeIn(_In):
    """The outcome of one assignment."""

    id: Id
    reward: Number


class TellBody(_In):
    """Outcomes: all of them are recorded or none."""

    model_config = ConfigDict(
        json_schema_extra=_like(outcomes=[{"id": 0, "reward": 1}, {"id": 1, "reward": 0}])
    )

    outcomes: Annotated[list[OutcomeIn], Field(fail_fast=True)]


class FailBody(_In):
    """Assignments whose outcome will never come."""

    model_config = ConfigDict(json_schema_extra=_like(ids=[1], reason="left the page"))

    ids: Annotated[list[Id], Field(fail_fast=True)]
    reason: Annotated[str, Field(max_length=1000)] = "failed"


class LeaseBody(_In):
    """How long outcomes may take."""

    model_config = ConfigDict(json_schema_extra=_like(lease=86400))

    lease: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        description="Seconds; null for any time."
    )


class StopBody(_In):
    """Why a trial is stopped."""

    model_config = ConfigDict(json_schema_extra=_like(reason="the season is over"))

    reason: Annotated[str, Field(max_length=1000)] = ""


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
}


class StatusOut(BaseModel):
    """Where a trial stands."""

    model_config = ConfigDict(json_schema_extra=_like(**_STATUS))

    state: State
    phase: int = Field(description="The open phase, or the last one.")
    given: int = Field(description="Assignments of that phase given out.")
    answered: int = Field(description="How many of those are answered, or lost.")
    outstanding: int = Field(description="How many outcomes are awaited.")
    remaining: int = Field(description="Assignments of that phase still to give out.")
    pulls: int = Field(description="Assignments given out in all.")
    lost: int = Field(description="Assignments whose outcome will not come, or came too late.")
    late: int = Field(description="Outcomes that came too late to be used.")

    @classmethod
    def of(cls, status: Status) -> StatusOut:
        """From the library's."""
        return cls.model_construct(**{name: getattr(status, name) for name in cls.model_fields})


class ExperimentOut(BaseModel):
    """A trial."""

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
    """Trials, oldest first."""

    model_config = ConfigDict(
        json_schema_extra=_like(
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
    """One pull to be made."""

    id: int
    arm: int = Field(description="Its row in the source.")
    label: str = Field(description="The arm's name.")
    probability: float = Field(description="With which it was drawn; 1 under a fixed plan.")
    phase: int


class AssignmentsOut(BaseModel):
    """The assignments of one request: fewer than asked for while a phase awaits its outcomes."""

    model_config = ConfigDict(
        json_schema_extra=_like(
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
        description="Where fewer were given than asked for: how many outcomes are awaited first."
    )
    state: State

    @staticmethod
    def plain(batch: Batch) -> dict[str, Any]:
        """From the library's, as plain data: a batch may be large."""
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
    """What became of outcomes that were told."""

    model_config = ConfigDict(json_schema_extra=_like(recorded=2, repeated=0, late=0))

    recorded: int = Field(description="On record from now on.")
    repeated: int = Field(description="On record before, with the same reward.")
    late: int = Field(description="Of those recorded: came too late to be used.")

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptOut:
        """From the library's."""
        return cls(**vars(receipt))


class RecommendationOut(BaseModel):
    """The target the policy would name now, and how far that can be relied on."""

    model_config = ConfigDict(
        json_schema_extra=_like(
            target=2,
            label="express",
            final=True,
            reason="certified",
            pulls=1210,
            error_bound=0.05,
            active=[2],
            chosen=[2],
            assumptions=["All rewards lie between 0 and 1."],
            statement="'express' is best, with an error probability of at most 0.05.",
        )
    )

    target: int
    label: str
    final: bool
    reason: str
    pulls: int
    error_bound: float | None
    active: list[int]
    chosen: list[int]
    assumptions: list[str]
    statement: str

    @classmethod
    def of(cls, said: Recommendation) -> RecommendationOut:
        """From the library's."""
        return cls(**{name: getattr(said, name) for name in cls.model_fields})


class CheckOut(BaseModel):
    """One of the trial's health checks."""

    name: str
    level: Literal["ok", "warning", "alarm"]
    finding: str
    action: str


class HealthOut(BaseModel):
    """All of them."""

    model_config = ConfigDict(
        json_schema_extra=_like(
            checks=[
                {
                    "name": "allocation",
                    "level": "ok",
                    "finding": "Arms were pulled as often as planned.",
                    "action": "",
                }
            ]
        )
    )

    checks: list[CheckOut]


class EventOut(BaseModel):
    """A change of the trial's state."""

    number: int
    at: float = Field(description="When, in seconds since 1970.")
    kind: str
    data: dict[str, Any]
    hash: str = Field(description="Of this event and the hash before it.")

    @classmethod
    def of(cls, event: Event) -> EventOut:
        """From the library's, without the seed of the draws."""
        data = {name: value for name, value in event.data.items() if name != "seed"}
        return cls(**{**vars(event), "data": data})


class EventsOut(BaseModel):
    """A part of the log, and where to go on reading."""

    model_config = ConfigDict(
        json_schema_extra=_like(
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
