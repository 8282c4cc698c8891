"""The base of index rules: running arm means, and plans of one round each."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm import bounds
from bestarm.checks import choice, positive, whole
from bestarm.geometry import Array
from bestarm.policies.oneshot.base import require_pullable_targets
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["NO_DRIFT", "IndexRule", "Integers", "Radius", "Rewards"]

Integers = NDArray[np.int64]

NO_DRIFT = "Given the past, an arm's mean reward is its own and never changes: nothing drifts."

_TURN = 300  # pulls; the certified radius is tightest at about ten times as many


class Rewards(NamedTuple):
    """Rewards known ahead: arm a pays `table[rows[i], a] + common[i]` at the i-th pull to come."""

    table: Array
    rows: Integers
    common: Array


class Radius(NamedTuple):
    """The constants of the radius of one arm after n pulls.

    With turn = 0 it is `bounds.lil_radius`: scale = 2σ(1 + √ε), level = δ/K. Otherwise it is
    `bounds.mixture_radius`: scale = σ, level from `bounds.mixture_level`, turn = σ²/v₀.
    """

    scale: float
    level: float
    turn: float


class IndexRule(Policy):
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

    version: ClassVar[int]

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
        choice(radius, ("lil", "certified"), "radius")
        self.problem = problem
        self._certified = radius == "certified"
        self._sigma = positive(sigma, "sigma")
        self._max_pulls = None if max_pulls is None else whole(max_pulls, "max_pulls", least=1)
        self._counts = np.zeros(problem.arms, dtype=np.int64)
        self._sums = np.zeros(problem.arms)
        self._active = np.arange(problem.arms)
        self._rounds = 0
        self._stopped: str | None = None
        self._due: Integers = np.arange(problem.arms)
        self._adopted: Plan | None = None

    @property
    def traits(self) -> Traits:
        """It ignores the baseline, and simulations can make its rounds at once."""
        return Traits(version=self.version, blind=True, max_pulls=self._max_pulls, follows=True)

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

    def plan(self) -> Plan | None:
        """The next round's pulls, or None once the policy has stopped."""
        if self._stopped is not None or self._adopted is not None:
            return self._adopted
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._due[: self._room()]] = 1
        return Plan.fixed(counts, phase=self._rounds + 1)

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: its pulls, whatever was due."""
        phase = None if self._stopped is not None else self._rounds + 1
        self._adopted = check_adoptable(plan, self.problem, phase=phase, kind="fixed")

    def _room(self) -> int:
        """How many of the pulls that are due the cap still allows."""
        if self._max_pulls is None:
            return len(self._due)
        return min(len(self._due), max(0, self._max_pulls - int(self._counts.sum())))

    def update(self, summary: Summary) -> None:
        """Take the outcome of the round, and decide."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        whole_round = plan.pulls >= len(self._due)
        self._adopted = None
        self._counts = self._counts + summary.counts
        self._sums = self._sums + summary.sums
        self._rounds += 1
        if whole_round:
            self._due = self._next()
            if len(self._active) == 1:
                self._stopped = "identified"
        if self._stopped is None and not self._room():
            self._stopped = "max_pulls"

    def follow(self, table: Array, rows: Integers, common: Array) -> tuple[int, int]:
        """Make as many whole rounds as rewards known ahead allow, compiled: for simulations.

        Args:
            table: what arms pay, one column an arm.
            rows: the row of the table that holds at each pull to come.
            common: what is added at each pull to come, whichever arm is pulled.

        Returns:
            The number of pulls made, and of rounds. Both 0 where the next round must be planned:
            the first one, and one that the cap cuts short.
        """
        if self._stopped is not None or self._adopted is not None or not self._rounds:
            return 0, 0
        total = int(self._counts.sum())
        most = len(rows) if self._max_pulls is None else self._max_pulls - total
        self._counts, self._sums = self._counts.copy(), self._sums.copy()
        pulls, rounds = self._rush(Rewards(table, rows, common), most)
        self._rounds += rounds
        if len(self._active) == 1:
            self._stopped = "identified"
        elif self._max_pulls == total + pulls:
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
    def _rush(self, rewards: Rewards, most: int) -> tuple[int, int]:
        """The rule's kernel on `_counts` and `_sums`, in place; sets `_due` and `_active`."""

    def recommend(self) -> Recommendation:
        """The active arm with the best mean; final only if it was shown to be the best."""
        pulled = self._active[self._counts[self._active] > 0]
        means = self._sums[pulled] / self._counts[pulled]
        best = int(pulled[np.argmax(means)]) if len(pulled) else 0
        identified = self._stopped == "identified"
        return Recommendation(
            target=best,
            label=self.problem.target_labels[best],
            final=identified,
            reason=self._stopped or "running",
            pulls=int(self._counts.sum()),
            error_bound=self.problem.delta if self._certified and identified else None,
            active=tuple(self._active.tolist()),
            assumptions=self._assumptions() if self._certified else (),
            claims=self.problem.delta if self._certified else None,
        )

    def _assumptions(self) -> tuple[str, ...]:
        return f"Rewards are {self._sigma:g}-sub-Gaussian around their arm's mean.", NO_DRIFT

    @abstractmethod
    def _next(self) -> Integers:
        """The arms to pull next; shrinks `_active` to one arm once that is shown to be the best."""
