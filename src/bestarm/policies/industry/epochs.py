"""Epoch-stratified testing: an always-valid test on differences of means, epoch by epoch."""

from __future__ import annotations

import numpy as np

from bestarm import bounds
from bestarm.checks import positive
from bestarm.policies.industry.periods import PeriodRule
from bestarm.problem import Problem

_TURN = 300  # pulls per arm around which the test is strongest


class EpochStratified(PeriodRule):
    """Equal shares for the arms that are left; one that lost significantly is taken out.

    This is how a testing platform keeps Simpson's paradox out when the shares of arms change.

    From the openings of the public descriptions, which is all that could be read: an epoch is a
    time of constant shares; the estimate is stratified, a difference of means per epoch; an option
    that reached significance is taken out, and its traffic goes to the others.

    Not checked: epochs weigh by their traffic, and the test is a mixture sequential
    probability ratio test with estimated variances, so that one may look at any time.

    Chosen here: shares are equal among the options left; the first epoch has 100 pulls per arm, and
    the next ones a tenth of all pulls before, or 100 per arm; the test is one-sided, at the level
    δ/(K − 1), against the arm with the best mean (the platform controls the false discovery rate
    against a control); its mixture is strongest at about 300 pulls per arm with noise σ.

    Nothing is proven: the test is one for large numbers, and the weights of epochs that grow with
    the data make it approximate. A baseline that moves within epochs is noise to it.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the scale of the noise for which the mixture is chosen; variances are estimated.
        seed: accepted like every policy's; the draws are not the policy's to make.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.industry.epochs import EpochStratified
        >>> EpochStratified(Problem(np.eye(4))).plan().pulls
        400

    Reference: Optimizely, "Stats Accelerator: Acceleration Under Time-Varying Signals" and
    "Get to statistical significance faster with Stats Accelerator"; Johari, Pekelis and Walsh
    (2015) for the test.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._reference = np.asarray(2 * positive(sigma, "sigma") ** 2 / _TURN)

    def _decide(self) -> bool:
        leader, share = (
            self._leader,
            bounds.contrast_delta(self.problem.delta, active=self.problem.arms),
        )
        means, variances = self._means[self._active], self._variances[self._active]
        lead = self._means[leader] - means
        variance = self._variances[leader] + variances
        radii = bounds.mixture_radius(variance, delta=share, reference=self._reference)
        lost = (lead > radii) & (self._active != leader) & np.isfinite(variance)
        self._active = self._active[~lost]
        self._shares = np.zeros(self.problem.arms)
        self._shares[self._active] = 1 / len(self._active)
        return len(self._active) == 1
