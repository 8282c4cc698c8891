"""Runs over a table of ratings: users drawn with replacement, or each at most once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.environments import kernels
from bestarm.environments.environment import Foresee, Pulls
from bestarm.environments.streams import BLOCK, BlockStream, DealtStream, guided
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.records import Counts, Plan, Summary

_CELLS = 16  # cells of the guide per value: few draws need a second word, and guides stay cached
_AT_ONCE = 32  # pulls per distinct value above which a multinomial is quicker than single draws


class RatingTables:
    """What runs draw ratings and users from, made when first needed.

    Args:
        matrix: ratings, one row per user, one column per item.
        weights: the probability of each user, or None if all are equal.
        covariates: what is known of each user beforehand, one row per user, or None.
    """

    def __init__(
        self, matrix: Array, weights: Array | None, covariates: Array | None = None
    ) -> None:
        self.matrix, self._weights, self._covariates = matrix, weights, covariates

    @cached_property
    def columns(self) -> kernels.Columns:
        """The distribution of each column."""
        values, masses, bounds, guides, bits = [], [], [], [], []
        for column in self.matrix.T:
            distinct, place = np.unique(column, return_inverse=True)
            total = len(column) if self._weights is None else 1.0
            mass = np.bincount(place, weights=self._weights) / total
            # The last value receives the remainder of rounding: make it the most frequent one.
            order = np.argsort(mass, kind="stable")[np.count_nonzero(mass == 0) :]
            distinct, mass = distinct[order], mass[order] / mass.sum()
            borders, guide, size = guided(mass, _CELLS * len(mass))
            values.append(distinct)
            masses.append(mass)
            bounds.append(np.append(borders, np.uint64(2**64 - 1)))
            guides.append(guide)
            bits.append(size)
        return kernels.Columns(
            starts=_offsets([len(part) for part in values]),
            values=np.concatenate(values),
            masses=np.concatenate(masses),
            bounds=np.concatenate(bounds),
            cells=_offsets([len(part) for part in guides]),
            guide=np.concatenate(guides),
            bits=np.array(bits, dtype=np.int64),
            places=np.arange(max(len(part) for part in values), dtype=np.uint32),
        )

    @cached_property
    def users(self) -> tuple[NDArray[np.uint64], NDArray[np.int32], int, NDArray[np.uint32]]:
        """The users as `kernels.draw` draws them; those of weight 0 are never drawn."""
        weights = np.ones(len(self.matrix)) if self._weights is None else self._weights
        support = np.flatnonzero(weights)
        guide = guided(weights[support] / weights.sum(), _CELLS * len(support))
        return *guide, support.astype(np.uint32)

    def pulls(self, users: NDArray[Any], arms: NDArray[np.uint32]) -> Pulls:
        """The ratings of these items by these users, one each."""
        known = None if self._covariates is None else self._covariates[users]
        return Pulls(arms, self.matrix[users, arms], known)

    def order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random order of the users, without those of weight 0.

        Independent exponential clocks with the weights as rates ring in the order of draws among
        those left, in proportion to their weights.
        """
        if self._weights is None:
            return rng.permutation(len(self.matrix))
        users = np.flatnonzero(self._weights)
        clocks = rng.standard_exponential(len(users)) / self._weights[users]
        return users[np.argsort(clocks)]


