"""Files of Jester ratings, recognised by their contents, and the users who rated all of a list."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights

_HOME = "https://eigentaste.berkeley.edu/dataset/"
_NOT_RATED = 99.0
_JOKES = {1: 100, 2: 150}  # in each dataset, numbered from 1
_COLUMNS = ("userid", "jokeid", "rating")
_ARRAYS = {"ratings_hundredths": (1, 100.0), "ratings_thousandths": (2, 1000.0)}
_SIGNATURES = {
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: save it as CSV.",
    b"\x1f\x8b": "is compressed: unpack it.",
}
_BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError)


@dataclass(frozen=True, eq=False)
class Found:
    """The users of a file who rated all of a list of jokes; `users` counts all in the file."""

    dataset: int
    ratings: Array
    weights: Array | None
    users: int


def read_ratings(path: Path, jokes: tuple[int, ...]) -> Found:
    """Read the users of a file who rated all of these jokes.

    Raises:
        InvalidInputError: the file does not exist, or it is not one of the four kinds, or something
            in it is not a rating; names the line and the value.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        refuse(
            path,
            f"cannot be read ({error.strerror or error}).",
            str(path),
            f"The Jester ratings are free for research with citation: {_HOME} has them, and "
            "`jester_ratings.dat` in the archive of dataset 2 is what the paper used.",
        )
    for signature, what in _SIGNATURES.items():
        if head.startswith(signature):
            refuse(path, what, str(path))
    if head.startswith(b"PK"):
        return _from_arrays(path, jokes)
    text = _Text.open(path)
    return _from_triples(text, jokes) if text.columns else _from_rows(text, jokes)


def _from_arrays(path: Path, jokes: tuple[int, ...]) -> Found:
    """One of the two NumPy archives: whole numbers, one column per joke, maybe weights."""
    names, arrays = read_archive(path, (*_ARRAYS, "jokes", "weights"))
    kind = next((name for name in _ARRAYS if name in arrays), None)
    if kind is None or "jokes" not in arrays:
        refuse(
            path,
            f"is an archive of {', '.join(names) or 'nothing'}.",
            names,
            "Unpack it and give the file with the ratings.",
        )
    table, numbers, weights = arrays[kind], arrays["jokes"], arrays.get("weights")
    if table.ndim != 2 or table.dtype.kind not in "iu" or numbers.shape != table.shape[1:]:
        refuse(
            path,
            f"holds ratings of shape {table.shape} for jokes of shape {numbers.shape}.",
            table.shape,
            "It must have whole numbers, one row per user and one column per joke.",
        )
    dataset, unit = _ARRAYS[kind]
    ratings = table / unit
    for row, column in np.argwhere(np.abs(ratings) > 10)[:1]:
        value = float(ratings[row, column])
        where = f"row {row}, joke {numbers[column]}"
        refuse(path, f"holds {value:g} in {where}, outside [-10, 10].", value)
    places = {int(number): column for column, number in enumerate(numbers)}
    _check_present(path, jokes, places)
    chosen = np.ascontiguousarray(ratings[:, [places[joke] for joke in jokes]])
    if not len(chosen):
        refuse(path, "holds no users.", 0)
    if weights is not None:
        weights = as_weights(weights, len(chosen))
    return Found(dataset, chosen, weights, len(chosen))


