"""Runs over a table of ratings: users drawn with replacement, or each at most once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bestarm.environments import kernels
from bestarm.environments.environment import Ahead
from bestarm.environments.streams import BLOCK, BaseStream, DealtStream, counts_of, guided
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.records import Counts, Plan, Summary

_CELLS = 16  # cells of the guide per value: few draws need a second word, and guides stay cached
_AT_ONCE = 32  # pulls per distinct value above which a multinomial is quicker than single draws


class RatingTables:
    """What runs draw ratings and users from, made when first needed.

    Args:
        matrix: ratings, one row per user, one column per item.
        weights: the probability of each user, or None if all are equal.
    """

    def __init__(self, matrix: Array, weights: Array | None) -> None:
        self.matrix, self._weights = matrix, weights

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


class DrawnUsers(BaseStream):
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

    def ahead(self, rounds: int) -> Ahead | None:
        """The ratings of the next users."""
        drawn = np.empty(rounds, dtype=np.uint32)
        kernels.draw(self._words, *self._tables.users, drawn)
        return Ahead(self._tables.matrix, drawn.astype(np.int64), np.zeros(rounds))

    def _carry_out(self, plan: Plan) -> Summary:
        columns = self._tables.columns
        counts = counts_of(plan, self._arms_rng)
        sums, squares = np.zeros(plan.arms), np.zeros(plan.arms)
        many = counts > self._many
        single, totals = np.where(many, 0, counts), (sums, squares)
        kernels.rate(self._words, single, tuple(columns), self._drawn, plan.center, totals)
        for arm in np.flatnonzero(many):
            own = slice(columns.starts[arm], columns.starts[arm + 1])
            values = columns.values[own] - plan.center
            times = self._noise_rng.multinomial(counts[arm], columns.masses[own])
            sums[arm] = times @ values
            squares[arm] = times @ (values * values)
        return Summary(counts, sums, squares, center=plan.center)


class ShuffledUsers(DealtStream):
    """A run in which no user is asked twice: pull t shows a rating of the t-th user."""

    def __init__(self, means: Array, tables: RatingTables, rng: np.random.Generator) -> None:
        super().__init__(means, noise=0.0, rng=rng)
        self._matrix = tables.matrix
        self._order = tables.order(self._baseline_rng)

    def ahead(self, rounds: int) -> Ahead | None:
        """The ratings of the next users in the order, while any are left."""
        users = self._order[self._rounds : self._rounds + rounds]
        return Ahead(self._matrix, users, np.zeros(len(users))) if len(users) else None

    def _carry_out(self, plan: Plan) -> Summary:
        if self._rounds + plan.pulls > len(self._order):
            raise InvalidInputError(
                f"There are {len(self._order)} users, each asked once, and the plan would reach "
                f"pull {self._rounds + plan.pulls}.",
                field="replacement",
                value=len(self._order),
                remedy="Draw users with replacement, or give a policy with a cap.",
            )
        deal = self._deal(plan)
        counts = np.zeros((kernels.BANKS, plan.arms), dtype=np.int64)
        moments = np.zeros((kernels.BANKS, plan.arms, 2))
        users = self._order[self._rounds : self._rounds + plan.pulls]
        for start in range(0, plan.pulls, BLOCK):
            block = users[start : start + BLOCK]
            arms = self._arms[: len(block)]
            deal(arms)
            kernels.accumulate(arms, self._matrix[block, arms], plan.center, counts, moments)
        sums, squares = moments.sum(axis=0).T
        return Summary(counts.sum(axis=0), sums, squares, center=plan.center)
