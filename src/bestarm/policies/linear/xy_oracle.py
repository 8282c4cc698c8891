"""XY-oracle: told θ, it pulls what separates the best target soonest."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from bestarm.checks import vector
from bestarm.design import complexity
from bestarm.policies.linear.orders import DesignOrder, FixedOrder
from bestarm.policies.linear.xy_static import XYStatic
from bestarm.problem import Problem

_DUST = 1e-6  # times the mean weight: left over by the solver, and not worth a pull


class XYOracle(XYStatic):
    """The static allocation of an oracle that knows θ; its stop must still be earned by rewards.

    As XY-static, but pulls follow the optimal design for the contrasts z* − z with the best target,
    each over its true gap. It shows what an allocation can gain at best: no experiment knows θ. The
    allocation is fixed, so that the proof of XY-static holds. The target named is that of the
    rewards, and not what the oracle was told. (A greedy allocation would not do: where all
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
        >>> from bestarm.policies.linear.xy_oracle import XYOracle
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
        told = np.full(problem.dimension, theta) if isinstance(theta, int | float) else theta
        self._truth = tuple(vector(told, "theta").tolist())
        _oracle_order(problem, self._truth)  # refuses what does not fit the problem

    def _order(self) -> FixedOrder:
        return _oracle_order(self.problem, self._truth)

    @staticmethod
    def _directions(problem: Problem) -> int:
        return problem.targets


@lru_cache(maxsize=8)
def _oracle_order(problem: Problem, theta: tuple[float, ...]) -> FixedOrder:
    weights = complexity(problem, theta, "linear").weights
    return DesignOrder(problem, np.where(weights > _DUST / problem.arms, weights, 0.0))
