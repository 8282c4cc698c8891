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
    """

    number: int  # 0, 1, 2, … in the order told
    phase: int  # under whose plan its pulls were drawn
    first: int  # the id of the first assignment it covers
    end: int  # the id after the last
    late: bool  # whether their phase was closed before
    summary: Summary  # the totals, less forecasts where there are any
    digest: str  # of the answers it was made from
    plain: Summary | None = None  # the totals of rewards as told, where there are forecasts

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
    """An `ask` that has a name."""

    name: str
    count: int  # rounds asked for: assignments, unless these come in blocks
    first: int  # the id of the first assignment it was given
    size: int  # how many it was given
    phase: int  # their phase
