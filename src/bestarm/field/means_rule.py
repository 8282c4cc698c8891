"""The base of rules on arm means that choose every pull, and what their kernels share."""

from __future__ import annotations

import math

import numpy as np

from bestarm.checks import interval, positive
from bestarm.field.kernels import compiled
from bestarm.field.pull_by_pull import PullByPull
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_problem


class MeansRule(PullByPull):
    """A rule on arm means: every arm once, then by what it knows of them.

    Args:
        problem: the problem; its targets must be its source arms.
        sigma: the sub-Gaussian scale it assumes of a reward around its arm's mean.
        bounds: if given, the divergence is that of Bernoulli laws, for rewards between these
            bounds; rewards outside are refused.
    """

    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float,
        bounds: tuple[float, float] | None = None,
        max_pulls: int | None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls, opening=np.arange(as_problem(problem).arms))
        self._sigma = positive(sigma, "sigma")
        self._bounds = None if bounds is None else interval(bounds, "bounds")

    def _leader_so_far(self) -> int:
        pulled = np.flatnonzero(self._counts)
        return int(pulled[np.argmax(self._sums[pulled] / self._counts[pulled])])


@compiled
def rate(t: float, constants: tuple[float, ...]) -> float:
    """β(t) = level + power · log t + outer · log(shift + log t): see `bounds.Rate`."""
    level, power, outer, shift = constants
    log = math.log(t)
    if outer == 0:
        return level + power * log
    return level + power * log + outer * math.log(shift + log)


@compiled
def best_mean(means: Array) -> int:
    """The first arm with the best mean."""
    leader = 0
    for a in range(1, len(means)):
        if means[a] > means[leader]:
            leader = a
    return leader
