"""Track-and-Stop: pull as the lower bound would, and stop by a generalized likelihood ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from bestarm.bounds import chernoff_rate, gaussian_rate, tuned_rate
from bestarm.checks import choice
from bestarm.policies.means.means import MeansRule
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import NO_DRIFT, sub_gaussian_assumptions
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem


class TrackAndStop(MeansRule):
    """Pull the arm that is farthest behind the best proportions for the means as they seem.

    D-tracking: an arm with fewer than √t − K/2 pulls is pulled first; otherwise the arm with the
    largest t w_a − N_a, where w are the proportions of the lower bound for the arm means so far.
    They are solved for anew at every pull, by few Newton steps from the last solution (the
    authors' code does it by nested bisection). It stops once the generalized likelihood ratio of
    the leader and each other arm exceeds β(t, δ), Chernoff's rule.

    The divergence is (a − b)²/(2σ²), or with `bounds` that of Bernoulli laws. `"published"` is
    log(2t(K − 1)/δ), proven for rewards that are one of two values, so with `bounds` only;
    `"certified"` is proven for rewards that are σ-sub-Gaussian around fixed arm means, given the
    past, so without `bounds` only; `"experiments"` is log((log t + 1)/δ), with which the paper's
    table was made, without a proof.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        threshold: `"published"`, `"certified"` or `"experiments"`: see above.
        bounds: if given, between which all rewards lie; others are refused, and σ is not used.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.means.track_and_stop import TrackAndStop
        >>> TrackAndStop(Problem(np.eye(3)), sigma=0.5).plan().counts.tolist()
        [1, 0, 0]

    Reference: Garivier and Kaufmann (2016), sections 3 and 4, Theorems 5 and 10; Kaufmann and
    Koolen (2021) for the certified threshold; EmilieKaufmann/BAI_epsBAI_code, the authors' code.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Literal["published", "certified", "experiments"] = "published",
        bounds: tuple[float, float] | None = None,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, sigma=sigma, bounds=bounds, max_pulls=max_pulls)
        choice(threshold, ("published", "certified", "experiments"), "threshold")
        delta, arms = problem.delta, problem.arms
        self._threshold = threshold
        self._rate = tuned_rate(delta)
        if threshold == "published":
            self._rate = chernoff_rate(delta, arms=arms)
        elif threshold == "certified":
            self._rate = gaussian_rate(delta, arms=arms)
        self._model = 2 * self._sigma**2, 0.0, 1.0
        if self._bounds is not None:
            self._model = 0.0, *self._bounds
        self._warm = np.ones(arms)  # the last solution for the proportions

    @property
    def traits(self) -> Traits:
        """With bounds, it refuses rewards outside."""
        return replace(super().traits, bounds=self._bounds)

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.means.track_and_stop_kernels import (  # noqa: PLC0415 - compiles
            advance,
        )

        pulls, due, leader, stopped = advance(
            presampled.parts,
            self._due,
            self._counts,
            self._sums,
            self._warm,
            self._model,
            tuple(self._rate),
            most,
        )
        self._require_within(pulls)
        self._due, self._leader = due, leader
        return pulls, stopped

    def _assumptions(self) -> tuple[str, ...]:
        if self._threshold == "certified" and self._bounds is None:
            return sub_gaussian_assumptions(self._sigma)
        if self._threshold == "published" and self._bounds is not None:
            low, high = self._bounds
            return f"Every reward is either {low:g} or {high:g}.", NO_DRIFT
        return ()
