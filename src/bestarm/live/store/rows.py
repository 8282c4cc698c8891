"""Assignments as rows of arrays, with what became of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# One row per assignment; those of one round were drawn together. The reward is NaN while there is
# no outcome. `lost` is the time at which the outcome was given up, or NaN; an outcome that came
# after that is kept, and is not used. The forecast was fixed before the arm was drawn; NaN where
# there is none.
ROW = np.dtype(
    [
        ("id", np.int64),
        ("round", np.int64),
        ("phase", np.int64),
        ("arm", np.int64),
        ("probability", float),
        ("asked", float),
        ("forecast", float),
        ("reward", float),
        ("told", float),
        ("late", bool),
        ("lost", float),
    ]
)
# What a summary is made of, and what its digest covers. Where the assignment was lost, `reward` and
# `told` are NaN, even if an outcome came later.
_NUMBERS = ("reward", "asked", "told", "lost", "forecast")
ANSWER = np.dtype([("arm", "<i8"), *((name, "<f8") for name in _NUMBERS)])
Rows = NDArray[Any]
Ids = NDArray[np.int64]


def answers_of(rows: Rows) -> Rows:
    """The answers among rows."""
    answers = rows[list(ANSWER.names or ())].astype(ANSWER)
    for name in ("reward", "told"):
        answers[name][~np.isnan(rows["lost"])] = np.nan
    return answers
