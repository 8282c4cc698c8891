"""RAGE: nearly optimal for linear bandits, blind to a moving baseline."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from bestarm import bounds
from bestarm.checks import positive
from bestarm.design import check_tolerance, linear_xy
from bestarm.policies.designs import cached_design
from bestarm.policies.phased.elimination import LeastSquaresElimination, PhaseRequest
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem

_SLACK = 0.2


class RAGE(LeastSquaresElimination):
    """Randomised adaptive gap elimination on ordinary least squares: a reference that ignores ν_t.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline. A baseline,
    even a constant one, biases ordinary least squares, and no number of pulls repairs that: on
    the paper's small-gap instance it is wrong in every run.

    Args:
        problem: the problem; its scales are not used.
        sigma: the noise scale it assumes.
        seed: not used; RAGE draws nothing.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.
        max_phases: stop after this many phases; never final either, unless one target is left.
        max_phase_pulls: a longer phase is cut to this many pulls, and the run continues as
            if it were complete: for replications, at the price of the guarantee.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem, RAGE
        >>> RAGE(Problem([[1, 0], [0, 1]], delta=0.05), sigma=1.0).plan().pulls
        2693

    Reference: Fiez, Jain, Jamieson and Ratliff (2019).
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
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
        self._sigma = positive(sigma, "sigma")
        self._tol = tol

    def _design(self, phase: int, active: Indices) -> PhaseRequest:
        found = _design_phase(self.problem, self._sigma, self._tol, phase, active.tobytes())
        most = self._max_phase_pulls
        return found if most is None else found._replace(pulls=min(found.pulls, most))

    def _radius(self, phase: int) -> float:
        return 2.0 ** -(phase + 2)

    def _delta(self, phase: int) -> float:
        return bounds.rage_delta(self.problem.delta, targets=self.problem.targets, phase=phase)


@lru_cache(maxsize=1024)
def _design_phase(
    problem: Problem, sigma: float, tol: float, phase: int, active: bytes
) -> PhaseRequest:
    """A pure function of these, so runs of one simulation share the work."""
    targets = problem.target[np.frombuffer(active, dtype=np.int64)]
    design = cached_design(linear_xy, problem.source, targets, tol=tol)
    delta = bounds.rage_delta(problem.delta, targets=problem.targets, phase=phase)
    dimension = problem.dimension
    pulls = bounds.rage_phase_length(
        design.value,
        phase=phase,
        delta=delta,
        sigma=sigma,
        slack=_SLACK,
        least=math.ceil((dimension * (dimension + 1) / 2 + 1) / _SLACK),
    )
    # An interior-point design leaves a little on arms that do not matter: not worth a pull.
    weights = np.where(design.weights > tol / (10 * problem.arms), design.weights, 0.0)
    weights /= weights.sum()
    weights.flags.writeable = False
    return PhaseRequest(weights, max(pulls, int(np.count_nonzero(weights))), design.gap)
