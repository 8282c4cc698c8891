"""The assignments of an experiment as a table: a data frame, or a CSV or Parquet file.

A file is written in pieces, and is there whole or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import choice
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.files import replacing
from bestarm.live.store.contract import ROW, Reading, Rows
from bestarm.live.store.damage import check_arms, check_size, damaged
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

LAYOUTS = ("assignments", "mrt")
_LAST = 9e9  # seconds: dates after the year 2255, or as long before 1970, are not written


def table(books: Reading, problem: Problem, *, forecasts: bool = False) -> pd.DataFrame:
    """All that is on record, one row per assignment.

    The state is `"told"`, `"lost"` or `"outstanding"`. With `forecasts`, these are in it too, and
    what was known.
    """
    rows = np.concatenate([np.empty(0, dtype=ROW), *books.rows(0, books.head.assigned)])
    frame = _frame(rows, problem)
    return frame.assign(**_known(books, rows)) if forecasts else frame


def _known(books: Reading, rows: Rows) -> dict[str, Any]:
    """The forecasts, and as JSON what was known of each assignment; empty if nothing was."""
    texts = books.covariates(int(rows["id"][0]), int(rows["id"][-1]) + 1) if len(rows) else {}
    covariates = [texts.get(number, "") for number in rows["id"].tolist()]
    return {"forecast": rows["forecast"], "covariates": np.array(covariates, dtype=object)}


def _frame(rows: Rows, problem: Problem) -> pd.DataFrame:
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError.of("A table", "pandas", extra="live") from None
    check_arms(rows["arm"], problem.arms)
    lost, told = ~np.isnan(rows["lost"]), ~np.isnan(rows["reward"])
    state = np.where(lost, "lost", np.where(told, "told", "outstanding"))
    return pd.DataFrame(
        {
            "id": rows["id"],
            "round": rows["round"],
            "phase": rows["phase"],
            "arm": rows["arm"],
            "label": np.asarray(problem.source_labels, dtype=object)[rows["arm"]],
            "probability": rows["probability"],
            "asked": pd.DatetimeIndex(_times(rows["asked"]), tz="UTC"),
            "state": state.astype(object),
            "outcome": rows["reward"],
            "told": pd.DatetimeIndex(_times(rows["told"]), tz="UTC"),
            "late": rows["late"],
            "lost": pd.DatetimeIndex(_times(rows["lost"]), tz="UTC"),
        }
    )


def _times(seconds: NDArray[Any]) -> NDArray[Any]:
    wrong = seconds[np.abs(seconds) > _LAST]
    if wrong.size:
        raise damaged(f"There is a time on record that is not a date: {wrong[0]:g} seconds.")
    whole = np.round(np.nan_to_num(seconds) * 1e6).astype(np.int64).astype("datetime64[us]")
    return np.where(np.isnan(seconds), np.datetime64("NaT", "us"), whole)


def _mrt(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per decision point, as analysts of micro-randomised trials have it."""
    frame = frame.assign(
        decision_point=frame["round"] + 1,
        available=1,
        outcome=frame["outcome"].mask(frame["late"]),
        state=frame["state"].mask(frame["late"], "late"),
    )
    known = ["probability", "arm", "label", "outcome", "state"]
    return frame[["id", "decision_point", "phase", "available", *known]]


def export(
    books: Reading,
    problem: Problem,
    path: str | Path,
    *,
    layout: str,
    probabilities: bool,
    forecasts: bool,
) -> int:
    """Write one row per assignment, and return their number: see `Experiment.export`."""
    choice(layout, LAYOUTS, "layout")
    goal = Path(path)
    writers = {".csv": _csv, ".parquet": _parquet}
    if goal.suffix.lower() not in writers:
        raise InvalidInputError(
            f"`path` must end in .csv or .parquet; got {str(path)!r}.",
            field="path",
            value=str(path),
        )
    if goal.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(goal))
    count = 0

    def pieces() -> Iterator[pd.DataFrame]:
        nonlocal count
        # The first piece has no rows: there is a header, whatever follows.
        for rows in chain([np.empty(0, dtype=ROW)], books.rows(0, books.head.assigned)):
            count += len(rows)
            frame = _frame(rows, problem)
            shown = frame if layout == "assignments" else _mrt(frame)
            if forecasts:
                shown = shown.assign(**_known(books, rows))
            yield shown.assign(**_probabilities(books, problem, rows)) if probabilities else shown

    with replacing(goal) as part:
        writers[goal.suffix.lower()](part, pieces())
    return count


def _probabilities(books: Reading, problem: Problem, rows: Rows) -> dict[str, NDArray[Any]]:
    """The probability of each arm to be in the round."""
    table = np.empty((len(rows), problem.arms))
    for phase in np.unique(rows["phase"]).tolist():
        here = rows["phase"] == phase
        plan = books.plan(phase).plan
        check_size(f"The plan of phase {phase}", plan.arms, problem.arms)
        if plan.weights is None:  # in order: the arm is certain
            table[here] = np.eye(problem.arms)[rows["arm"][here]]
        else:
            table[here] = plan.probabilities
    names = (f"probability_{label}" for label in problem.source_labels)
    return dict(zip(names, table.T, strict=True))


def _csv(part: Path, pieces: Iterable[pd.DataFrame]) -> None:
    with part.open("w", encoding="utf-8", newline="") as file:
        for frame in pieces:
            plain = frame.astype({"late": int}) if "late" in frame else frame.copy()
            for name in plain.select_dtypes("datetimetz"):  # `date_format` takes twice as long
                times = plain[name].to_numpy("datetime64[us]")
                texts = np.char.add(np.datetime_as_string(times), "Z")
                plain[name] = np.where(np.isnat(times), "", texts)
            plain.to_csv(file, index=False, header=not file.tell(), lineterminator="\n")


def _parquet(part: Path, pieces: Iterable[pd.DataFrame]) -> None:
    try:
        import pyarrow as arrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError.of("A Parquet file", "pyarrow", extra="parquet") from None
    texts = dict.fromkeys(
        ("label", "state", "covariates"), "string"
    )  # also where there are no rows
    tables = (
        arrow.Table.from_pandas(
            each.astype({name: kind for name, kind in texts.items() if name in each}),
            preserve_index=False,
        )
        for each in pieces
    )
    with parquet.ParquetWriter(part, next(tables).schema) as writer:
        for table in tables:
            writer.write_table(table)
