"""The assignments of an experiment as a table: a data frame, or a CSV or Parquet file.

Both are made of columns, in pieces. A file is there whole or not at all.
"""

from __future__ import annotations

import csv
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import choice
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.files import guarded, replacing
from bestarm.live import units
from bestarm.live.options import Options
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import (
    ROW,
    GuardrailValue,
    Report,
    Rows,
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
_EXACT = 2.0**53  # whole numbers below are exact
_LAST = 9e9  # seconds: dates after the year 2255, or as long before 1970, are not written
Columns = dict[str, NDArray[Any]]  # labels and states as numbers of their texts
Progress = Callable[[int, int], object]


Texts = dict[str, Sequence[str]]  # by column


def _pieces(
    snapshot: Snapshot,
    wanted: Callable[[Rows], Columns],
    progress: Progress | None = None,
    *,
    unavailable: bool = False,
) -> Iterator[Columns]:
    """The wanted columns of all assignments; of unavailable decision points too."""
    pieces, written, head = snapshot.rows(0, snapshot.head.assigned), 0, snapshot.head
    if unavailable:
        pieces = _with_unavailable(pieces, units.unavailable(snapshot))
    # The first piece has no rows: there are columns, whatever follows.
    for rows in chain([np.empty(0, dtype=ROW)], pieces):
        yield wanted(rows)
        written += len(rows)
        if progress is not None:
            progress(written, head.assigned + unavailable * head.unavailable)


def _texts(problem: Problem) -> Texts:
    return {"label": problem.source_labels, "state": STATES}


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
    for name in [*names, "covariates"] if forecasts or head.units or head.unavailable else []:
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

    return _to_pandas(_pieces(snapshot, wanted), _texts(problem))


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

    return _to_pandas(_pieces(snapshot, wanted), _texts(problem))


def reports_frame(snapshot: Snapshot) -> pd.DataFrame:
    """Every report of an outcome that has a window, in the order told."""
    reports = list(snapshot.records(Report))
    columns: Columns = {
        "id": np.array([each.assignment for each in reports], dtype=np.int64),
        "reward": np.array([each.reward for each in reports], dtype=float),
        "told": _times(np.array([each.told for each in reports], dtype=float)),
        "late": np.array([each.late for each in reports], dtype=bool),
    }
    return _to_pandas([columns], {})


def _to_pandas(pieces: Iterable[Columns], texts: Texts) -> pd.DataFrame:
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError.of("A table", str(error.name), extra="frames") from None
    several = list(pieces)
    frame = pd.DataFrame()
    for name in several[0]:
        column = np.concatenate([piece[name] for piece in several])
        if name in texts:
            codes: NDArray[np.int64] = column.astype(np.int64)
            frame[name] = pd.Categorical.from_codes(codes, pd.Index(texts[name]))
        elif column.dtype.kind == "M":
            frame[name] = pd.Series(column).dt.tz_localize("UTC")
        else:
            frame[name] = column
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
    if goal.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401, PLC0415
        except ImportError:
            raise MissingDependencyError.of("A file", "pyarrow", extra="parquet") from None
    count, mrt = 0, layout == "mrt"
    covariates = _covariates(snapshot) if mrt else {}

    def wanted(rows: Rows) -> Columns:
        nonlocal count
        columns = _columns(rows, problem)
        known = _known(snapshot, rows, forecasts=forecasts)
        flat = (
            _flatten(known.pop("covariates"), covariates) if mrt and "covariates" in known else {}
        )
        columns = _mrt(columns, known) if mrt else columns | known
        columns |= _values(snapshot, rows, guardrails)
        if probabilities:
            columns |= _probabilities(snapshot, options, rows)
        columns |= {f"{'covariate_' * (name in columns)}{name}": flat[name] for name in flat}
        count += len(rows)
        return columns

    with replacing(goal) as part:
        pieces = _pieces(snapshot, wanted, progress, unavailable=mrt)
        writers[goal.suffix.lower()](part, pieces, _texts(problem))
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
        "time": columns["asked"],
        "available": available.astype(np.int64),
        "outcome": np.where(late, np.nan, columns["outcome"]),
        "state": np.where(available, states, STATES.index("unavailable")).astype(np.int8),
    }
    for name in ("id", "phase", "arm", "label"):
        changed[name] = np.ma.array(columns[name], mask=~available)
    if persons is not None:
        changed |= {"person": persons, "decision_point": known.pop("decision_point")}
    names = ["id", *(["person"] if persons is not None else []), "decision_point", "time", "phase"]
    names += ["available", "probability", "arm", "label", "outcome", "state"]
    return {name: (columns | changed)[name] for name in names} | known


