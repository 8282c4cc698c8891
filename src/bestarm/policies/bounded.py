"""The base of rules for bounded rewards that pull every active arm equally often."""

from __future__ import annotations

from bestarm.checks import interval, whole
from bestarm.errors import InvalidInputError
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Summary


class BoundedRule(StepwisePolicy):
    """A policy in rounds, each with one pull of every active arm, for rewards within bounds.

    Args:
        problem: the problem; its targets must be its source arms.
        bounds: the lowest and the highest reward there can be; one outside is refused.
        max_pulls: stop before exceeding this many pulls, at least one per arm.
    """

    _transductive = False

    def __init__(
        self, problem: Problem, *, bounds: tuple[float, float], max_pulls: int | None
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._low, self._high = self._bounds = interval(bounds, "bounds")
        if max_pulls is not None:
            whole(max_pulls, "max_pulls", least=problem.arms)

    def _rounds_left(self, pulls: int) -> int:
        """How many rounds the cap still allows after so many more pulls."""
        return max(0, self._pulls_left() - pulls) // len(self._active)

    def _outside_bounds(self, arm: int, summary: Summary) -> InvalidInputError:
        """What is raised where an arm paid a reward outside the bounds."""
        return InvalidInputError(
            f"Arm {self.problem.source_labels[arm]!r} paid a reward outside the bounds "
            f"({self._low:g}, {self._high:g}).",
            field="summary",
            value=summary,
            remedy="Give `bounds` that no reward can exceed.",
        )
