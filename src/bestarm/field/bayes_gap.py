"""BayesGap: pulls whichever of two rivals is known less, by their posterior in a linear model."""

from __future__ import annotations

import math

import numpy as np

from bestarm.checks import positive, whole
from bestarm.compiling import compiled
from bestarm.field.pull_by_pull import PullByPull
from bestarm.numerics.geometry import Array
from bestarm.presampled import Parts, PresampledRewards, reward_at
from bestarm.problem import Problem

_BOUND_DEVIATIONS = 3.0  # standard deviations of the bounds on gaps
_TIED = 1 - 1e-9  # deviations that are equal on paper differ by rounding: J is pulled then
# Rows of `work`, one column per arm: μ, s, μ + 3 s, the covariance with the pulled arm, 4/gap².
# They are rows of one array because Numba counts references to every array at every call. They are
# filled one by one: an assignment of a whole row takes more than a second to compile.
_MEAN, _DEVIATION, _UPPER, _COVARIANCE, _INVERSE_SQUARE = range(5)


class BayesGap(PullByPull):
    """Gap-based exploration with a Gaussian posterior of θ, made for a given number of pulls.

    Rewards are x·θ + N(0, sigma²), and θ has the prior N(0, prior²) in every entry, for features in
    which the longest arm has norm 1, so that their unit does not matter. After one pull of
    every arm, B_k bounds by how much arm k may fall short: the largest μ + βs of the others less
    its own μ − βs, with the posterior means μ and deviations s. Of the arm J of the smallest B and
    its best rival, the one known less is pulled. The answer is the J whose B was smallest of all
    moments.

    β² = ((T − K)/sigma² + κ/prior²)/(4H), κ = Σ 1/‖x_k‖². The difficulty H = Σ_k (Δ_k/2)⁻² is not
    known; as in the paper's experiments the gaps are replaced by their upper bounds at three
    standard deviations. With the true H the error is at most of the order K T exp(−β²/2); with the
    estimated one nothing is proven. A baseline biases it.

    Args:
        problem: the problem; its targets must be its source arms.
        budget: the number of pulls, more than there are arms.
        sigma: the standard deviation of the noise it assumes.
        prior: the prior standard deviation of the longest arm's mean reward.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import BayesGap
        >>> BayesGap(Problem([[1, 0], [0, 1]]), budget=100).plan().counts.tolist()
        [1, 0]

    Reference: Hoffman, Shahriari and de Freitas (2014), algorithm 1.
    """

    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        sigma: float = 1.0,
        prior: float = 1.0,
        seed: int = 0,  # noqa: ARG002
    ) -> None:
        super().__init__(problem, budget=budget)
        whole(budget, "budget", least=problem.arms + 1)
        self._noise, prior = positive(sigma, "sigma") ** 2, positive(prior, "prior")
        size = np.sqrt(np.max(np.einsum("ij,ij->i", problem.source, problem.source)))
        self._features = np.ascontiguousarray(problem.source.T / size)
        squares = np.einsum("ij,ij->j", self._features, self._features)
        kappa = float(np.sum(1.0 / squares[squares > 0]))  # an arm at 0 pays 0: nothing to learn
        self._precision = ((budget - problem.arms) / self._noise + kappa / prior**2) / 4  # β² H
        self._covariance = prior**2 * np.eye(problem.dimension)
        if problem.arms <= 2 * problem.dimension:  # a pull then costs less by XΣXᵀ than by Σ
            self._covariance = prior**2 * np.einsum("ij,ik->jk", self._features, self._features)
            self._features = np.empty((0, 0))
        self._means = np.zeros(problem.arms)
        self._variances = prior**2 * squares
        self._least = np.array([np.inf])  # the smallest B_J so far

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        self._next_arm, self._leader = advance(
            presampled.parts,
            (self._next_arm, self._leader),
            (self._counts, self._sums),
            (self._covariance, self._means, self._variances, self._least),
            self._features,
            (self._noise, self._precision),
            most,
        )
        return most, False


