"""Runs in worlds whose arms' means move from round to round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bestarm.environments.environment import Pulls
from bestarm.environments.streams import BLOCK, DealtStream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.records import Plan, Summary


class MovingMeansStream(DealtStream):
    """A run over a table of means, one row per round."""

    def __init__(self, table: Array, *, noise: float, rng: np.random.Generator) -> None:
        super().__init__(table[0], noise=noise, rng=rng)
        self._table = table

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, as far as the table goes."""
        end = min(self._rounds + rounds, len(self._table))
        if end <= self._rounds:
            return None
        rows = np.arange(self._rounds, end)
        return PresampledRewards(self._table, rows, self._noisy(np.zeros(len(rows))))

    def _carry_out(self, plan: Plan) -> Summary:
        counts = np.zeros(plan.arms, dtype=np.int64)
        first, second = np.zeros((2, plan.arms))
        for arms, values in self._values(plan):
            shifted = values - plan.center
            counts += np.bincount(arms, minlength=plan.arms)
            first += np.bincount(arms, shifted, minlength=plan.arms)
            second += np.bincount(arms, shifted**2, minlength=plan.arms)
        level = np.full(plan.arms, plan.center)
        return self._noisy_totals(counts, level, first, second, plan.center)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        for arms, values in self._values(plan):
            yield Pulls(arms, self._noisy(values))

    def _values(self, plan: Plan) -> Iterator[tuple[NDArray[np.uint32], Array]]:
        """The arms of a plan's pulls and their means, in parts."""
        if self._rounds + plan.pulls > len(self._table):
            raise InvalidInputError(
                f"The world has {len(self._table)} rounds, and the plan would reach round "
                f"{self._rounds + plan.pulls}.",
                field="means",
                value=len(self._table),
                remedy="Give the policy a budget or a cap of so many pulls, or the world more "
                "rounds.",
            )
        deal = self._deal(plan)
        for start in range(0, plan.pulls, BLOCK):
            arms = self._arms[: min(plan.pulls - start, BLOCK)]
            deal(arms)
            rounds = self._rounds + start + np.arange(len(arms))
            yield arms, self._table[rounds, arms]
