"""XY-static: an allocation that does not look at rewards, and a stop that does."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from bestarm import bounds
from bestarm.checks import choice, positive
from bestarm.numerics.geometry import linear_span
from bestarm.policies.linear.base import linear_assumptions
from bestarm.policies.linear.orders import (
    RENEWAL,
    FixedOrder,
    GreedyOrder,
    inverse_of,
    points_of,
)
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem


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
        self._due = int(self._points.basis[0])

    def _order(self) -> FixedOrder:
        """What is pulled, in order."""
        return _greedy_order(self.problem)

    @staticmethod
    def _directions(problem: Problem) -> int:
        """The number of directions that the paper's threshold counts."""
        return problem.targets**2

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.linear.xy_kernels import watch  # noqa: PLC0415 - compiles
        from bestarm.presampled import reward_at  # noqa: PLC0415 - compiles

        begun, parts, done, identified = int(self._counts.sum()), presampled.parts, 0, False
        arms = self._order().first(begun + most + 1)
        order = arms[begun : begun + most].copy()
        order[0] = self._due  # maybe of an adopted plan
        while done < most and not identified:
            if not self._spanning:
                self._counts[order[done]] += 1
                self._sums[order[done]] += reward_at(parts, done, order[done])
                self._spanning = self._span()
                done += 1
                continue
            place = (begun + done) % RENEWAL
            if place == 0:
                self._renew()
            pulls, identified = watch(
                parts,
                done,
                order[done : done + RENEWAL - place],
                (self._points.arms, self._columns),
                (self._counts, self._sums),
                self._state,
                self._threshold,
            )
            done += pulls
        self._due, self._leader = int(arms[begun + done]), int(np.argmax(self._state[2]))
        return done, identified

    def _span(self) -> bool:
        """Whether the arms pulled span, from which on θ̂ is kept."""
        arms = self._points.arms[self._counts > 0]
        if len(arms) < arms.shape[1] or linear_span(arms).rank < arms.shape[1]:
            return False
        self._renew()
        return True

    def _renew(self) -> None:
        """Compute afresh what the kernel keeps by rank-one updates."""
        arms, (inverse, theta, scores, pair) = self._points.arms, self._state
        inverse[:] = inverse_of(arms, self._counts)
        theta[:] = inverse @ (arms.T @ self._sums)
        scores[:] = theta @ self._columns
        first, second = (int(place) for place in pair[:2])
        apart = self._points.targets[first] - self._points.targets[second]
        pair[2] = apart @ inverse @ apart

    def _assumptions(self) -> tuple[str, ...]:
        return linear_assumptions(self._sigma)


@lru_cache(maxsize=8)
def _greedy_order(problem: Problem) -> FixedOrder:
    return GreedyOrder(problem)
