"""The records of an experiment, and the error for those that cannot be right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.records import Plan, Summary

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

# What reading a text of another shape than it should have may raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


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


@dataclass(frozen=True)
class Report:
    """What was told of an assignment whose outcome has a window."""

    number: int  # 0, 1, 2, … in the order told
    assignment: int
    reward: float
    told: float
    late: bool  # whether the assignment was settled before, or the experiment over


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
