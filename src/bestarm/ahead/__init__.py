"""Rewards of pulls to come, which let simulations make many pulls of a policy at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.geometry import Array

__all__ = ["Ahead", "Past"]

Indices = NDArray[np.int64]


class Past(NamedTuple):
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
    def empty(cls, arms: int) -> Past:
        """Nothing was pulled yet."""
        leaves = 1 << (arms - 1).bit_length()
        return cls(
            pulled=np.zeros(leaves, dtype=np.int64),
            average=np.full(leaves, -np.inf),
            winner=np.concatenate([np.zeros(leaves), np.arange(leaves)]).astype(np.int64),
            successor=np.full(arms, -1, dtype=np.int64),
            last=np.array([-1]),
        )


_NO_PAST = Past.empty(1)


class Ahead(NamedTuple):
    """Rewards of future pulls: as the i-th of them, arm a pays `table[rows[i], a] + common[i]`.

    Against an adversary ±`bound` is added, with the sign that it chooses from the pulls before.

    Attributes:
        table: what arms pay, one column per arm; read-only.
        rows: the row of the table that holds at each pull.
        common: what is added at each pull, whichever arm is pulled.
        bound: the size of the adversary's baseline; 0 if there is no adversary.
        past: what the adversary remembers; it learns from the pulls that are paid for.
    """

    table: Array
    rows: Indices
    common: Array
    bound: float = 0.0
    past: Past = _NO_PAST

    @classmethod
    def single(cls, reward: float, arms: int) -> Ahead:
        """One pull, which pays this reward."""
        table = np.zeros((1, arms))
        table.flags.writeable = False
        return cls(table, np.zeros(1, dtype=np.int64), np.array([reward]))

    @property
    def parts(self) -> tuple[Any, ...]:
        """Plain tuples, as compiled loops take them: see `compiling`.

        Without an adversary, they are only what `pay` needs then.
        """
        return self.all_parts if self.bound > 0 else self.all_parts[:3]

    @property
    def all_parts(self) -> tuple[Any, ...]:
        """The same, with an adversary or without one: for loops that take long to compile."""
        table = self.table.view()
        table.flags.writeable = False  # always: loops are compiled again for one that is not
        return table, *self[1:4], tuple(self.past)
