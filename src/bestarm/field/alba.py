"""ALBA: halve the number of targets, round by round, at a cost that is linear in the dimension."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bestarm.checks import positive
from bestarm.design import linear_g
from bestarm.design.memo import recall
from bestarm.field import thresholds
from bestarm.field.linear_model import points_of
from bestarm.numerics.geometry import Array, Indices, first_largest, linear_span
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class ALBA(StepwisePolicy):
    """Rounds that leave d, d/2, d/4, … arms, each on the G-optimal design in the span of the rest.

    Within a round (the paper's 𝒴-ElimTil) arms are drawn from the design until the total is about
    1.2 times what it was before; θ is estimated by b/n weighted with the inverse of the *expected*
    information per pull, and arms are dropped that trail the leader by more than
    `thresholds.alba_radius`. Pulls of the same round are used again.

    For rewards x·θ + noise without a baseline, where |x·θ| ≤ `mean_bound`. Theorem 22 claims δ, but
    its union bound does not count the arms of the span, whose estimates enter the radius; so no
    error probability is stated. The accuracy of these estimates is taken from Theorem 12 (2/1.1^s
    in step s), where the published proof has 2^−(s+1). A baseline biases the estimate.

    Args:
        problem: the problem; its targets must be its source arms.
        sigma: the sub-Gaussian scale it assumes of the noise.
        mean_bound: a bound on |x·θ| (the paper's L); the problem's scale by default.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import ALBA
        >>> ALBA(Problem([[1, 0], [0, 1], [0.6, 0.8]])).plan().pulls
        183

    Reference: Tao, Blanco and Zhou (2018), Algorithms 1, 3 and 4.
    """

    _blind = True
    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        mean_bound: float | None = None,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma = positive(sigma, "sigma")
        self._bound = problem.scale if mean_bound is None else positive(mean_bound, "mean_bound")
        self._arms = points_of(problem).arms
        self._round, self._step = 0, 1
        self._members = self._active  # that were left when the round began
        self._begin_round()

    @property
    def traits(self) -> Traits:
        """It ignores the baseline, and rests on a bound on means."""
        return replace(super().traits, mean_bound=self._bound)

    def _begin_round(self) -> None:
        """Begin the first round that has arms to drop, with nothing pulled."""
        rank = self._arms.shape[1]
        while len(self._active) <= max(1, rank >> self._round) and len(self._active) > 1:
            self._round += 1
        self._members, self._step, self._total = self._active, 1, 0
        self._information, self._moment = np.zeros((rank, rank)), np.zeros(rank)

    def _current_step(self) -> thresholds.AlbaStep:
        _, rank = recall(_pool, self.problem.source, self._members)
        return thresholds.alba_step(
            sigma=self._sigma,
            bound=self._bound,
            delta=self.problem.delta,
            rank=rank,
            arms=len(self._members),
            place=(self._round, self._step),
        )

    def _make_plan(self) -> Plan:
        weights, _ = recall(_pool, self.problem.source, self._members)
        pulls = min(max(1, self._current_step().pulls - self._total), self._pulls_left())
        return Plan.randomised(weights, pulls, phase=self._plans + 1)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Estimate, drop, and begin the next round if enough arms are gone."""
        assert plan.weights is not None
        arms, step = self._arms, self._current_step()
        self._information = self._information + plan.pulls * (arms.T * plan.weights) @ arms
        self._moment = self._moment + arms.T @ summary.sums
        self._total += plan.pulls
        weights = plan.weights
        inverse = np.linalg.pinv(
            self._information / self._total, rcond=1e-10, hermitian=True
        )  # M(λ)⁻¹
        theta = inverse @ self._moment / self._total  # eq. 8
        scores = arms @ theta
        best = first_largest(scores[self._active], size=summary.largest_mean)
        self._leader = int(self._active[best])
        differences = arms[self._leader] - arms[self._active]
        seen = differences @ inverse @ arms.T
        widths = np.maximum(np.einsum("ij,ij->i", differences @ inverse, differences), 0.0)
        radii = thresholds.alba_radius(
            widths,
            lead=np.abs(differences @ theta),
            spread=(seen**2 * (np.abs(scores) + step.accuracy) ** 2) @ weights,
            length=self._total / step.log_factor,
            step=step,
        )
        lead = scores[self._leader] - scores[self._active]
        dropped = (lead > radii) & (lead > 0)
        self._end_phase(
            plan,
            dropped,
            contrasts=lead,
            radii=radii,
            delta=step.delta,
            weights=weights,
            value=float(widths.max()),
        )
        if len(self._active) == 1:
            return "identified"
        self._step += 1
        if len(self._active) <= max(1, arms.shape[1] >> self._round):
            self._begin_round()
        return None


def _pool(source: Array, members: Indices) -> tuple[Array, int]:
    """The G-optimal design over the arms in the span of these, and the dimension of that span."""
    span = linear_span(source[members])
    inside = span.contains(source)
    weights = np.zeros(len(source))
    weights[inside] = linear_g(source[inside]).weights
    weights[weights < 1e-6] = 0.0  # left over by the solver
    weights /= weights.sum()
    weights.flags.writeable = False
    return weights, span.rank
