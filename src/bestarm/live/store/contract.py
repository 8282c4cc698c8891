"""What an experiment needs of the place where it keeps its books.

A ledger holds one experiment: a small head with counters, and rows that are only ever added.
Everything an experiment does is a short transaction on it: what is read in one belongs together,
what is written in one is there whole or not at all, and one is written at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array
from bestarm.records import Plan, Summary

__all__ = [
    "ROW",
    "TIMES",
    "Entry",
    "Event",
    "Head",
    "Ledger",
    "Loss",
    "Opened",
    "Reading",
    "Request",
    "Rows",
    "Sizes",
    "Writing",
]

_NEARLY_ALL = 16  # outcomes in for every one that is outstanding

# One row per assignment. A reward that is NaN has not been told. `lost` is when its outcome was
# given up, NaN if it was not; an outcome that came after that is there as well, and is not used.
ROW = np.dtype(
    [
        ("id", np.int64),
        ("phase", np.int64),
        ("arm", np.int64),
        ("probability", float),
        ("asked", float),
        ("reward", float),
        ("told", float),
        ("late", bool),
        ("lost", float),
    ]
)
# When one that is settled was given out, told or lost: one of the last two is NaN.
TIMES = np.dtype([("asked", "<f8"), ("told", "<f8"), ("lost", "<f8")])
Rows = NDArray[Any]
Ids = NDArray[np.int64]


@dataclass
class Head:
    """The counters of an experiment: all that is needed to ask, to tell and to say how it stands.

    Attributes:
        state: `"running"`, `"paused"`, `"stopped"` or `"finished"`.
        lease: seconds an outcome may take, or None for any time.
        given: assignments given out; the next one's id.
        told: outcomes told in time.
        lost: assignments given up.
        late: outcomes told too late.
        refused: assignments for which a reward outside the bounds was refused.
        lowest: the least reward told.
        highest: the largest.
        phase: the open phase, or the last one.
        planned: whether a plan is open.
        open: whether that plan may be extended.
        provisional: whether it may close while outcomes are outstanding.
        pulls: how many pulls it asks for.
        most: how many it may be extended to, or None; less what was out under the plan before
            when it was made.
        first: the id of the phase's first assignment.
        phase_told: outcomes told in time of the phase's assignments.
        phase_lost: those of its assignments that were given up.
        behind: assignments before `first` that are not settled.
        handed: assignments that the policy has been told of.
        fresh: of those it was told were outstanding, how many are settled by now and not told yet.
        amended: how many it was told later, since the open plan was made.
        settled: all ids below this one are settled.
        oldest: no unsettled assignment was given out before this time.
        summaries: the number of summaries the policy has been told.
        events: the number of events logged.
        tip: the hash of the last.
        requests: the hash of the last request that has a name, and of all before it.
        at: the latest time at which anything was written.
        setback: by how many seconds the clock was ever seen to be behind that.
    """

    state: str = "running"
    lease: float | None = None
    given: int = 0
    told: int = 0
    lost: int = 0
    late: int = 0
    refused: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    phase: int = 0
    planned: bool = False
    open: bool = False
    provisional: bool = False
    pulls: int = 0
    most: int | None = None
    first: int = 0
    phase_told: int = 0
    phase_lost: int = 0
    behind: int = 0
    handed: int = 0
    fresh: int = 0
    amended: int = 0
    settled: int = 0
    oldest: float = math.inf
    summaries: int = 0
    events: int = 0
    tip: str = ""
    requests: str = ""
    at: float = -math.inf
    setback: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing more will be given out or decided."""
        return self.state in {"stopped", "finished"}

    @property
    def waits(self) -> bool:
        """Whether what is decided waits for the first outcome that is outstanding."""
        return self.open and not self.provisional

    @property
    def needed(self) -> int:
        """How many of the phase's assignments must be given out, as far as is known."""
        return self.pulls if self.open else self.pulls + self.phase_lost

    @property
    def remaining(self) -> int:
        """How many are still to be given out."""
        if not self.planned or self.over:
            return 0
        left = max(0, self.needed - (self.given - self.first))
        if self.provisional and self.most is not None:
            left = min(left, max(0, self.most - (self.given - self.first)))
        return left

    @property
    def outstanding(self) -> int:
        """Assignments that are not settled, of all that matter still."""
        return self.given - self.first - self.phase_told - self.phase_lost + self.behind

    def available(self, count: int) -> int:
        """How many of `count` more assignments the open plan allows for."""
        if not self.planned or self.state != "running":
            return 0
        if not self.open:
            return min(count, max(0, self.needed - (self.given - self.first)))
        if self.most is None:
            return count
        # Whether the plan's own share is needed at all shows once what was out before is answered.
        exact = self.provisional or self.handed < self.first
        limit = self.most if exact else max(self.most, self.pulls)
        return min(count, max(0, limit - (self.given - self.first)))

    @property
    def due(self) -> bool:
        """Whether the policy may have something to do: a plan to make, or outcomes to be told."""
        if self.over:
            return False
        if not self.planned or (self.handed < self.first and not self.behind):
            return True
        if self.provisional or self.fresh:
            return self.amendable or self.closable
        if self.behind:
            return False
        if self.open:
            return self.settled - self.first >= self.pulls
        return self.phase_told >= self.pulls

    @property
    def amendable(self) -> bool:
        """Whether enough outcomes that were outstanding are in to tell the policy of them.

        It is told of as many as a plan asks for, or of nearly all that there are.
        """
        return self.fresh > 0 and self.fresh >= min(self.pulls, _NEARLY_ALL * self.behind)

    @property
    def closable(self) -> bool:
        """Whether a provisional plan is given out, and as many outcomes as it asks for are in.

        Of any phase: where outcomes are slow, those of earlier phases are what there is to learn.
        """
        news = self.phase_told + self.phase_lost + self.fresh + self.amended
        return self.provisional and min(self.given - self.first, news) >= self.pulls