def _offsets(sizes: list[int]) -> Counts:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class DrawnUsers(BlockStream):
    """A run in which every pull draws a user: the ratings of an arm are independent draws.

    Given the number of pulls of each arm, its ratings are independent, with the distribution of
    its column. Few ratings are drawn one by one; for many, the multinomial counts of the distinct
    ratings are drawn instead. Rounds known ahead draw whole users and show one rating of each.
    """

    def __init__(self, means: Array, tables: RatingTables, rng: np.random.Generator) -> None:
        super().__init__(means, noise=0.0, rng=rng)
        self._tables = tables
        self._many = _AT_ONCE * np.diff(tables.columns.starts)
        state = self._baseline_rng.bit_generator.state["state"]["state"]
        self._words = np.array(state, dtype=np.uint64)
        self._drawn = np.empty(BLOCK, dtype=np.uint32)

    def presample(self, rounds: int) -> PresampledRewards | None:
        """The ratings of the next users."""
        drawn = np.empty(rounds, dtype=np.uint32)
        kernels.draw(self._words, *self._tables.users, drawn)
        return PresampledRewards(self._tables.matrix, drawn.astype(np.int64), np.zeros(rounds))

    def _carry_out(self, plan: Plan) -> Summary:
        columns = self._tables.columns
        counts = self._counts(plan)
        totals = kernels.Totals.empty(plan.arms)._replace(counts=counts.copy())
        many = counts > self._many
        single = np.where(many, 0, counts)
        kernels.rate(self._words, single, tuple(columns), self._drawn, plan.center, tuple(totals))
        for arm in np.flatnonzero(many):
            own = slice(columns.starts[arm], columns.starts[arm + 1])
            values = columns.values[own] - plan.center
            times = self._noise_rng.multinomial(counts[arm], columns.masses[own])
            totals.sums[arm] = times @ values
            totals.squares[arm] = times @ (values * values)
            totals.cubes[arm] = times @ values**3
            seen = values[times > 0]
            totals.least[arm], totals.largest[arm] = seen.min(), seen.max()
        return totals.summary(plan.center)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        arms = np.repeat(np.arange(plan.arms, dtype=np.uint32), self._counts(plan))
        self._arms_rng.shuffle(arms)
        for start in range(0, plan.pulls, BLOCK):
            part = arms[start : start + BLOCK]
            drawn = self._drawn[: len(part)]
            kernels.draw(self._words, *self._tables.users, drawn)
            yield self._tables.pulls(drawn, part)

    def _paid(self, arms: NDArray[np.uint32]) -> Array:
        drawn = np.empty(len(arms), dtype=np.uint32)
        kernels.draw(self._words, *self._tables.users, drawn)
        return np.asarray(self._tables.matrix[drawn[:, None], arms])

    def _add_up(self, plan: Plan, foresee: Foresee | None = None) -> Summary:
        if foresee is None:
            return self._carry_out(plan)  # it draws every rating, or counts each distinct one
        return super()._add_up(plan, foresee)


class ShuffledUsers(DealtStream, BlockStream):
    """A run in which no user is asked twice: pull t shows a rating of the t-th user."""

    def __init__(self, means: Array, tables: RatingTables, rng: np.random.Generator) -> None:
        super().__init__(means, noise=0.0, rng=rng)
        self._tables = tables
        self._order = tables.order(self._baseline_rng)

    def presample(self, rounds: int) -> PresampledRewards | None:
        """The ratings of the next users in the order, while any are left."""
        users = self._order[self._rounds : self._rounds + rounds]
        return (
            PresampledRewards(self._tables.matrix, users, np.zeros(len(users)))
            if len(users)
            else None
        )

    def _next(self, rounds: int) -> NDArray[np.int64]:
        """The users of the next rounds."""
        if self._rounds + rounds > len(self._order):
            raise InvalidInputError(
                f"There are {len(self._order)} users, each asked once, and the plan would reach "
                f"round {self._rounds + rounds}.",
                field="replacement",
                value=len(self._order),
                remedy="Draw users with replacement, or give a policy with a cap.",
            )
        return self._order[self._rounds : self._rounds + rounds]

    def _paid(self, arms: NDArray[np.uint32]) -> Array:
        return np.asarray(self._tables.matrix[self._next(len(arms))[:, None], arms])

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        deal = self._deal(plan)
        users = self._next(plan.pulls)
        for start in range(0, plan.pulls, BLOCK):
            block = users[start : start + BLOCK]
            arms = self._arms[: len(block)]
            deal(arms)
            yield self._tables.pulls(block, arms)

    def _carry_out(self, plan: Plan) -> Summary:
        return self._add_up(plan)
