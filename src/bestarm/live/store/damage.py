"""The error for records that cannot be right, and the checks that raise it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError

# What reading a text of another shape than it should have may raise.
UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)


def damaged(sentence: str, what: object = None) -> DamagedStoreError:
    """The error for a damaged record."""
    return DamagedStoreError(
        sentence,
        field="store",
        value=what,
        remedy="Was the database edited, or restored in part? `Experiment.verify` lists what does "
        "not agree; restore the whole of it.",
    )


def check_arms(arms: NDArray[np.int64], size: int) -> None:
    """Raise unless all assignments have an arm of the problem."""
    wrong = arms[(arms < 0) | (arms >= size)]
    if wrong.size:
        raise damaged(f"An assignment has arm {wrong[0]} on record, of {size}.", int(wrong[0]))


def check_size(what: str, arms: int, size: int) -> None:
    """Raise unless a plan or a summary is of as many arms as there are."""
    if arms != size:
        raise damaged(f"{what} is of {arms} arms, of {size}.", arms)
