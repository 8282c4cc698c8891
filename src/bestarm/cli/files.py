"""Tables of features from CSV files, and weights into them."""

from __future__ import annotations

import csv
import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bestarm.cli.numbers import read_number
from bestarm.errors import InvalidInputError

__all__ = ["Table", "read_table", "ready_for_writing", "write_table"]


@dataclass(frozen=True)
class Table:
    """The rows of a CSV file.

    Attributes:
        features: one list of numbers a row.
        labels: one name a row, or None where the file has none.
    """

    features: list[list[float]]
    labels: list[str] | None

    @property
    def names(self) -> list[str]:
        """The labels, or the numbers of the rows from 0."""
        return self.labels or [str(i) for i in range(len(self.features))]


def read_table(path: Path) -> Table:
    """Read features from a CSV file in UTF-8, with fields separated by commas.

    The first row is a header if nothing in it is a number. The first column holds labels if one of
    its fields is not a number, or if it has an empty header, as a data frame's index has; such a
    header may also number the columns 0, 1, 2, … Empty lines are skipped.

    Raises:
        InvalidInputError: the file does not hold a table of numbers.
        OSError: the file cannot be read.
    """
    rows = _rows(path)
    header = _is_header(rows[0][1])
    unnamed = header and len(rows[0][1]) > 1 and not rows[0][1][0]
    body = rows[1:] if header else rows
    if not body:
        raise _wrong(path, "holds a header and no rows.", "Give one row an arm.")
    labelled = len(body[0][1]) > 1 and (
        unnamed or any(read_number(fields[0]) is None for _, fields in body)
    )
    first = 1 if labelled else 0
    features = [
        [_feature(path, line, column, fields[column]) for column in range(first, len(fields))]
        for line, fields in body
    ]
    return Table(features, [fields[0] for _, fields in body] if labelled else None)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its line, all of one length."""
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for fields in reader:
                stripped = [field.strip() for field in fields]
                if any(stripped):
                    rows.append((reader.line_num, stripped))
    except (UnicodeDecodeError, csv.Error):
        raise _wrong(
            path, "is not a CSV file in UTF-8.", "Save it as text, with fields between commas."
        ) from None
    if not rows:
        raise _wrong(path, "is empty.", "Give one row an arm, one number a feature.")
    first_line, first = rows[0]
    for line, fields in rows:
        if len(fields) != len(first):
            raise _wrong(
                path,
                f"has {len(fields)} fields in line {line} and {len(first)} in line {first_line}.",
                "Every row needs the same number of fields.",
            )
    return rows


def _is_header(fields: Sequence[str]) -> bool:
    if len(fields) > 1 and not fields[0]:  # a data frame's index has no name
        columns = list(fields[1:])
        if columns == [str(i) for i in range(len(columns))]:
            return True  # nor have its columns
    return all(read_number(field) is None for field in fields)


def _feature(path: Path, line: int, column: int, field: str) -> float:
    value = read_number(field)
    if value is None:
        raise _wrong(
            path,
            f"has {field!r} in line {line}, column {column + 1}, where a number belongs.",
            "Only the first column may hold labels.",
        )
    return value


def _wrong(path: Path, what: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(f"{str(path)!r} {what}", field="file", value=str(path), remedy=remedy)


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, all of it or nothing. Raises OSError where that is not possible."""
    with _replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def ready_for_writing(path: Path) -> None:
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


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes a path's place once it is complete."""
    ready_for_writing(path)
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    goal = path.resolve()
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(goal)
    finally:
        part.unlink(missing_ok=True)