def read_archive(path: Path, wanted: Sequence[str]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """The names of all arrays of a NumPy archive, and those of the wanted ones that it has.

    Raises:
        InvalidInputError: the archive cannot be read.
    """
    try:
        # Opened here: NumPy does not close what it could not read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            return names, {name: archive[name] for name in wanted if name in names}
    except _BROKEN as error:
        refuse(path, f"is cut short or damaged ({error}).", str(path), "Get it again.")


@dataclass(frozen=True)
class _Text:
    """A text file of numbers."""

    path: Path
    delimiter: str | None  # between fields; None for white space
    skipped: int  # lines before the first with numbers
    fields: int  # in each line
    columns: tuple[int, ...]  # of user, joke and rating; none where a line is all ratings of a user

    @classmethod
    def open(cls, path: Path) -> _Text:
        """Recognise the kind of the file by its first line."""
        number, first = next(_lines(path), (0, ""))
        if not number:
            refuse(path, "is empty.", str(path), f"{_HOME} has the ratings.")
        delimiter = next((mark for mark in ",;" if mark in first), None)
        names = _split(first, delimiter)
        header = [name.lower().replace("_", "").replace(" ", "") for name in names]
        skipped = number if any(_number(name) is None for name in names) else 0
        columns: tuple[int, ...] = ()
        if skipped and set(_COLUMNS) <= set(header):
            columns = tuple(header.index(name) for name in _COLUMNS)
        elif not skipped and len(names) == 3:
            columns = (0, 1, 2)
        elif len(names) != 1 + _JOKES[1]:
            refuse(
                path,
                f"begins with {first[:60]!r} in line {number}, {len(names)} field(s).",
                first[:60],
                "Dataset 2 has userId, jokeId, rating in every line; dataset 1 has a number of "
                "ratings and 100 ratings.",
            )
        return cls(path, delimiter, skipped, len(names), columns)

    def numbers(self) -> Array:
        """All lines, as a table."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no data: reported below
                table = np.loadtxt(
                    self.path,
                    delimiter=self.delimiter,
                    skiprows=self.skipped,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                    encoding="utf-8-sig",
                )
        except ValueError as error:
            self._explain(error)
        if not table.size:
            refuse(self.path, "holds a header and no ratings.", str(self.path), "Get it again.")
        return table

    def _explain(self, error: ValueError) -> NoReturn:
        """Find the first invalid line, slowly, after reading the whole file has failed."""
        for number, line in _lines(self.path, self.skipped):
            fields = _split(line, self.delimiter)
            if len(fields) != self.fields:
                refuse(
                    self.path,
                    f"has {len(fields)} field(s) in line {number}, {line[:60]!r}, where "
                    f"{self.fields} belong.",
                    line[:60],
                    "If it is the last line, the file was cut short: get it again.",
                )
            for field in fields:
                if _number(field) is None:
                    refuse(
                        self.path, f"has {field!r} in line {number}, where a number belongs.", field
                    )
        refuse(self.path, f"could not be read as numbers ({error}).", str(self.path))

    def check(self, right: NDArray[np.bool_], values: Array, what: str) -> None:
        """Raise for the first invalid value, with its line."""
        if right.all():
            return
        place = int(np.argmin(right.ravel()))
        row = place // (right.size // len(right))
        lines = _lines(self.path, self.skipped)
        number = next(number for i, (number, _) in enumerate(lines) if i == row)
        value = float(values.ravel()[place])
        refuse(self.path, f"has {value:g} in line {number}, where {what} belongs.", value)


def _from_triples(text: _Text, jokes: tuple[int, ...]) -> Found:
    """Dataset 2: one line per rating."""
    user, joke, rating = text.numbers().T[list(text.columns)]
    most = _JOKES[2]
    text.check(user == np.floor(user), user, "the whole number of a user")
    text.check(
        (joke >= 1) & (joke <= most) & (joke == np.floor(joke)), joke, f"a joke from 1 to {most}"
    )
    text.check(np.abs(rating) <= 10, rating, "a rating in [-10, 10]")
    _check_present(text.path, jokes, range(1, most + 1))
    users, row = np.unique(user, return_inverse=True)
    column = np.full(most + 1, -1)
    column[list(jokes)] = np.arange(len(jokes))
    place = column[joke.astype(np.int64)]
    kept = np.flatnonzero(place >= 0)
    ratings = np.full((len(users), len(jokes)), np.nan)
    ratings[row[kept], place[kept]] = rating[kept]
    # Of two different ratings of one joke by one user only the last is now in the table.
    again = np.ones(len(user), dtype=np.bool_)
    again[kept] = ratings[row[kept], place[kept]] == rating[kept]
    text.check(again, rating, "the only rating of this joke by this user")
    return _complete(text.path, 2, ratings, jokes)


def _from_rows(text: _Text, jokes: tuple[int, ...]) -> Found:
    """Dataset 1: one line per user, with the number of ratings and then all of them."""
    table = text.numbers()
    number, ratings = table[:, 0], table[:, 1:]
    most = _JOKES[1]
    text.check(
        (number >= 0) & (number <= most) & (number == np.floor(number)),
        number,
        f"a number of ratings from 0 to {most}",
    )
    text.check(
        (np.abs(ratings) <= 10) | (ratings == _NOT_RATED),
        ratings,
        "a rating in [-10, 10], or 99 for none,",
    )
    _check_present(text.path, jokes, range(1, most + 1))
    chosen = ratings[:, np.array(jokes) - 1]
    return _complete(text.path, 1, np.where(chosen == _NOT_RATED, np.nan, chosen), jokes)


def _complete(path: Path, dataset: int, ratings: Array, jokes: tuple[int, ...]) -> Found:
    complete = ratings[~np.isnan(ratings).any(axis=1)]
    if not len(complete):
        refuse(path, f"has no user who rated all of jokes {', '.join(map(str, jokes))}.", jokes)
    return Found(dataset, complete, None, len(ratings))


def _check_present(path: Path, jokes: tuple[int, ...], present: range | dict[int, int]) -> None:
    for joke in jokes:
        if joke not in present:
            every = isinstance(present, range)
            held = f"1 to {len(present)}" if every else ", ".join(map(str, present))
            raise InvalidInputError(
                f"`jokes` asks for joke {joke}; {str(path)!r} has jokes {held}.",
                field="jokes",
                value=joke,
            )


def _lines(path: Path, skipped: int = 0) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, numbered from 1."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if number > skipped and line.strip():
                    yield number, line.strip()
    except UnicodeDecodeError:
        refuse(path, "is neither text nor a NumPy archive.", str(path), f"{_HOME} has the data.")


def _split(line: str, delimiter: str | None) -> list[str]:
    return [field.strip().strip('"') for field in line.split(delimiter)]


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def refuse(path: Path, what: str, value: object, remedy: str = "") -> NoReturn:
    """Raise for something wrong with a file."""
    message = f"{str(path)!r} {what}"
    raise InvalidInputError(message, field="path", value=value, remedy=remedy) from None
