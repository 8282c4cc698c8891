"""What rules share that choose every pull from arm means and counts alone."""

from __future__ import annotations

import math
from dataclasses import replace

from bestarm.checks import interval, positive
from bestarm.compiling import compiled
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Traits
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.policies.stepwise import Indices, require_pullable_targets
from bestarm.problem import Problem


class MeansRule(PullByPull):
    """A rule on arm means: every arm once, then by what it knows of them.

    Args:
        problem: the problem; its targets must be its source arms.
        sigma: the sub-Gaussian scale it assumes of a reward around its arm's mean.
        bounds: if given, the divergence is that of Bernoulli laws, for rewards between these
            bounds; rewards outside are refused.
        max_pulls: stop at this many pulls; such a stop is never final.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float,
        bounds: tuple[float, float] | None = None,
        max_pulls: int | None,
    ) -> None:
        require_pullable_targets(problem, type(self).__name__)
        super().__init__(problem, max_pulls=max_pulls)
        self._sigma = positive(sigma, "sigma")
        self._bounds = None if bounds is None else interval(bounds, "bounds")

    @property
    def traits(self) -> Traits:
        """With bounds, it refuses rewards outside."""
        return replace(super().traits, bounds=self._bounds)

    def _require_within(self, pulls: int) -> None:
        """Raise if a loop reports a negative number of pulls: it refused a reward."""
        if pulls < 0:
            assert self._bounds is not None
            low, high = self._bounds
            raise InvalidInputError(
                f"A reward lies outside the bounds ({low:g}, {high:g}).",
                field="summary",
                value=self._bounds,
                remedy="Give `bounds` that no reward can exceed.",
            )


@compiled
def rate(t: float, constants: tuple[float, ...]) -> float:
    """β(t) = level + power · log t + outer · log(shift + log t): see `bounds.Rate`."""
    level, power, outer, shift = constants
    log = math.log(t)
    if outer == 0:
        return level + power * log
    return level + power * log + outer * math.log(shift + log)


@compiled
def first_without_pulls(counts: Indices) -> int:
    """The first arm without pulls, or −1."""
    for a in range(len(counts)):
        if counts[a] == 0:
            return a
    return -1


@compiled
def best_mean(means: Array, counts: Indices) -> int:
    """The first arm with the best mean, of those that were pulled; 0 if none was."""
    leader = 0
    for a in range(1, len(means)):
        if counts[a] > 0 and (means[a] > means[leader] or counts[leader] == 0):
            leader = a
    return leader
