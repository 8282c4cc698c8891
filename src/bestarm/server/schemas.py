"""What goes in and out over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bestarm.live import Batch, Receipt, Status
from bestarm.live.ledger import Event
from bestarm.policies import POLICIES
from bestarm.records import Recommendation

__all__ = [
    "AskBody",
    "AssignmentsOut",
    "CreateBody",
    "EventsOut",
    "ExperimentOut",
    "FailBody",
    "HealthOut",
    "ListOut",
    "ReceiptOut",
    "RecommendationOut",
    "StatusOut",
    "StopBody",
    "TellBody",
]

Number = Annotated[float, Field(allow_inf_nan=False)]
Row = Annotated[list[Number], Field(min_length=1, max_length=10_000)]
Features = Annotated[list[Row], Field(min_length=1, max_length=100_000)]
Label = Annotated[str, Field(max_length=1000)]
Labels = Annotated[list[Label], Field(max_length=100_000)]
Id = Annotated[int, Field(ge=0, lt=2**63)]


def _known(policy: str) -> str:
    # Over HTTP only those of ours: a module's name would have the server import it.
    if policy not in POLICIES:
        raise ValueError(f"`policy` must be one of {', '.join(POLICIES)}")
    return policy


PolicyName = Annotated[
    str, AfterValidator(_known), Field(json_schema_extra={"enum": list(POLICIES)})
]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CreateBody(_In):
    """A trial to begin."""

    name: Annotated[str, Field(min_length=1, max_length=200, examples=["checkout"])]
    source: Annotated[
        Features,
        Field(
            description="Features of what can be tried, one row an arm.",
            examples=[[[1, 0], [0, 1]]],
        ),
    ]
    source_labels: Labels | None = Field(default=None, examples=[["old button", "new button"]])
    target: Features | None = Field(
        default=None, description="Features of what is chosen among; the source if left out."
    )
    target_labels: Labels | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    baseline: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    policy: PolicyName = "anytime"
    options: dict[str, Any] = Field(
        default_factory=dict, description="Of the policy.", examples=[{"bounds": [0, 1]}]
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="Of the draws; a random one if left out."
    )
    lease: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Seconds an outcome may take; any time if left out."
    )
    description: Annotated[str, Field(max_length=10_000)] = ""


class AskBody(_In):
    """How many assignments are wanted."""

    count: Annotated[int, Field(ge=1)] = 1


class OutcomeIn(_In):
    """The outcome of one assignment."""

    id: Id
    reward: Number


class TellBody(_In):
    """Outcomes: all of them are recorded or none."""

    outcomes: list[OutcomeIn]


class FailBody(_In):
    """Assignments whose outcome will never come."""

    ids: list[Id]
    reason: Annotated[str, Field(max_length=1000)] = "failed"


class StopBody(_In):
    """Why a trial is stopped."""

    reason: Annotated[str, Field(max_length=1000)] = ""


class StatusOut(BaseModel):
    """Where a trial stands."""

    state: str
    phase: int
    given: int
    answered: int
    outstanding: int
    remaining: int
    pulls: int
    lost: int
    late: int

    @classmethod
    def of(cls, status: Status) -> StatusOut:
        """From the library's."""
        return cls(**{name: getattr(status, name) for name in cls.model_fields})


class ExperimentOut(BaseModel):
    """A trial."""

    name: str
    description: str
    created: float
    status: StatusOut


class ListOut(BaseModel):
    """All trials, oldest first."""

    experiments: list[ExperimentOut]


class AssignmentOut(BaseModel):
    """One pull to be made."""

    id: int
    arm: int
    label: str
    probability: float
    phase: int


class AssignmentsOut(BaseModel):
    """The assignments of one request: fewer than asked for while a phase awaits its outcomes."""

    assignments: list[AssignmentOut]
    phase: int
    waiting: int
    state: str

    @classmethod
    def of(cls, batch: Batch) -> AssignmentsOut:
        """From the library's."""
        rows = [AssignmentOut(**vars(assignment)) for assignment in batch]
        return cls(assignments=rows, phase=batch.phase, waiting=batch.waiting, state=batch.state)


class ReceiptOut(BaseModel):
    """What became of outcomes that were told."""

    recorded: int
    repeated: int
    late: int

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptOut:
        """From the library's."""
        return cls(**vars(receipt))


class RecommendationOut(BaseModel):
    """The target the policy would name now, and how far that can be relied on."""

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
    level: str
    finding: str
    action: str


class HealthOut(BaseModel):
    """All of them."""

    checks: list[CheckOut]


class EventOut(BaseModel):
    """A change of the trial's state."""

    number: int
    at: float
    kind: str
    data: dict[str, Any]
    hash: str

    @classmethod
    def of(cls, event: Event) -> EventOut:
        """From the library's."""
        return cls(**vars(event))


class EventsOut(BaseModel):
    """A part of the log, and where to go on reading."""

    events: list[EventOut]
    next: int
