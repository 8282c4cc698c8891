"""Action elimination: every arm still in the running once a round, losers dropped for good."""

from __future__ import annotations

import numpy as np

from bestarm.geometry import Array
from bestarm.policies.index_rule import IndexRule, Integers

__all__ = ["ActionElimination"]


class ActionElimination(IndexRule):
    """Each round pulls every active arm once and drops those whose interval lies below the best's.

    δ-correct for independent rewards that are σ-sub-Gaussian around fixed arm means. Since active
    arms are pulled side by side, a slow drift hits them alike; one that keeps time with the rounds
    or reacts to the past biases the means all the same. Arm i is dropped when the best mean less
    twice the radius is at least mean i plus twice the radius: as cautious as the paper's runs.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
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

    def _next(self) -> Integers:
        means = self._means[self._active]
        radius = 2 * self._radii()[self._active]
        best = int(np.argmax(means))
        lost = means[best] - radius[best] >= means + radius
        self._active = self._active[~lost]
        return self._active

    def _rush(self, table: Array, rows: Integers, common: Array, most: int) -> tuple[int, int]:
        from bestarm.policies.index_kernels import eliminate  # noqa: PLC0415 - compiles

        active = self._active.copy()
        pulls, rounds, left = eliminate(
            table, rows, common, active, self._counts, self._sums, *self._lil, most
        )
        self._due = self._active = active[:left]
        return pulls, rounds
