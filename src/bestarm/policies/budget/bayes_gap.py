"""BayesGap: pulls whichever of two rivals is known less, by their posterior in a linear model."""

from __future__ import annotations

import numpy as np

from bestarm.checks import positive, whole
from bestarm.errors import InvalidInputError
from bestarm.policies.pull_by_pull import PullByPull
from bestarm.policies.stepwise import require_pullable_targets
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem


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
        seed: not used; nothing is drawn.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import BayesGap
        >>> BayesGap(Problem([[1, 0], [0, 1]]), budget=100).plan().counts.tolist()
        [1, 0]

    Reference: Hoffman, Shahriari and de Freitas (2014), algorithm 1.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        sigma: float = 1.0,
        prior: float = 1.0,
        seed: int = 0,  # noqa: ARG002
    ) -> None:
        require_pullable_targets(problem, "BayesGap")
        if whole(budget, "budget") <= problem.arms:
            raise InvalidInputError(
                f"{budget} pulls are too few for {problem.arms} arms, each of which is pulled "
                "once first.",
                field="budget",
                value=budget,
                remedy=f"BayesGap needs at least {problem.arms + 1}.",
            )
        super().__init__(problem, budget=budget)
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
        from bestarm.policies.budget.kernels import narrow_gap  # noqa: PLC0415 - compiles

        self._due, self._leader = narrow_gap(
            presampled.parts,
            (self._due, self._leader),
            (self._counts, self._sums),
            (self._covariance, self._means, self._variances, self._least),
            self._features,
            (self._noise, self._precision),
            most,
        )
        return most, False