@dataclass(frozen=True, eq=False)
class Opened:
    """A plan, and the id of the first assignment drawn under it."""

    plan: Plan
    first: int


@dataclass(frozen=True, eq=False)
class Entry:
    """A summary as the policy was told it.

    One of a provisional plan that is late covers assignments that were outstanding when the plan
    closed; `first` and `end` are the least and the largest of their ids, and others lie between.

    Attributes:
        number: 0, 1, 2, … in the order told.
        phase: the phase whose plan its pulls were drawn under.
        first: the id of the first assignment it covers.
        end: the id after the last.
        late: whether they were drawn under the plan before the one that was open.
        summary: the totals.
        digest: of the rows that it was made from.
    """

    number: int
    phase: int
    first: int
    end: int
    late: bool
    summary: Summary
    digest: str


@dataclass(frozen=True)
class Event:
    """A change of the experiment's state, chained to the one before it by its hash."""

    number: int
    at: float
    kind: str
    data: dict[str, Any] = field(hash=False)
    hash: str


@dataclass(frozen=True)
class Request:
    """An `ask` that was given a name: which ids it got."""

    name: str
    count: int
    first: int
    size: int
    phase: int
    waiting: int


class Loss(NamedTuple):
    """An assignment that was given up: when, why, and as which of its phase."""

    id: int
    phase: int
    place: int
    reason: str
    at: float


@dataclass(frozen=True)
class Sizes:
    """How many rows of each kind there are in the books, whether they belong there or not."""

    assignments: int
    outcomes: int
    losses: int
    refusals: int
    phases: int
    deferred: int
    summaries: int
    events: int


