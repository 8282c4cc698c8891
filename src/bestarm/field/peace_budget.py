"""Peace at a fixed budget: phases of equal length that each halve the width of what is left."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from bestarm.checks import choice, whole
from bestarm.design import linear_xy
from bestarm.design.memo import recall
from bestarm.design.rounding import round_any
from bestarm.field.linear_designs import LinearShrinking, longest_prefix
from bestarm.field.widths import width_design
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem
from bestarm.records import Plan

_NEGLIGIBLE = 1e-3  # times the mean weight: not worth a pull


class _SizedDesign(NamedTuple):
    """The design for a set of targets, and their size under it."""

    weights: Array
    value: float
    gap: float


class PeaceBudget(LinearShrinking):
    """The targets that seem best, so many that their Gaussian width is halved, phase by phase.

    The number of phases is log₂ of the squared width of all targets under the design that makes it
    smallest. Each phase pulls that design for the targets left, estimates them by ordinary least
    squares from its own pulls, and keeps the longest prefix of their ranking whose squared width
    is at most half of what it was.

    A budget is not an error probability: the answer is never final. The exponent of the error is
    proven optimal up to logarithms, for rewards x·θ + noise without a baseline; a baseline
    biases ordinary least squares.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls. The last phase takes what division leaves over; fewer are
            used if one target is left early.
        design: `"width"` is the published criterion; `"variance"` has the largest variance of a
            contrast in its place, as in the code of Xiong et al. (2024).

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import PeaceBudget
        >>> PeaceBudget(Problem(["a", "b", "c", "d"]), budget=1000).plan().counts.tolist()
        [50, 50, 50, 50]

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020), fixed-budget Peace.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        design: Literal["width", "variance"] = "width",
    ) -> None:
        super().__init__(problem)
        choice(design, ("width", "variance"), "design")
        self._criterion = design
        whole(budget, "budget", least=1)
        size = self._solve(np.arange(problem.targets)).value
        phases = min(max(1, math.ceil(math.log2(max(size, 1.0)) - 1e-9)), budget)
        length = budget // phases
        self._lengths = [*[length] * (phases - 1), budget - length * (phases - 1)]

    def _solve(self, active: Indices) -> _SizedDesign:
        targets = self.problem.target[np.sort(active)]
        return recall(_solve, self.problem.source, targets, self._criterion)

    def _make_plan(self) -> Plan:
        design = self._solve(self._active)
        self._gap = design.gap
        counts = round_any(design.weights, self._lengths[self._plans])
        return Plan.fixed(counts, phase=self._plans + 1)

    def _value(self, plan: Plan) -> float:  # noqa: ARG002
        return self._solve(self._active).value

    def _kept(self, ranking: Indices) -> int:
        """So many that their size is halved; all of them after the last phase."""
        if self._plans + 1 == len(self._lengths):
            return len(ranking)
        most = self._solve(self._active).value / 2
        return longest_prefix(ranking, lambda targets: self._solve(targets).value, most)

    def _over(self) -> bool:
        return len(self._trace) == len(self._lengths) or len(self._active) == 1


def _solve(source: Array, targets: Array, criterion: str) -> _SizedDesign:
    """The design for differences of these targets, with what the criterion makes of their size."""
    if criterion == "width":
        wide = width_design(source, targets)
        return _SizedDesign(wide.weights, wide.width, wide.gap)
    design = linear_xy(source, targets)
    weights = np.where(design.weights > _NEGLIGIBLE / len(source), design.weights, 0.0)
    weights /= weights.sum()
    weights.flags.writeable = False
    return _SizedDesign(weights, design.value, design.gap)
