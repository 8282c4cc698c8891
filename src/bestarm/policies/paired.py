"""Paired tests: every arm in every round, until one is shown to be better than each other one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bestarm import bounds as levels
from bestarm.checks import whole
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.bounded import BoundedRule
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Plan, Rounds, Summary

_GROWTH = 0.02  # the rounds of a plan, relative to those before it
_SLACK = 1e-9  # nats: what adding up many logs may round
_EPSILON = float(np.finfo(float).eps)
_MAX_STAKE = 0.9  # of its wealth that a bet may lose
_LEAST_FALL = 16.0  # times the rounding error, below which differences are too small to bet on


class PairedTests(BoundedRule):
    """Pull all arms in every round, and stop when one is shown to be better than each other one.

    This is what one would do by hand, with a test that may be looked at after every round: no arm
    is dropped, and arms are compared within rounds, where whatever they share cancels. For
    comparison with rules that drop arms and choose blocks.

    For every pair of arms a wealth bets against θ_i ≤ θ_j. In round t it is multiplied by
    1 + λ (d − m), where d is the difference of the rewards of i and j, m = 0, and λ ≥ 0 is fixed by
    the rounds before. Arm i is named once its wealth against each of the others has reached
    (K − 1)/δ: a wrong arm is named only if it seems better than the best, which is one of K − 1
    pairs. The stake λ is the mean over the second moment of d − m so far, which nearly makes the
    wealth grow fastest, and at most 0.9 of the wealth is at stake.

    With `items`, rounds are the N items of a finite population, each once, in random order, and θ_i
    is the mean over all of them. Under θ_i ≤ θ_j the differences of the items to come have a mean
    of at most m = −(sum of the differences so far)/(N − t + 1), and their mean is the expected d,
    given the past. When no item is left, the means are known, and the best is named.

    δ-correct for rewards within `bounds`, under every baseline that the arms of a round share (and,
    with `items`, for a random order).

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        bounds: the lowest and the highest reward there can be; one outside is refused.
        items: the number of items of a finite population; None if rounds never run out.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import PairedTests
        >>> PairedTests(Problem(["a", "b", "c"]), bounds=(0, 1)).plan().blocks.tolist()
        [[0, 1, 2]]

    Reference: Waudby-Smith and Ramdas (2024) for the bets (their aGRAPA), and (2020) for items.
    """

    _kind = "randomised"

    def __init__(
        self,
        problem: Problem,
        *,
        bounds: tuple[float, float],
        items: int | None = None,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, bounds=bounds, max_pulls=max_pulls)
        self._items = None if items is None else whole(items, "items", least=1)
        arms = problem.arms
        self._sums = np.zeros(arms)
        self._squares, self._wealth, self._evidence = np.zeros((3, arms, arms))

    def _make_plan(self) -> Plan:
        rounds = min(max(1, int(_GROWTH * self._rounds)), self._rounds_left(0))
        arms = self.problem.arms
        return BlockPlan.drawn([range(arms)], [1.0], rounds, arms=arms, phase=self._plans + 1)

    def _check_adopted(self, plan: Plan) -> None:
        if not isinstance(plan, BlockPlan) or plan.size != self.problem.arms:
            raise ProtocolError(
                f"The plan of phase {plan.phase} does not pull all arms in every round.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made.",
            )
        if self._items is not None and plan.rounds > self._items - self._rounds:
            raise ProtocolError(
                f"The plan of phase {plan.phase} has {plan.rounds} rounds, and "
                f"{self._items - self._rounds} items are left.",
                field="plan",
                value=plan.rounds,
                remedy="Adopt a plan that this policy made, with the same `items`.",
            )

    def _rounds_left(self, pulls: int) -> int:
        left = super()._rounds_left(pulls)
        return left if self._items is None else min(left, self._items - self._rounds)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Bet on every pair."""
        assert isinstance(summary, Rounds)
        outside = (summary.table < self._low) | (summary.table > self._high)
        for _, arm in np.argwhere(outside)[:1]:
            raise self._outside_bounds(int(arm), summary)
        settle(
            summary.table - self._low,
            self._high - self._low,
            self._items or 0,
            self._rounds,
            self._sums,
            self._squares,
            self._wealth,
            self._evidence,
        )
        self._leader = first_largest(self._sums)
        if self._items == self._rounds + plan.rounds:
            return "exact"
        winners = np.flatnonzero(self._exceeds().sum(axis=1) == self.problem.arms - 1)
        if winners.size:
            self._leader = int(winners[0])
            return "identified"
        return None if self._rounds_left(plan.pulls) else "max_pulls"

    def _exceeds(self) -> NDArray[np.bool_]:
        """Whether each arm (row) is shown to be better than each other one (column)."""
        share = levels.contrast_delta(self.problem.delta, active=self.problem.arms)
        return np.asarray(self._evidence >= math.log(1 / share) + _SLACK)

    def _assumptions(self) -> tuple[str, ...]:
        within = f"Every reward lies between {self._low:g} and {self._high:g}."
        if self._items is None:
            return within, "A round adds the same to the reward of every option."
        return within, f"The {self._items} items come in random order, each once."


def settle(
    rewards: Array,
    reach: float,
    items: int,
    rounds: int,
    sums: Array,
    squares: Array,
    wealth: Array,
    evidence: Array,
) -> None:
    """Settle the bets of every pair (i, j) against θ_i ≤ θ_j: see `PairedTests`.

    Args:
        rewards: one row per round, one column per arm, from 0 to `reach`.
        reach: C, the largest difference of two rewards.
        items: N, if rounds are the items of a finite population in random order; 0 if not.
        rounds: t − 1, the number of rounds before.
        sums: Σ r_i over all rounds; changed.
        squares: Σ d² of every pair; changed.
        wealth: the log wealth of every pair; changed.
        evidence: the largest log wealth so far; changed.
    """
    for past, paid in enumerate(rewards, rounds):
        left = float(items - past)
        total, differences = sums[:, None] - sums, paid[:, None] - paid
        # Sums of t numbers up to C are wrong by less than t² ε C.
        rounding = _EPSILON * reach * ((past + 2.0) * (past + 2.0) / left if items else 4.0)
        # m, the largest expected difference under the null, given the past.
        bound = -total / left if items else np.zeros_like(total)
        fall = reach + bound  # C + m: d − m ≥ −fall
        evidence[fall < -rounding] = math.inf  # no differences to come can have so small a sum
        bets = fall > _LEAST_FALL * rounding
        mean = total / (past + 1.0)
        excess = mean - bound
        # The variance in the past, with C² for one round more.
        second = (squares + reach * reach) / (past + 1.0) - mean * mean
        most = _MAX_STAKE / np.where(bets, fall, math.inf)
        stake = np.minimum(np.maximum(excess / (second + excess * excess), 0.0), most)
        wealth += np.log1p(stake * (differences - bound - rounding))
        np.maximum(evidence, wealth, out=evidence, where=bets)
        squares += differences * differences
        sums += paid
