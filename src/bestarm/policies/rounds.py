"""The base of rules on arm means that pull a few arms per round: LUCB and action elimination."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.stepwise import StepwisePolicy, sub_gaussian_assumptions
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_RHO = 300.0  # pulls; the certified radius is tightest at about ten times as many


class Radius(NamedTuple):
    """The radius of the mean of one arm, by its number of pulls.

    With ρ = 0 it is `bounds.lil_radius`, with scale = 2σ(1 + √ε) and level = δ/K. Otherwise it is
    `bounds.mixture_radius`, with scale = σ, level from `bounds.mixture_level` and ρ = σ²/v₀.
    """

    scale: float
    level: float
    rho: float

    def after(self, pulls: Indices) -> Array:
        """The radii after these numbers of pulls."""
        scale, level, rho = self
        n = np.asarray(pulls, dtype=float)
        if rho == 0:  # 2σ(1 + √ε) √((1 + ε) log(log((1 + ε)n + 2) / (δ/K)) / (2n)), ε = 0.01
            return np.asarray(scale * np.sqrt(1.01 * np.log(np.log(1.01 * n + 2) / level) / n / 2))
        # σ √((1 + ρ/n) (2 log(1/(2δ′c)) + log(1 + n/ρ)) / n)
        return np.asarray(scale * np.sqrt((1 + rho / n) * (level + np.log1p(n / rho)) / n))


class RoundRule(StepwisePolicy):
    """A policy that decides after every round from the means of all pulls so far.

    The first round pulls every arm once. Every other one is decided on by `_decide`.

    Args:
        problem: the problem; its targets must be its source arms.
        sigma: the sub-Gaussian scale it assumes of a reward around its arm's mean.
        radius: `"lil"` is the published radius, `"certified"` one with a proof at level δ.
    """

    _blind = True
    _kind = "fixed"
    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        radius: Literal["lil", "certified"] = "lil",
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        choice(radius, ("lil", "certified"), "radius")
        self._certified = radius == "certified"
        self._sigma = positive(sigma, "sigma")
        self._counts = np.zeros(problem.arms, dtype=np.int64)
        self._sums = np.zeros(problem.arms)
        self._round: Indices = np.arange(problem.arms)  # the arms to pull next
        if self._certified:
            self._radius = Radius(self._sigma, bounds.mixture_level(self._share()), _RHO)
        else:
            scale, level = bounds.lil_constants(
                sigma=self._sigma, delta=problem.delta, arms=problem.arms
            )
            self._radius = Radius(scale, level, 0.0)

    def _share(self) -> float:
        """The part of δ that each of the certified radii may spend."""
        return bounds.arm_delta(self.problem.delta, arms=self.problem.arms)

    def _make_plan(self) -> Plan:
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._round[: self._pulls_left()]] = 1
        return Plan.fixed(counts, phase=self._plans + 1)

    @abstractmethod
    def _decide(self) -> None:
        """Decide on the next round: set `_round`, and `_active` to one arm once that is the best.

        Deciding twice on the same pulls must change nothing.
        """

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Decide, if the round was whole."""
        self._counts = self._counts + summary.counts
        self._sums = self._sums + summary.sums
        if plan.pulls >= len(self._round):
            self._decide()
        return self._reason()

    def _reason(self) -> str | None:
        """Find the leader; whether it is identified."""
        pulled = self._active[self._counts[self._active] > 0]
        if len(pulled):
            self._leader = int(pulled[np.argmax(self._sums[pulled] / self._counts[pulled])])
        return "identified" if len(self._active) == 1 else None

    def _assumptions(self) -> tuple[str, ...]:
        return sub_gaussian_assumptions(self._sigma) if self._certified else ()
