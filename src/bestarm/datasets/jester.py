"""Jester: ratings of jokes by many users (Goldberg, Roeder, Gupta, Perkins 2001)."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from bestarm.checks import vector, whole
from bestarm.datasets.files import as_number, read_archive, read_head, reject
from bestarm.datasets.synthetic import JOKES, USERS, synthetic_ratings
from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights

_PAPER_USERS = 50_699  # of dataset 2, who rated all eight of JOKES
_HOME = "https://eigentaste.berkeley.edu/dataset/"
_NOT_RATED = 99.0
_JOKES = {1: 100, 2: 150}  # in each dataset, numbered from 1
_COLUMNS = ("userid", "jokeid", "rating")
_ARRAYS = {"ratings_hundredths": (1, 100.0), "ratings_thousandths": (2, 1000.0)}
_SIGNATURES = {
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: save it as CSV.",
    b"\x1f\x8b": "is compressed: unpack it.",
}


@dataclass(frozen=True, eq=False, repr=False)
class RatingsData:
    """Ratings of users who rated every joke of a list, and where they come from.

    Attributes:
        ratings: users × jokes, in [−10, 10], read-only.
        weights: the probability of each user, or None if all are equal.
        jokes: the jokes' numbers, in the order of the columns.
        source: what data it is, in a sentence.
        synthetic: whether the users are made up.
        name: what its environment is called.
        sha256: the SHA-256 of the file that was read; empty for synthetic users.
    """

    ratings: Array
    weights: Array | None
    jokes: tuple[int, ...]
    source: str
    synthetic: bool
    name: str
    sha256: str = ""

    def balanced(self, means: Sequence[float]) -> RatingsData:
        """The same users with the weights nearest to equal ones that give the jokes these means.

        Nearest in relative entropy, so weights are exp(λ·rating) for the λ that minimises
        log Σ exp(λ·(rating − means)). With the first 11,004 complete users of dataset 2 and the
        means of all 50,699 it makes the stand-in that our figures were measured with.

        Args:
            means: the mean rating of each joke, in the order of `jokes`.

        Raises:
            InvalidInputError: no weights of these users have these means.

        Reference: Hainmueller (2012), entropy balancing.
        """
        centered = self.ratings - vector(means, "means")

        def dual(slope: Array) -> tuple[float, Array]:
            exponents = centered @ slope
            size = float(logsumexp(exponents))
            return size, np.exp(exponents - size) @ centered

        slope = minimize(dual, np.zeros(len(self.jokes)), jac=True, options={"gtol": 1e-10}).x
        size, missed = dual(slope)
        if not np.abs(missed).max() < 1e-6:
            raise InvalidInputError(
                "`means` are outside what weights of these users can give.",
                field="means",
                value=means,
                remedy="Each joke's mean must lie well inside the ratings that it has.",
            )
        return replace(self, weights=as_weights(np.exp(centered @ slope - size), len(centered)))

    def environment(self, **options: Any) -> Ratings:
        """The world in which a pull asks one of the users about one of the jokes.

        Options are those of `Ratings`.
        """
        labels = [f"joke {joke}" for joke in self.jokes]
        return Ratings(self.ratings, self.weights, labels, name=self.name, **options)

    def __repr__(self) -> str:
        users, jokes = self.ratings.shape
        kind = ", synthetic" if self.synthetic else ""
        weighted = "" if self.weights is None else ", weighted"
        return f"RatingsData({self.name!r}, {users} users, {jokes} jokes{weighted}{kind})"


def jester(
    path: str | Path | None = None,
    *,
    jokes: Sequence[int] = JOKES,
    dataset: int | None = None,
) -> RatingsData:
    """The users who rated all of these jokes, from a file, or synthetic ones.

    A file is recognised by its contents: dataset 2 as `jester_ratings.csv` (userId, jokeId,
    rating) or the archive's `jester_ratings.dat`; dataset 1's spreadsheets saved as CSV (the
    number of ratings, then 100 ratings, 99 for none); or a NumPy archive with `jokes` and
    `ratings_hundredths` (dataset 1) or `ratings_thousandths` (dataset 2), and maybe `weights`.

    Args:
        path: the file; without one, 20 000 synthetic users with the means published for the
            paper's eight jokes and a spread like the real one.
        jokes: their numbers; by default the eight that the paper used.
        dataset: 1 or 2, to refuse a file of the other; either by default.

    Raises:
        InvalidInputError: an argument is invalid, or the file is absent, cut short,
            ragged or holds a value that is not a rating; it names the line and the value.

    Example:
        >>> from bestarm.datasets import jester
        >>> data = jester()
        >>> data
        RatingsData('jester (synthetic)', 20000 users, 8 jokes, synthetic)
        >>> data.environment().problem(0.1).source_labels[-1]
        'joke 19'
    """
    chosen = _jokes(jokes)
    if dataset is not None:
        whole(dataset, "dataset", least=1, below=3)
    if path is None:
        return _synthetic_users(chosen, dataset)
    found = _read_ratings(Path(path), chosen)
    if dataset not in (None, found.dataset):
        raise InvalidInputError(
            f"{str(path)!r} holds dataset {found.dataset}, not dataset {dataset}.",
            field="dataset",
            value=dataset,
            remedy="Leave `dataset` out, or give the other file.",
        )
    found.ratings.flags.writeable = False
    return RatingsData(
        ratings=found.ratings,
        weights=found.weights,
        jokes=chosen,
        source=_sentence(found, chosen),
        synthetic=False,
        name=f"jester {found.dataset}",
        sha256=hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    )


def _jokes(jokes: Sequence[int]) -> tuple[int, ...]:
    try:
        chosen = tuple(whole(joke, "jokes", least=1) for joke in jokes)
    except TypeError:
        chosen = ()
    if len(chosen) < 2 or len(set(chosen)) < len(chosen):
        raise InvalidInputError(
            f"`jokes` must list at least two different jokes by number; got {jokes!r}.",
            field="jokes",
            value=jokes,
        )
    return chosen


def _synthetic_users(jokes: tuple[int, ...], dataset: int | None) -> RatingsData:
    if dataset == 1:
        raise InvalidInputError(
            "`dataset` is 1, and the synthetic users are modelled on dataset 2.",
            field="dataset",
            value=dataset,
            remedy="Give the `path` of a file of dataset 1.",
        )
    for joke in jokes:
        if joke not in JOKES:
            raise InvalidInputError(
                f"`jokes` asks for joke {joke}; the synthetic users rated {_listed(JOKES)}.",
                field="jokes",
                value=joke,
                remedy="Give the `path` of a file that has it.",
            )
    ratings = np.ascontiguousarray(synthetic_ratings()[:, [JOKES.index(joke) for joke in jokes]])
    ratings.flags.writeable = False
    return RatingsData(
        ratings=ratings,
        weights=None,
        jokes=jokes,
        source=f"Synthetic: {USERS:,} made-up users drawn from a model with the published means of "
        f"Jester dataset 2 and a similar spread, not real ratings, where the paper had "
        f"{_PAPER_USERS:,} real users.",
        synthetic=True,
        name="jester (synthetic)",
    )


def _sentence(found: _CompleteUsers, jokes: tuple[int, ...]) -> str:
    among = "" if found.users == len(found.ratings) else f" of {found.users:,}"
    text = (
        f"Jester dataset {found.dataset}: {len(found.ratings):,}{among} users in the file rated "
        f"all of jokes {_listed(jokes)}"
    )
    if found.weights is not None:
        text += ", and are drawn with the file's weights"
    if found.dataset == 2 and set(jokes) == set(JOKES):
        text += f"; the paper had {_PAPER_USERS:,} users"
    return text + "."


def _listed(jokes: tuple[int, ...]) -> str:
    return ", ".join(map(str, jokes))


@dataclass(frozen=True, eq=False)
class _CompleteUsers:
    """The users of a file who rated all of a list of jokes; `users` counts all in the file."""

    dataset: int
    ratings: Array
    weights: Array | None
    users: int


def _read_ratings(path: Path, jokes: tuple[int, ...]) -> _CompleteUsers:
    """Read the users of a file who rated all of these jokes."""
    head = read_head(
        path,
        4,
        f"The Jester ratings are free for research with citation: {_HOME} has them, and "
        "`jester_ratings.dat` in the archive of dataset 2 is what the paper used.",
    )
    for signature, what in _SIGNATURES.items():
        if head.startswith(signature):
            reject(path, what, str(path))
    if head.startswith(b"PK"):
        return _from_arrays(path, jokes)
    text = _Text.open(path)
    return _from_triples(text, jokes) if text.columns else _from_rows(text, jokes)


def _from_arrays(path: Path, jokes: tuple[int, ...]) -> _CompleteUsers:
    """One of the two NumPy archives: whole numbers, one column per joke, maybe weights."""
    names, arrays = read_archive(path, (*_ARRAYS, "jokes", "weights"))
    kind = next((name for name in _ARRAYS if name in arrays), None)
    if kind is None or "jokes" not in arrays:
        reject(
            path,
            f"is an archive of {', '.join(names) or 'nothing'}.",
            names,
            "Unpack it and give the file with the ratings.",
        )
    table, numbers, weights = arrays[kind], arrays["jokes"], arrays.get("weights")
    if table.ndim != 2 or table.dtype.kind not in "iu" or numbers.shape != table.shape[1:]:
        reject(
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
        reject(path, f"holds {value:g} in {where}, outside [-10, 10].", value)
    places = {int(number): column for column, number in enumerate(numbers)}
    _check_present(path, jokes, places)
    chosen = np.ascontiguousarray(ratings[:, [places[joke] for joke in jokes]])
    if not len(chosen):
        reject(path, "holds no users.", 0)
    if weights is not None:
        weights = as_weights(weights, len(chosen))
    return _CompleteUsers(dataset, chosen, weights, len(chosen))


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
            reject(path, "is empty.", str(path), f"{_HOME} has the ratings.")
        delimiter = next((mark for mark in ",;" if mark in first), None)
        names = _split(first, delimiter)
        header = [name.lower().replace("_", "").replace(" ", "") for name in names]
        skipped = number if any(as_number(name) is None for name in names) else 0
        columns: tuple[int, ...] = ()
        if skipped and set(_COLUMNS) <= set(header):
            columns = tuple(header.index(name) for name in _COLUMNS)
        elif not skipped and len(names) == 3:
            columns = (0, 1, 2)
        elif len(names) != 1 + _JOKES[1]:
            reject(
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
            reject(self.path, "holds a header and no ratings.", str(self.path), "Get it again.")
        return table

    def _explain(self, error: ValueError) -> NoReturn:
        """Find the first invalid line, slowly, after reading the whole file has failed."""
        for number, line in _lines(self.path, self.skipped):
            fields = _split(line, self.delimiter)
            if len(fields) != self.fields:
                reject(
                    self.path,
                    f"has {len(fields)} field(s) in line {number}, {line[:60]!r}, where "
                    f"{self.fields} belong.",
                    line[:60],
                    "If it is the last line, the file was cut short: get it again.",
                )
            for field in fields:
                if as_number(field) is None:
                    reject(
                        self.path, f"has {field!r} in line {number}, where a number belongs.", field
                    )
        reject(self.path, f"could not be read as numbers ({error}).", str(self.path))

    def check(self, right: NDArray[np.bool_], values: Array, what: str) -> None:
        """Raise for the first invalid value, with its line."""
        if right.all():
            return
        place = int(np.argmin(right.ravel()))
        row = place // (right.size // len(right))
        lines = _lines(self.path, self.skipped)
        number = next(number for i, (number, _) in enumerate(lines) if i == row)
        value = float(values.ravel()[place])
        reject(self.path, f"has {value:g} in line {number}, where {what} belongs.", value)


def _from_triples(text: _Text, jokes: tuple[int, ...]) -> _CompleteUsers:
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


def _from_rows(text: _Text, jokes: tuple[int, ...]) -> _CompleteUsers:
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


def _complete(path: Path, dataset: int, ratings: Array, jokes: tuple[int, ...]) -> _CompleteUsers:
    complete = ratings[~np.isnan(ratings).any(axis=1)]
    if not len(complete):
        reject(path, f"has no user who rated all of jokes {_listed(jokes)}.", jokes)
    return _CompleteUsers(dataset, complete, None, len(ratings))


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
        reject(path, "is neither text nor a NumPy archive.", str(path), f"{_HOME} has the data.")


def _split(line: str, delimiter: str | None) -> list[str]:
    return [field.strip().strip('"') for field in line.split(delimiter)]
