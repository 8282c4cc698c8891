"""The error for records that cannot be right, and the checks that raise it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.geometry import Array
from bestarm.records import Plan, Summary

# What reading a text of another shape than it should have may raise.
UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)
_LAST = 9e9  # seconds: dates after the year 2255, or as long before 1970, are not written


def damaged(sentence: str, what: object = None) -> DamagedStoreError:
    """The error for a damaged record."""
    return DamagedStoreError(
        sentence,
        field="store",
        value=what,
        remedy="Was the database edited, or restored in part? `Experiment.verify` lists what does "
        "not agree; restore the whole of it.",
    )


def check_arms(ids: NDArray[np.int64], arms: NDArray[np.int64], size: int) -> None:
    """Raise unless all assignments have an arm of the problem."""
    wrong = np.flatnonzero((arms < 0) | (arms >= size))
    if wrong.size:
        number, arm = int(ids[wrong[0]]), int(arms[wrong[0]])
        raise damaged(f"Assignment {number} has arm {arm} on record, of {size}.", number)


def check_plan(plan: Plan, size: int) -> None:
    """Raise unless a plan is over as many arms as there are."""
    if plan.arms != size:
        raise damaged(f"The plan of phase {plan.phase} is over {plan.arms} arms, of {size}.")


def check_summary(number: int, summary: Summary, size: int) -> None:
    """Raise unless a summary is of as many arms as there are."""
    if len(summary.counts) != size:
        raise damaged(f"Summary {number} is of {len(summary.counts)} arms, of {size}.", number)


def check_times(times: Array) -> None:
    """Raise unless all times can be written as dates; NaN is left out."""
    wrong = times[np.abs(times) > _LAST]
    if wrong.size:
        raise damaged(f"There is a time on record that is not a date: {wrong[0]:g} seconds.")
