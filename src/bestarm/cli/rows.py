"""Files of users: rows of a table from CSV or JSON, documents from TOML."""

from __future__ import annotations

import csv
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bestarm.cli.options import read_number
from bestarm.errors import InvalidInputError

__all__ = ["Row", "read_rows", "read_toml", "wrong_file"]

Row = tuple[str, list[str]]  # where it is, in words, and its fields
_DELIMITERS = ",;\t"
_BINARY = {
    b"PK\x03\x04": "a spreadsheet or another archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a compressed file",
}


def read_rows(path: Path, *, field: str, what: str) -> list[Row]:
    """The rows of a file that are not empty; the file `-` is standard input.

    A CSV file is text in UTF-8, with fields between commas, semicolons or tabs: whichever its first
    line has most of. A JSON file (`.json`) is a list of rows: objects, whose names are the header;
    lists; or single values.

    Args:
        path: the file.
        field: the option that names it, for errors.
        what: what it must hold, for errors.

    Raises:
        InvalidInputError: the file is neither.
        OSError: the file cannot be read.
    """
    try:
        text = _text(path, field, what)
    except UnicodeDecodeError as error:
        raise wrong_file(path, f"is not text in UTF-8 ({error}).", what, field=field) from None
    listed = text.lstrip()[:1] in {"[", "{"}
    if path.suffix.lower() == ".json" or (str(path) == "-" and listed):
        return list(_json_rows(path, text, field, what))
    try:
        return list(_csv_rows(text))
    except csv.Error as error:
        raise wrong_file(path, f"is not a CSV file ({error}).", what, field=field) from None


def read_toml(path: Path, *, field: str, what: str = "") -> dict[str, Any]:
    """The document of a TOML file; `field` and `what` as for `read_rows`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"is not a TOML file ({str(error).rstrip('.')})."
        raise wrong_file(path, problem, what, field=field) from None


def wrong_file(path: Path, problem: str, remedy: str, *, field: str) -> InvalidInputError:
    """The error for a file that does not hold what it must."""
    name = "Standard input" if str(path) == "-" else repr(str(path))
    return InvalidInputError(f"{name} {problem}", field=field, value=str(path), remedy=remedy)


def _text(path: Path, field: str, what: str) -> str:
    if str(path) == "-":
        return sys.stdin.read().removeprefix("\ufeff")
    content = path.read_bytes()
    for signature, kind in _BINARY.items():
        if content.startswith(signature):
            raise wrong_file(
                path, f"is {kind}, which is not read here.", f"Save it as CSV. {what}", field=field
            )
    return content.decode("utf-8-sig")


def _csv_rows(text: str) -> Iterator[Row]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(text.splitlines(keepends=True), delimiter=_delimiter(first))
    for fields in reader:
        stripped = [field.strip().removeprefix("\ufeff") for field in fields]
        if any(stripped):
            yield f"line {reader.line_num}", stripped


def _delimiter(line: str) -> str:
    """The delimiter that a line has most of, outside quotes; a comma if none."""
    bare = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=bare.count)


def _json_rows(path: Path, text: str, field: str, what: str) -> Iterator[Row]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong_file(path, f"is not JSON ({error}).", what, field=field) from None
    if isinstance(read, dict) and list(read) == ["outcomes"]:  # as over HTTP
        read = read["outcomes"]
    elif isinstance(read, dict):  # names with features
        read = [[name, *_listed(value)] for name, value in read.items()]
    if not isinstance(read, list):
        raise wrong_file(path, "is not a list of rows.", what, field=field)
    names = list(read[0]) if read and isinstance(read[0], dict) else None
    if names is not None:
        if any(read_number(name) is not None for name in names):
            raise wrong_file(path, "has numbers for names of columns.", what, field=field)
        yield "the names", names
    for number, row in enumerate(read, start=1):
        keys = set(row) if isinstance(row, dict) else None
        if keys != (None if names is None else set(names)):
            raise wrong_file(
                path, f"has other names in row {number} than in row 1.", what, field=field
            )
        values = _listed(row) if names is None else [row[name] for name in names]
        fields = [_word(value) for value in values]
        known = [each for each in fields if each is not None]
        if len(known) < len(fields):
            raise wrong_file(
                path, f"holds more than texts and numbers in row {number}.", what, field=field
            )
        if any(known):
            yield f"row {number}", known


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _word(value: object) -> str | None:
    """A value as a CSV file has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, (str, int, float)) else None
