"""Assignments and outcomes as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bestarm.errors import MissingDependencyError
from bestarm.live.store.contract import ROW, Reading, Rows
from bestarm.live.store.damage import check_arms, check_times
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["assignments_frame", "outcomes_frame", "pandas"]


def pandas() -> type[pd]:  # type: ignore[valid-type]
    """The pandas module, or a sentence on how to get it."""
    try:
        import pandas as module  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError(
            "Data frames need pandas.", field="pandas", remedy="Run: pip install 'bestarm[live]'."
        ) from None
    return module  # type: ignore[return-value]


def assignments_frame(books: Reading, problem: Problem) -> pd.DataFrame:
    """One row an assignment: id, arm, label, probability, phase, when it was asked for, and state.

    The state is `"told"`, `"lost"` or `"outstanding"`.
    """
    rows = _all(books)
    check_arms(rows["id"], rows["arm"], problem.arms)
    labels = np.asarray(problem.source_labels, dtype=object)
    settled = np.where(np.isnan(rows["reward"]), "outstanding", "told").astype(object)
    settled[~np.isnan(rows["lost"])] = "lost"
    return pandas().DataFrame(  # type: ignore[attr-defined,no-any-return]
        {
            "id": rows["id"],
            "arm": rows["arm"],
            "label": labels[rows["arm"]],
            "probability": rows["probability"],
            "phase": rows["phase"],
            "asked": _times(rows["asked"]),
            "state": settled,
        }
    )


def outcomes_frame(books: Reading) -> pd.DataFrame:
    """One row an outcome: id, reward, when it was told, and whether it came too late to be used."""
    rows = _all(books)
    rows = rows[~np.isnan(rows["reward"])]
    return pandas().DataFrame(  # type: ignore[attr-defined,no-any-return]
        {
            "id": rows["id"],
            "reward": rows["reward"],
            "told": _times(rows["told"]),
            "late": rows["late"],
        }
    )


def _times(seconds: Rows) -> object:
    check_times(seconds)
    return pandas().to_datetime(seconds, unit="s", utc=True)  # type: ignore[attr-defined]


def _all(books: Reading) -> Rows:
    pieces = list(books.rows(0, books.head.given))
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=ROW)
