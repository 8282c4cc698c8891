"""SBE: phase elimination with the anchored G-design, the method SP-BAI improves on."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from bestarm import bounds
from bestarm.design import deo
from bestarm.design.memo import recall
from bestarm.numerics.geometry import Array, centered_norms
from bestarm.policies.spbai import SPBAI, PhaseTerms
from bestarm.problem import Problem


class SBE(SPBAI):
    """Draw the arms still active by DEO, regress, drop those 2^−ℓ below the leader, repeat.

    No baseline fixed before the draw biases its estimates. Its phases control every prediction over
    the active arms rather than their contrasts, so it needs many more pulls than SP-BAI; with the
    tuned constants no error probability is proven. All but the design, the length and the ridge of
    a phase is as in SP-BAI.

    Args:
        problem: the problem; its targets must be its source arms.
        r1: the constant R₁ of the phase length.
        r2: the constant R₂.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.
        max_phases: stop after this many phases; never final either, unless one arm is left.
        max_phase_pulls: a phase that wants more than this draws this many and is the last; the best
            of all arms under its estimate, dropped ones included, is then named, never final.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import SBE
        >>> SBE(Problem([[1, 0], [0, 1]])).plan().weights.tolist()
        [0.5, 0.5]

    Reference: Kim, Kim and Oh (2025).
    """

    version: ClassVar[int] = 1
    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        r1: float = 1 / 3,
        r2: float = 1 / 3,
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(
            problem,
            r1=r1,
            r2=r2,
            max_pulls=max_pulls,
            max_phases=max_phases,
            max_phase_pulls=max_phase_pulls,
            tol=tol,
        )

    def _design(self) -> tuple[Array, float]:
        """DEO over the active arms, and its certified gap."""
        design = recall(deo, self.problem.source[self._active], anchor=0, tol=self._tol)
        weights = np.zeros(self.problem.arms)
        weights[self._active] = design.weights
        return weights, design.gap

    def _terms(self, phase: int, weights: Array) -> PhaseTerms:
        problem, epsilon = self.problem, 2.0**-phase
        delta = bounds.sbe_delta(problem.delta, arms=problem.arms, phase=phase)
        arms = problem.source[self._active]
        norms = recall(centered_norms, problem.source, weights, arms - arms[0])
        pulls = bounds.sbe_phase_length(
            problem.dimension, epsilon=epsilon, delta=delta, r1=self._r1, r2=self._r2
        )
        stability = 32.0 * problem.dimension
        return PhaseTerms(epsilon, delta, float(norms.max()), stability, pulls)

    def _ridge(self, pulls: int, delta: float) -> float:  # noqa: ARG002
        return max(1.0, math.log(pulls / self.problem.delta))
