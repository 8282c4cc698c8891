"""The base of phase elimination: plan a phase, estimate, drop targets, keep the trace."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole
from bestarm.geometry import Array, first_largest
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped, same_plan
from bestarm.problem import Problem, as_problem
from bestarm.records import Phase, Plan, Recommendation, Summary

__all__ = ["Elimination", "PhaseDesign", "Wanted"]

Indices = NDArray[np.int64]


class Wanted(NamedTuple):
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
    """A phase before it is pulled: all of it but the gap follows from the plan.

    Attributes:
        pulls: how many are wanted; may be more than can ever be pulled.
        weights: the sampling distribution over source arms.
        radius: the accuracy the phase is made for, in reward units.
        delta: the part of the error probability spent on the phase.
        value: the largest variance factor of an active contrast.
        stability: M, where it entered the length.
        gap: the certified gap of the contrast design; None where the plan was adopted.
    """

    pulls: int
    weights: Array
    radius: float
    delta: float
    value: float
    stability: float | None = None
    gap: float | None = None

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False  # shared between runs


class Elimination(Policy):
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

    version: ClassVar[int]
    _blind: ClassVar[bool] = False
    _kind: ClassVar[Literal["randomised", "fixed"]] = "randomised"  # of its plans

    def __init__(
        self,
        problem: Problem,
        *,
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
    ) -> None:
        as_problem(problem)
        for field, cap in (
            ("max_pulls", max_pulls),
            ("max_phases", max_phases),
            ("max_phase_pulls", max_phase_pulls),
        ):
            if cap is not None:
                whole(cap, field, least=1)
        self.problem = problem
        self._max_pulls = max_pulls
        self._max_phases = max_phases
        self._max_phase_pulls = max_phase_pulls
        self._active: Indices = np.arange(problem.targets)
        self._leader = 0
        self._trace: list[Phase] = []
        self._pulls = 0
        self._stopped: str | None = None
        self._open: tuple[PhaseDesign, Plan] | None = None

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(version=self.version, blind=self._blind, max_pulls=self._max_pulls)

    def plan(self) -> Plan | None:
        """The next phase's pulls, or None once the policy has stopped."""
        if self._stopped is not None:
            return None
        if self._open is None:
            wanted = self._design(len(self._trace) + 1, self._active)
            pulls = int(min(wanted.pulls, self._most()))
            plan = self._plan_of(wanted.weights, pulls, len(self._trace) + 1)
            self._open = replace(self._describe(plan, self._active), gap=wanted.gap), plan
        return self._open[1]

    def _left(self) -> int | None:
        """How many pulls the cap on all of them leaves."""
        return None if self._max_pulls is None else self._max_pulls - self._pulls

    def _most(self) -> float:
        """How many pulls the caps leave for the next phase."""
        caps = (self._left(), self._max_phase_pulls)
        return min((cap for cap in caps if cap is not None), default=math.inf)

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: its pulls, drawn with its probabilities."""
        phase = None if self._stopped is not None else len(self._trace) + 1
        check_adoptable(plan, self.problem, phase=phase, kind=self._kind)
        if self._open is None or not same_plan(self._open[1], plan):
            self._open = self._describe(plan, self._active), plan

    def update(self, summary: Summary) -> None:
        """Take the outcome of the current phase: estimate, eliminate, continue or stop."""
        if self.plan() is None or self._open is None:
            raise has_stopped()
        design, plan = self._open
        plan.check(summary)
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
        self._pulls += plan.pulls
        self._trace.append(
            Phase(
                phase=plan.phase,
                active=tuple(self._active.tolist()),
                eliminated=tuple(self._active[dropped].tolist()),
                leader=self._leader,
                contrasts=tuple(contrasts.tolist()),
                radii=tuple(radii.tolist()),
                delta=design.delta,
                pulls=plan.pulls,
                weights=design.weights,
                value=design.value,
                gap=design.gap,
                stability=design.stability,
            )
        )
        self._active = self._active[~dropped]
        self._open = None
        self._stopped = "max_phase_pulls" if over_cap else self._why_stop(cut_short)

    def _why_stop(self, cut_short: bool) -> str | None:
        if len(self._active) == 1:
            return "identified"
        if cut_short or (self._max_pulls is not None and self._pulls >= self._max_pulls):
            return "max_pulls"
        if self._max_phases is not None and len(self._trace) >= self._max_phases:
            return "max_phases"
        return None

    def recommend(self) -> Recommendation:
        """The empirically best target; final only if all others were eliminated."""
        return Recommendation(
            target=self._leader,
            label=self.problem.target_labels[self._leader],
            final=self._stopped == "identified",
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=None,
            active=tuple(self._active.tolist()),
            trace=tuple(self._trace),
        )

    @abstractmethod
    def _design(self, phase: int, active: Indices) -> Wanted:
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
