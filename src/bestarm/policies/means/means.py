"""The base of rules that choose every pull from arm means and counts alone."""

from __future__ import annotations

from bestarm.checks import interval, positive
from bestarm.errors import InvalidInputError
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.policies.stepwise import require_pullable_targets
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

    def _require_within(self, pulls: int) -> int:
        """Give a kernel's number of pulls back, or raise where it refused a reward."""
        if pulls < 0:
            assert self._bounds is not None
            low, high = self._bounds
            raise InvalidInputError(
                f"A reward lies outside the bounds ({low:g}, {high:g}).",
                field="summary",
                value=self._bounds,
                remedy="Give `bounds` that no reward can exceed.",
            )
        return pulls
