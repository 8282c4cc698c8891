"""The base of rules that choose every pull from all rewards before it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

if TYPE_CHECKING:
    from bestarm.presampled import AdversaryPast, PresampledRewards

# Rewards of the pulls to come: as the i-th of them, arm a pays table[rows[i], a] + common[i]. The
# table is read-only: kernels are compiled again for one that is not.
Rewards = tuple[Array, Indices, Array]


def rest_of(rewards: Rewards, pulls: int) -> Rewards:
    """What is left of them after so many pulls."""
    table, rows, common = rewards
    return table, rows[pulls:], common[pulls:]


def _read_only(table: Array) -> Array:
    view = table.view()
    view.flags.writeable = False
    return view


class PullByPull(StepwisePolicy):
    """A rule that chooses every pull from all rewards before it.

    Every plan has one pull; simulations make thousands at once (`run_presampled`). Both go through
    `_advance`, which subclasses write, mostly as a compiled loop. They keep the arm of the next
    pull in `_next_arm`, the pulls and the sum of rewards of each arm in `_counts` and `_sums`, and
    in `_leader` the target that they would name.

    Args:
        problem: the problem.
        max_pulls: stop at this many pulls; such a stop is never final.
        budget: stop at this many pulls, because that is all there are; nothing is final.
        opening: arms to pull once, in this order, before the rule decides.
    """

    _blind = True
    _runs_presampled = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        max_pulls: int | None = None,
        budget: int | None = None,
        opening: Indices | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls, budget=budget)
        self._counts: Indices = np.zeros(problem.arms, dtype=np.int64)
        self._sums: Array = np.zeros(problem.arms)
        self._opening = np.empty(0, dtype=np.int64) if opening is None else opening
        self._next_arm = 0 if opening is None else int(opening[0])

    @abstractmethod
    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        """Pull `_next_arm`, decide on the next, and so on; update everything that the rule keeps.

        After the first of these pulls every arm of the opening was pulled.

        Args:
            rewards: the rewards of the pulls to come.
            most: how many to make; at least one, and not more than there are rewards.

        Returns:
            The number of pulls made, and whether the rule stopped because it has its answer. It
            makes `most` pulls unless it stops.
        """

    def _open_and_advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        """Make the pulls of the opening, but for its last, and those that the rule decides on."""
        table, rows, common = rewards
        opened = 0
        while opened < most:
            missing = self._opening[self._counts[self._opening] == 0]
            missing = missing[missing != self._next_arm]
            if not len(missing):
                break
            reward = float(table[rows[opened], self._next_arm] + common[opened])
            if self._bounds is not None and not self._bounds[0] <= reward <= self._bounds[1]:
                raise self._outside_bounds()
            self._sums[self._next_arm] += reward
            self._counts[self._next_arm] += 1
            self._next_arm = int(missing[0])
            opened += 1
        if opened == most:
            self._leader = self._leader_so_far()
            return opened, False
        pulls, identified = self._advance(rest_of(rewards, opened), most - opened)
        if identified:
            self._active = np.array([self._leader])
        return opened + pulls, identified

    def _leader_so_far(self) -> int:
        """The target that leads during the opening."""
        return self._leader

    def _outside_bounds(self) -> InvalidInputError:
        """What is raised for a reward outside the bounds."""
        assert self._bounds is not None
        return InvalidInputError(
            "A reward lies outside the bounds ({:g}, {:g}).".format(*self._bounds),
            field="summary",
            value=self._bounds,
            remedy="Give `bounds` that no reward can exceed.",
        )

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
        return "identified" if self._pull_once(reward) else None

    def _pull_once(self, reward: float) -> bool:
        """Pull `_next_arm` for this reward; whether the rule has its answer."""
        table = _read_only(np.zeros((1, self.problem.arms)))
        rewards = table, np.zeros(1, dtype=np.int64), np.array([reward])
        return self._open_and_advance(rewards, 1)[1]

    def run_presampled(self, presampled: PresampledRewards) -> tuple[int, int]:
        """Make as many pulls as the presampled rewards allow: for simulations.

        Returns:
            The number of pulls made, twice, because each of them is a plan.
        """
        if self._stopped is not None:
            return 0, 0
        if self._open is not None:  # it may have been adopted
            self._next_arm = int(np.argmax(np.asarray(self._open.counts)))
        most = min(len(presampled.rows), self._pulls_left())
        rewards = _read_only(presampled.table), presampled.rows, presampled.common
        if presampled.past is None:
            pulls, identified = self._open_and_advance(rewards, most)
        else:
            pulls, identified = self._pull_against(presampled.past, rewards, most)
        self._note_answered(self._counts)
        self._end_plans(pulls, pulls, pulls, "identified" if identified else None)
        return pulls, pulls

    def _pull_against(
        self, adversary: AdversaryPast, rewards: Rewards, most: int
    ) -> tuple[int, bool]:
        """As `_open_and_advance`, but pull by pull: the adversary reacts to each of them."""
        table, rows, common = rewards
        for i in range(most):
            arm = self._next_arm
            reward = adversary.respond(np.array([arm]), table[rows[i], arm] + common[i : i + 1])
            if self._pull_once(float(reward[0])):
                return i + 1, True
        return most, False
