"""The store contract: what an experiment needs of the place where it is kept.

A `Ledger` holds one experiment: a `Head` of counters, and rows that are only ever added. Everything
an experiment does is a short transaction on its ledger: a `Snapshot`, which only reads, or a
`Transaction`, which writes too. An implementation keeps the laws below;
`bestarm.testing.check_store` tests each of them.

Threads and processes:
    Any number of threads may use a ledger at once, and so may any number of processes that have
    opened it where it is stored. A snapshot or transaction belongs to the thread that began it.

Consistency:
    Everything read in one snapshot or transaction belongs to one state: what others commit
    meanwhile is not in it. Whatever begins after a commit reads what was committed. Writers take
    turns: a `Transaction` begins once no other one on the same experiment is active, so that its
    head is the latest. Numbers are read back to the bit and texts to the letter.

Atomicity:
    A `Transaction` is committed as a whole, with its head, when its `with` block ends without an
    exception. After an exception, or when the process is killed, everything is as it was before.
    Where the ledger is stored, the rows are on disk when the block has ended.

Errors:
    Any method of a stored ledger raises `StoreUnavailableError` where the database cannot be
    reached or written to (nothing was changed, and the call can be repeated), and any method that
    reads raises `DamagedStoreError` where a record cannot be read. `Raises` below names what else a
    method raises.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from bestarm.live.store.records import (
    ANSWER,
    ROW,
    Event,
    Head,
    Ids,
    PlanRecord,
    Report,
    Request,
    Rows,
    SummaryRecord,
    answers_of,
    damaged,
)
from bestarm.numerics.geometry import Array

__all__ = [
    "ANSWER",
    "ROW",
    "Event",
    "Head",
    "Ids",
    "Ledger",
    "PlanRecord",
    "Report",
    "Request",
    "Rows",
    "Snapshot",
    "SummaryRecord",
    "Transaction",
    "answers_of",
]

_MAX_GAP = 1000  # ids farther apart than this are read as two ranges


class Snapshot(ABC):
    """The state of an experiment at one moment, to read.

    Attributes:
        head: the counters. In a `Transaction`, change them in place.
    """

    head: Head

    @abstractmethod
    def now(self) -> float:
        """The time in seconds since 1970, by the one clock of all who share the ledger.

        For a database server that is the server's clock, read once a `Transaction` has begun.
        """

    @abstractmethod
    def plans(self, start: int = 1, *, limit: int | None = None) -> Iterator[PlanRecord]:
        """The plans from a phase on, in order of phase, at most `limit` of them."""

    @abstractmethod
    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on, in order of number."""

    @abstractmethod
    def events(self, start: int = 0, *, limit: int | None = None) -> Iterator[Event]:
        """The events from a number on, in order of number, at most `limit` of them."""

    @abstractmethod
    def request(self, name: str) -> Request | None:
        """The request of exactly this name, or None."""

    @abstractmethod
    def requests(self) -> Iterator[Request]:
        """All named requests, in the order made."""

    @abstractmethod
    def reports(self, start: int = 0) -> Iterator[Report]:
        """The reports from a number on, in order of number."""

    @abstractmethod
    def reports_of(self, ids: Sequence[int]) -> Iterator[Report]:
        """The reports of these assignments; those of one assignment in order of number."""

    @abstractmethod
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ROW, in order of id, in pieces.

        Ids that were never assigned are left out.
        """

    @abstractmethod
    def covariates(self, first: int, end: int) -> dict[int, str]:
        """The covariates of the assignments with ids from `first` up to `end`, as JSON, by id.

        Assignments without covariates are left out.
        """

    @abstractmethod
    def lost_arms(self, phase: int, start: int, count: int) -> Ids:
        """The arms of `count` lost assignments of a phase, in the order of loss, from number
        `start` on; fewer where there are fewer."""

    @abstractmethod
    def first_outstanding(self, start: int, end: int) -> int | None:
        """The least outstanding id from `start` up to `end`, or None."""

    @abstractmethod
    def outstanding(self, start: int, end: int, *, asked_by: float = math.inf) -> Ids:
        """The outstanding ids from `start` up to `end` that were asked for by a time, in order."""

    @abstractmethod
    def deferrals(
        self, first: int = 0, end: int = 2**62, *, waiting: bool = False
    ) -> tuple[Ids, Ids]:
        """The deferred assignments, which were outstanding when their phase closed, in order of id,
        and the number of the summary that covers each, or −1.

        Args:
            first: the least id.
            end: the id after the last.
            waiting: only those that no summary covers.
        """

    @abstractmethod
    def arrivals(self) -> Ids:
        """Deferred assignments that are settled and that no summary covers, in order of id."""

    def plan(self, phase: int) -> PlanRecord:
        """The plan of a phase.

        Raises:
            DamagedStoreError: the phase has no plan.
        """
        found = next(self.plans(phase, limit=1), None)
        if found is None or found.plan.phase != phase:
            raise damaged(f"The plan of phase {phase} cannot be read (it is missing).", phase)
        return found

    def answers(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ANSWER, in order of id, in pieces.

        Raises:
            DamagedStoreError: an id was never assigned.
        """
        for rows in self.rows(first, end):
            if np.any(rows["id"] != np.arange(first, first + len(rows))):
                break
            first += len(rows)
            yield answers_of(rows)
        if first < end:
            raise damaged(f"Some of the assignments {first} to {end - 1} are missing.", first)

    def asked_at(self, number: int) -> float:
        """The time at which an assignment was asked for.

        Raises:
            DamagedStoreError: the id was never assigned.
        """
        return float(next(self.answers(number, number + 1))["asked"][0])

    def rows_of(self, ids: Ids) -> Rows:
        """These assignments as ROW, in order of id, as far as there are any."""
        found = []
        for run in id_ranges(ids):
            first, end = int(run[0]), int(run[-1]) + 1
            pieces, dense = self.rows(first, end), end - first == len(run)
            found += [rows if dense else rows[np.isin(rows["id"], run)] for rows in pieces]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=ROW), *found])

    def settlements(self, ids: Sequence[int]) -> tuple[dict[int, float], set[int]]:
        """Of these assignments, the rewards of those that have one, and those that are lost."""
        rows = self.rows_of(np.asarray(ids, dtype=np.int64))
        told = rows[~np.isnan(rows["reward"])]
        rewards = dict(zip(told["id"].tolist(), told["reward"].tolist(), strict=True))
        return rewards, set(rows["id"][~np.isnan(rows["lost"])].tolist())


