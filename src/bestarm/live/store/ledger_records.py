"""The records of an experiment: plans, summaries, events and requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bestarm.records import Plan, Summary


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """A plan, and the first assignment and the first round drawn under it."""

    plan: Plan
    first: int
    round: int


@dataclass(frozen=True, eq=False)
class SummaryRecord:
    """A summary as the policy was told it.

    A late summary of a provisional plan covers assignments that were outstanding when the plan
    closed: some of those with ids from `first` to `end`. It holds their totals alone; under a plan
    over blocks, all rounds of the phase once more.

    Attributes:
        number: 0, 1, 2, … in the order told.
        phase: the phase under whose plan its pulls were drawn.
        first: the id of the first assignment it covers.
        end: the id after the last.
        late: whether their phase was closed before.
        summary: the totals, less forecasts where there are any.
        digest: of the answers it was made from.
        plain: the totals of the same rewards as they were told, where there are forecasts.
    """

    number: int
    phase: int
    first: int
    end: int
    late: bool
    summary: Summary
    digest: str
    plain: Summary | None = None

    @property
    def observed(self) -> Summary:
        """The totals of rewards as they were told."""
        return self.summary if self.plain is None else self.plain


@dataclass(frozen=True)
class Event:
    """A change of the experiment's state, chained to the event before it by its hash."""

    number: int
    at: float
    kind: str
    data: dict[str, Any] = field(hash=False)
    hash: str


@dataclass(frozen=True)
class Request:
    """An `ask` that has a name.

    Attributes:
        name: the name.
        count: the number of rounds asked for: of assignments, unless these come in blocks.
        first: the id of the first assignment it was given.
        size: how many it was given.
        phase: their phase.
    """

    name: str
    count: int
    first: int
    size: int
    phase: int
