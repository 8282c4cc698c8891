"""BayesGap: pulls whichever of two rivals is known less, by their posterior in a linear model."""

from __future__ import annotations

import math

import numpy as np

from bestarm.checks import positive, whole
from bestarm.field.pull_by_pull import PullByPull, Rewards
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem

_BOUND_DEVIATIONS = 3.0  # standard deviations of the bounds on gaps
_TIED = 1 - 1e-9  # deviations that are equal on paper differ by rounding: J is pulled then


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
    ) -> None:
        super().__init__(problem, budget=budget)
        whole(budget, "budget", least=problem.arms + 1)
        self._noise, prior = positive(sigma, "sigma") ** 2, positive(prior, "prior")
        size = np.sqrt(np.max(np.einsum("ij,ij->i", problem.source, problem.source)))
        self._features = problem.source / size
        squares = np.einsum("ij,ij->i", self._features, self._features)
        kappa = float(np.sum(1.0 / squares[squares > 0]))  # an arm at 0 pays 0: nothing to learn
        self._precision = ((budget - problem.arms) / self._noise + kappa / prior**2) / 4  # β² H
        self._covariance = prior**2 * np.eye(problem.dimension)  # Σ
        self._means = np.zeros(problem.arms)
        self._variances = prior**2 * squares
        self._least = np.inf  # the smallest B_J so far

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        table, rows, common = rewards
        for i in range(most):
            arm = self._next_arm
            self._learn(arm, float(table[rows[i], arm] + common[i]))
            if not self._counts.all():
                self._next_arm = int(np.argmin(self._counts))
                continue
            self._next_arm, best, bound = self._rivals()
            if bound < self._least:
                self._least, self._leader = bound, best
        return most, False

    def _learn(self, arm: int, reward: float) -> None:
        """Update the posterior after a pull.

        Of θ ~ N(θ̂, Σ) given r = x·θ + noise: θ̂ += Σx (r − x·θ̂)/v, Σ −= Σx xᵀΣ/v, v = σ² + xᵀΣx.
        """
        self._counts[arm] += 1
        self._sums[arm] += reward
        v = self._noise + self._variances[arm]
        gain = self._covariance @ self._features[arm]
        along = self._features @ gain
        self._covariance -= np.outer(gain, gain) / v
        self._means += along * ((reward - self._means[arm]) / v)
        self._variances = np.maximum(self._variances - along**2 / v, 0.0)

    def _rivals(self) -> tuple[int, int, float]:
        """The arm to pull, J and B_J."""
        means, deviations = self._means, np.sqrt(self._variances)
        wide = _BOUND_DEVIATIONS * deviations
        gaps = _best_of_others(means + wide) - (means - wide)  # at least Δ, but for 3 deviations
        beta = math.sqrt(self._precision / float(np.sum(4.0 / np.maximum(gaps**2, 1e-300))))
        upper = means + beta * deviations
        shortfalls = _best_of_others(upper) - (means - beta * deviations)
        best = int(np.argmin(shortfalls))  # J(t)
        upper[best] = -np.inf
        rival = int(np.argmax(upper))  # j(t)
        surer = deviations[best] < _TIED * deviations[rival]
        return rival if surer else best, best, float(shortfalls[best])


def _best_of_others(values: Array) -> Array:
    """For each of them, the largest of the others."""
    second, highest = np.partition(values, -2)[-2:]
    return np.asarray(np.where(values == highest, second, highest))
