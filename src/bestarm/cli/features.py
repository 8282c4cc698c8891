"""Tables: features from files, and results into them."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bestarm.cli.command import read_number
from bestarm.cli.files import Row, UserFile
from bestarm.files import replacing
from bestarm.problem import one_hot

_NAME_HEADERS = {"name", "label", "option"}


@dataclass(frozen=True)
class FeatureTable:
    """The rows of a file: their features, and their names if it has any."""

    features: list[list[float]]
    labels: list[str] | None

    @property
    def names(self) -> list[str]:
        """The labels, or the numbers of the rows from 0."""
        return self.labels or [str(i) for i in range(len(self.features))]


def problem_parts(arms: FeatureTable | None, options: FeatureTable | None = None) -> dict[str, Any]:
    """These arms and options, as `problem_of` takes them."""
    parts: dict[str, Any] = {}
    if arms is not None:
        parts |= {"source": arms.features, "options": arms.labels}
    if options is not None:
        parts |= {"target": options.features, "target_labels": options.labels}
    return parts


def read_table(path: Path, *, names_alone: bool = True) -> FeatureTable:
    """Read features from a CSV or JSON file.

    The first row is a header if nothing in it is a number. The first column holds labels if one of
    its fields is not a number, or if it has an empty header, as a data frame's index has; such a
    header may also number the columns 0, 1, 2, … A single column without a number holds names: what
    has no features has a feature of its own. Its header, if any, is `name`, `label` or `option`.
    There may be names without features only if `names_alone`.
    """
    file = UserFile(path, "file", "Give one row per arm, one number per feature.")
    rows = file.rows()
    if not rows:
        raise file.wrong("is empty.")
    first_place, first = rows[0]
    for place, fields in rows:
        if len(fields) != len(first):
            raise file.wrong(
                f"has {len(fields)} fields in {place} and {len(first)} in {first_place}.",
                "Every row needs the same number of fields.",
            )
    if names_alone and len(first) == 1:
        names = [fields[0] for _, fields in rows]
        if not any(read_number(name) is not None for name in names):
            body = rows[1:] if names[0].lower() in _NAME_HEADERS else rows
            return FeatureTable(one_hot(len(body)).tolist(), _labels(file, body))
    header = _is_header(first)
    unnamed = header and len(first) > 1 and not first[0]
    body = rows[1:] if header else rows
    if not body:
        raise file.wrong("holds a header and no rows.", "Give one row per arm.")
    labelled = len(first) > 1 and (
        unnamed or any(read_number(fields[0]) is None for _, fields in body)
    )
    features = [
        [_feature(file, place, column, fields[column]) for column in range(labelled, len(fields))]
        for place, fields in body
    ]
    return FeatureTable(features, _labels(file, body) if labelled else None)


def _labels(file: UserFile, rows: Sequence[Row]) -> list[str]:
    """The first fields, none empty, each different."""
    places: dict[str, str] = {}
    for place, (name, *_) in rows:
        if not name:
            raise file.wrong(f"has an empty label in {place}.", "Give every row a name.")
        if name in places:
            problem = f"has the label {name!r} in {places[name]} and in {place}."
            raise file.wrong(problem, "Labels must be unique.")
        places[name] = place
    return list(places)


def _is_header(fields: Sequence[str]) -> bool:
    # A data frame's index has no name, nor have its columns, which may be numbered.
    numbered = ["", *(str(i) for i in range(len(fields) - 1))]
    frame = len(fields) > 1 and list(fields) == numbered
    return frame or all(read_number(field) is None for field in fields)


def _feature(file: UserFile, place: str, column: int, field: str) -> float:
    value = read_number(field)
    if value is None:
        decimal = "," in field and read_number(field.replace(",", ".")) is not None
        raise file.wrong(
            f"has {field!r} in {place}, column {column + 1}, where a number belongs.",
            "Write decimals with a point: 0.5."
            if decimal
            else "Only the first column may hold labels.",
        )
    return value


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, all of it or nothing. Raises OSError where that is not possible."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def check_writable(path: Path) -> None:
    """Raise OSError now if a file could not be written in a while."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with suppress(LookupError), replacing(path):
        raise LookupError  # before anything is written
