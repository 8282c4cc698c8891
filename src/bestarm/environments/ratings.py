"""The world of ratings: every round asks one random user about one item, or about several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bestarm.checks import whole
from bestarm.environments.environment import Stream
from bestarm.environments.fixed import FixedWorld
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_features, as_weights

if TYPE_CHECKING:
    from bestarm.environments.rating_streams import RatingTables

# A pairwise sum of a million products is wrong by less than this times the sum of their sizes.
_ROUNDING = 32 * float(np.finfo(float).eps)


class Ratings(FixedWorld):
    """Real answers as rewards: a pull draws a user and shows that user's rating of the item.

    Items are the arms, with one-hot features. The baseline ν_t is the user's general level: some
    rate everything high, others everything low. The best item has the largest weighted mean.

    Policies are told the declared scales. The defaults, 1 and 1, are those of the paper's Jester
    runs and are not valid for such data, whose standard deviation is near 5.7: a guarantee that
    rests on the scales needs true ones.

    Args:
        matrix: ratings, one row per user, one column per item; a data frame names its items.
        weights: the probability of each user; the same for all by default.
        source_labels: one name per item.
        covariates: what is known of each user before the draw, one row of numbers per user: the
            forecasts of a simulation may use it.
        replacement: whether a user may be drawn again. If not, a run draws the next user among
            those not yet asked, in proportion to the weights, and raises when it has asked
            everybody. With unequal weights the late users are the unlikely ones, so over a long
            run the means move away from the weighted ones.
        block: how many items a user can be asked about: plans may be over blocks of up to so many.
        name: its name in results and tables.
        declared_noise: the scale of the noise that policies are told.
        declared_baseline: the bound on |ν_t| that policies are told.

    Raises:
        InvalidInputError: an argument is invalid, or two items are equally good.

    Example:
        >>> from bestarm.environments import Ratings
        >>> world = Ratings([[1, 5], [2, 3], [3, 4]], source_labels=["tea", "coffee"])
        >>> world.best, world.gap
        (1, 2.0)
    """

    def __init__(
        self,
        matrix: object,
        weights: object = None,
        source_labels: Sequence[object] | None = None,
        *,
        covariates: object = None,
        replacement: bool = True,
        block: int = 1,
        name: str = "ratings",
        declared_noise: float = 1.0,
        declared_baseline: float = 1.0,
    ) -> None:
        self._matrix = as_features(matrix, "matrix", unit="user", entry="rating")
        users, items = self._matrix.shape
        self._weights = None if weights is None else as_weights(weights, users)
        self._covariates = (
            None if covariates is None else as_features(covariates, "covariates", unit="user")
        )
        if self._covariates is not None and len(self._covariates) != users:
            raise InvalidInputError(
                f"`covariates` has {len(self._covariates)} rows for {users} users.",
                field="covariates",
                value=self._covariates.shape,
                remedy="Give one row per user, in the order of the ratings.",
            )
        if not isinstance(replacement, bool):
            raise InvalidInputError(
                f"`replacement` must be True or False; got {replacement!r}.",
                field="replacement",
                value=replacement,
            )
        self._replacement = replacement
        self._block = whole(block, "block", least=1, below=items + 1)
        if source_labels is None:
            source_labels = getattr(matrix, "columns", None)  # a data frame names its columns
        template = Problem(
            np.eye(items),
            noise=declared_noise,
            baseline=declared_baseline,
            source_labels=source_labels,
        )
        self._means = self._average(self._matrix)
        self._means.flags.writeable = False
        rounding = _ROUNDING * float(self._average(np.abs(self._matrix)).max())
        super().__init__(name, template, self._means, rounding=rounding, field="matrix")

    def _average(self, table: Array) -> Array:
        """The weighted mean of each column, by pairwise sums."""
        columns = np.ascontiguousarray(table.T)
        if self._weights is None:
            return np.asarray(columns.sum(axis=1) / len(table))
        return np.asarray((columns * self._weights).sum(axis=1) / self._weights.sum())

    @property
    def matrix(self) -> Array:
        """The ratings (users × items), read-only."""
        return self._matrix

    @property
    def replacement(self) -> bool:
        """Whether a user may be drawn again."""
        return self._replacement

    @property
    def means(self) -> Array:
        """The weighted mean rating of each item, read-only."""
        return self._means

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run in which no user has been asked yet."""
        from bestarm.environments import rating_streams  # noqa: PLC0415 - compiles kernels

        kind = rating_streams.DrawnUsers if self._replacement else rating_streams.ShuffledUsers
        return kind(self._means, self._tables, rng).with_blocks(self._block)

    @cached_property
    def _tables(self) -> RatingTables:
        from bestarm.environments.rating_streams import RatingTables  # noqa: PLC0415 - as above

        return RatingTables(self._matrix, self._weights, self._covariates)

    def __getstate__(self) -> dict[str, object]:
        # Tables are made again where needed.
        return {key: part for key, part in super().__getstate__().items() if key != "_tables"}

    def __repr__(self) -> str:
        users, items = self._matrix.shape
        drawn = "with" if self._replacement else "without"
        return (
            f"Ratings({self._name!r}, {users} users, {items} items, best={self._best}, "
            f"gap={self._gap:g}, {drawn} replacement)"
        )
