"""What testing platforms do about drift: shares that change by period, and means per period."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from bestarm import bounds
from bestarm.checks import positive
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_FIRST = 100  # pulls per arm in the first period
_GROWTH = 0.1  # the length of a period, relative to all pulls before it
_RHO = 300  # pulls per arm around which the test of `EpochStratified` is strongest
_DRAWS = 10_000  # from the posterior of `PeriodThompson`
_LEAST = 0.01  # the smallest share of an arm in `PeriodThompson`


class PeriodRule(StepwisePolicy):
    """A policy that keeps the shares of the arms through a period, and then changes them.

    The mean of an arm is Σ_k n_k r̄_k / Σ_k n_k, with n_k all pulls of period k and r̄_k its mean
    reward there. Every arm has the same weights, so what a period adds to all rewards cancels in
    differences. A period in which an arm has fewer than two pulls does not count for this arm.

    Args:
        problem: the problem; its targets must be its source arms.
    """

    _transductive = False

    def __init__(self, problem: Problem, *, max_pulls: int | None = None) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._shares = np.full(problem.arms, 1 / problem.arms)
        self._weights, self._sums, self._squares = np.zeros((3, problem.arms))

    @property
    def _means(self) -> Array:
        """The weighted mean of each arm; NaN without pulls."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums / self._weights)

    @property
    def _variances(self) -> Array:
        """The squared standard error of each mean; infinite without pulls."""
        with np.errstate(invalid="ignore"):
            return np.where(self._weights > 0, self._squares / self._weights**2, np.inf)

    def _make_plan(self) -> Plan:
        length = max(_FIRST * int(np.count_nonzero(self._shares)), int(_GROWTH * self._pulls))
        return Plan.randomised(self._shares, min(length, self._pulls_left()), phase=self._plans + 1)

    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        counts = summary.counts
        known = counts > 1
        n = np.where(known, counts, 2)
        means = summary.sums / n
        within = np.maximum(summary.squares - n * means**2, 0.0) / (n - 1)
        self._weights = self._weights + np.where(known, plan.pulls, 0)
        self._sums = self._sums + np.where(known, plan.pulls * (means + summary.center), 0.0)
        self._squares = self._squares + np.where(known, plan.pulls**2 * within / n, 0.0)
        pulled = self._active[self._weights[self._active] > 0]
        if len(pulled):
            self._leader = int(pulled[first_largest(self._means[pulled])])
            if self._decide():
                return "identified"
        return None

    @abstractmethod
    def _decide(self) -> bool:
        """Set the shares of the next period; whether the leader is shown to be the best."""


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

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import EpochStratified
        >>> EpochStratified(Problem(["a", "b", "c", "d"])).plan().pulls
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
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._reference = np.asarray(2 * positive(sigma, "sigma") ** 2 / _RHO)

    def _decide(self) -> bool:
        leader = self._leader
        share = bounds.contrast_delta(self.problem.delta, active=self.problem.arms)
        means, variances = self._means[self._active], self._variances[self._active]
        lead = self._means[leader] - means
        variance = self._variances[leader] + variances
        radii = bounds.mixture_radius(variance, delta=share, reference=self._reference)
        lost = (lead > radii) & (self._active != leader) & np.isfinite(variance)
        self._active = self._active[~lost]
        self._shares = np.zeros(self.problem.arms)
        self._shares[self._active] = 1 / len(self._active)
        return len(self._active) == 1


class PeriodThompson(PeriodRule):
    """After every period, arms get shares by their chance to be the best or the second best.

    This is how a testing platform runs bandits while the level of rewards moves.

    From the platform's documentation and public code: arm means weight periods by their traffic,
    and so do their variances; the posterior is normal around them, with a flat prior; 10,000 draws
    from it give the chance of each arm to be the best; shares are the frequencies of being first or
    second among the draws ("top two"), at least 1 %; they change once there are 100 pulls per arm;
    95 % is the usual chance to win at which one calls a winner.

    Chosen here: it stops, at the end of a period, once the leader's chance is 1 − δ; the first
    period has 100 pulls per arm, and the next ones a tenth of all pulls before, or 100 per arm.

    Nothing is proven: a chance to win of 1 − δ, looked at after every period, is no bound on the
    probability of an error, with or without drift.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        seed: seeds the draws from the posterior.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import PeriodThompson
        >>> PeriodThompson(Problem(["a", "b", "c", "d"])).plan().weights.tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference: GrowthBook's documentation of bandits, and `gbstats/bayesian/bandits_previous.py` in
    growthbook/growthbook.
    """

    def __init__(self, problem: Problem, *, seed: int = 0, max_pulls: int | None = None) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._rng = np.random.default_rng(seed)

    def _decide(self) -> bool:
        arms = self.problem.arms
        if not (self._weights > 0).all():
            return False
        draws = self._rng.normal(self._means, np.sqrt(self._variances), size=(_DRAWS, arms))
        first = np.argmax(draws, axis=1)
        draws[np.arange(_DRAWS), first] = -np.inf
        wins = np.bincount(first, minlength=arms) / _DRAWS
        top = (wins + np.bincount(np.argmax(draws, axis=1), minlength=arms) / _DRAWS) / 2
        shares = np.maximum(top, _LEAST)
        self._shares = shares / shares.sum()
        return bool(wins[self._leader] >= 1 - self.problem.delta)
