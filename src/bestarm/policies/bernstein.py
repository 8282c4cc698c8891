"""Elimination on arm means with the variance there is: empirical Bernstein, bounded rewards."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bestarm import bounds as levels
from bestarm.checks import positive
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.bounded import BoundedRule
from bestarm.policies.stepwise import NO_DRIFT
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_REFERENCE = 30.0  # in squares of the range: the evidence is strongest at about ten times as much
_EPSILON = float(np.finfo(float).eps)


class BernsteinElimination(BoundedRule):
    """Pull every active arm equally often, and drop those that the leader is shown to exceed.

    Each batch pulls every active arm equally often. Afterwards an arm is dropped if the evidence
    that the leader's mean exceeds its mean reaches (K − 1)/δ: the best arm is lost only if one of
    the K − 1 others seems better. The evidence knows the rewards' variance from the rewards, so
    that bounds far wider than the spread cost little, and it may be looked at after every batch.

    δ-correct, with nothing to tune, for rewards within `bounds` whose mean given the past is the
    arm's own and never changes: **only without a drift**. Arms are pulled side by side, so that a
    slow drift hits them alike; one that keeps time with the rounds, or reacts to the past, decides
    the outcome, whatever `error_bound` says.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        bounds: the lowest and the highest reward there can be; one outside is refused.
        growth: a batch's pulls of an arm, as a part of those before it.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import BernsteinElimination
        >>> policy = BernsteinElimination(Problem(["a", "b", "c"]), bounds=(0, 1))
        >>> policy.plan().counts.tolist()
        [1, 1, 1]

    Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), Theorem 4.
    """

    version: ClassVar[int] = 2
    _blind = True
    _kind = "fixed"

    def __init__(
        self,
        problem: Problem,
        *,
        bounds: tuple[float, float],
        growth: float = 0.05,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, bounds=bounds, max_pulls=max_pulls)
        self._center = self._low / 2 + self._high / 2
        self._growth = positive(growth, "growth")
        self._pulls_per_arm = 0  # pulls of every active arm
        self._sums = np.zeros(problem.arms)
        self._variation = np.zeros(problem.arms)
        self._rounding = np.zeros(problem.arms)  # how far off the sums may be

    def _make_plan(self) -> Plan:
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        growth = int(self._growth * self._pulls_per_arm)
        counts[self._active] = min(max(1, growth), self._rounds_left(0))
        return Plan.fixed(counts, phase=self._plans + 1, center=self._center)

    def _check_adopted(self, plan: Plan) -> None:
        assert plan.counts is not None
        each = plan.counts[self._active]
        if each.min() != each.max() or not each[0]:
            raise ProtocolError(
                f"The plan of phase {plan.phase} does not pull every active arm equally often.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made, after the same summaries.",
            )

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Drop the arms that are shown not to be the best."""
        self._check_bounds(summary)
        self._variation = self._variation + self._squared_errors(summary)
        self._sums = self._sums + summary.sums + (summary.center - self._center) * summary.counts
        self._rounding = self._rounding + self._rounding_error(summary)
        self._pulls_per_arm += int(summary.counts[self._active[0]])
        self._active = self._active[~self._exceeded()]
        self._leader = int(self._active[np.argmax(self._sums[self._active])])
        if len(self._active) == 1:
            return "identified"
        return None if self._rounds_left(plan.pulls) else "max_pulls"

    def _check_bounds(self, summary: Summary) -> None:
        """Raise where the totals show a reward outside the bounds."""
        counts, sums, squares = summary.counts, summary.sums, summary.squares
        low, high = self._low - summary.center, self._high - summary.center
        # Where all rewards are inside, Σ (r − low)(high − r) is not negative.
        inside = (low + high) * sums - squares - low * high * counts
        slack = 1e-9 * (squares + max(low * low, high * high) * counts)
        wrong = np.flatnonzero((inside < -slack) & (counts > 0))
        if wrong.size:
            raise self._outside_bounds(int(wrong[0]), summary)

    def _squared_errors(self, summary: Summary) -> Array:
        """Σ (r − prediction)² of each arm over the batch, predicted by its mean before."""
        predicted = self._predicted() - (summary.center - self._center)
        exact = summary.squares - predicted * (2 * summary.sums - predicted * summary.counts)
        parts = summary.squares + predicted * predicted * summary.counts
        return np.maximum(exact + (summary.counts + 16) * _EPSILON * parts, 0.0)

    def _predicted(self) -> Array:
        """The expected reward of each arm, relative to the center: its mean so far."""
        if not self._pulls_per_arm:
            return np.zeros(self.problem.arms)
        low, high = self._low - self._center, self._high - self._center
        return np.clip(self._sums / self._pulls_per_arm, low, high)

    def _rounding_error(self, summary: Summary) -> Array:
        """How far off a batch's sums may be, and adding them to those before.

        As for the batches of the anytime rule, of which the docstring has the argument.
        """
        shift = abs(summary.center - self._center)
        parts = summary.squares + shift * shift * summary.counts
        here = (summary.counts + 16) * np.sqrt(summary.counts * parts)
        return np.asarray(_EPSILON * (here + np.abs(self._sums)))

    def _evidence(self) -> Array:
        """The log of the evidence, against each active arm, that the leader's mean exceeds its."""
        sums, variation = self._sums[self._active], self._variation[self._active]
        rounding = self._rounding[self._active]
        leader = int(np.argmax(sums))
        reach = self._high - self._low
        return levels.bernstein_evidence(
            sums[leader] - sums - rounding[leader] - rounding,
            variation[leader] + variation,
            reach=reach,
            reference=_REFERENCE * reach**2,
        )

    def _exceeded(self) -> NDArray[np.bool_]:
        """Which active arms the leader is shown to exceed."""
        share = levels.contrast_delta(self.problem.delta, active=self.problem.arms)
        exceeded = self._evidence() >= math.log(1 / share)
        exceeded[np.argmax(self._sums[self._active])] = False
        return np.asarray(exceeded)

    def _assumptions(self) -> tuple[str, ...]:
        return f"Every reward lies between {self._low:g} and {self._high:g}.", NO_DRIFT