@compiled
def advance(
    presampled: Parts,
    names: tuple[int, int],
    totals: Parts,
    posterior: Parts,
    features: Array,
    scales: tuple[float, float],
    most: int,
) -> tuple[int, int]:
    """BayesGap for `most` pulls; everything is updated in place.

    `posterior` has Σ, or without features the covariance of the arms' means, XΣXᵀ. Returns the arm
    of the next pull, and the arm that it would name.
    """
    arm, leader = names
    counts, sums = totals
    covariance, means, variances, least = posterior
    noise, precision = scales
    arms = len(means)
    work = np.empty((5, arms))
    left = 0  # arms without a pull
    for a in range(arms):
        work[_MEAN, a] = means[a]
        left += counts[a] == 0
    for i in range(most):
        reward = reward_at(presampled, i, arm)
        left -= counts[arm] == 0
        counts[arm] += 1
        sums[arm] += reward
        # Of θ ~ N(θ̂, Σ) given r = x·θ + noise: θ̂ += Σx (r − x·θ̂)/v, Σ −= Σx xᵀΣ/v, v = σ² + xᵀΣx.
        scale = 1.0 / (noise + variances[arm])
        if len(features):
            _reduce(covariance, features, arm, scale, work)
        else:
            for a in range(arms):
                work[_COVARIANCE, a] = covariance[arm, a]
            for a in range(arms):
                step = work[_COVARIANCE, a] * scale
                for b in range(arms):
                    covariance[a, b] -= step * work[_COVARIANCE, b]
        step = (reward - work[_MEAN, arm]) * scale
        for a in range(arms):
            cov = work[_COVARIANCE, a]
            work[_MEAN, a] += cov * step
            variances[a] = max(variances[a] - cov * cov * scale, 0.0)
            work[_DEVIATION, a] = math.sqrt(variances[a])
        if left:
            arm = 0
            while counts[arm]:
                arm += 1
            continue
        arm, best, bound = _rivals(work, precision)
        if bound < least[0]:
            least[0], leader = bound, best
    for a in range(arms):
        means[a] = work[_MEAN, a]
    return arm, leader


@compiled
def _reduce(covariance: Array, features: Array, arm: int, scale: float, work: Array) -> None:
    """Σ after a pull, and before it the covariances of the arm with all arms."""
    dimension, arms = features.shape  # one column per arm: the inner loops run along rows
    gain = np.zeros(dimension)
    for j in range(dimension):
        for k in range(dimension):
            gain[k] += covariance[j, k] * features[j, arm]
    for a in range(arms):
        work[_COVARIANCE, a] = 0.0
    for j in range(dimension):
        for a in range(arms):
            work[_COVARIANCE, a] += features[j, a] * gain[j]
        step = gain[j] * scale
        for k in range(dimension):
            covariance[j, k] -= step * gain[k]


@compiled
def _rivals(work: Array, precision: float) -> tuple[int, int, float]:
    """The arm to pull, J and B_J of a posterior; `precision` is β²H."""
    arms = work.shape[1]
    high = second = -math.inf  # the two largest upper bounds
    for a in range(arms):
        work[_UPPER, a] = work[_MEAN, a] + _BOUND_DEVIATIONS * work[_DEVIATION, a]
        second = max(second, min(work[_UPPER, a], high))
        high = max(work[_UPPER, a], high)
    for a in range(arms):
        rival = second if work[_UPPER, a] == high else high
        # At least Δ_a, but for three deviations.
        gap = rival - (work[_MEAN, a] - _BOUND_DEVIATIONS * work[_DEVIATION, a])
        work[_INVERSE_SQUARE, a] = 4.0 / max(gap * gap, 1e-300)
    difficulty = 0.0
    for a in range(arms):
        difficulty += work[_INVERSE_SQUARE, a]
    beta = math.sqrt(precision / difficulty)
    top, next_arm, high, second = 0, -1, -math.inf, -math.inf
    for a in range(arms):
        upper = work[_MEAN, a] + beta * work[_DEVIATION, a]
        next_arm = top if upper > high else (a if upper > second else next_arm)
        top = a if upper > high else top
        second = max(second, min(upper, high))
        high = max(upper, high)
    best, bound = -1, math.inf
    for a in range(arms):
        rival = second if a == top else high
        shortfall = rival - (work[_MEAN, a] - beta * work[_DEVIATION, a])
        best = a if shortfall < bound else best
        bound = min(shortfall, bound)  # J(t) and B_J(t)
    rival_arm = next_arm if best == top else top  # j(t)
    surer = work[_DEVIATION, best] < _TIED * work[_DEVIATION, rival_arm]
    return rival_arm if surer else best, best, bound
