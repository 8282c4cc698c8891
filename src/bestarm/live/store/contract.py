"""The store contract: what an experiment needs of the place where it is kept.

A `Ledger` holds one experiment: a `Head` of counters, and rows that are only ever added. Everything
an experiment does is a short transaction on its ledger: a `Snapshot`, which only reads, or a
`Transaction`, which writes too. An implementation keeps the rules below;
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

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.live.store.head import Head
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Rounds, Summary

__all__ = [
    "ANSWER",
    "ROW",
    "Change",
    "Event",
    "GuardrailValue",
    "Head",
    "Ids",
    "Ledger",
    "PlanRecord",
    "Record",
    "Report",
    "Request",
    "Rows",
    "Snapshot",
    "SummaryRecord",
    "Transaction",
    "UnitCounts",
    "UnitKey",
    "UnitRecord",
    "answers_of",
    "is_outstanding",
]

# --- Records ------------------------------------------------------------------------------------

# One row per assignment; those of one round were drawn together. The reward is NaN while there is
# no outcome. `lost` is the time at which the outcome was given up, or NaN; an outcome that came
# after that is kept, and is not used. The forecast was fixed before the arm was drawn; NaN where
# there is none.
ROW = np.dtype(
    [
        *((name, np.int64) for name in ("id", "round", "phase", "arm")),
        *((name, float) for name in ("probability", "asked", "forecast", "reward", "told")),
        *(("late", bool), ("lost", float)),
    ]
)
# What a summary is made of, and what its digest covers. Where the assignment was lost, `reward` and
# `told` are NaN, even if an outcome came later.
_NUMBERS = ("reward", "asked", "told", "lost", "forecast")
ANSWER = np.dtype([("arm", "<i8"), *((name, "<f8") for name in _NUMBERS)])
Rows = NDArray[Any]
Ids = NDArray[np.int64]

ALL = 2**62  # above every number of a record, and every id
_MAX_GAP = 1000  # ids farther apart than this are read as two ranges

# What reading a text of another shape than it should have may raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """A plan, the first assignment and the first round drawn under it, and the number of values
    that guardrails knew when it was made."""

    plan: Plan
    first: int
    round: int
    values: int = 0

    @property
    def number(self) -> int:
        """The phase: 1, 2, 3, …"""
        return self.plan.phase


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

    @property
    def number(self) -> int:
        """Requests are in order of their assignments."""
        return self.first


@dataclass(frozen=True)
class Report:
    """What was told of an assignment whose outcome has a window."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    reward: float
    told: float
    late: bool  # whether the assignment was settled before, or the experiment over


@dataclass(frozen=True)
class GuardrailValue:
    """A value told of a guardrail."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    phase: int  # of the assignment
    arm: int
    guardrail: int  # its place among the guardrails of the experiment
    value: float
    told: float


class UnitKey(NamedTuple):
    """A unit and its decision point, which is empty where none was named."""

    unit: str
    decision_point: str = ""


class UnitCounts(NamedTuple):
    """How many rounds were about units that are not erased."""

    units: int = 0  # each counted once
    rounds: int = 0
    most: int = 0  # about one unit
    last: int = 0  # the last round of that unit; of several such, the latest


@dataclass(frozen=True)
class UnitRecord:
    """What is known of a round before its draw: the unit it is about, and covariates.

    The digest covers it together with a random salt, and the log covers the digest. Erasing removes
    all but the digest, which without its salt says nothing.
    """

    round: int  # −1, −2, … where the unit was not available, and nothing was drawn
    first: int  # the id of the round's first assignment, or of the next one made
    size: int  # how many assignments it has
    digest: str
    salt: str | None  # None once it is erased
    unit: str | None = None
    decision_point: str | None = None  # empty where the unit has none
    covariates: str | None = None  # as JSON

    @property
    def number(self) -> int:
        """That of its round."""
        return self.round

    def erased(self) -> UnitRecord:
        """What is left of it once it is erased."""
        return UnitRecord(self.round, self.first, self.size, self.digest, None)


@dataclass(frozen=True)
class Change:
    """An option that was added or retired."""

    number: int  # 0, 1, 2, … in the order made
    phase: int  # in which it was made: that of the last plan by then, or 0
    kind: str  # "added" or "retired"
    label: str
    reason: str  # why it was retired; empty for an option that was added
    features: tuple[float, ...] | None  # of an option that was added; None: a dimension of its own
    made_by: str  # "hand", or what retired it by itself
    at: float


Record = (
    PlanRecord | SummaryRecord | Event | Change | Request | UnitRecord | Report | GuardrailValue
)
R = TypeVar("R", bound=Record)
T = TypeVar("T", Report, GuardrailValue)


def is_outstanding(rows: Rows) -> NDArray[np.bool_]:
    """Which of these assignments have neither an outcome nor a loss."""
    outstanding: NDArray[np.bool_] = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
    return outstanding


def answers_of(rows: Rows) -> Rows:
    """The answers among rows."""
    answers = rows[list(ANSWER.names or ())].astype(ANSWER)
    for name in ("reward", "told"):
        answers[name][~np.isnan(rows["lost"])] = np.nan
    return answers


def damaged(sentence: str, what: object = None) -> DamagedStoreError:
    """The error for a damaged record."""
    return DamagedStoreError(
        sentence,
        field="store",
        value=what,
        remedy="Was the database edited, or restored in part? `Experiment.verify` lists what does "
        "not agree; restore the whole of it.",
    )


def check_arms(arms: Ids, size: int) -> None:
    """Raise unless all assignments have an arm of the problem."""
    wrong = arms[(arms < 0) | (arms >= size)]
    if wrong.size:
        raise damaged(f"An assignment has arm {wrong[0]} on record, of {size}.", int(wrong[0]))


def check_size(what: str, arms: int, size: int) -> None:
    """Raise unless a plan or a summary is of as many arms as there are."""
    if arms != size:
        raise damaged(f"{what} is of {arms} arms, of {size}.", arms)


def canonical(data: object) -> str:
    """The one way to write a value as JSON: floats as Python writes them, so they read back."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_data(record: Plan | Summary) -> dict[str, Any]:
    """A plan or a summary as plain data, as it is stored and as the log's digests cover it."""
    if isinstance(record, Rounds):
        return record.data

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    data = {each.name: plain(getattr(record, each.name)) for each in fields(record)}
    if isinstance(record, Summary):
        # The name in all databases: with another, their experiments could not be read or verified.
        data["foreseen"] = data.pop("forecast_sum")
    return data