def _covariates(snapshot: Snapshot) -> dict[str, bool]:
    """The names of all covariates on record, and whether each has numbers alone."""
    head, numeric = snapshot.head, dict[str, bool]()
    for record in snapshot.records(UnitRecord, -head.unavailable, head.rounds):
        for name, value in (units.known_of(record).covariates or {}).items():
            numeric[name] = numeric.get(name, True) and not isinstance(value, str)
    return numeric


def _flatten(rows: NDArray[Any], numeric: dict[str, bool]) -> Columns:
    """A column per covariate, of numbers or of texts, from rows that are JSON."""
    values = [{} if row is None else json.loads(row) for row in rows.tolist()]
    columns = Columns()
    for name, is_number in numeric.items():
        cells = [row.get(name) for row in values]
        if is_number:
            columns[name] = np.array(cells, dtype=float)
        else:
            texts = [cell if cell is None or isinstance(cell, str) else str(cell) for cell in cells]
            columns[name] = np.array(texts, dtype=object)
    return columns


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


def _batch(columns: Columns, texts: Texts) -> Any:
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


def _parquet(part: Path, pieces: Iterator[Columns], texts: Texts) -> None:
    from pyarrow import parquet  # noqa: PLC0415

    schema = _batch(next(pieces), texts).schema
    coded = [each.name for each in schema if each.type in {"string", schema.field("label").type}]
    with parquet.ParquetWriter(part, schema, use_dictionary=coded) as writer:
        for piece in pieces:
            writer.write_batch(_batch(piece, texts))


def _csv(part: Path, pieces: Iterator[Columns], texts: Texts) -> None:
    """Times as ISO 8601 writes them, 1.0 and True as 1, and no text that is a formula."""
    safe = {name: [guarded(text) for text in several] for name, several in texts.items()}
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, piece in enumerate(pieces):
            if not number:
                writer.writerow(map(guarded, piece))
            columns = (_cells(column, safe.get(name)) for name, column in piece.items())
            writer.writerows(zip(*columns, strict=True))


def _cells(column: NDArray[Any], texts: Sequence[str] | None) -> Sequence[object]:
    """A column as CSV has it; None where a value is missing."""
    values, holes = np.asarray(column), getattr(column, "mask", None)
    cells: list[Any]
    match values.dtype.kind:
        case "O":
            return [None if text is None else guarded(text) for text in values.tolist()]
        case "M":
            holes = np.isnat(values)
            several, places = np.unique(values, return_inverse=True)  # many were asked together
            times = [f"{time}Z" for time in np.datetime_as_string(several, unit="us").tolist()]
            cells = [times[place] for place in places.tolist()]
        case "b":
            cells = values.astype(np.int8).tolist()
        case "f":
            holes, whole = np.isnan(values), (values == np.trunc(values)) & (abs(values) < _EXACT)
            numbers = zip(values.tolist(), whole.tolist(), strict=True)
            cells = [int(number) if exact else number for number, exact in numbers]
        case _:
            cells = values.tolist()
    if texts is not None:
        cells = [texts[place] for place in cells]
    if holes is None or not np.any(holes):
        return cells
    return [None if hole else cell for hole, cell in zip(holes.tolist(), cells, strict=True)]
