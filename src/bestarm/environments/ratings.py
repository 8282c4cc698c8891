"""The world of ratings: every round asks one random user about one item, or about several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole
from bestarm.environments.environment import FixedWorld, Pulls, Stream
from bestarm.environments.streams import Arms, BlockStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.numerics.sampling import Categorical
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_features, as_weights
from bestarm.records import Plan

# A pairwise sum of a million products is wrong by less than this times the sum of their sizes.
_ROUNDING = 32 * float(np.finfo(float).eps)


class Ratings(FixedWorld):
    """Real answers as rewards: a pull draws a user and shows that user's rating of the item.

    Items are the arms, with one-hot features. The baseline ν_t is the user's general level: some
    rate everything high, others everything low. The best item has the largest weighted mean.

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
        declared_noise: the scale of the noise that policies are told; by default half the range of
            the ratings, which holds. The paper told them 1 for Jester, which does not.
        declared_baseline: the bound on |ν_t| that policies are told; by default how far a user's
            mean rating is from that of all. The paper told them 1 for Jester.

    Attributes:
        matrix: the ratings (users × items), read-only.
        means: the weighted mean rating of each item, read-only.
        replacement: whether a user may be drawn again.

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
        declared_noise: float | None = None,
        declared_baseline: float | None = None,
    ) -> None:
        self.matrix: Final = as_features(matrix, "matrix", unit="user", entry="rating")
        users, items = self.matrix.shape
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
        self.replacement: Final = replacement
        self._block = whole(block, "block", least=1, below=items + 1)
        if source_labels is None:
            source_labels = getattr(matrix, "columns", None)  # a data frame names its columns
        self.means: Final = self._average(self.matrix)
        self.means.flags.writeable = False
        if declared_noise is None:
            declared_noise = float(np.ptp(self.matrix)) / 2
        if declared_baseline is None:
            levels = self.matrix.mean(axis=1) - self.means.mean()
            declared_baseline = float(np.abs(levels).max())
        template = Problem(
            np.eye(items),
            noise=declared_noise,
            baseline=declared_baseline,
            source_labels=source_labels,
        )
        rounding = _ROUNDING * float(self._average(np.abs(self.matrix)).max())
        means = self.means
        super().__init__(name, template, means, means=means, rounding=rounding, field="matrix")

    def _average(self, table: Array) -> Array:
        """The weighted mean of each column, by pairwise sums."""
        columns = np.ascontiguousarray(table.T)
        if self._weights is None:
            return np.asarray(columns.sum(axis=1) / len(table))
        return np.asarray((columns * self._weights).sum(axis=1) / self._weights.sum())

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run in which no user has been asked yet."""
        kind = DrawnUsers if self.replacement else ShuffledUsers
        return kind(self, rng).with_blocks(self._block)

    @cached_property
    def _users(self) -> Categorical:
        """The users, to draw; those of weight 0 are never drawn."""
        assert self._weights is not None
        return Categorical(self._weights / self._weights.sum())

    def _order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random order of the users, without those of weight 0.

        Independent exponential clocks with the weights as rates ring in the order of draws among
        those left, in proportion to their weights.
        """
        if self._weights is None:
            return rng.permutation(len(self.matrix))
        users = np.flatnonzero(self._weights)
        clocks = rng.standard_exponential(len(users)) / self._weights[users]
        return users[np.argsort(clocks)]

    def __getstate__(self) -> dict[str, object]:
        # The table is made again where needed.
        return {key: part for key, part in super().__getstate__().items() if key != "_users"}

    def __repr__(self) -> str:
        users, items = self.matrix.shape
        drawn = "with" if self.replacement else "without"
        return (
            f"Ratings({self.name!r}, {users} users, {items} items, best={self.best}, "
            f"gap={self.gap:g}, {drawn} replacement)"
        )


class _UserStream(BlockStream):
    """A run in which every round asks a user."""

    def __init__(self, world: Ratings, rng: np.random.Generator) -> None:
        super().__init__(world.means, noise=0.0, rng=rng)
        self._world = world

    @abstractmethod
    def _next_users(self, rounds: int) -> NDArray[Any]:
        """The users of the next rounds."""

    def _block_rewards(self, arms: Arms) -> Array:
        return np.asarray(self._world.matrix[self._next_users(len(arms))[:, None], arms])

    @property
    def knows_users(self) -> bool:
        """Whether something is known of users before a draw."""
        return self._world._covariates is not None

    def _ask(self, users: NDArray[Any], arms: Arms) -> Pulls:
        """The ratings of these items by these users, one each."""
        known = self._world._covariates
        return Pulls(arms, self._world.matrix[users, arms], None if known is None else known[users])


class DrawnUsers(_UserStream):
    """A run in which every pull draws a user: the ratings of an arm are independent draws."""

    def presample(self, rounds: int) -> PresampledRewards | None:
        """The ratings of the next users."""
        return PresampledRewards(self._world.matrix, self._next_users(rounds), np.zeros(rounds))

    def _next_users(self, rounds: int) -> NDArray[np.int64]:
        if self._world._weights is None:
            return self._baseline_rng.integers(len(self._world.matrix), size=rounds)
        return self._world._users.draw(self._baseline_rng, rounds)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms in self._arms_in_order(plan):
            yield self._ask(self._next_users(len(arms)), arms)


class ShuffledUsers(_UserStream):
    """A run in which no user is asked twice: pull t shows a rating of the t-th user."""

    def __init__(self, world: Ratings, rng: np.random.Generator) -> None:
        super().__init__(world, rng)
        self._order = world._order(self._baseline_rng)

    def presample(self, rounds: int) -> PresampledRewards | None:
        """The ratings of the next users in the order, while any are left."""
        users = self._order[self._rounds : self._rounds + rounds]
        if not len(users):
            return None
        return PresampledRewards(self._world.matrix, users, np.zeros(len(users)))

    def _next_users(self, rounds: int) -> NDArray[np.int64]:
        if self._rounds + rounds > len(self._order):
            raise InvalidInputError(
                f"There are {len(self._order)} users, each asked once, and the plan would reach "
                f"round {self._rounds + rounds}.",
                field="replacement",
                value=len(self._order),
                remedy="Draw users with replacement, or give a policy with a cap.",
            )
        return self._order[self._rounds : self._rounds + rounds]

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        users = self._next_users(plan.pulls)
        for arms in self._arms_in_order(plan):
            yield self._ask(users[: len(arms)], arms)
            users = users[len(arms) :]
