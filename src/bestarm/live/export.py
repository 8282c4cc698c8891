"""The assignments of an experiment as a table: a data frame, or a CSV or Parquet file.

Both are made of columns, in pieces. A file is there whole or not at all.
"""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import choice
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.files import FORMULA, NUMBER, replacing
from bestarm.live import units
from bestarm.live.options import Options
from bestarm.live.store.contract import (
    ROW,
    GuardrailValue,
    Report,
    Rows,
    Snapshot,
    UnitRecord,
    check_arms,
    check_size,
    damaged,
)
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

LAYOUTS = ("assignments", "mrt")
STATES = ("outstanding", "told", "lost", "late", "unavailable")
_LAST = 9e9  # seconds: dates after the year 2255, or as long before 1970, are not written
Columns = dict[str, NDArray[Any]]  # labels and states as numbers of their texts
Progress = Callable[[int, int], object]


def _batches(
    snapshot: Snapshot,
    problem: Problem,
    wanted: Callable[[Rows], Columns],
    progress: Progress | None = None,
    *,
    unavailable: bool = False,
) -> Iterator[Any]:
    """The wanted columns of all assignments, for Arrow; of unavailable decision points too."""
    texts: dict[str, Sequence[str]] = {"label": problem.source_labels, "state": STATES}
    pieces, written, head = snapshot.rows(0, snapshot.head.assigned), 0, snapshot.head
    if unavailable:
        pieces = _with_unavailable(pieces, units.unavailable(snapshot))
    # The first piece has no rows: there are columns, whatever follows.
    for rows in chain([np.empty(0, dtype=ROW)], pieces):
        yield _batch(wanted(rows), texts)
        written += len(rows)
        if progress is not None:
            progress(written, head.assigned + unavailable * head.unavailable)


def _with_unavailable(pieces: Iterator[Rows], records: Iterator[UnitRecord]) -> Iterator[Rows]:
    """Assignments, and in order of time rows for decision points at which nothing was drawn.

    Such a row has a negative round, and the id of the next assignment.
    """
    following = next(records, None)
    for rows in chain(pieces, [np.empty(0, dtype=ROW)]):
        last, here = rows["id"][-1] if len(rows) else np.inf, list[UnitRecord]()
        while following is not None and following.first <= last:
            here.append(following)
            following = next(records, None)
        skipped = np.zeros(len(here), dtype=ROW)
        skipped["id"] = [record.first for record in here]
        skipped["round"] = [record.round for record in here]
        for name in ("probability", "asked", "forecast", "reward", "told", "lost"):
            skipped[name] = np.nan
        yield np.insert(rows, np.searchsorted(rows["id"], skipped["id"]), skipped)


def _columns(rows: Rows, problem: Problem) -> Columns:
    """All that is on record of some assignments."""
    check_arms(rows["arm"], problem.arms)
    lost, told = ~np.isnan(rows["lost"]), ~np.isnan(rows["reward"])
    return {
        "id": rows["id"],
        "round": rows["round"],
        "phase": rows["phase"],
        "arm": rows["arm"],
        "label": rows["arm"].astype(np.int32),
        "probability": rows["probability"],
        "asked": _times(rows["asked"]),
        "state": np.where(lost, 2, told).astype(np.int8),
        "outcome": rows["reward"],
        "told": _times(rows["told"]),
        "late": rows["late"],
        "lost": _times(rows["lost"]),
    }


def _times(seconds: NDArray[Any]) -> NDArray[Any]:
    wrong = seconds[np.abs(seconds) > _LAST]
    if wrong.size:
        raise damaged(f"There is a time on record that is not a date: {wrong[0]:g} seconds.")
    unknown = np.isnan(seconds)
    whole = np.round(np.where(unknown, 0.0, seconds) * 1e6).astype(np.int64)
    whole[unknown] = np.iinfo(np.int64).min  # not a time
    return whole.astype("datetime64[us]")


def _values(snapshot: Snapshot, rows: Rows, guardrails: Sequence[str]) -> Columns:
    """A column per guardrail; NaN where nothing was told."""
    columns = {name: np.full(len(rows), np.nan) for name in guardrails}
    if guardrails and len(rows):
        values = snapshot.records_of(GuardrailValue, rows["id"].tolist())
        ids = [each.assignment for each in values]
        places = np.searchsorted(rows["id"], ids, side="right") - 1
        for place, value in zip(places.tolist(), values, strict=True):
            if not 0 <= value.guardrail < len(guardrails):
                raise damaged("A value is of a guardrail that there is not.")
            columns[guardrails[value.guardrail]][place] = value.value
    return columns


