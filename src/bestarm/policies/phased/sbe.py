"""SBE: phase elimination with the anchored G-design, the method SP-BAI improves on."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from bestarm import bounds
from bestarm.checks import positive
from bestarm.design import check_tolerance, deo
from bestarm.estimation import orthogonalized
from bestarm.numerics.geometry import Array, centered_norms
from bestarm.policies.designs import cached_design
from bestarm.policies.phased.elimination import Elimination, PhaseDesign, PhaseRequest
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class SBE(Elimination):
    """Draw the arms still active by DEO, regress, drop those 2^−ℓ below the leader, repeat.

    No baseline fixed before the draw biases its estimates. Its phases control every prediction over
    the active arms rather than their contrasts, so it needs many more pulls than SP-BAI; with the
    tuned constants no error probability is proven.

    Args:
        problem: the problem; its targets must be its source arms.
        r1: the constant R₁ of the phase length.
        r2: the constant R₂.
        seed: accepted like every policy's; the draws are not the policy's to make.
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
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        super().__init__(
            problem, max_pulls=max_pulls, max_phases=max_phases, max_phase_pulls=max_phase_pulls
        )
        check_tolerance(tol)
        self._constants = (positive(r1, "r1"), positive(r2, "r2"))
        self._tol = tol

    def _design(self, phase: int, active: Indices) -> PhaseRequest:
        weights, gap = _design_phase(self.problem, self._tol, active.tobytes())
        described = self._describe_weights(phase, active, weights)
        return PhaseRequest(weights, described.pulls, gap)

    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        assert plan.weights is not None
        return self._describe_weights(plan.phase, active, plan.weights)

    def _describe_weights(self, phase: int, active: Indices, weights: Array) -> PhaseDesign:
        return _describe_phase(
            self.problem, self._constants, phase, active.tobytes(), weights.tobytes()
        )

    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:
        ridge = max(1.0, math.log(plan.pulls / self.problem.delta))
        return orthogonalized(self.problem, summary, design.weights, ridge=ridge)


@lru_cache(maxsize=1024)
def _design_phase(problem: Problem, tol: float, active: bytes) -> tuple[Array, float]:
    """Weights and certified gap; a pure function of these, so runs of a simulation share them."""
    arms = np.frombuffer(active, dtype=np.int64)
    design = cached_design(deo, problem.source[arms], anchor=0, tol=tol)
    weights = np.zeros(problem.arms)
    weights[arms] = design.weights
    weights.flags.writeable = False
    return weights, design.gap


@lru_cache(maxsize=1024)
def _describe_phase(
    problem: Problem, constants: tuple[float, float], phase: int, active: bytes, weights: bytes
) -> PhaseDesign:
    """The quantities that follow from the weights of a phase."""
    arms = problem.source[np.frombuffer(active, dtype=np.int64)]
    distribution = np.frombuffer(weights, dtype=float)
    epsilon = 2.0**-phase
    delta = bounds.sbe_delta(problem.delta, arms=problem.arms, phase=phase)
    pulls = bounds.sbe_phase_length(
        problem.dimension, epsilon=epsilon, delta=delta, r1=constants[0], r2=constants[1]
    )
    return PhaseDesign(
        pulls=pulls,
        weights=distribution,
        radius=epsilon * problem.scale,
        delta=delta,
        value=float(np.max(centered_norms(problem.source, distribution, arms - arms[0]))),
        stability=32.0 * problem.dimension,
    )
