"""Peace: phases as long as the Gaussian width of the targets that are left asks for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from bestarm import bounds
from bestarm.checks import positive
from bestarm.design.rounding import round_any
from bestarm.design.widths import WidthDesign, width_design
from bestarm.estimation import ordinary
from bestarm.numerics.geometry import Array, linear_diameter
from bestarm.policies.phased.elimination import Elimination, PhaseDesign, Wanted
from bestarm.policies.stepwise import Indices
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_SLACK = 0.5  # ε of the rounding, as in the authors' code


class Peace(Elimination):
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
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.peace import Peace
        >>> Peace(Problem([[1, 0], [0, 1]])).plan().counts.tolist()
        [2, 2]

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020), Algorithm 1; the first gap and the
    slack of the rounding are those of the authors' code.
    """

    _blind = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma = positive(sigma, "sigma")

    def _design(self, phase: int, active: Indices) -> Wanted:
        design = _design(self.problem, phase, active.tobytes())
        pulls = bounds.peace_phase_length(
            design.value,
            sigma=self._sigma,
            gap=self._gap_of(phase),
            slack=_SLACK,
            support=int(np.count_nonzero(design.weights)),
        )
        return Wanted(design.weights, pulls, design.gap)

    def _gap_of(self, phase: int) -> float:
        """The lead at which a phase drops targets: the first complexity in units of σ, halved."""
        everybody = np.arange(self.problem.targets).tobytes()
        largest = self._sigma * _design(self.problem, 1, everybody).value
        return float(largest * 0.5 ** (phase + 1))

    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        assert plan.counts is not None
        weights = plan.counts / plan.pulls
        described = PhaseDesign(
            pulls=plan.pulls,
            weights=weights,
            radius=self._gap_of(plan.phase),
            delta=bounds.peace_delta(self.problem.delta, phase=plan.phase),
            value=_diameter(self.problem, active.tobytes(), plan.counts.tobytes()),
        )
        cut = plan.pulls == self._left()  # whole pulls do not tell how many were wanted
        return replace(described, pulls=plan.pulls + 1) if cut else described

    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:  # noqa: ARG002
        return ordinary(self.problem, summary)

    def _plan_of(self, weights: Array, pulls: int, phase: int) -> Plan:
        return Plan.fixed(round_any(weights, pulls), phase=phase)


@lru_cache(maxsize=4096)
def _design(problem: Problem, phase: int, active: bytes) -> WidthDesign:
    """A pure function of these, so runs of one simulation share the work."""
    delta = bounds.peace_delta(problem.delta, phase=phase)
    targets = problem.target[np.frombuffer(active, dtype=np.int64)]
    return width_design(problem.source, targets, penalty=-2 * float(np.log(delta)))


@lru_cache(maxsize=4096)
def _diameter(problem: Problem, active: bytes, counts: bytes) -> float:
    """The largest variance factor of a contrast of these targets under a plan."""
    pulled = np.frombuffer(counts, dtype=np.int64)
    targets = problem.target[np.frombuffer(active, dtype=np.int64)]
    return linear_diameter(problem.source, pulled / pulled.sum(), targets)
