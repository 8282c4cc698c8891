"""The assumptions of the anytime rule about rewards, and whether totals contradict them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bestarm.checks import computable, not_negative
from bestarm.errors import InvalidInputError
from bestarm.policies.anytime.bets import Scale
from bestarm.problem import Problem
from bestarm.records import Summary

_UNLIKELY = 30.0  # nats: what happens so rarely by chance contradicts what was declared
_EPSILON = float(np.finfo(float).eps)
_DRAWN = (
    "What each option would pay, noise apart, is settled before one is drawn: its x·θ plus a "
    "baseline common to all options. It is drawn with the plan's probabilities."
)


@dataclass(frozen=True)
class Assumptions:
    """Where rewards lie.

    Attributes:
        scale: the range of means and the scale of the noise.
        sentences: the assumptions, one sentence each.
        bounds: the interval outside of which rewards are refused, or None.
    """

    scale: Scale
    sentences: tuple[str, ...]
    bounds: tuple[float, float] | None = None

    @classmethod
    def make(
        cls, problem: Problem, bounds: tuple[float, float] | None, mean_bound: float | None
    ) -> Assumptions:
        """From bounds on every reward, or else from the scales of the problem."""
        if bounds is not None and mean_bound is not None:
            raise InvalidInputError(
                "`mean_bound` has no part where rewards are bounded.",
                field="mean_bound",
                value=mean_bound,
                remedy="Give `bounds` or `mean_bound`, not both.",
            )
        if bounds is not None:
            low, high = bounds
            center = low / 2 + high / 2
            scale = Scale(low - center, high - center, center=center)
            return cls(scale, (_DRAWN, f"Every reward lies between {low:g} and {high:g}."), bounds)
        means = problem.scale if mean_bound is None else not_negative(mean_bound, "mean_bound")
        size = means + problem.baseline
        computable(size + problem.noise, "mean_bound")
        sentences = (
            _DRAWN,
            f"The noise has mean 0 and is sub-Gaussian with scale {problem.noise:g}.",
            f"The baseline lies within ±{problem.baseline:g}, and x·θ of every option within "
            f"±{means:g}.",
        )
        return cls(Scale(-size, size, problem.noise), sentences)

    def contradicted_by(self, summary: Summary, labels: tuple[str, ...]) -> bool:
        """Whether no rewards within the scale have these totals, but for rare noise.

        Rewards at most h from the middle m have |Σ(r − m)| ≤ nh and Σ(r − m)² ≤ nh². Adding up n
        of them may lose nε of the sum of their sizes, so that much is let pass: where totals are
        about a number many times farther from m than h, squares say little, sums still much.

        Args:
            summary: the totals.
            labels: the arms' names.

        Raises:
            InvalidInputError: rewards are bounded, and these cannot be.
        """
        counts, scale = summary.counts, self.scale
        shift = summary.center - scale.center - scale.middle
        half = (scale.high - scale.low) / 2
        size = half + abs(shift)
        lost = _EPSILON * (counts + 8.0) * counts * size
        first = summary.sums + shift * counts
        likely = scale.noise * np.sqrt(2 * _UNLIKELY * counts)
        wrong = np.abs(first) > half * counts + likely + lost
        if self.bounds is None:
            return bool(wrong.any())
        second = summary.squares + shift * (summary.sums + first)
        wrong |= second > half * half * counts + 4 * size * lost
        if wrong.any():
            arm, (low, high) = labels[int(np.argmax(wrong))], self.bounds
            raise InvalidInputError(
                f"The rewards of option {arm!r} cannot all lie between {low:g} and {high:g}.",
                field="summary",
                value=arm,
                remedy="Make the policy with `bounds` that hold for every reward.",
            )
        return False
