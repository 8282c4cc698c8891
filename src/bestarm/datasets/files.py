"""What readers of data files share: archives, numbers in text, and what is wrong with a file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError

_BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError)


def read_head(path: Path, size: int, remedy: str) -> bytes:
    """The first bytes of a file, by which its kind is recognised. `remedy` says where to get it."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        reject(path, f"cannot be read ({error.strerror or error}).", str(path), remedy)


def read_archive(path: Path, wanted: Sequence[str]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """The names of all arrays of a NumPy archive, and those of the wanted ones that it has."""
    try:
        # Opened here: NumPy does not close what it could not read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            return names, {name: archive[name] for name in wanted if name in names}
    except _BROKEN as error:
        reject(path, f"is cut short or damaged ({error}).", str(path), "Get it again.")


def as_number(field: str) -> float | None:
    """A field of a text as a number, or None if it is not one."""
    try:
        return float(field)
    except ValueError:
        return None


def reject(path: Path, what: str, value: object, remedy: str = "") -> NoReturn:
    """Raise for something wrong with a file."""
    message = f"{str(path)!r} {what}"
    raise InvalidInputError(message, field="path", value=value, remedy=remedy) from None
