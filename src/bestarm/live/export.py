"""The assignments of an experiment as a table: a data frame, or a CSV or Parquet file.

A file is written in pieces, and is there whole or not at all.
"""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import choice
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.live.store.contract import ROW, Reading, Rows
from bestarm.live.store.damage import check_arms, check_plan, check_times
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LAYOUTS", "assignments_frame", "export", "outcomes_frame"]

LAYOUTS = ("assignments", "mrt")
Columns = dict[str, NDArray[Any]]


def assignments_frame(books: Reading, problem: Problem) -> pd.DataFrame:
    """One row per assignment: id, arm, label, probability, phase, time asked for, and state.

    The state is `"told"`, `"lost"` or `"outstanding"`.
    """
    rows = _all_rows(books)
    check_arms(rows["id"], rows["arm"], problem.arms)
    return _frame(
        {
            "id": rows["id"],
            "arm": rows["arm"],
            "label": _labels(problem)[rows["arm"]],
            "probability": rows["probability"],
            "phase": rows["phase"],
            "asked": rows["asked"],
            "state": _states(rows),
        },
        times=("asked",),
    )


def outcomes_frame(books: Reading) -> pd.DataFrame:
    """One row per outcome: id, reward, time told, and whether it came too late to be used."""
    rows = _all_rows(books)
    rows = rows[~np.isnan(rows["reward"])]
    return _frame({name: rows[name] for name in ("id", "reward", "told", "late")}, times=("told",))


def _all_rows(books: Reading) -> Rows:
    return np.concatenate([np.empty(0, dtype=ROW), *books.rows(0, books.head.assigned)])


def _frame(columns: Columns, *, times: Sequence[str]) -> pd.DataFrame:
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError(
            "Data frames need pandas.", field="pandas", remedy="Run: pip install 'bestarm[live]'."
        ) from None
    for name in times:
        check_times(columns[name])
    dates = {name: pd.to_datetime(columns[name], unit="s", utc=True) for name in times}
    return pd.DataFrame(columns | dates)


def export(
    books: Reading, problem: Problem, path: str | Path, *, layout: str, probabilities: bool
) -> int:
    """Write one row per assignment, and return their number.

    Args:
        books: a transaction.
        problem: names the arms.
        path: the file; its ending says what it is: `.csv` or `.parquet`.
        layout: `"assignments"` or `"mrt"`.
        probabilities: add a column with the probability of each arm.
    """
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
    shape = _assignments if layout == "assignments" else _mrt
    every = _Probabilities(books, problem) if probabilities else None

    def columns(rows: Rows) -> Columns:
        check_arms(rows["id"], rows["arm"], problem.arms)
        made = shape(rows, problem)
        return made if every is None else made | every(rows)

    count = 0

    def pieces() -> Iterator[Columns]:
        nonlocal count
        for rows in books.rows(0, books.head.assigned):
            count += len(rows)
            if len(rows):
                yield columns(rows)

    writers[goal.suffix.lower()](goal, columns(np.empty(0, dtype=ROW)), pieces())
    return count


def _assignments(rows: Rows, problem: Problem) -> Columns:
    return {
        "id": rows["id"],
        "phase": rows["phase"],
        "arm": rows["arm"],
        "label": _labels(problem)[rows["arm"]],
        "probability": rows["probability"],
        "asked": _times(rows["asked"]),
        "state": _states(rows),
        "outcome": rows["reward"],
        "told": _times(rows["told"]),
        "late": rows["late"],
        "lost": _times(rows["lost"]),
    }


def _mrt(rows: Rows, problem: Problem) -> Columns:
    """One row per decision point, as analysts of micro-randomised trials have it."""
    used = ~np.isnan(rows["reward"]) & ~rows["late"]
    state = _states(rows)
    state[rows["late"]] = "late"
    return {
        "id": rows["id"],
        "decision_point": rows["id"] + 1,
        "phase": rows["phase"],
        "available": np.ones(len(rows), dtype=np.int64),
        "probability": rows["probability"],
        "arm": rows["arm"],
        "label": _labels(problem)[rows["arm"]],
        "outcome": np.where(used, rows["reward"], np.nan),
        "state": state,
    }


class _Probabilities:
    """The probability of each arm at each draw."""

    def __init__(self, books: Reading, problem: Problem) -> None:
        self._books = books
        self._names = [f"probability_{label}" for label in problem.source_labels]

    def __call__(self, rows: Rows) -> Columns:
        table = np.empty((len(rows), len(self._names)))
        for phase in np.unique(rows["phase"]).tolist():
            here = rows["phase"] == phase
            plan = self._books.plan(phase).plan
            check_plan(plan, len(self._names))
            if (weights := plan.weights) is None:  # in order: the arm is certain
                table[here] = np.eye(len(self._names))[rows["arm"][here]]
            else:
                table[here] = weights
        return dict(zip(self._names, table.T, strict=True))


def _labels(problem: Problem) -> NDArray[Any]:
    return np.asarray(problem.source_labels, dtype=object)


def _states(rows: Rows) -> NDArray[Any]:
    lost, told = ~np.isnan(rows["lost"]), ~np.isnan(rows["reward"])
    return np.where(lost, "lost", np.where(told, "told", "outstanding")).astype(object)


def _times(seconds: NDArray[Any]) -> NDArray[Any]:
    times = np.full(len(seconds), np.datetime64("NaT"), dtype="datetime64[us]")
    check_times(seconds)
    known = ~np.isnan(seconds)
    times[known] = np.round(seconds[known] * 1e6).astype(np.int64).astype("datetime64[us]")
    return times


def _csv(goal: Path, empty: Columns, pieces: Iterable[Columns]) -> None:
    with (
        _replacing(goal) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(empty)
        for columns in pieces:
            writer.writerows(zip(*map(_texts, columns.values()), strict=True))


def _texts(values: NDArray[Any]) -> Sequence[object]:
    """Values as they stand in a CSV file: a number reads back as the same number."""
    kind = values.dtype.kind
    if kind == "M":
        return ["" if text == "NaT" else f"{text}Z" for text in np.datetime_as_string(values)]
    if kind == "f":
        return ["" if value != value else repr(value) for value in values.tolist()]  # noqa: PLR0124
    if kind == "b":
        return values.astype(int).tolist()  # type: ignore[no-any-return]
    return values.tolist()  # type: ignore[no-any-return]


def _parquet(goal: Path, empty: Columns, pieces: Iterable[Columns]) -> None:
    try:
        import pyarrow as arrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError(
            "Parquet files need pyarrow.",
            field="path",
            value=str(goal),
            remedy="Run: pip install 'bestarm[parquet]', or export to CSV.",
        ) from None
    kinds = {
        "i": arrow.int64(),
        "f": arrow.float64(),
        "b": arrow.bool_(),
        "M": arrow.timestamp("us", tz="UTC"),
        "O": arrow.string(),
    }
    schema = arrow.schema([(name, kinds[v.dtype.kind]) for name, v in empty.items()])
    with _replacing(goal) as part, parquet.ParquetWriter(part, schema) as writer:
        for columns in pieces:
            arrays = [
                arrow.array(values, type=kind.type, from_pandas=True)
                for values, kind in zip(columns.values(), schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


@contextmanager
def _replacing(goal: Path) -> Iterator[Path]:
    """A file that takes another's place once it is complete."""
    part = goal.resolve().with_name(f".{goal.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(goal.resolve())
    except OSError as error:
        if error.strerror is None:
            raise
        raise type(error)(error.errno, error.strerror, str(goal)) from None
    finally:
        part.unlink(missing_ok=True)