def _known(snapshot: Snapshot, rows: Rows, *, forecasts: bool) -> Columns:
    """The forecasts, and what was known of each assignment, as JSON; None if nothing was.

    There are columns for forecasts and units where the experiment has any.
    """
    rounds, head, columns, records = rows["round"], snapshot.head, Columns(), dict[int, Any]()
    for part in (rounds[rounds >= 0], rounds[rounds < 0]):
        if part.size:
            found = snapshot.records(UnitRecord, int(part.min()), int(part.max()) + 1)
            records |= {each.round: each for each in found}
    if forecasts:
        columns["forecast"] = rows["forecast"]
    named = head.unavailable or (head.units and snapshot.unit_counts().units)
    names = ["unit", "decision_point"] if named else []
    for name in [*names, "covariates"] if forecasts or head.units_hash else []:
        texts = [getattr(records.get(each), name, None) or None for each in rounds.tolist()]
        columns[name] = np.array(texts, dtype=object)
    return columns


# --- data frames --------------------------------------------------------------------------------


def assignments_frame(
    snapshot: Snapshot, problem: Problem, *, forecasts: bool, guardrails: Sequence[str] = ()
) -> pd.DataFrame:
    """Every assignment by id, with its state: `"told"`, `"lost"` or `"outstanding"`.

    Units, covariates and, with `forecasts`, these are in it too, where there are any, and a column
    per guardrail.
    """
    names = ["id", "round", "arm", "label", "probability", "phase", "asked", "state"]

    def wanted(rows: Rows) -> Columns:
        columns = _columns(rows, problem)
        known = _known(snapshot, rows, forecasts=forecasts)
        values = _values(snapshot, rows, guardrails)
        return {name: columns[name] for name in names} | known | values

    return _to_pandas(_batches(snapshot, problem, wanted))


def outcomes_frame(
    snapshot: Snapshot, problem: Problem, guardrails: Sequence[str] = ()
) -> pd.DataFrame:
    """Every outcome told, by id, with a column per guardrail."""

    def wanted(rows: Rows) -> Columns:
        values = _values(snapshot, rows, guardrails)
        told = np.any([~np.isnan(each) for each in (rows["reward"], *values.values())], axis=0)
        columns = _columns(rows[told], problem)
        names = {"id": "id", "reward": "outcome", "told": "told", "late": "late"}
        known = {name: columns[source] for name, source in names.items()}
        return known | {name: column[told] for name, column in values.items()}

    return _to_pandas(_batches(snapshot, problem, wanted))


def reports_frame(snapshot: Snapshot) -> pd.DataFrame:
    """Every report of an outcome that has a window, in the order told."""
    reports = list(snapshot.records(Report))
    columns: Columns = {
        "id": np.array([each.assignment for each in reports], dtype=np.int64),
        "reward": np.array([each.reward for each in reports], dtype=float),
        "told": _times(np.array([each.told for each in reports], dtype=float)),
        "late": np.array([each.late for each in reports], dtype=bool),
    }
    return _to_pandas(_batch(each, {}) for each in [columns])


def _to_pandas(batches: Iterator[Any]) -> pd.DataFrame:
    try:
        import pandas as pd  # noqa: F401, PLC0415
        import pyarrow as arrow  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError.of("A table", str(error.name), extra="frames") from None
    frame: pd.DataFrame = arrow.Table.from_batches(batches).to_pandas()
    return frame


# --- files --------------------------------------------------------------------------------------


def export(
    snapshot: Snapshot,
    options: Options,
    path: str | Path,
    *,
    layout: str,
    probabilities: bool,
    forecasts: bool,
    guardrails: Sequence[str],
    progress: Progress | None,
) -> int:
    """Write one row per assignment, and return their number: see `Experiment.export`."""
    problem = options.problem
    choice(layout, LAYOUTS, "layout")
    goal = Path(path) if isinstance(path, (str, os.PathLike)) else Path()
    writers = {".csv": _csv, ".parquet": _parquet}
    if goal.suffix.lower() not in writers:
        message = f"`path` must end in .csv or .parquet; got {str(path)!r}."
        remedy = "CSV can be read by anything, Parquet is smaller."
        raise InvalidInputError(message, field="path", value=str(path), remedy=remedy)
    if goal.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(goal))
    try:
        import pyarrow  # noqa: F401, PLC0415
    except ImportError:
        raise MissingDependencyError.of("A file", "pyarrow", extra="frames") from None
    count, mrt = 0, layout == "mrt"

    def wanted(rows: Rows) -> Columns:
        nonlocal count
        columns = _columns(rows, problem)
        known = _known(snapshot, rows, forecasts=forecasts)
        columns = _mrt(columns, known) if mrt else columns | known
        columns |= _values(snapshot, rows, guardrails)
        if probabilities:
            columns |= _probabilities(snapshot, options, rows)
        count += len(rows)
        return columns

    with replacing(goal) as part:
        batches = _batches(snapshot, problem, wanted, progress, unavailable=mrt)
        writers[goal.suffix.lower()](part, batches)
    return count


