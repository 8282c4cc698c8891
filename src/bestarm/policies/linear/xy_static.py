"""XY-static and XY-oracle: an allocation that does not look at rewards, and a stop that does."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive, vector
from bestarm.compiling import compiled
from bestarm.design import complexity
from bestarm.numerics.geometry import Array, linear_span
from bestarm.numerics.linalg import dot, subtract_outer, weighted_sum
from bestarm.policies.linear.linear_rule import linear_assumptions
from bestarm.policies.linear.xy_allocation import (
    REFRESH,
    DesignAllocation,
    GreedyAllocation,
    Order,
    StaticAllocation,
    inverse_of,
    points_of,
)
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.policies.stepwise import Indices
from bestarm.presampled import PresampledRewards, reward_at
from bestarm.problem import Problem

_NEGLIGIBLE = 1e-6  # times the mean weight: left over by the solver, and not worth a pull


class XYStatic(PullByPull):
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
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import environments, simulate
        >>> from bestarm.policies.linear.xy_static import XYStatic
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
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma = sigma
        choice(threshold, ("published", "small"), "threshold")
        self._threshold = bounds.xy_threshold(
            sigma=positive(sigma, "sigma"),
            delta=problem.delta,
            targets=problem.targets,
            directions=self._directions(problem) if threshold == "published" else None,
        )
        self._points = points_of(problem)
        self._columns = np.ascontiguousarray(self._points.targets.T)
        rank = len(self._points.basis)
        scores = np.zeros(problem.targets)
        self._state = np.zeros((rank, rank)), np.zeros(rank), scores, np.array([0.0, 1.0, 0.0])
        self._spanning = False
        self._next_arm = int(self._points.basis[0])

    def _allocation(self) -> StaticAllocation:
        """What is pulled, in order."""
        return _greedy_allocation(self.problem)

    @staticmethod
    def _directions(problem: Problem) -> int:
        """The number of directions that the paper's threshold counts."""
        return problem.targets**2

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        start, parts, done, identified = int(self._counts.sum()), presampled.parts, 0, False
        arms = self._allocation().first(start + most + 1)
        order = arms[start : start + most].copy()
        order[0] = self._next_arm  # maybe of an adopted plan
        while done < most and not identified:
            if not self._spanning:
                self._counts[order[done]] += 1
                self._sums[order[done]] += reward_at(parts, done, order[done])
                self._spanning = self._span()
                done += 1
                continue
            place = (start + done) % REFRESH
            if place == 0:
                self._refresh()
            pulls, identified = _pull_until_separated(
                parts,
                done,
                order[done : done + REFRESH - place],
                (self._points.arms, self._columns),
                (self._counts, self._sums),
                self._state,
                self._threshold,
            )
            done += pulls
        self._next_arm, self._leader = int(arms[start + done]), int(np.argmax(self._state[2]))
        return done, identified

    def _span(self) -> bool:
        """Whether the arms pulled span, from which on θ̂ is kept."""
        arms = self._points.arms[self._counts > 0]
        if len(arms) < arms.shape[1] or linear_span(arms).rank < arms.shape[1]:
            return False
        self._refresh()
        return True

    def _refresh(self) -> None:
        """Compute afresh what the kernel keeps by rank-one updates."""
        arms, (inverse, theta, scores, pair) = self._points.arms, self._state
        inverse[:] = inverse_of(arms, self._counts)
        theta[:] = inverse @ (arms.T @ self._sums)
        scores[:] = theta @ self._columns
        first, second = (int(place) for place in pair[:2])
        contrast = self._points.targets[first] - self._points.targets[second]
        pair[2] = contrast @ inverse @ contrast

    def _assumptions(self) -> tuple[str, ...]:
        return linear_assumptions(self._sigma)


