"""Rewards drawn before arms are chosen, so that simulations make many pulls of a policy at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import int64 as _int64
from numba import uint64 as _uint64
from numba.extending import overload
from numpy.typing import NDArray

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array

__all__ = ["AdversaryState", "Parts", "PresampledRewards", "respond", "reward_at"]

Indices = NDArray[np.int64]
Parts = tuple[Any, ...]  # of a named tuple: kernels take plain ones, see `compiling`
int64: Any = _int64
uint64: Any = _uint64


class AdversaryState(NamedTuple):
    """What the adversary of `baselines.adversary` remembers.

    `winner` is a tournament over the `average` rewards, padded to a power of two: the children of
    node i are nodes 2i and 2i + 1, the root is node 1. `successor[a]` is the arm that last followed
    arm a, `last[0]` the arm pulled last; −1 stands for none.
    """

    pulled: Indices
    average: Array
    winner: Indices
    successor: Indices
    last: Indices

    @classmethod
    def empty(cls, arms: int) -> AdversaryState:
        """Nothing was pulled yet."""
        leaves = 1 << (arms - 1).bit_length()
        return cls(
            pulled=np.zeros(leaves, dtype=np.int64),
            average=np.full(leaves, -np.inf),
            winner=np.concatenate([np.zeros(leaves), np.arange(leaves)]).astype(np.int64),
            successor=np.full(arms, -1, dtype=np.int64),
            last=np.array([-1]),
        )


_NO_ADVERSARY = AdversaryState.empty(1)


class PresampledRewards(NamedTuple):
    """Rewards of future pulls: as the i-th of them, arm a pays `table[rows[i], a] + common[i]`.

    Against an adversary ±`bound` is added, with the sign that it chooses from the pulls before.

    Attributes:
        table: what arms pay, one column per arm; read-only.
        rows: the row of the table that holds at each pull.
        common: what is added at each pull, whichever arm is pulled.
        bound: the size of the adversary's baseline; 0 if there is no adversary.
        past: what the adversary remembers; it learns from the pulls that are made.
    """

    table: Array
    rows: Indices
    common: Array
    bound: float = 0.0
    past: AdversaryState = _NO_ADVERSARY

    @classmethod
    def single(cls, reward: float, arms: int) -> PresampledRewards:
        """One pull, which pays this reward."""
        table = np.zeros((1, arms))
        table.flags.writeable = False
        return cls(table, np.zeros(1, dtype=np.int64), np.array([reward]))

    def after(self, pulls: int) -> PresampledRewards:
        """What is left of them after so many pulls."""
        return self._replace(rows=self.rows[pulls:], common=self.common[pulls:])

    @property
    def parts(self) -> tuple[Any, ...]:
        """Plain tuples, as compiled loops take them: see `compiling`.

        Without an adversary, they are only what `reward_at` needs then.
        """
        table = self.table.view()
        table.flags.writeable = False  # always: loops are compiled again for one that is not
        plain = table, self.rows, self.common
        return (*plain, self.bound, tuple(self.past)) if self.bound > 0 else plain


def reward_at(presampled: Parts, i: int, arm: int) -> float:
    """The reward of `arm` as the i-th pull to come; for compiled loops.

    `presampled` are the parts of `PresampledRewards`. Call it once per pull, in order,
    and only for pulls that are made: the adversary learns from them.
    """
    return (
        _reward_at_adversary(presampled, i, arm)
        if len(presampled) > _PLAIN
        else _reward_at_plain(presampled, i, arm)
    )


_PLAIN = 3  # parts without an adversary


def _reward_at_plain(presampled: Parts, i: int, arm: int) -> float:
    # Unsigned: a test for negative indices would take as long as the rest of most loops.
    at = uint64(i)
    return float(presampled[0][uint64(presampled[1][at]), uint64(arm)] + presampled[2][at])


def _reward_at_adversary(presampled: Parts, i: int, arm: int) -> float:
    reward = presampled[0][presampled[1][i], arm] + presampled[2][i]
    return respond(presampled[4], presampled[3], int64(arm), reward)  # compiled once, for one type


@overload(reward_at)
def _reward_at(presampled: Parts, i: int, arm: int) -> Callable[..., float]:  # noqa: ARG001 - types, by name
    # Which one is known when a loop is compiled: with the adversary in it, one without is slower
    # by a factor of four.
    return _reward_at_adversary if len(presampled) > _PLAIN else _reward_at_plain


@compiled
def respond(past: Parts, bound: float, arm: int, reward: float) -> float:
    """The reward of `arm` once the adversary of `baselines.adversary` has added its ±bound.

    Before the pull it looks only at the past: the leader, at the root of the tournament over the
    running averages, and the arm that last followed the arm just pulled. `past` are the parts of
    `AdversaryState`; they are changed.
    """
    pulled, average, winner, successor, latest = past
    last, leaves = latest[0], len(average)
    predicted = successor[last] if last >= 0 else -1
    reward += -bound if predicted == winner[1] else bound  # x_a·θ + η_t + ν_t
    pulled[arm] += 1
    if pulled[arm] == 1:
        average[arm] = reward  # it was −∞, so that an arm without pulls does not lead
    else:
        average[arm] += (reward - average[arm]) / pulled[arm]
    node = (leaves + arm) >> 1
    while node >= 1:
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if average[left] >= average[right] else right
        node >>= 1
    if last >= 0:
        successor[last] = arm
    latest[0] = arm
    return reward
