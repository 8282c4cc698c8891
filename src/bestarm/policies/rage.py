"""RAGE: nearly optimal for linear bandits, blind to a moving baseline; and the base it shares."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from bestarm import bounds
from bestarm.checks import positive, whole
from bestarm.design import check_tolerance, linear_xy
from bestarm.design.memo import recall
from bestarm.design.rounding import round_any
from bestarm.estimation import ordinary
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.shrinking import linear_value, shares
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_SLACK = 0.2


class PhaseRequest(NamedTuple):
    """A design for the next phase.

    Attributes:
        weights: the share of each source arm.
        pulls: how many are wanted; may be more than can ever be pulled.
        gap: the certified gap of the design.
    """

    weights: Array
    pulls: int
    gap: float


class LeastSquaresElimination(StepwisePolicy):
    """Elimination in phases on ordinary least squares, with whole pulls of each arm.

    It assumes no baseline. Subclasses design a phase (`_design`), and say at which lead it drops
    targets (`_radius`) and which part of the error probability it spends (`_delta`).

    Args:
        problem: the problem.
        max_pulls: stop before exceeding this many pulls in total; the last phase is cut short.
        max_phases: stop after this many phases.
        max_phase_pulls: the most pulls of a phase; one that is cut to it counts as complete.
    """

    _blind = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        for field, cap in (("max_phases", max_phases), ("max_phase_pulls", max_phase_pulls)):
            if cap is not None:
                whole(cap, field, least=1)
        self._max_phases, self._max_phase_pulls = max_phases, max_phase_pulls

    @abstractmethod
    def _design(self, phase: int) -> PhaseRequest:
        """Design the next phase for the active targets. Must not change the policy."""

    @abstractmethod
    def _radius(self, phase: int) -> float:
        """The lead at which a phase drops targets, in reward units."""

    @abstractmethod
    def _delta(self, phase: int) -> float:
        """The part of the error probability spent on a phase."""

    def _make_plan(self) -> Plan:
        phase = self._plans + 1
        weights, pulls, self._gap = self._design(phase)
        pulls = min(pulls, self._pulls_left())
        if self._max_phase_pulls is not None:
            pulls = min(pulls, self._max_phase_pulls)
        return Plan.fixed(round_any(weights, pulls), phase=phase)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        # Whole pulls do not tell how many were wanted: a phase that takes all that are left is cut,
        # unless it is as long as a phase may be.
        cut_short = plan.pulls == self._pulls_left() and plan.pulls != self._max_phase_pulls
        theta = ordinary(self.problem, summary)
        options = self.problem.target
        # Differences first: offsets would cost digits.
        scores = (options[self._active] - options[self._active[0]]) @ theta
        self._leader = int(self._active[first_largest(scores, size=summary.largest_mean)])
        contrasts = (options[self._leader] - options[self._active]) @ theta
        radius = self._radius(plan.phase)
        self._end_phase(
            plan,
            (contrasts >= radius) & (contrasts > 0) & (not cut_short),
            contrasts=contrasts,
            radii=np.full(len(contrasts), radius),
            delta=self._delta(plan.phase),
            weights=shares(plan),
            value=linear_value(self.problem, self._active, plan),
        )
        if len(self._active) == 1:
            return "identified"
        if plan.pulls >= self._pulls_left():
            return "max_pulls"
        if self._max_phases is not None and len(self._trace) >= self._max_phases:
            return "max_phases"
        return None


class RAGE(LeastSquaresElimination):
    """Randomised adaptive gap elimination on ordinary least squares: a reference that ignores ν_t.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline. A baseline,
    even a constant one, biases ordinary least squares, and no number of pulls repairs that: on
    the paper's small-gap instance it is wrong in every run.

    Args:
        problem: the problem; its scales are not used.
        sigma: the noise scale it assumes.
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

    def _design(self, phase: int) -> PhaseRequest:
        problem = self.problem
        design = recall(linear_xy, problem.source, problem.target[self._active], tol=self._tol)
        pulls = bounds.rage_phase_length(
            design.value,
            phase=phase,
            delta=self._delta(phase),
            sigma=self._sigma,
            slack=_SLACK,
            least=math.ceil((problem.dimension * (problem.dimension + 1) / 2 + 1) / _SLACK),
        )
        # An interior-point design leaves a little on arms that do not matter: not worth a pull.
        least = self._tol / (10 * problem.arms)
        weights = np.where(design.weights > least, design.weights, 0.0)
        weights /= weights.sum()
        return PhaseRequest(weights, max(pulls, int(np.count_nonzero(weights))), design.gap)

    def _radius(self, phase: int) -> float:
        return 2.0 ** -(phase + 2)

    def _delta(self, phase: int) -> float:
        return bounds.rage_delta(self.problem.delta, targets=self.problem.targets, phase=phase)
