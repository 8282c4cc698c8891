"""Frank–Wolfe sampling: one step towards the optimal allocation per pull."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bestarm.bounds import certified_threshold, counts_threshold, linear_experiments
from bestarm.checks import choice
from bestarm.policies.linear.base import LinearRule
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_problem


class FrankWolfeSampling(LinearRule):
    """Make one step of Frank–Wolfe towards the optimal allocation per pull, and track it.

    Every arm is pulled once. Then the allocation x moves towards the arm that helps most against
    the closest alternative to the estimate; if several alternatives are nearly as close (within
    r = t^(−9/10)/K), towards the mixture of arms that helps most against all of them, the solution
    of a small matrix game. When ⌊t/K⌋ is a square, the step goes to all arms evenly. The arm
    pulled is the one with the largest ratio of its share in x to its share of the pulls. It stops
    when the statistic of the likelihood ratio exceeds a threshold, and the expected number of
    pulls is asymptotically the smallest possible as δ → 0.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, with the
    thresholds `"published"` and `"certified"`. The published one bounds the means of all K arms at
    once, features or not, so it grows with K. The authors' figures are made with `"experiments"`,
    with which nothing is proven.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        threshold: `"published"` (of Kaufmann and Koolen, in its form for Gaussian arms:
            `bounds.counts_threshold`), `"certified"` (from the dimension instead of K:
            `bounds.certified_threshold`), or `"experiments"`, log((1 + log t)/δ).
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.fws import FrankWolfeSampling
        >>> FrankWolfeSampling(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Wang, Tzeng and Proutière (2021).
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "certified", "experiments"] = "published",
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        choice(threshold, ("published", "certified", "experiments"), "threshold")
        delta = as_problem(problem).delta
        super().__init__(
            problem,
            counts_threshold(delta, arms=problem.arms)
            if threshold == "published"
            else certified_threshold(delta)
            if threshold == "certified"
            else linear_experiments(delta),
            name=threshold,
            sigma=sigma,
            max_pulls=max_pulls,
        )
        rank = len(self._fit[1])
        self._course = (np.ones(problem.arms), np.zeros((rank, rank)), np.array([-np.inf]))

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.linear.fws_kernels import advance  # noqa: PLC0415 - compiles

        pulls, self._due, stopped = advance(
            presampled.parts, self._model, self._state, self._rule, self._course, self._due, most
        )
        self._lead()
        return pulls, stopped
