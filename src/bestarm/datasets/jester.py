"""Jester: ratings of jokes by many users (Goldberg, Roeder, Gupta, Perkins 2001)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bestarm.checks import whole
from bestarm.datasets.files import Found, read_ratings
from bestarm.datasets.synthetic import JOKES, USERS, synthetic_ratings
from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

_PAPER_USERS = 50_699  # of dataset 2, who rated all eight of JOKES


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
    """

    ratings: Array
    weights: Array | None
    jokes: tuple[int, ...]
    source: str
    synthetic: bool
    name: str

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
        return _made_up(chosen, dataset)
    found = read_ratings(Path(path), chosen)
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


def _made_up(jokes: tuple[int, ...], dataset: int | None) -> RatingsData:
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


def _sentence(found: Found, jokes: tuple[int, ...]) -> str:
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
