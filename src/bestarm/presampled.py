"""Rewards drawn before arms are chosen, so that simulations make many pulls of a policy at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array, Indices

__all__ = ["AdversaryPast", "PresampledRewards", "RewardsAhead", "within"]


class AdversaryPast:
    """What the adversary of `baselines.adversary` remembers of a run, and what it does.

    Before a pull it looks only at the past: at the leader, the arm with the highest average reward,
    and at the arm that last followed the arm just pulled.

    Args:
        bound: the size of its baseline.
        arms: how many there are.
    """

    def __init__(self, bound: float, arms: int) -> None:
        self._bound = bound
        self._pulled, self._average = [0] * arms, [-math.inf] * arms
        self._successor: list[int | None] = [None] * arms
        self._last: int | None = None
        self._leader = 0

    def respond(self, arms: Indices, rewards: Array) -> Array:
        """The rewards of these pulls with its baseline, chosen pull by pull."""
        return np.array(list(map(self._pull, arms.tolist(), rewards.tolist())))

    def _pull(self, arm: int, reward: float) -> float:
        last, average = self._last, self._average
        predicted = None if last is None else self._successor[last]
        reward += -self._bound if predicted == self._leader else self._bound
        self._pulled[arm] += 1
        if self._pulled[arm] == 1:
            average[arm] = reward  # it was −∞, so that an arm without pulls does not lead
        else:
            average[arm] += (reward - average[arm]) / self._pulled[arm]
        if arm == self._leader:
            self._leader = average.index(max(average))  # it may have fallen
        elif (average[arm], -arm) > (average[self._leader], -self._leader):
            self._leader = arm
        if last is not None:
            self._successor[last] = arm
        self._last = arm
        return reward


class PresampledRewards(NamedTuple):
    """Rewards of future pulls: as the i-th of them, arm a pays `table[rows[i], a] + common[i]`.

    Attributes:
        table: what arms pay, one column per arm.
        rows: the row of the table that holds at each pull.
        common: what is added at each pull, whichever arm is pulled.
        past: what the adversary knows that adds its baseline to these rewards, if there is one. It
            learns from the pulls that are made.
    """

    table: Array
    rows: Indices
    common: Array
    past: AdversaryPast | None = None

    @classmethod
    def single(cls, reward: float, arms: int) -> PresampledRewards:
        """One pull, which pays this reward."""
        return cls(np.zeros((1, arms)), np.zeros(1, dtype=np.int64), np.array([reward]))

    def after(self, pulls: int) -> PresampledRewards:
        """What is left of them after so many pulls."""
        return self._replace(rows=self.rows[pulls:], common=self.common[pulls:])


class RewardsAhead:
    """Rewards of pulls to come, of runs side by side.

    Attributes:
        left: how many there are for each run.
        used: how many of the last ones given each run has used.

    Args:
        runs: the number of runs.
    """

    def __init__(self, runs: int) -> None:
        self.left, self.used = np.zeros((2, runs), dtype=np.int64)
        self._places: Indices = np.arange(runs)  # in the arrays that follow, of runs that go on
        self._rewards: list[PresampledRewards | None] = [None] * runs
        self._common = np.zeros((runs, 0))
        self._rows: Indices = np.zeros((runs, 0), dtype=np.int64)  # no columns while all are 0
        self._tables: Array | None = None  # one of all runs, or one for each
        self._pasts: dict[int, AdversaryPast] = {}

    def put(self, runs: Indices, rewards: Sequence[PresampledRewards]) -> None:
        """Replace the rewards of some runs."""
        longest = max((len(each.common) for each in rewards), default=0)
        if longest > self._common.shape[1]:
            self._common = _widened(self._common, longest)
        if self._rows.shape[1] or any(len(each.table) > 1 for each in rewards):
            self._rows = _widened(self._rows, self._common.shape[1])
        for run, given in zip(runs.tolist(), rewards, strict=True):
            count, place = len(given.common), int(self._places[run])
            before, self._rewards[place] = self._rewards[place], given
            self._common[place, :count] = given.common
            if self._rows.shape[1]:
                self._rows[place, :count] = given.rows
            self.left[run], self.used[run] = count, 0
            if given.past is not None:
                self._pasts[place] = given.past
            if before is None or before.table is not given.table:
                self._tables = None

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self._places, self.left, self.used = self._places[kept], self.left[kept], self.used[kept]

    def pull(self, arms: Indices, sizes: Indices) -> Array:
        """The rewards of the next pulls of every run.

        Args:
            arms: the arms of the first run's pulls, in order, then of the second's, and so on.
            sizes: how many pulls each run makes.
        """
        rewards = self._at(
            np.repeat(self._places, sizes), np.repeat(self.used, sizes) + within(sizes), arms
        )
        ends = np.cumsum(sizes)
        for run, past in self._adversaries():
            own = slice(ends[run] - sizes[run], ends[run])
            rewards[own] = past.respond(arms[own], rewards[own])
        self.used, self.left = self.used + sizes, self.left - sizes
        return rewards

    def pull_equally(self, arms: Indices) -> Array:
        """The rewards of the next pulls of every run, equally many in each: (runs, pulls)."""
        size = arms.shape[1]
        rewards = self._at(self._places[:, None], self.used[:, None] + np.arange(size), arms)
        for run, past in self._adversaries():
            rewards[run] = past.respond(arms[run], rewards[run])
        self.used, self.left = self.used + size, self.left - size
        return rewards

    def _adversaries(self) -> Iterator[tuple[int, AdversaryPast]]:
        """The runs that have an adversary, and what it remembers."""
        places = self._places.tolist() if self._pasts else []
        for run, place in enumerate(places):
            if place in self._pasts:
                yield run, self._pasts[place]

    def _at(self, places: Indices, at: Indices, arms: Indices) -> Array:
        """What arms pay in these places, but for an adversary's baseline."""
        if self._tables is None:
            self._tables = _stacked([each.table for each in self._rewards if each is not None])
        count, rows, _ = self._tables.shape
        row = self._rows[places, at] if rows > 1 else 0
        paid = self._tables[places if count > 1 else 0, row, arms] + self._common[places, at]
        return np.asarray(paid)


def _widened(table: NDArray[Any], columns: int) -> NDArray[Any]:
    """The same table with zeros in further columns, up to so many."""
    return np.pad(table, ((0, 0), (0, columns - table.shape[1])))


def _stacked(tables: list[Array]) -> Array:
    """The tables of runs, one after the other, or only one where all have the same."""
    if all(table is tables[0] for table in tables):
        return tables[0][None]
    if len({table.shape for table in tables}) == 1:
        stacked = np.stack(tables)
        return stacked[:1] if (stacked == stacked[0]).all() else stacked
    most = max(len(table) for table in tables)
    return np.stack([np.pad(table, ((0, most - len(table)), (0, 0))) for table in tables])


def within(sizes: Indices) -> Indices:
    """0, 1, … up to each size, one after the other."""
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - sizes, sizes))
