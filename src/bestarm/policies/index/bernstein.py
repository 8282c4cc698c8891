"""Elimination on arm means with the variance there is: empirical Bernstein, bounded rewards."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bestarm import bounds as levels
from bestarm.checks import interval, positive, whole
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.geometry import Array
from bestarm.policies.index.base import NO_DRIFT
from bestarm.policies.oneshot.base import require_pullable_targets
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["BernsteinElimination"]

_REFERENCE = 30.0  # in squares of the range: the evidence is strongest at about ten times as much
_EPSILON = float(np.finfo(float).eps)


class BernsteinElimination(Policy):
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
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies import BernsteinElimination
        >>> BernsteinElimination(Problem(np.eye(3)), bounds=(0, 1)).plan().counts.tolist()
        [1, 1, 1]

    Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), Theorem 4.
    """

    version: ClassVar[int] = 2

    def __init__(
        self,
        problem: Problem,
        *,
        bounds: tuple[float, float],
        growth: float = 0.05,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        require_pullable_targets(problem, type(self).__name__)
        self.problem = problem
        self._low, self._high = interval(bounds, "bounds")
        self._center = self._low / 2 + self._high / 2
        self._growth = positive(growth, "growth")
        self._max_pulls = None
        if max_pulls is not None:
            self._max_pulls = whole(max_pulls, "max_pulls", least=problem.arms)
        self._active: NDArray[np.int64] = np.arange(problem.arms)
        self._each = 0  # pulls of every active arm
        self._pulls = 0
        self._sums = np.zeros(problem.arms)
        self._variation = np.zeros(problem.arms)
        self._rounding = np.zeros(problem.arms)  # how far off the sums may be
        self._batches = 0
        self._adopted: Plan | None = None
        self._stopped: str | None = None

    @property
    def traits(self) -> Traits:
        """It ignores the baseline, and refuses rewards outside its bounds."""
        return Traits(
            version=self.version,
            blind=True,
            bounds=(self._low, self._high),
            max_pulls=self._max_pulls,
        )

    def plan(self) -> Plan | None:
        """The next batch, or None once the policy has stopped."""
        if self._stopped is not None or self._adopted is not None:
            return self._adopted
        counts = np.zeros(self.problem.arms, dtype=np.int64)
        counts[self._active] = min(max(1, int(self._growth * self._each)), self._room())
        return Plan.fixed(counts, phase=self._batches + 1, center=self._center)

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: as many pulls of every active arm as it has."""
        phase = None if self._stopped is not None else self._batches + 1
        check_adoptable(plan, self.problem, phase=phase, kind="fixed")
        assert plan.counts is not None
        each = plan.counts[self._active]
        if each.min() != each.max() or not each[0]:
            raise ProtocolError(
                f"The plan of phase {plan.phase} does not pull every active arm equally often.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made, after the same summaries.",
            )
        self._adopted = plan

    def _room(self) -> int:
        """How many pulls of every active arm the cap still allows."""
        most = 2**53 if self._max_pulls is None else self._max_pulls - self._pulls
        return max(0, most) // len(self._active)

    def update(self, summary: Summary) -> None:
        """Take the outcome of the batch, and drop the arms that are shown not to be the best."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        self._check_bounds(summary)
        self._variation = self._variation + self._distances(summary)
        self._sums = self._sums + summary.sums + (summary.center - self._center) * summary.counts
        self._rounding = self._rounding + self._lost_digits(summary)
        self._each += int(summary.counts[self._active[0]])
        self._pulls += plan.pulls
        self._batches += 1
        self._adopted = None
        self._active = self._active[~self._beaten()]
        if len(self._active) == 1:
            self._stopped = "identified"
        elif not self._room():
            self._stopped = "max_pulls"

    def _check_bounds(self, summary: Summary) -> None:
        """Raise where the totals show a reward outside the bounds."""
        counts, sums, squares = summary.counts, summary.sums, summary.squares
        low, high = self._low - summary.center, self._high - summary.center
        # Where all rewards are inside, Σ (r − low)(high − r) is not negative.
        inside = (low + high) * sums - squares - low * high * counts
        slack = 1e-9 * (squares + max(low * low, high * high) * counts)
        wrong = np.flatnonzero((inside < -slack) & (counts > 0))
        if wrong.size:
            label = self.problem.source_labels[wrong[0]]
            raise InvalidInputError(
                f"Arm {label!r} paid a reward outside the bounds ({self._low:g}, {self._high:g}).",
                field="summary",
                value=summary,
                remedy="Give `bounds` that no reward can exceed.",
            )

    def _distances(self, summary: Summary) -> Array:
        """Σ (r − guess)² of each arm over the batch; the guess is the arm's mean before it."""
        guess = self._guess() - (summary.center - self._center)
        exact = summary.squares - guess * (2 * summary.sums - guess * summary.counts)
        parts = summary.squares + guess * guess * summary.counts
        return np.maximum(exact + (summary.counts + 16) * _EPSILON * parts, 0.0)

    def _guess(self) -> Array:
        """The expected reward of each arm, relative to the center: its mean so far."""
        if not self._each:
            return np.zeros(self.problem.arms)
        return np.clip(self._sums / self._each, self._low - self._center, self._high - self._center)

    def _lost_digits(self, summary: Summary) -> Array:
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

    def _beaten(self) -> NDArray[np.bool_]:
        """Which active arms the leader is shown to exceed."""
        share = levels.contrast_delta(self.problem.delta, active=self.problem.arms)
        beaten = self._evidence() >= math.log(1 / share)
        beaten[np.argmax(self._sums[self._active])] = False
        return np.asarray(beaten)

    def recommend(self) -> Recommendation:
        """The active arm with the best mean; final only if it was shown to be the best."""
        best = int(self._active[np.argmax(self._sums[self._active])])
        identified = self._stopped == "identified"
        return Recommendation(
            target=best,
            label=self.problem.target_labels[best],
            final=identified,
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=self.problem.delta if identified else None,
            active=tuple(self._active.tolist()),
            assumptions=(
                f"Every reward lies between {self._low:g} and {self._high:g}.",
                NO_DRIFT,
            ),
            claims=self.problem.delta,
        )
