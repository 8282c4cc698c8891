"""G-Opt: told the smallest gap, it pulls once and is done."""

from __future__ import annotations

from typing import ClassVar

from bestarm import bounds
from bestarm.checks import positive, whole
from bestarm.design import check_tolerance
from bestarm.numerics.geometry import Array
from bestarm.policies.budget.deo import anchored_weights, regression_scores
from bestarm.policies.budget.one_shot import OneShot
from bestarm.problem import Problem, as_problem
from bestarm.records import Plan, Summary


class GOpt(OneShot):
    """One batch from DEO's design, as long as an oracle's smallest gap asks for, then the best.

    An oracle baseline for comparisons: no experiment knows its smallest gap. With the tuned
    constants nothing is proven, and on instances with many near-ties it errs more often than δ. No
    baseline fixed before the draw biases it.

    Args:
        problem: the problem.
        gap: the oracle's smallest gap, in reward units.
        r1: the constant R₁ of the length.
        r2: the constant R₂.
        seed: accepted like every policy's; the draws are not the policy's to make.
        max_pulls: cut the batch to this; a batch cut short is never final.
        tol: the relative gap to which the design is certified.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> world = environments.small_gap()
        >>> GOpt(world.problem(0.1), gap=world.gap).plan().pulls
        387106

    Reference: Kim, Kim and Oh (2025), one-shot budget.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        gap: float,
        r1: float = 1 / 3,
        r2: float = 1 / 3,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        as_problem(problem)
        pulls = sufficient = bounds.sbe_phase_length(
            problem.dimension,
            epsilon=positive(gap, "gap") / problem.scale,
            delta=problem.delta,
            r1=positive(r1, "r1"),
            r2=positive(r2, "r2"),
        )
        if max_pulls is not None:
            pulls = min(pulls, whole(max_pulls, "max_pulls", least=1))
        check_tolerance(tol)
        self._length, self._tol = pulls, tol
        super().__init__(problem, sufficient=sufficient)

    def _make_plan(self) -> Plan:
        weights = anchored_weights(self.problem, 0, self._tol)
        return Plan.randomised(weights, self._length, phase=1)

    def _scores(self, plan: Plan, summary: Summary) -> Array:
        return regression_scores(self.problem, plan, summary)
