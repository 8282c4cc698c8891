"""How much better the named target is than a control that was named beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.bounds import control_shares
from bestarm.checks import suggestion
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.batches import AnyBatch, AnyFrame
from bestarm.policies.anytime.bets import StakeGrid
from bestarm.policies.anytime.intervals import lower_ends
from bestarm.policies.anytime.rates import complete, mean_level
from bestarm.problem import Problem
from bestarm.recommendation import Effect


def find_control(problem: Problem, control: object, *, names: int) -> int:
    """The index of the target with this name, if the policy names one target."""
    labels = problem.target_labels
    if names > 1:
        raise InvalidInputError(
            "Effects against a control are of one named option, not of several.",
            field="control",
            value=control,
            remedy="Leave `top` or `control` out.",
        )
    if str(control) not in labels:
        raise InvalidInputError(
            f"There is no option {control!r}.",
            field="control",
            value=control,
            remedy=suggestion(str(control), labels) or f"The options are {', '.join(labels)}.",
        )
    return labels.index(str(control))


class ControlEffect:
    """Bounds on the lead of targets over the control, at every moment at once.

    Attributes:
        control: the index of the control.
        shares: what of δ is spent on what.

    Args:
        problem: the problem.
        control: the index of the control.
        arms: the source arms, in coordinates of their span.
        targets: the targets, in the same coordinates up to a shift.
        grid: the stakes.
    """

    def __init__(
        self, problem: Problem, control: int, arms: Array, targets: Array, grid: StakeGrid
    ) -> None:
        self.control = control
        self.shares = control_shares(problem.delta, targets=problem.targets)
        self._problem, self._arms, self._targets = problem, arms, targets
        self._grid = grid

    def effect(
        self,
        target: int,
        slope: Array,
        past: Sequence[AnyBatch],
        *,
        learned: int,
        margin: float | None,
    ) -> Effect:
        """The lead of a target over the control.

        Args:
            target: the target.
            slope: θ̂.
            past: the batches so far.
            learned: how many of the first batches θ̂ rests on; they have at least one outcome.
            margin: how much worse than the best the target may be, by the decision; None if it is
                not decided.
        """
        label = self._problem.target_labels[self.control]
        if target == self.control:
            return Effect(self.control, label, 0.0, 0.0, 0.0)
        contrast = self._targets[target] - self._targets[self.control]
        level = -math.log(self.shares.pair)
        low, high = lower_ends(np.stack([contrast, -contrast]), past, level=level, grid=self._grid)
        lower, upper = float(low), -float(high)
        if margin is not None:
            # By the decision, the target is at most `margin` worse than the best.
            lower = max(lower, max(self.behind(past), 0.0) - margin)
        upper = max(upper, lower)
        estimate = min(max(float(contrast @ slope), lower), upper)
        mean = self._mean_reward(slope, past[:learned])
        relative = estimate / mean if mean is not None and mean > 0 else None
        return Effect(self.control, label, estimate, lower, upper, relative)

    def behind(self, past: Sequence[AnyBatch]) -> float:
        """A lower bound on how far the control is behind the best target.

        While max over o of (o − c)·θ ≤ m, bets against (o − c)·θ ≤ m are fair or worse whoever
        the opponents are, so no union over targets is needed. −∞ if there is no evidence yet.
        """
        level = -math.log(self.shares.behind)
        return float(lower_ends(self._against_leader, past, level=level, grid=self._grid)[0])

    def _against_leader(self, frame: AnyFrame) -> Array:
        """The contrast of the leader of the time to the control; of the runner-up to itself."""
        leader, second = frame.leaders
        opponent = second if leader == self.control else leader
        return np.asarray(self._targets[[opponent]] - self._targets[self.control])

    def _mean_reward(self, slope: Array, past: Sequence[AnyBatch]) -> float | None:
        """The estimated mean reward of the control over these batches, if it can be pulled."""
        features = self._problem.target[self.control]
        same = np.flatnonzero((self._problem.source == features).all(axis=1))
        if not len(same):
            return None
        return mean_level(complete(past), self._arms, slope) + float(self._arms[same[0]] @ slope)