class XYOracle(XYStatic):
    """The static allocation of an oracle that knows θ; its stop must still be earned by rewards.

    As XY-static, but pulls follow the optimal design for the contrasts z* − z with the best target,
    each over its true gap. It shows what an allocation can gain at best: no experiment knows θ. The
    allocation is fixed, so that the proof of XY-static holds. The target named is that of the
    rewards, and not that of θ. (A greedy allocation would not do: where all
    contrasts share an arm it goes on pulling that one.)

    Args:
        problem: the problem; its scales are not used.
        theta: the true parameter, one entry per feature; or a number, if all are equal.
        sigma: the sub-Gaussian scale it assumes of the noise.
        threshold: `"published"` is that of the paper, `"small"` a smaller one with a proof.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.xy_static import XYOracle
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
        seed: int = 0,
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, threshold=threshold, seed=seed, max_pulls=max_pulls)
        values = np.full(problem.dimension, theta) if isinstance(theta, int | float) else theta
        self._truth = tuple(vector(values, "theta").tolist())
        _oracle_allocation(problem, self._truth)  # refuses what does not fit the problem

    def _allocation(self) -> StaticAllocation:
        return _oracle_allocation(self.problem, self._truth)

    @staticmethod
    def _directions(problem: Problem) -> int:
        return problem.targets


@lru_cache(maxsize=8)
def _greedy_allocation(problem: Problem) -> StaticAllocation:
    return GreedyAllocation(problem)


@lru_cache(maxsize=8)
def _oracle_allocation(problem: Problem, theta: tuple[float, ...]) -> StaticAllocation:
    weights = complexity(problem, theta, "linear").weights
    return DesignAllocation(problem, np.where(weights > _NEGLIGIBLE / problem.arms, weights, 0.0))


@compiled
def _pull_until_separated(
    presampled: tuple[Any, ...],
    start: int,
    order: Order,
    points: tuple[Array, Array],
    totals: tuple[Indices, Array],
    state: tuple[Array, Array, Array, Array],
    threshold: tuple[float, float],
) -> tuple[int, bool]:
    """Pull in a given order until one target is shown to be the best, or the order ends.

    Args:
        presampled: the rewards to come.
        start: how many of them were paid for before.
        order: the arms to pull.
        points: arms, one per row, and targets, one per column.
        totals: pulls and sum of rewards of each arm, updated in place.
        state: P; θ̂; z·θ̂ for every target; the leader, a target not separated from it yet and
            ‖z − z′‖² of the two. All are updated in place.
        threshold: the critical value after n pulls is threshold[0]·(2 log n + threshold[1]).

    Returns:
        The number of pulls, and whether a target was shown to be the best.
    """
    arms, targets = points
    counts, sums = totals
    inverse, theta, scores, pair = state
    factor, level = threshold
    gain, moves = np.empty(len(theta)), np.empty(len(scores))
    n = counts.sum()
    for made in range(len(order)):
        arm = order[made]
        reward = reward_at(presampled, start + made, arm)
        counts[arm] += 1
        sums[arm] += reward
        weighted_sum(inverse, arms[arm], gain)
        share = 1 / (1 + dot(arms[arm], gain))
        step = share * (reward - dot(arms[arm], theta))
        weighted_sum(targets, gain, moves)
        for i in range(len(theta)):
            theta[i] += step * gain[i]
        for z in range(len(scores)):
            scores[z] += step * moves[z]
        between = moves[int(pair[0])] - moves[int(pair[1])]
        pair[2] -= share * between * between
        subtract_outer(inverse, gain, gain, share)
        critical = factor * (2 * math.log(n + made + 1) + level)
        if _separated(targets, inverse, scores, pair, critical):
            return made + 1, True
    return len(order), False


@compiled
def _separated(targets: Array, inverse: Array, scores: Array, pair: Array, critical: float) -> bool:
    """Whether the target with the best score is shown to be the best of all (eq. 11 and 13).

    It is once its lead over each other target is at least ‖z − z′‖ √critical under P. The one that
    stood in the way last is looked at first: `pair` holds the two and ‖z − z′‖² under P. `targets`
    has one column per target.
    """
    leader = int(np.argmax(scores))
    lead = scores[leader] - scores[int(pair[1])]
    if leader == pair[0] and (lead <= 0 or lead * lead < critical * pair[2]):
        return False
    pair[0] = leader
    size = len(targets)
    contrast, gain = np.empty(size), np.empty(size)
    for z in range(len(scores)):
        if z == leader:
            continue
        lead = scores[leader] - scores[z]
        for i in range(size):
            contrast[i] = targets[i, leader] - targets[i, z]
        weighted_sum(inverse, contrast, gain)
        width = dot(contrast, gain)
        if not (lead > 0 and lead * lead >= critical * width):  # nor if it is no number
            pair[1], pair[2] = z, width
            return False
    return True
