"""Action elimination: every active arm once per round; losing arms are dropped for good."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bestarm import bounds
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.policy import same_plan
from bestarm.policies.rounds import RoundRule
from bestarm.presampled import PresampledRewards

_SAFE = 1 - 1e-9  # less than what rounding can do
_LEAST_AHEAD, _MOST_AHEAD = 16, 2**16  # pulls looked at together


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
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import ActionElimination
        >>> ActionElimination(Problem(["a", "b", "c"])).plan().counts.tolist()
        [1, 1, 1]

    Reference: Even-Dar, Mannor and Mansour (2006); Jamieson and Nowak (2014).
    """

    version: ClassVar[int] = 1
    _runs_presampled = True

    @property
    def _half_lead(self) -> float:
        """Half the lead that drops an arm, in radii of one mean."""
        return math.sqrt(0.5) if self._certified else 2.0

    def _share(self) -> float:
        return bounds.contrast_delta(self.problem.delta, active=self.problem.arms)

    def _decide(self) -> None:
        active = self._active
        kept = ~self._lost(self._sums[active], self._counts[active])
        self._round = self._active = active[kept]

    def _lost(self, sums: Array, counts: Indices) -> NDArray[np.bool_]:
        """Whose upper bound is not above the lower bound of the one with the best mean.

        Sums and numbers of pulls have the active arms last.
        """
        means, widths = sums / counts, self._half_lead * self._radius.after(counts)
        best = means.argmax(axis=-1)[..., None]
        bar = np.take_along_axis(means - widths, best, axis=-1)
        return np.asarray(bar >= means + widths)

    def run_presampled(self, presampled: PresampledRewards) -> tuple[int, int]:
        """Make as many whole rounds as the presampled rewards allow: for simulations.

        Until an arm is dropped rounds pull the same arms, so that many are looked at together.
        (An adversary responds to every round that is looked at: then it is one at a time.)

        Returns:
            The number of pulls made, and of rounds. Both 0 where the next round must be planned:
            the first one, one that the cap cuts short, and one after a plan was adopted.
        """
        if self._stopped is not None or not self._plans:
            return 0, 0
        if self._open is not None and not same_plan(self._open, self._make_plan()):
            return 0, 0
        if np.ptp(self._counts[self._active]):
            return 0, 0  # an adopted plan pulled them unequally often
        self._counts, self._sums = self._counts.copy(), self._sums.copy()
        used, rounds, end = 0, 0, min(len(presampled.rows), self._pulls_left())
        while len(self._active) > 1 and used + len(self._active) <= end:
            made = self._make_rounds(presampled.after(used), end - used)
            used += made * len(self._round)
            rounds += made
            self._decide()
        self._note_answered(self._counts)
        self._end_plans(rounds, used, used, self._reason())
        return used, rounds

    def _make_rounds(self, presampled: PresampledRewards, most: int) -> int:
        """Make rounds until one drops an arm, or for so many pulls; how many."""
        active, pulls = self._active, int(self._counts[self._active[0]])
        size = len(active)
        # Few where an arm may soon be dropped, so that not much is looked at in vain.
        ahead = min(max(pulls * size // 4, _LEAST_AHEAD), _MOST_AHEAD, most)
        rounds = max(ahead // size, 1) if presampled.past is None else 1
        shown = slice(rounds * size)
        paid = presampled.table[presampled.rows[shown], np.tile(active, rounds)]
        paid = paid + presampled.common[shown]
        if presampled.past is not None:
            paid = presampled.past.respond(active, paid)
        paid = paid.reshape(rounds, size)
        sums = np.cumsum(np.vstack([self._sums[active], paid]), axis=0)[1:]
        after = pulls + np.arange(1, rounds + 1)
        # The first round that may drop one: the best mean is so far above the worst.
        lead = (sums.max(axis=1) - sums.min(axis=1)) / after
        close = lead >= _SAFE * 2 * self._half_lead * self._radius.after(after)
        for last in np.flatnonzero(close):
            if self._lost(sums[last], np.full(size, after[last])).any():
                rounds = int(last) + 1
                break
        self._sums[active], self._counts[active] = sums[rounds - 1], pulls + rounds
        return rounds
