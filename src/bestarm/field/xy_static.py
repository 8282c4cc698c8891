"""XY-static and XY-oracle: an allocation that does not look at rewards, and a stop that does."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bestarm.checks import vector
from bestarm.field.kernels import compiled, reward_at
from bestarm.field.linear_model import points_of
from bestarm.field.linear_rule import (
    LEADER,
    PULLS,
    LinearRule,
    Model,
    Rule,
    State,
    identified,
    learn,
)
from bestarm.field.pull_by_pull import Rewards
from bestarm.field.thresholds import LinearThreshold, xy_threshold
from bestarm.field.xy_allocation import (
    StaticAllocation,
    greedy_allocation,
    oracle_allocation,
)
from bestarm.numerics.geometry import Indices
from bestarm.problem import Problem, as_problem


class XYStatic(LinearRule):
    """Pulls arms so that all contrasts of targets become known, until the leader is separated.

    The arms pulled first span; every further pull makes the contrast known least as well known as
    one pull can (the greedy XY-allocation). This depends on the features alone. After every pull
    ordinary least squares name a leader, and the rule stops once its lead over each other target is
    at least the width of a confidence interval.

    Proven for rewards x·θ + noise without a baseline. Since the allocation is fixed beforehand,
    each contrast has a sub-Gaussian error, and a union bound over pulls and contrasts does.
    A baseline biases ordinary least squares.

    Args:
        problem: the problem; its scales are not used.
        sigma: the sub-Gaussian scale it assumes of the noise.
        threshold: `"published"` is that of the paper; `"small"` needs about a fifth of the pulls:
            `bounds.xy_threshold` has both, with their proofs.

    Example:
        >>> from bestarm import environments, simulate
        >>> from bestarm.field import XYStatic
        >>> world = environments.small_gap(3, 0.8, baseline=0.0)
        >>> bool(simulate(XYStatic, world, runs=5).correct.all())
        True

    Reference: Soare, Lazaric and Munos (2014), Figure 2.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "small"] = "published",
        max_pulls: int | None = None,
    ) -> None:
        delta, targets = as_problem(problem).delta, problem.targets
        published = xy_threshold(
            sigma=1.0, delta=delta, targets=targets, directions=self._directions(problem)
        )
        small = xy_threshold(sigma=1.0, delta=delta, targets=targets, directions=None)
        super().__init__(
            problem,
            threshold,
            published=_of_statistic(*published),
            others={"small": _of_statistic(*small)},
            sigma=sigma,
            opening=points_of(problem).basis,
            max_pulls=max_pulls,
        )

    def _allocation(self) -> StaticAllocation:
        """What is pulled, in order."""
        return greedy_allocation(self.problem)

    @staticmethod
    def _directions(problem: Problem) -> int:
        """The number of directions that the paper's threshold counts."""
        return problem.targets**2

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        start = int(self._counts.sum())
        arms = self._allocation().first(start + most + 1)
        order = arms[start : start + most].astype(np.int64)
        order[0] = self._next_arm  # maybe of an adopted plan
        pulls, stopped = advance(rewards, self._model, self._state, self._rule, order)
        self._next_arm, self._leader = int(arms[start + pulls]), int(self._state[8][LEADER])
        return pulls, stopped


class XYOracle(XYStatic):
    """The static allocation of an oracle that knows θ; its stop must still be earned by rewards.

    As XY-static, but pulls follow the optimal design for the contrasts z* − z with the best target,
    each over its true gap. It shows what an allocation can gain at best: no experiment knows θ. The
    allocation is fixed, so that the proof of XY-static holds. The target named is that of the
    rewards, and not that of θ. (A greedy allocation would not do: where all
    contrasts share an arm it goes on pulling that one.)

    Args:
        theta: the true parameter, one entry per feature; or a number, if all are equal.
        problem, sigma, threshold: as those of `XYStatic`.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import XYOracle
        >>> policy = XYOracle(Problem([[1, 0], [0, 1], [0.9, 0.1]]), theta=[1, 0])
        >>> policy.plan().pulls
        1

    Reference: Soare, Lazaric and Munos (2014), section 3.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        theta: object,
        sigma: float = 1.0,
        threshold: Literal["published", "small"] = "published",
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, threshold=threshold, max_pulls=max_pulls)
        values = np.full(problem.dimension, theta) if isinstance(theta, int | float) else theta
        self._truth = tuple(vector(values, "theta").tolist())
        oracle_allocation(problem, self._truth)  # refuses what does not fit the problem

    def _allocation(self) -> StaticAllocation:
        return oracle_allocation(self.problem, self._truth)

    @staticmethod
    def _directions(problem: Problem) -> int:
        return problem.targets


def _of_statistic(factor: float, level: float) -> LinearThreshold:
    """factor·(2 log n + level) for (lead/width)², as a threshold of Z = ½ (lead/width)²."""
    return LinearThreshold("log", level / 4, factor=2 * factor)


@compiled
def advance(
    rewards: Rewards, model: Model, state: State, rule: Rule, order: Indices
) -> tuple[int, bool]:
    """Pull in a given order until the leader is separated (eq. 11 and 13), or the order ends.

    Nothing is decided by arms that only just span. Returns the number of pulls, and whether the
    leader is separated.
    """
    for i in range(len(order)):
        above = learn(model, state, order[i], reward_at(rewards, i, order[i]))
        if above and state[8][PULLS] > model[0].shape[1] and identified(model, state, rule):
            return i + 1, True
    return len(order), False
