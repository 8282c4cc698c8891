"""LUCB: pull the leader and its closest challenger until their bounds separate."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numba import uint64 as _uint64

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.means.base import Radius, RoundRule, radius_after
from bestarm.policies.stepwise import Indices
from bestarm.presampled import Parts, PresampledRewards, reward_at

_TABULATED = 2**16  # pulls of an arm up to which radii are kept: half a megabyte

uint64: Any = _uint64  # indices of arms: no test for negative ones in the inner loops


class LUCB(RoundRule):
    """Each round pulls the arm with the best mean and the other arm with the highest upper bound.

    With `radius="certified"` and a σ that is true, δ-correct for rewards that are σ-sub-Gaussian
    around fixed arm means, given the past. For bounded rewards, `bounds.sub_gaussian_scale` gives
    such a σ. A baseline that drifts or reacts breaks the guarantee, because arms are pulled at
    different times; one that is independent from round to round is noise, which σ must cover.
    The published radius (`"lil"`) is smaller than its theorem allows: with it nothing is proven.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        radius: `"lil"` as published, or `"certified"`, with a proof at the level of δ.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import LUCB
        >>> LUCB(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 1, 1]

    Reference: Kalyanakrishnan et al. (2012); Jamieson and Nowak (2014), with its lil radius.
    """

    version: ClassVar[int] = 1

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, int]:
        self._round, radius = np.empty(2, dtype=np.int64), self._radius
        table = first_radii(radius) if most else np.empty(0)
        pulls, separated = advance(
            presampled.parts, self._round, self._counts, self._sums, radius, table, most
        )
        if separated:
            self._active = self._round[:1].copy()
        return pulls, pulls // 2


@lru_cache(maxsize=32)
def first_radii(radius: Radius) -> Array:
    """The radii after 0 (infinite), 1, 2, … pulls, which are the same in all runs."""
    radii = np.full(_TABULATED, np.inf)
    _tabulate(radius, radii)
    return radii


@tiered
def _tabulate(radius: Radius, radii: Array) -> None:
    for n in range(1, len(radii)):
        radii[n] = radius_after(n, radius)


@tiered
def advance(
    presampled: Parts,
    pair: Indices,
    counts: Indices,
    sums: Array,
    radius: Radius,
    first: Array,
    most: int,
) -> tuple[int, bool]:
    """Find the leader and its challenger, pull both, and so on.

    It ends when the rewards or `most` pulls do not suffice for a round, or when the bounds of the
    two separate. Returns the pulls made, and whether the bounds separate; `pair` becomes the leader
    and its challenger, and `counts` and `sums` are updated in place. `first` is from `first_radii`,
    or empty.
    """
    arms = uint64(len(counts))
    means, radii = np.empty(arms), np.empty(arms)
    for a in range(arms):
        means[a] = sums[a] / counts[a]
        radii[a] = radius_after(counts[a], radius)
    end, used = min(len(presampled[1]), most), 0
    while True:
        leader = uint64(0)
        for a in range(arms):
            if means[a] > means[leader]:
                leader = a
        challenger, highest = leader, -np.inf
        for a in range(arms):
            upper = means[a] + radii[a]
            if a != leader and (challenger == leader or upper > highest):
                challenger, highest = a, upper
        pair[0], pair[1] = leader, challenger
        # Stop once the lower bound of the leader exceeds the upper bound of the challenger.
        if means[leader] - radii[leader] > highest:
            return used, True
        if used + 2 > end:
            return used, False
        for second in range(2):  # in index order, as a fixed plan is pulled
            arm = max(leader, challenger) if second else min(leader, challenger)
            sums[arm] += reward_at(presampled, used, arm)
            counts[arm] += 1
            n = counts[arm]
            means[arm] = sums[arm] / n
            radii[arm] = first[uint64(n)] if n < len(first) else radius_after(n, radius)
            used += 1
