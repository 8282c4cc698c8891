"""What a ledger holds, as values: assignments as rows of arrays, and records of all else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import BestArmError, DamagedStoreError
from bestarm.records import BlockPlan, Plan, Rounds, Summary, as_blocks

Data = TypeVar("Data")

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
    """A plan, the first assignment and the first round drawn under it, and the numbers of reports
    and of values of guardrails that were on record when it was made."""

    plan: Plan
    first: int
    round: int
    reports: int = 0
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
T = TypeVar("T", Report, GuardrailValue)  # of which an assignment may have several


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


def id_ranges(ids: Ids, gap: int = _MAX_GAP) -> Iterator[Ids]:
    """These ids in order, in parts that are each read as one range: ids that are farther apart
    than `gap` are not of one part."""
    ordered = np.sort(ids)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > gap) + 1)
    return (part for part in parts if part.size)


# --- Records as their tables have them -----------------------------------------------------------


def as_row(record: Record) -> dict[str, Any]:
    """A record as its table has it: plans, summaries and what is not a single value as JSON."""
    row: dict[str, Any] = {"phase": record.number} if isinstance(record, PlanRecord) else {}
    for name, value in vars(record).items():
        part = as_data(value) if isinstance(value, (Plan, Summary)) else value
        row[name] = canonical(part) if isinstance(part, (dict, tuple)) else part
    if isinstance(record, Report):
        row["late"] = int(record.late)
    return row


def read_plan(phase: int, text: str, *numbers: int) -> PlanRecord:
    """A plan from its row."""
    plan = _parsed(_plan, text, what := f"the plan of phase {phase}")
    if plan.phase != phase:
        raise damaged(f"The record of {what} cannot be read (it is one of phase {plan.phase}).")
    return PlanRecord(plan, *numbers)


def _plan(data: dict[str, Any]) -> Plan:
    if "blocks" in data:
        plan: Plan = BlockPlan(**data)
    elif data["counts"] is not None:
        plan = Plan.fixed(data["counts"], phase=data["phase"], center=data["center"])
    else:
        plan = Plan.randomised(**{name: data[name] for name in data if name != "counts"})
    if as_data(plan) != data:
        raise ValueError("it contradicts itself")
    return plan


def read_summary(number: int, *parts: Any) -> SummaryRecord:
    """A summary from its row."""
    phase, first, end, late, text, digest, plain = parts
    what = f"summary {number}"
    summary = _parsed(_summary, text, what)
    told = None if plain is None else _parsed(_summary, plain, what)
    return SummaryRecord(number, phase, first, end, late, summary, digest, told)


def _summary(data: dict[str, Any]) -> Summary:
    if "kinds" in data:
        return Rounds.read(as_blocks(data.pop("blocks"), data["arms"]), **data)
    return Summary(forecast_sum=data.pop("foreseen"), **data)


def read_report(number: int, assignment: int, reward: float, told: float, late: int) -> Report:
    """A report from its row."""
    return Report(number, assignment, reward, told, bool(late))


def read_change(number: int, *parts: Any) -> Change:
    """A change from its row."""
    phase, kind, label, reason, text, made_by, at = parts
    features = None
    if text is not None:
        try:
            features = tuple(map(float, json.loads(text)))
        except UNREADABLE as error:
            what = f"The features of option {label!r} cannot be read ({error})."
            raise damaged(what, label) from error
    return Change(number, phase, kind, label, reason, features, made_by, at)


def read_event(number: int, at: float, kind: str, text: str, hashed: str) -> Event:
    """An event from its row."""
    return Event(number, at, kind, _parsed(dict, text, f"event {number}"), hashed)


def _parsed(read: Callable[[dict[str, Any]], Data], text: str, what: str) -> Data:
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError("it is not an object")
        return read(data)
    except (*UNREADABLE, BestArmError) as error:
        why = str(error).rstrip(".")
        raise damaged(f"The record of {what} cannot be read ({why}).", what) from error
