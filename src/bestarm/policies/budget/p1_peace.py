"""P1-Peace: P1-RAGE with Peace's elimination, which halves the difficulty and knows no scale."""

from __future__ import annotations

from bestarm.numerics.geometry import Array
from bestarm.policies.budget.p1_linear import P1Linear
from bestarm.policies.stepwise import Indices


class P1Peace(P1Linear):
    """P1-RAGE's mixture, with an imagined elimination that needs no scale of the rewards.

    Half of every epoch is drawn from the G-design. The other half follows an elimination played
    through on the estimate so far: each of its phases keeps the most leading targets whose design
    has at most half the value of the design before. (The authors measure difficulty by that value
    ρ here, not by Peace's Gaussian width.) Estimates and epochs are those of P1-RAGE.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.
        seed: accepted like every policy's; the draws are not the policy's to make.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import P1Peace
        >>> P1Peace(Problem([[1, 0], [0, 1]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024), experiments; Katz-Samuels, Jain,
    Karnin and Jamieson (2020).
    """

    def _imagined(self, order: Indices, gaps: Array) -> list[Array]:  # noqa: ARG002
        left, designs = len(order), []
        while left > 1:
            design = self._design(order[:left])
            designs.append(design.weights)
            kept, dropped = 1, left  # ρ of the kept ones is at most half, with the next it is more
            while dropped - kept > 1:
                middle = (kept + dropped) // 2
                if self._design(order[:middle]).lower_bound > design.value / 2:
                    dropped = middle
                else:
                    kept = middle
            left = kept
        return designs
