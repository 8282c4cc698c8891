"""Action elimination: every active arm once per round; losing arms are dropped for good."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from bestarm import bounds
from bestarm.policies.means.base import IndexRule
from bestarm.policies.stepwise import Indices
from bestarm.presampled import PresampledRewards


class ActionElimination(IndexRule):
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
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies import ActionElimination
        >>> ActionElimination(Problem(np.eye(3))).plan().counts.tolist()
        [1, 1, 1]

    Reference: Even-Dar, Mannor and Mansour (2006); Jamieson and Nowak (2014).
    """

    version: ClassVar[int] = 1

    @property
    def _caution(self) -> float:
        """Half the lead that drops an arm, in radii of one mean."""
        return math.sqrt(0.5) if self._certified else 2.0

    def _share(self) -> float:
        return bounds.contrast_delta(self.problem.delta, active=self.problem.arms)

    def _next(self) -> Indices:
        means = self._means[self._active]
        radius = self._caution * self._radii()[self._active]
        best = int(np.argmax(means))
        lost = means[best] - radius[best] >= means + radius
        self._active = self._active[~lost]
        return self._active

    def _rush(self, presampled: PresampledRewards, most: int) -> tuple[int, int]:
        from bestarm.policies.means.kernels import eliminate  # noqa: PLC0415 - compiles

        active = self._active.copy()
        if np.ptp(self._counts[active]) > 0:  # a plan of others was adopted
            return 0, 0
        pulls, rounds, left = eliminate(
            presampled.parts,
            active,
            self._counts,
            self._sums,
            tuple(self._radius),
            self._caution,
            most,
        )
        self._due = self._active = active[:left]
        return pulls, rounds
