"""The base of index rules: running arm means, and plans of one round each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Traits, same_plan
from bestarm.policies.stepwise import (
    Indices,
    StepwisePolicy,
    require_pullable_targets,
    sub_gaussian_assumptions,
)
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_TURN = 300.0  # pulls; the certified radius is tightest at about ten times as many


class Radius(NamedTuple):
    """The constants of the radius of one arm after n pulls.

    With turn = 0 it is `bounds.lil_radius`: scale = 2σ(1 + √ε), level = δ/K. Otherwise it is
    `bounds.mixture_radius`: scale = σ, level from `bounds.mixture_level`, turn = σ²/v₀.
    """

    scale: float
    level: float
    turn: float


class IndexRule(StepwisePolicy):
    """A policy that decides after every round from the means of all pulls so far.

    The first round pulls every arm once. After each round, `_next` says which arms to pull next,
    or that one arm is shown to be the best.

    Args:
        problem: the problem; its targets must be its source arms.
        sigma: the sub-Gaussian scale it assumes of a reward around its arm's mean.
        radius: `"lil"` is the published radius, `"certified"` one with a proof at level δ.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.
    """

    _blind = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        radius: Literal["lil", "certified"] = "lil",
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        require_pullable_targets(problem, type(self).__name__)
        super().__init__(problem, max_pulls=max_pulls)
        choice(radius, ("lil", "certified"), "radius")
        self._certified = radius == "certified"
        self._sigma = positive(sigma, "sigma")
        self._counts = np.zeros(problem.arms, dtype=np.int64)
        self._sums = np.zeros(problem.arms)
        self._due: Indices = np.arange(problem.arms)

    @property
    def traits(self) -> Traits:
        """It ignores the baseline, and simulations can make its rounds at once."""
        return replace(super().traits, follows=True)

    @property
    def _means(self) -> Array:
        """Arm means, once every arm was pulled."""
        return self._sums / self._counts

    def _radii(self) -> Array:
        if self._certified:
            variance = self._sigma**2 / self._counts
            reference = np.asarray(self._sigma**2 / _TURN)
            return bounds.mixture_radius(variance, delta=self._share(), reference=reference)
        return bounds.lil_radius(
            self._counts, sigma=self._sigma, delta=self.problem.delta, arms=self.problem.arms
        )

    def _share(self) -> float:
        """The part of δ that each of the certified radii may spend."""
        return bounds.arm_delta(self.problem.delta, arms=self.problem.arms)

    def _make_plan(self) -> Plan:
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._due[: self._left()]] = 1
        return Plan.fixed(counts, phase=self._plans + 1)

    def _take(self, plan: Plan, summary: Summary) -> str | None:
        """Decide, if the round was whole."""
        whole_round = plan.pulls >= len(self._due)
        self._counts = self._counts + summary.counts
        self._sums = self._sums + summary.sums
        if whole_round:
            self._due = self._next()
        self._lead()
        if len(self._active) == 1:
            return "identified"
        left = self._left()
        return None if left is None or left > plan.pulls else "max_pulls"

    def _lead(self) -> None:
        """Find the active arm with the best mean."""
        pulled = self._active[self._counts[self._active] > 0]
        if len(pulled):
            self._leader = int(pulled[np.argmax(self._sums[pulled] / self._counts[pulled])])

    def follow(self, presampled: PresampledRewards) -> tuple[int, int]:
        """Make as many whole rounds as rewards known ahead allow, compiled: for simulations.

        Returns:
            The number of pulls made, and of rounds. Both 0 where the next round must be planned:
            the first one, and one that the cap cuts short.
        """
        left, plan = self._left(), self._open
        if self._stopped is not None or not self._plans:
            return 0, 0
        if plan is not None and not same_plan(plan, self._make_plan()):
            return 0, 0  # it was adopted
        most = len(presampled.rows) if left is None else left
        self._counts, self._sums = self._counts.copy(), self._sums.copy()
        pulls, rounds = self._rush(presampled, most)
        self._plans += rounds
        self._pulls += pulls
        self._rounds += pulls
        self._open = None
        self._lead()
        if len(self._active) == 1:
            self._stopped = "identified"
        elif left == pulls:
            self._stopped = "max_pulls"
        return pulls, rounds

    @property
    def _radius(self) -> Radius:
        """The constants of the radius, as the kernels take them."""
        if self._certified:
            return Radius(self._sigma, bounds.mixture_level(self._share()), _TURN)
        factor, share = bounds.lil_constants(
            sigma=self._sigma, delta=self.problem.delta, arms=self.problem.arms
        )
        return Radius(factor, share, 0.0)

    @abstractmethod
    def _rush(self, presampled: PresampledRewards, most: int) -> tuple[int, int]:
        """The rule's kernel on `_counts` and `_sums`, in place; sets `_due` and `_active`."""

    def _assumptions(self) -> tuple[str, ...]:
        if not self._certified:
            return ()
        return sub_gaussian_assumptions(self._sigma)

    @abstractmethod
    def _next(self) -> Indices:
        """The arms to pull next; shrinks `_active` to one arm once that is shown to be the best."""
