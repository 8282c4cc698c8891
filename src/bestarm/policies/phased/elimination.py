"""The base of phase elimination: plan a phase, estimate, drop targets, keep the trace."""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bestarm.checks import whole
from bestarm.design.rounding import round_any
from bestarm.estimation import ordinary
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.phased.shrinking import linear_value, shares
from bestarm.policies.stepwise import Indices, StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class PhaseRequest(NamedTuple):
    """A design for the next phase.

    Attributes:
        weights: the sampling distribution over source arms.
        pulls: how many are wanted; may be more than can ever be pulled.
        gap: the certified gap of the contrast design.
    """

    weights: Array
    pulls: int
    gap: float


@dataclass(frozen=True, eq=False)
class PhaseDesign:
    """A phase before it is pulled, as it follows from the plan.

    Attributes:
        pulls: how many are wanted; may be more than can ever be pulled.
        weights: the sampling distribution over source arms.
        radius: the accuracy the phase is made for, in reward units.
        delta: the part of the error probability spent on the phase.
        value: the largest variance factor of an active contrast.
        stability: M, where it entered the length.
    """

    pulls: int
    weights: Array
    radius: float
    delta: float
    value: float
    stability: float | None = None

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False  # shared between runs


class Elimination(StepwisePolicy):
    """A policy in phases: each estimates θ afresh and drops targets a radius below the leader.

    Subclasses say how a phase is designed (`_design`), what follows from the plan made of it
    (`_describe`) and how θ is estimated (`_estimate`).

    Args:
        problem: the problem.
        max_pulls: stop before exceeding this many pulls in total; the last phase is cut short.
        max_phases: stop after this many phases.
        max_phase_pulls: a phase that wants more than this draws this many and is the last; the best
            of all targets under its estimate, dropped ones included, is then named.
    """

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
        self._max_phases = max_phases
        self._max_phase_pulls = max_phase_pulls

    def _make_plan(self) -> Plan:
        request = self._design(self._plans + 1, self._active)
        self._gap = request.gap
        return self._plan_of(request.weights, min(request.pulls, self._most()), self._plans + 1)

    def _most(self) -> int:
        """How many pulls the caps leave for the next phase."""
        return min(self._left(), self._max_phase_pulls or sys.maxsize)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Estimate, drop targets, keep the trace."""
        design = self._describe(plan, self._active)
        theta = self._estimate(design, plan, summary)
        # The intended length is computed from the plan: it matters only at a cap, not by rounding.
        cut_short = self._most() <= plan.pulls < design.pulls
        over_cap = cut_short and plan.pulls == self._max_phase_pulls
        options = self.problem.target
        eligible = np.arange(len(options)) if over_cap else self._active
        scores = (options[eligible] - options[eligible[0]]) @ theta  # offsets would cost digits
        self._leader = int(eligible[first_largest(scores, size=summary.largest_mean)])
        differences = options[self._leader] - options[self._active]
        contrasts = differences @ theta
        radii = self._radii(design, differences)
        # A phase that was cut short may change the leader, but its radius is not valid for drops.
        dropped = (contrasts >= radii) & (contrasts > 0) & (not cut_short)
        self._end_phase(
            plan,
            dropped,
            contrasts=contrasts,
            radii=radii,
            delta=design.delta,
            weights=design.weights,
            value=design.value,
            stability=design.stability,
        )
        if over_cap:
            return "max_phase_pulls"
        if len(self._active) == 1:
            return "identified"
        if cut_short or plan.pulls >= self._left():
            return "max_pulls"
        if self._max_phases is not None and len(self._trace) >= self._max_phases:
            return "max_phases"
        return None

    @abstractmethod
    def _design(self, phase: int, active: Indices) -> PhaseRequest:
        """Design the next phase for these targets. Must not change the policy."""

    @abstractmethod
    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        """The quantities that follow from a plan for these targets; no design is solved."""

    @abstractmethod
    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:
        """θ̂ in reward units, with the phase's pulls taken in."""

    def _radii(self, design: PhaseDesign, differences: Array) -> Array:
        """The estimated leader − target from which on a target is dropped, for each difference."""
        return np.full(len(differences), design.radius)

    def _plan_of(self, weights: Array, pulls: int, phase: int) -> Plan:
        """The phase as a plan of this many pulls."""
        return Plan.randomised(weights, pulls, phase=phase)


class LeastSquaresElimination(Elimination):
    """Elimination on ordinary least squares, with so many pulls of each arm: no baseline is heeded.

    Subclasses design a phase (`_design`), and say at which lead it drops targets (`_radius`) and
    which part of the error probability it spends (`_delta`).
    """

    _blind = True
    _kind = "fixed"

    @abstractmethod
    def _radius(self, phase: int) -> float:
        """The lead at which a phase drops targets, in reward units."""

    @abstractmethod
    def _delta(self, phase: int) -> float:
        """The part of the error probability spent on a phase."""

    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        # Whole pulls do not tell how many were wanted: a phase that takes all that are left is cut,
        # unless it is as long as a phase may be.
        cut = plan.pulls == self._left() and plan.pulls != self._max_phase_pulls
        return PhaseDesign(
            pulls=plan.pulls + cut,
            weights=shares(plan),
            radius=self._radius(plan.phase),
            delta=self._delta(plan.phase),
            value=linear_value(self.problem, active, plan),
        )

    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:  # noqa: ARG002
        return ordinary(self.problem, summary)

    def _plan_of(self, weights: Array, pulls: int, phase: int) -> Plan:
        return Plan.fixed(round_any(weights, pulls), phase=phase)
