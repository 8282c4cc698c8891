"""Files of users: rows of a table from CSV or JSON, documents from TOML."""

from __future__ import annotations

import csv
import json
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bestarm.cli.command import read_number
from bestarm.errors import InvalidInputError
from bestarm.files import unguarded

Row = tuple[str, list[str]]  # where it is, in words, and its fields
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class UserFile:
    """A file that a user named; `-` is standard input. Raises OSError if it cannot be read."""

    path: Path
    field: str  # the option that names it, for errors
    what: str = ""  # what it must hold, for errors

    @property
    def name(self) -> str:
        """Its name, in a sentence."""
        return "standard input" if str(self.path) == "-" else repr(str(self.path))

    def wrong(self, problem: str, remedy: str | None = None) -> InvalidInputError:
        """The error for a file that does not hold what it must."""
        name = f"{self.name[:1].upper()}{self.name[1:]}"
        what = self.what if remedy is None else remedy
        return InvalidInputError(
            f"{name} {problem}", field=self.field, value=str(self.path), remedy=what
        )

    def wrong_row(self, place: str, error: InvalidInputError, remedy: str) -> InvalidInputError:
        """The error of one of its rows, with the place of that row and a further remedy."""
        return type(error)(
            f"In {place} of {self.name}: {error.message}",
            field=error.field,
            value=error.value,
            remedy=f"{error.remedy} {remedy}".strip(),
        )

    def toml(self) -> dict[str, Any]:
        """The document of a TOML file."""
        try:
            return tomllib.loads(self.path.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.wrong(f"is not a TOML file ({str(error).rstrip('.')}).") from None

    def rows(self) -> list[Row]:
        """The rows that are not empty.

        A CSV file is text in UTF-8, with fields between commas, semicolons or tabs: whichever its
        first line has most of. A JSON file (`.json`) is a list of rows: objects, whose names are
        the header; lists; or single values.
        """
        text = self.text()
        listed = text.lstrip()[:1] in {"[", "{"}
        is_json = self.path.suffix.lower() == ".json" or (str(self.path) == "-" and listed)
        try:
            return list(self._json_rows(text) if is_json else _csv_rows(text))
        except csv.Error as error:
            raise self.wrong(f"is not a CSV file ({error}).") from None

    def records(self) -> list[dict[str, str]]:
        """The rows below a header, by its names, which must differ."""
        (_, header), *rows = self.rows() or [("", [])]
        if len(set(header)) < len(header):
            raise self.wrong("needs a header with a different name for each column.")
        for place, fields in rows:
            if len(fields) != len(header):
                raise self.wrong(f"has {len(fields)} fields in {place}, not {len(header)}.")
        return [dict(zip(header, fields, strict=True)) for _, fields in rows]

    def text(self) -> str:
        """What it holds: text in UTF-8."""
        try:
            if str(self.path) == "-":
                return sys.stdin.read().removeprefix("\ufeff")
            return self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            remedy = f"Save it as CSV in UTF-8. {self.what}"
            raise self.wrong("is not text in UTF-8.", remedy) from None

    def _json_rows(self, text: str) -> Iterator[Row]:
        try:
            read = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.wrong(f"is not JSON ({error}).") from None
        if isinstance(read, dict) and list(read) == ["outcomes"]:  # as over HTTP
            read = read["outcomes"]
        elif isinstance(read, dict):  # names with features
            read = [[name, *_as_list(value)] for name, value in read.items()]
        if not isinstance(read, list):
            raise self.wrong("is not a list of rows.")
        names = list(read[0]) if read and isinstance(read[0], dict) else None
        if names is not None:
            if any(read_number(name) is not None for name in names):
                raise self.wrong("has numbers for names of columns.")
            yield "the names", names
        for number, row in enumerate(read, start=1):
            keys = set(row) if isinstance(row, dict) else None
            if keys != (None if names is None else set(names)):
                raise self.wrong(f"has other names in row {number} than in row 1.")
            values = _as_list(row) if names is None else [row[name] for name in names]
            if not all(isinstance(value, (str, int, float, type(None))) for value in values):
                raise self.wrong(f"holds more than texts and numbers in row {number}.")
            fields = ["" if value is None else str(value).strip() for value in values]
            if any(fields):
                yield f"row {number}", fields


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _csv_rows(text: str) -> Iterator[Row]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    bare = "".join(first.split('"')[::2])  # what is outside quotes
    delimiter = max(_DELIMITERS, key=bare.count)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    for fields in reader:
        stripped = [unguarded(field.strip().removeprefix("\ufeff")) for field in fields]
        if any(stripped):
            yield f"line {reader.line_num}", stripped
