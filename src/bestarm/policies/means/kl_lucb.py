"""KL-LUCB: LUCB with bounds from a divergence, the leader and its challenger in every round."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from bestarm.bounds import kl_lucb_rate, tuned_rate
from bestarm.checks import choice
from bestarm.policies.means.means import MeansRule
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import NO_DRIFT, sub_gaussian_assumptions
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem


class KLLUCB(MeansRule):
    """Each round pulls the arm with the best mean and the other arm with the highest upper bound.

    The bounds of an arm are the values u with N d(mean, u) = β(t, δ), where d(a, b) is
    (a − b)²/(2σ²), or with `bounds` the divergence of Bernoulli laws.

    Proven for rewards that are σ-sub-Gaussian around fixed arm means, given the past, or with
    `bounds` for all rewards between them: with `threshold="published"`, log(405.5 K t^1.1/δ), and
    with `"small"`, log(11 K t^1.1/δ), which the same theorem allows. `"experiments"` is
    log((log t + 1)/δ), with which later papers compare, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"`, `"small"` or `"experiments"`: see above.
        bounds: if given, between which all rewards lie; others are refused, and σ is not used.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.means.kl_lucb import KLLUCB
        >>> KLLUCB(Problem(np.eye(3)), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Kaufmann and Kalyanakrishnan (2013), Theorems 1 and 3.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "small", "experiments"] = "published",
        bounds: tuple[float, float] | None = None,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, bounds=bounds, max_pulls=max_pulls)
        choice(threshold, ("published", "small", "experiments"), "threshold")
        delta, arms = problem.delta, problem.arms
        self._proven = threshold != "experiments"
        self._rate = tuned_rate(delta)
        if self._proven:
            constant = 405.5 if threshold == "published" else 11.0
            self._rate = kl_lucb_rate(delta, arms=arms, constant=constant)
        self._other = -1  # the arm to pull after the one that is due

    @property
    def traits(self) -> Traits:
        """With bounds, it refuses rewards outside."""
        return replace(super().traits, bounds=self._bounds)

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.means import kl_lucb_kernels as kernels  # noqa: PLC0415 - compiles

        state = np.array([self._due, self._other, self._leader])
        known = presampled.parts, state, self._counts, self._sums
        if self._bounds is None:
            scale = 2 * self._sigma**2
            pulls, stopped = kernels.advance_gaussian(*known, scale, tuple(self._rate), most)
        else:
            pulls, stopped = kernels.advance_bernoulli(
                *known, self._bounds, tuple(self._rate), most
            )
        self._require_within(pulls)
        self._due, self._other, self._leader = state.tolist()
        return pulls, stopped

    def _assumptions(self) -> tuple[str, ...]:
        if not self._proven:
            return ()
        if self._bounds is None:
            return sub_gaussian_assumptions(self._sigma)
        return "Every reward lies between {:g} and {:g}.".format(*self._bounds), NO_DRIFT