def _mrt(columns: Columns, known: Columns) -> Columns:
    """One row per decision point, as analysts of micro-randomised trials have it.

    These are of persons where there are units, else they are numbered. Where a person was not
    available nothing was drawn.
    """
    late, persons, available = columns["late"], known.pop("unit", None), columns["round"] >= 0
    states = np.where(late, STATES.index("late"), columns["state"])
    changed = {
        "decision_point": columns["round"] + 1,
        "available": available.astype(np.int64),
        "outcome": np.where(late, np.nan, columns["outcome"]),
        "state": np.where(available, states, STATES.index("unavailable")).astype(np.int8),
    }
    for name in ("id", "phase", "arm", "label"):
        changed[name] = np.ma.array(columns[name], mask=~available)
    if persons is not None:
        changed |= {"person": persons, "decision_point": known.pop("decision_point")}
    names = ["id", *(["person"] if persons is not None else []), "decision_point", "phase"]
    names += ["available", "probability", "arm", "label", "outcome", "state"]
    return {name: (columns | changed)[name] for name in names} | known


def _probabilities(snapshot: Snapshot, options: Options, rows: Rows) -> Columns:
    """The probability of each arm to be in the round: 0 before it was added."""
    problem, drawn = options.problem, rows["round"] >= 0
    table = np.full((problem.arms, len(rows)), np.nan)
    for phase in np.unique(rows["phase"][drawn]).tolist():
        here = drawn & (rows["phase"] == phase)
        plan = snapshot.plan(phase).plan
        check_size(f"The plan of phase {phase}", plan.arms, options.arms(phase))
        if plan.weights is None:  # in order: the arm is certain
            table[:, here] = np.eye(problem.arms)[:, rows["arm"][here]]
        else:
            table[:, here] = plan.widened(problem.arms).probabilities[:, None]
    names = (f"probability_{label}" for label in problem.source_labels)
    return dict(zip(names, table, strict=True))


def _batch(columns: Columns, texts: dict[str, Sequence[str]]) -> Any:
    """Columns for Arrow; a number that is NaN or masked is missing."""
    import pyarrow as arrow  # noqa: PLC0415

    def converted(name: str, column: NDArray[Any]) -> Any:
        kinds = {"M": arrow.timestamp("us", tz="UTC"), "O": arrow.string()}
        kind = column.dtype.kind
        holes = np.isnan(column) if kind == "f" else getattr(column, "mask", None)
        if name in texts:
            places = arrow.array(np.asarray(column), mask=holes)
            return arrow.DictionaryArray.from_arrays(places, arrow.array(texts[name]))
        return arrow.array(np.ascontiguousarray(column), type=kinds.get(kind), mask=holes)

    return arrow.record_batch({name: converted(name, each) for name, each in columns.items()})


def _parquet(part: Path, batches: Iterator[Any]) -> None:
    from pyarrow import parquet  # noqa: PLC0415

    schema = next(batches).schema
    texts = [each.name for each in schema if each.type in {"string", schema.field("label").type}]
    with parquet.ParquetWriter(part, schema, use_dictionary=texts) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _csv(part: Path, batches: Iterator[Any]) -> None:
    from pyarrow import array  # noqa: PLC0415
    from pyarrow.csv import CSVWriter, WriteOptions  # noqa: PLC0415

    first = next(batches)
    names, labels = first.schema.names, first["label"].dictionary.to_pylist()
    # Arrow has all texts and times in quotes, or none: it does not look which of them need it.
    quotes = any(sign in label for label in labels for sign in '",\r\n')
    quotes |= not {"unit", "person", "covariates"}.isdisjoint(names)
    options = WriteOptions(include_header=False, quoting_style="needed" if quotes else "none")
    schema = _cells(first).schema
    with part.open("wb") as file, CSVWriter(file, schema, write_options=options) as writer:
        header = io.StringIO()
        texts = _without_formulas(array(names)).to_pylist()
        csv.writer(header, lineterminator="\n").writerow(texts)
        file.write(header.getvalue().encode())
        for batch in batches:
            writer.write_batch(_cells(batch))


def _cells(batch: Any) -> Any:
    """A batch as CSV has it: times as ISO 8601 writes them, booleans as 0 and 1."""
    from pyarrow import compute, record_batch, string, timestamp, types  # noqa: PLC0415

    def converted(column: Any) -> Any:
        if types.is_dictionary(column.type):
            return _without_formulas(column.dictionary_decode())
        if types.is_boolean(column.type):
            return column.cast("int8")
        if types.is_timestamp(column.type):
            texts = column.view(timestamp("us")).cast(string())
            dates = compute.binary_replace_slice(texts, 10, 11, "T")
            return compute.binary_join_element_wise(dates, "", "Z")
        return _without_formulas(column) if types.is_string(column.type) else column

    return record_batch([*map(converted, batch.columns)], names=batch.schema.names)


def _without_formulas(column: Any) -> Any:
    """Texts that no spreadsheet takes for formulas: see `bestarm.files`."""
    from pyarrow import compute  # noqa: PLC0415

    formulas = compute.match_substring_regex(column, FORMULA)
    numbers = compute.match_substring_regex(column, NUMBER)
    guarded = compute.binary_join_element_wise("'", column, "")
    return compute.if_else(compute.and_not(formulas, numbers), guarded, column)
