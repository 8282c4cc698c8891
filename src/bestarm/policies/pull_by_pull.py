"""The base of rules that choose every pull from all rewards before it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from bestarm.checks import whole
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import Indices, StepwisePolicy
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem
from bestarm.records import Plan, Summary


class PullByPull(StepwisePolicy):
    """A rule that chooses every pull from all rewards before it.

    Every plan has one pull; simulations make thousands at once (`follow`). Both go through
    `_advance`, which subclasses write, mostly as a compiled loop. They keep the arm of the next
    pull in `_next_arm`, the pulls and the sum of rewards of each arm in `_counts` and `_sums`, and
    in `_leader` the target that they would name.

    Args:
        problem: the problem.
        max_pulls: stop at this many pulls; such a stop is never final.
        budget: stop at this many pulls, because that is all there are; nothing is final.
    """

    _blind = True
    _kind = "fixed"

    def __init__(
        self, problem: Problem, *, max_pulls: int | None = None, budget: int | None = None
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._budget = None if budget is None else whole(budget, "budget", least=1)
        self._counts: Indices = np.zeros(problem.arms, dtype=np.int64)
        self._sums: Array = np.zeros(problem.arms)
        self._next_arm = 0

    @property
    def traits(self) -> Traits:
        """Simulations can make its pulls at once."""
        return replace(super().traits, follows=True, budgeted=self._budget is not None)

    @abstractmethod
    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        """Pull `_next_arm`, decide on the next, and so on; update everything that the rule keeps.

        Args:
            presampled: the rewards of the pulls to come.
            most: how many to make; at least one, and not more than there are rewards.

        Returns:
            The number of pulls made, and whether the rule stopped because it has its answer. It
            makes `most` pulls unless it stops.
        """

    def _make_plan(self) -> Plan:
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._next_arm] = 1
        return Plan.fixed(counts, phase=self._plans + 1)

    def _check_adopted(self, plan: Plan) -> None:
        if plan.pulls != 1:
            raise ProtocolError(
                f"The plan of phase {plan.phase} has {plan.pulls} pulls, and this policy makes "
                "one at a time.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made.",
            )

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        assert plan.counts is not None
        self._next_arm = int(np.argmax(plan.counts))  # the plan may have been adopted
        reward = float(summary.sums[self._next_arm]) + summary.center
        _, identified = self._advance(PresampledRewards.single(reward, self.problem.arms), 1)
        return self._reason(self._pulls + 1, identified)

    def follow(self, presampled: PresampledRewards) -> tuple[int, int]:
        """Make as many pulls as the presampled rewards allow: for simulations.

        Returns:
            The number of pulls made, twice, because each of them is a plan.
        """
        if self._stopped is not None:
            return 0, 0
        if self._open is not None:  # it may have been adopted
            self._next_arm = int(np.argmax(np.asarray(self._open.counts)))
        caps = [cap - self._pulls for cap in (self._max_pulls, self._budget) if cap is not None]
        pulls, identified = self._advance(presampled, min(len(presampled.rows), *caps, 2**62))
        self._plans += pulls
        self._pulls += pulls
        self._rounds += pulls
        self._open = None
        self._stopped = self._reason(self._pulls, identified)
        return pulls, pulls

    def _reason(self, pulls: int, identified: bool) -> str | None:
        """Why to stop after so many pulls, or None."""
        if identified:
            self._active = np.array([self._leader])
            return "identified"
        if pulls == self._budget:
            return "budget"
        return "max_pulls" if pulls == self._max_pulls else None
