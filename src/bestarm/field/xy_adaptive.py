"""XY-adaptive: the XY-allocation in phases, each for the targets that are left."""

from __future__ import annotations

from itertools import islice
from typing import Literal

import numpy as np

from bestarm.checks import choice, positive
from bestarm.design.memo import recall
from bestarm.estimation import ordinary
from bestarm.field import thresholds
from bestarm.field.linear_model import linear_assumptions, points_of
from bestarm.field.xy_allocation import all_pairs, greedy_pulls
from bestarm.numerics.geometry import Array, Indices, first_largest, linear_norms
from bestarm.policies.shrinking import shares
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_SHRINK = 0.1  # α


class XYAdaptive(StepwisePolicy):
    """Phases that each begin afresh, and make the contrasts of the targets left narrower.

    A phase pulls arms that span, and then greedily for the contrasts of the targets that are left,
    until the largest ‖z − z′‖² under A⁻¹, divided by the pulls of the phase, is α = 1/10 of what
    the phase before reached: a phase for the same targets is √10 times as long. Then every target
    is dropped that is shown to be worse than another one by the pulls of this phase alone.
    A dropped target stays dropped. (The paper can be read otherwise, in which case
    targets return that the last phase says little about: see Xu, Honda and Sugiyama (2018),
    section 7.)

    Proven for rewards x·θ + noise without a baseline: given earlier phases, the allocation of a
    phase is fixed. A baseline biases ordinary least squares.

    Args:
        problem: the problem; its scales are not used.
        sigma: the sub-Gaussian scale it assumes of the noise.
        threshold: `"published"` is that of the paper, `"small"` a smaller one with a proof:
            `thresholds.xy_threshold` and `thresholds.xy_phase_threshold`.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import XYAdaptive
        >>> XYAdaptive(Problem([[1, 0], [0, 1]])).plan().counts.tolist()
        [9, 8]

    Reference: Soare, Lazaric and Munos (2014), Figure 3.
    """

    _blind = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "small"] = "published",
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        choice(threshold, ("published", "small"), "threshold")
        self._sigma, self._published = positive(sigma, "sigma"), threshold == "published"
        rank = len(points_of(problem).basis)
        self._level = _SHRINK / (rank * (rank + 1) + 1)  # α ρ⁰/n₀, with ρ⁰ = 1

    def _make_plan(self) -> Plan:
        counts = recall(_allocate, self.problem, self._active, self._level, self._pulls_left())
        return Plan.fixed(counts, phase=self._plans + 1)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Drop what is shown to be worse; keep the trace."""
        assert plan.counts is not None
        targets = self.problem.target[self._active]
        theta = ordinary(self.problem, summary)
        scores = (targets - targets[0]) @ theta
        best = first_largest(scores, size=summary.largest_mean)
        widths = recall(_widths, self.problem.source, targets, plan.counts)
        radii = np.sqrt(self._critical(plan.pulls) * widths)
        lead = scores[:, None] - scores
        dropped = ((lead > 0) & (lead >= radii)).any(axis=0)  # eq. 13
        self._leader = int(self._active[best])
        self._end_phase(
            plan,
            dropped,
            contrasts=scores[best] - scores,
            radii=radii[best],
            delta=self.problem.delta,
            weights=shares(plan),
            value=float(widths.max()) * plan.pulls,
        )
        if np.isfinite(widths).all():
            self._level = _SHRINK * float(widths.max()) / plan.pulls
        return "identified" if len(self._active) == 1 else None

    def _critical(self, pulls: int) -> float:
        if not self._published:
            return thresholds.xy_phase_threshold(
                sigma=self._sigma,
                delta=self.problem.delta,
                targets=self.problem.targets,
                phase=self._plans + 1,
            )
        factor, level = thresholds.xy_threshold(
            sigma=self._sigma,
            delta=self.problem.delta,
            targets=self.problem.targets,
            directions=self.problem.targets**2,
        )
        return factor * (2 * float(np.log(pulls)) + level)

    def _assumptions(self) -> tuple[str, ...]:
        return linear_assumptions(self._sigma)


def _allocate(problem: Problem, active: Indices, level: float, most: int) -> Indices:
    """How often a phase pulls each arm."""
    points = points_of(problem)
    counts = np.bincount(points.basis[:most], minlength=problem.arms)
    pairs = all_pairs(active)
    left = most - int(counts.sum())
    further = list(islice(greedy_pulls(points, pairs, counts, level), left))
    return np.asarray(counts + np.bincount(further, minlength=problem.arms))


def _widths(source: Array, targets: Array, counts: Indices) -> Array:
    """‖z − z′‖² under A⁻¹ for every two of these targets; +∞ where the pulls say nothing."""
    differences = (targets[:, None] - targets).reshape(-1, targets.shape[1])
    norms = linear_norms(source, counts.astype(float), differences)
    return norms.reshape(len(targets), len(targets))
