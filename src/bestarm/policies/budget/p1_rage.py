"""P1-RAGE: robust to arms whose means move, and quick where they do not."""

from __future__ import annotations

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.budget.p1_linear import P1Linear
from bestarm.policies.stepwise import Indices

_PHASES = 15  # most imagined phases, as the authors ran it


class P1RAGE(P1Linear):
    """The best arm on average when θ_t moves, with RAGE's speed when it does not.

    Half of every epoch is drawn from the G-design. The other half follows RAGE played through on
    the estimate so far: in its phase i, targets within 2^(1−i) of the leader are compared. θ is
    estimated by inverse probabilities over all pulls, so that no target is ever lost. The first
    epoch is one pull; the others are ⌈log₂ ρ⌉ of equal length, where ρ is the value of the design
    for all targets.

    For rewards x·θ_t + noise with |x·θ_t| ≤ 1 and θ_t fixed beforehand the error is at most of the
    order K exp(−T Δ²/d) in the gap Δ of the averages, as G-BAI's; without movement it is that of
    RAGE up to logarithms. The proof redesigns after every pull, and no budget is an error
    probability: the answer is never final. A baseline ν_t biases it: the arms have no intercept.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.
        seed: accepted like every policy's; the draws are not the policy's to make.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import P1RAGE
        >>> P1RAGE(Problem([[1, 0], [0, 1]]), budget=100).plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024).
    """

    def _imagined(self, order: Indices, gaps: Array) -> list[Array]:
        left, designs = len(order), []
        for phase in range(1, _PHASES + 1):
            designs.append(self._design(order[:left]).weights)
            left = int(np.searchsorted(gaps, 2.0**-phase, side="right"))
            if left == 1:
                break
        return designs