# --- The ledger ---------------------------------------------------------------------------------


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
    def records(self, kind: type[R], start: int = 0, end: int = ALL) -> Iterator[R]:
        """The records of a kind with numbers from `start` up to `end`, in order of number."""

    @abstractmethod
    def records_of(self, kind: type[T], ids: Sequence[int]) -> Sequence[T]:
        """The reports of these assignments, or the values of guardrails, in order of number."""

    def plans(self, start: int = 1) -> Iterator[PlanRecord]:
        """The plans from a phase on."""
        return self.records(PlanRecord, start)

    def summaries(self, start: int = 0) -> Iterator[SummaryRecord]:
        """The summaries from a number on."""
        return self.records(SummaryRecord, start)

    def events(self, start: int = 0, end: int = ALL) -> Iterator[Event]:
        """The events with numbers from `start` up to `end`."""
        return self.records(Event, start, end)

    def changes(self, start: int = 0) -> Iterator[Change]:
        """The changes of options from a number on."""
        return self.records(Change, start)

    @abstractmethod
    def request(self, name: str) -> Request | None:
        """The request of exactly this name, or None."""

    @abstractmethod
    def rows(self, first: int, end: int) -> Iterator[Rows]:
        """The assignments with ids from `first` up to `end`, as ROW, in order of id, in pieces.

        Ids that were never assigned are left out.
        """

    @abstractmethod
    def units_named(self, keys: Sequence[UnitKey]) -> dict[UnitKey, UnitRecord]:
        """The rounds about these units at these decision points, as far as there are any."""

    @abstractmethod
    def rounds_of(self, unit: str) -> Ids:
        """The numbers of the rounds about a unit, in no order."""

    @abstractmethod
    def unit_counts(self) -> UnitCounts:
        """How many rounds were about units, where something was drawn."""

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
        self, first: int = 0, end: int = ALL, *, waiting: bool = False
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
        found = next(self.records(PlanRecord, phase, phase + 1), None)
        if found is None:
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
        forecasts: Array | None = None,
    ) -> None:
        """Add assignments of the head's phase, with ids from the head's `assigned` on.

        They come in rounds of the head's `size`, numbered from the head's `rounds` on.

        Args:
            arms: one per assignment.
            probabilities: of the arms to be in their round.
            at: the time.
            forecasts: one per assignment, or None.

        Raises:
            StoreError: one of these ids is on record.
        """

    @abstractmethod
    def erase_units(self, rounds: Ids) -> None:
        """Erase what is known of rounds, but for its digest: the one change of what was added."""

    @abstractmethod
    def add_outcomes(
        self, ids: Sequence[int], rewards: Sequence[float], *, at: float, late: Sequence[bool]
    ) -> None:
        """Add outcomes of assignments that have none.

        Raises:
            StoreError: one of these assignments has an outcome.
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
    def add(self, *records: Record) -> None:
        """Add records of one kind.

        Raises:
            StoreError: one of its kind and number is on record; or another request of its name,
                another round of its unit at its decision point, or another value of its assignment
                and guardrail.
        """


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

    def purge(self) -> None:
        """Remove what was erased from files, as far as the ledger has files of its own.

        Raises:
            StoreUnavailableError: another program reads the file, and keeps it there.
        """

    def close(self) -> None:
        """Release connections and files."""