def id_ranges(ids: Ids) -> Iterator[Ids]:
    """These ids in order, in parts that are each read as one range."""
    ordered = np.sort(ids)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > _MAX_GAP) + 1)
    return (part for part in parts if part.size)


class Transaction(Snapshot):
    """A transaction that writes; the head is saved when it ends.

    Rows that it has added can be read in it.
    """

    @abstractmethod
    def add_assignments(
        self,
        arms: Ids,
        probabilities: Array,
        *,
        at: float,
        request: Request | None,
        forecasts: Array | None = None,
        covariates: Sequence[str] | None = None,
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on.

        They come in rounds of the head's `size`, numbered from the head's `rounds` on.

        Args:
            arms: one per assignment.
            probabilities: of the arms to be in their round.
            at: the time.
            request: the named request that they answer, which is added too.
            forecasts: one per assignment, or None.
            covariates: those of each assignment as JSON, or None.

        Raises:
            StoreError: one of these ids is on record.
        """

    @abstractmethod
    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        """Add outcomes of assignments that have none.

        Raises:
            StoreError: one of these assignments has an outcome.
        """

    @abstractmethod
    def add_reports(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        """Add reports, with numbers from the head's `reports` on.

        Raises:
            StoreError: a report of one of these numbers is on record.
        """

    @abstractmethod
    def add_losses(self, ids: Sequence[int], *, reason: str, at: float) -> None:
        """Add losses, in this order, after as many as the head's `losses`.

        Raises:
            StoreError: one of these assignments is lost already.
        """

    @abstractmethod
    def add_refusals(self, ids: Ids, rewards: Array, *, at: float) -> int:
        """Add refused rewards, unless the assignment has one; return the number added."""

    @abstractmethod
    def add_deferrals(self, ids: Ids) -> None:
        """Record that assignments are outstanding while their phase closes.

        Raises:
            StoreError: this is on record for one of them.
        """

    @abstractmethod
    def settle_deferrals(self, ids: Ids, *, summary: int) -> None:
        """Record the number of the summary that covers these assignments."""

    @abstractmethod
    def add_summary(self, record: SummaryRecord) -> None:
        """Add a summary; its number is the head's `summaries`."""

    @abstractmethod
    def add_plan(self, record: PlanRecord) -> None:
        """Add a plan; its phase follows that of the plan before."""

    @abstractmethod
    def add_event(self, event: Event) -> None:
        """Add an event; its number follows that of the event before."""


class Ledger(Protocol):
    """One experiment, wherever it is kept."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Begin a snapshot of the committed state.

        Raises:
            StoreUnavailableError: the database cannot be reached, or its file was replaced.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction, once other writers are done; it is rolled back on an exception.

        Raises:
            StoreUnavailableError: the database cannot be reached or written to, its file was
                replaced, or other writers did not finish in time.
        """

    def close(self) -> None:
        """Release connections and files."""