class Reading(Protocol):
    """What can be read in a transaction.

    Attributes:
        head: the counters; in a `Writing`, change them in place.
    """

    head: Head

    def now(self) -> float:
        """The time, in seconds since 1970, by the one clock of all who share the books: where they
        are on a server, by the server's, as it was once the transaction had the books to itself.
        """
        ...

    def opened(self, phase: int) -> Opened:
        """A phase's plan."""
        ...

    def request(self, name: str) -> Request | None:
        """The named ask, if there was one."""
        ...

    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """Assignments with what became of them, in order of id, in pieces."""
        ...

    def answers(self, first: int, end: int) -> Iterator[tuple[Ids, Array]]:
        """Arms and rewards of assignments that are settled, in order of id, in pieces.

        The reward is NaN where the assignment was lost, even if an outcome came later.
        """
        ...

    def times(self, first: int, end: int) -> Iterator[Rows]:
        """When assignments that are settled were given out, told or lost, in pieces as TIMES.

        The time of telling is NaN where the assignment was lost, even if an outcome came later.
        """
        ...

    def rewards(self, ids: Ids) -> dict[int, float]:
        """The rewards on record of these assignments."""
        ...

    def lost(self, ids: Ids) -> set[int]:
        """Which of these assignments were given up."""
        ...

    def lost_arms(self, phase: int, start: int, count: int) -> NDArray[np.int64]:
        """The arms of a phase's lost assignments in the order of their loss, from one on."""
        ...

    def unsettled(self, start: int, end: int, *, asked_by: float | None = None) -> Ids:
        """The ids in a range that are neither told nor lost, or the first of them alone.

        Args:
            start: the first id to look at.
            end: the id after the last.
            asked_by: give all that were given out by this time; if None, only the first.
        """
        ...

    def asked(self, number: int) -> float:
        """When an assignment was given out."""
        ...

    def deferred(self, *, waiting: bool = False) -> Iterator[tuple[Ids, Ids]]:
        """Assignments that were outstanding when their phase closed, in order of id, in pieces.

        With the number of the summary that has their outcome, −1 while there is none.

        Args:
            waiting: only those for which there is none.
        """
        ...

    def arrived(self) -> Ids:
        """Those of them that are told or lost by now, and that no summary has yet."""
        ...

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The summaries told to the policy, from a number on."""
        ...

    def phases(self, start: int = 1) -> Iterator[Opened]:
        """The plans that were opened, from a phase on."""
        ...

    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The log, from a number on, up to a limit."""
        ...

    def requests(self) -> Iterator[Request]:
        """The named asks, in the order made."""
        ...

    def losses(self) -> Iterator[Loss]:
        """What was given up, phase by phase, in the order of loss."""
        ...

    def misdated(self) -> Iterator[str]:
        """What has a time on record beside that of the event or assignment it belongs to."""
        ...

    def sizes(self) -> Sizes:
        """How many rows there are."""
        ...


class Writing(Reading, Protocol):
    """What can be done in a transaction that writes. The head is saved when it ends."""

    def give(
        self, arms: NDArray[np.int64], probabilities: Array, *, at: float, request: Request | None
    ) -> None:
        """Add assignments of the open phase, from the head's `given` on."""
        ...

    def tell(self, ids: Ids, rewards: Array, *, at: float, late: NDArray[np.bool_]) -> int:
        """Add outcomes, except where there is one already; gives how many were added."""
        ...

    def lose(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Record that outcomes will not come, in the order given."""
        ...

    def refuse(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Record that rewards were refused, except where one was before; gives how many are new."""
        ...

    def defer(self, ids: Ids) -> None:
        """Record that assignments were outstanding when their phase closed."""
        ...

    def amend(self, ids: Ids, *, entry: int) -> None:
        """Record which summary has the outcomes of assignments that were outstanding."""
        ...

    def add_entry(self, entry: Entry) -> None:
        """Add a summary."""
        ...

    def open_phase(self, opened: Opened) -> None:
        """Add a plan."""
        ...

    def add_event(self, event: Event) -> None:
        """Add to the log."""
        ...


class Ledger(Protocol):
    """One experiment's books."""

    def reading(self) -> AbstractContextManager[Reading]:
        """A transaction that sees one state of the books."""
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """A transaction that others wait for; on an exception nothing of it remains."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
