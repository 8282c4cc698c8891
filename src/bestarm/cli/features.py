"""Tables: features from files, and results into them."""

from __future__ import annotations

import csv
import errno
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bestarm.cli.options import read_number
from bestarm.cli.rows import Row, read_rows, wrong_file
from bestarm.errors import InvalidInputError
from bestarm.files import replacing
from bestarm.problem import Problem, one_hot

__all__ = [
    "FeatureTable",
    "check_writable",
    "make_problem",
    "read_problem",
    "read_table",
    "write_table",
]

_NAME_HEADERS = {"name", "label"}


@dataclass(frozen=True)
class FeatureTable:
    """The rows of a file: their features, and their names if it has any."""

    features: list[list[float]]
    labels: list[str] | None

    @property
    def names(self) -> list[str]:
        """The labels, or the numbers of the rows from 0."""
        return self.labels or [str(i) for i in range(len(self.features))]


def read_problem(source: Path, target: Path | None, **scales: float | None) -> Problem:
    """The problem whose arms, and options if they differ, are in files."""
    options = None if target is None else read_table(target)
    return make_problem(read_table(source), options, **scales)


def make_problem(
    arms: FeatureTable, options: FeatureTable | None, **scales: float | None
) -> Problem:
    """The problem of these arms and options; a scale that is None is left out."""
    return Problem(
        arms.features,
        None if options is None else options.features,
        source_labels=arms.labels,
        target_labels=None if options is None else options.labels,
        **{name: value for name, value in scales.items() if value is not None},
    )


def read_table(path: Path, *, names_alone: bool = True) -> FeatureTable:
    """Read features from a CSV or JSON file.

    The first row is a header if nothing in it is a number. The first column holds labels if one of
    its fields is not a number, or if it has an empty header, as a data frame's index has; such a
    header may also number the columns 0, 1, 2, … A single column without a number holds names: what
    has no features has a feature of its own. Its header, if any, is `name` or `label`. Empty lines
    are skipped.

    Args:
        path: the file.
        names_alone: whether there may be names without features.

    Raises:
        InvalidInputError: the file does not hold a table of numbers, or a label is empty or is
            there twice.
        OSError: the file cannot be read.
    """
    rows = _rows(path)
    if names_alone and all(len(fields) == 1 for _, fields in rows):
        names = [fields[0] for _, fields in rows]
        if not any(read_number(name) is not None for name in names):
            body = rows[1:] if names[0].lower() in _NAME_HEADERS else rows
            return FeatureTable(one_hot(len(body)).tolist(), _labels(path, body))
    header = _is_header(rows[0][1])
    unnamed = header and len(rows[0][1]) > 1 and not rows[0][1][0]
    body = rows[1:] if header else rows
    if not body:
        raise _wrong(path, "holds a header and no rows.", "Give one row per arm.")
    labelled = len(body[0][1]) > 1 and (
        unnamed or any(read_number(fields[0]) is None for _, fields in body)
    )
    first = 1 if labelled else 0
    features = [
        [_feature(path, place, column, fields[column]) for column in range(first, len(fields))]
        for place, fields in body
    ]
    return FeatureTable(features, _labels(path, body) if labelled else None)


def _labels(path: Path, rows: Sequence[Row]) -> list[str]:
    """The first fields, none empty, each different."""
    places: dict[str, str] = {}
    for place, fields in rows:
        name = fields[0]
        if not name:
            raise _wrong(path, f"has an empty label in {place}.", "Give every row a name.")
        if name in places:
            raise _wrong(
                path,
                f"has the label {name!r} in {places[name]} and in {place}.",
                "Labels must be unique.",
            )
        places[name] = place
    return list(places)


def _rows(path: Path) -> list[Row]:
    """The rows that are not empty, all of one length."""
    rows = read_rows(path, field="file", what="Give one row per arm, one number per feature.")
    if not rows:
        raise _wrong(path, "is empty.", "Give one row per arm, one number per feature.")
    first_place, first = rows[0]
    for place, fields in rows:
        if len(fields) != len(first):
            raise _wrong(
                path,
                f"has {len(fields)} fields in {place} and {len(first)} in {first_place}.",
                "Every row needs the same number of fields.",
            )
    return rows


def _is_header(fields: Sequence[str]) -> bool:
    if len(fields) > 1 and not fields[0]:  # a data frame's index has no name
        columns = list(fields[1:])
        if columns == [str(i) for i in range(len(columns))]:
            return True  # nor have its columns
    return all(read_number(field) is None for field in fields)


def _feature(path: Path, place: str, column: int, field: str) -> float:
    value = read_number(field)
    if value is None:
        decimal = "," in field and read_number(field.replace(",", ".")) is not None
        raise _wrong(
            path,
            f"has {field!r} in {place}, column {column + 1}, where a number belongs.",
            "Write decimals with a point: 0.5."
            if decimal
            else "Only the first column may hold labels.",
        )
    return value


def _wrong(path: Path, what: str, remedy: str) -> InvalidInputError:
    return wrong_file(path, what, remedy, field="file")


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, all of it or nothing. Raises OSError where that is not possible."""
    check_writable(path)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def check_writable(path: Path) -> None:
    """Raise OSError now if a file could not be written in a while."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        return  # a terminal, a pipe
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
