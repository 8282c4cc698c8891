"""Peace: phases as long as the Gaussian width of the targets that are left asks for."""

from __future__ import annotations

import numpy as np

from bestarm.checks import positive
from bestarm.design.memo import recall
from bestarm.field import thresholds
from bestarm.field.widths import WidthDesign, width_design
from bestarm.numerics.geometry import Indices
from bestarm.policies.rage import LeastSquaresElimination, PhaseRequest
from bestarm.problem import Problem

_SLACK = 0.5  # ε of the rounding, as in the authors' code


class Peace(LeastSquaresElimination):
    """Elimination in phases that halve the gap, without a union bound over the targets.

    The largest error among contrasts of the targets left is at most its expectation, which is the
    Gaussian width of these targets under the design, plus a deviation that depends on the largest
    variance alone. The design minimises the sum of the two, squared, and a phase is so long that it
    is below the gap that the phase is about. Then targets that trail the leader by this gap are
    dropped, and the next phase begins afresh, at half the gap.

    For rewards x·θ + noise without a baseline. δ is kept for Gaussian noise of scale σ, up to the
    error of the width, which is computed from draws to about 1 % (the length has room for 20 %);
    for other sub-Gaussian noise the constant is not known, so that no error probability is stated.
    A baseline biases ordinary least squares.

    Args:
        problem: the problem; any source and targets. Its scales are not used.
        sigma: the standard deviation of the noise.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import Peace
        >>> Peace(Problem([[1, 0], [0, 1]])).plan().counts.tolist()
        [2, 2]

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020), Algorithm 1; the first gap and the
    slack of the rounding are those of the authors' code.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma = positive(sigma, "sigma")

    def _design(self, phase: int) -> PhaseRequest:
        design = self._width_design(phase, self._active)
        pulls = thresholds.peace_phase_length(
            design.value,
            sigma=self._sigma,
            gap=self._radius(phase),
            slack=_SLACK,
            support=int(np.count_nonzero(design.weights)),
        )
        return PhaseRequest(design.weights, pulls, design.gap)

    def _radius(self, phase: int) -> float:
        """The first complexity in units of σ, halved with every phase."""
        largest = self._sigma * self._width_design(1, np.arange(self.problem.targets)).value
        return float(largest * 0.5 ** (phase + 1))

    def _delta(self, phase: int) -> float:
        return thresholds.peace_delta(self.problem.delta, phase=phase)

    def _width_design(self, phase: int, targets: Indices) -> WidthDesign:
        penalty = -2 * float(np.log(self._delta(phase)))
        return recall(
            width_design, self.problem.source, self.problem.target[targets], penalty=penalty
        )
