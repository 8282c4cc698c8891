"""Action elimination: every active arm once per round; losing arms are dropped for good."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numba import uint64 as _uint64

from bestarm import bounds
from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array
from bestarm.policies.means.base import Radius, RoundRule, radius_after
from bestarm.policies.stepwise import Indices
from bestarm.presampled import Parts, PresampledRewards, reward_at

_HORIZON = 32  # a width is used until an arm has 1/32 more pulls, …
_SAFE = 1 - 1e-9  # … and then reduced by what rounding can do

uint64: Any = _uint64  # indices of arms: no test for negative ones in the inner loops


class ActionElimination(RoundRule):
    """Each round pulls every active arm once and drops those whose interval lies below the best's.

    With `radius="certified"` and a σ that is true, δ-correct for rewards that are σ-sub-Gaussian
    around fixed arm means, given the past. For bounded rewards, `bounds.sub_gaussian_scale` gives
    such a σ. Since active arms are pulled side by side, a slow drift hits them alike; one that
    keeps time with the rounds or reacts to the past biases the means all the same.

    Certified, arm i is dropped when the best mean exceeds its mean by the radius of a difference of
    two means, at level δ/(K − 1): the best arm is lost only if one of the others seems better.
    With the published radius (`"lil"`) the lead must be four of it, as in the paper's runs: far
    more than δ asks for, at a multiple of the pulls.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        radius: `"lil"` as published, or `"certified"`, with a proof at the level of δ.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import ActionElimination
        >>> ActionElimination(Problem(["a", "b", "c"])).plan().counts.tolist()
        [1, 1, 1]

    Reference: Even-Dar, Mannor and Mansour (2006); Jamieson and Nowak (2014).
    """

    version: ClassVar[int] = 1

    @property
    def _half_lead(self) -> float:
        """Half the lead that drops an arm, in radii of one mean."""
        return math.sqrt(0.5) if self._certified else 2.0

    def _share(self) -> float:
        return bounds.contrast_delta(self.problem.delta, active=self.problem.arms)

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, int]:
        active = self._active.copy()
        pulls, rounds, left = advance(
            presampled.parts,
            active,
            self._counts,
            self._sums,
            self._radius,
            self._half_lead,
            most,
        )
        self._round = self._active = active[:left]
        return pulls, rounds


@tiered
def advance(
    presampled: Parts,
    active: Indices,
    counts: Indices,
    sums: Array,
    radius: Radius,
    half_lead: float,
    most: int,
) -> tuple[int, int, int]:
    """Drop arms, pull each of those left, and so on.

    It ends when the rewards or `most` pulls do not suffice for a round, or one arm is left. Returns
    the pulls made, the number of rounds, and the number of arms left, which are at the front of
    `active`; `counts` and `sums` are updated in place. No round is made after an adopted plan that
    pulled the arms left unequally often.
    """
    left = _drop(active, counts, sums, radius, half_lead)
    pulls = counts[active[0]]
    for j in range(1, left):
        if counts[active[j]] != pulls:
            return 0, 0, left
    end, used, rounds = min(len(presampled[1]), most), 0, 0
    until, close = 0, 0.0
    while left > 1 and used + left <= end:
        most_paid, least_paid = -np.inf, np.inf
        for j in range(left):
            arm = uint64(active[j])
            total = sums[arm] + reward_at(presampled, used + j, arm)
            sums[arm] = total
            most_paid = total if total > most_paid else most_paid
            least_paid = total if total < least_paid else least_paid
        used += left
        rounds += 1
        pulls += 1
        # The lead on the worst arm, to the last bit: rounding keeps the order of quotients.
        if pulls <= until and most_paid / pulls - least_paid / pulls < close:
            continue  # no arm is so far behind: the width need not be known
        if pulls > until:  # radii fall from each number of pulls to the next, for δ ≤ ½
            until = pulls + pulls // _HORIZON
            close = _SAFE * 2 * half_lead * radius_after(until, radius)
        for j in range(left):
            counts[active[j]] = pulls
        left = _drop(active[:left], counts, sums, radius, half_lead)
    for j in range(left):
        counts[active[j]] = pulls
    return used, rounds, left


@tiered
def _drop(active: Indices, counts: Indices, sums: Array, radius: Radius, half_lead: float) -> int:
    """Keep the arms whose upper bound exceeds the lower bound of the leader; how many they are.

    They are moved to the front of `active`, in their order.
    """
    leader = active[0]
    for arm in active[1:]:
        if sums[arm] / counts[arm] > sums[leader] / counts[leader]:
            leader = arm
    pulls, width = counts[leader], half_lead * radius_after(counts[leader], radius)
    bar = sums[leader] / pulls - width
    kept = 0
    for arm in active:
        if counts[arm] != pulls:
            pulls, width = counts[arm], half_lead * radius_after(counts[arm], radius)
        if bar < sums[arm] / pulls + width:
            active[kept] = arm
            kept += 1
    return kept
