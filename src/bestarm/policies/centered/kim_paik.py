"""Thompson sampling for semiparametric rewards, centered at the posterior's own probabilities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bestarm.checks import positive
from bestarm.numerics.geometry import Array
from bestarm.policies.centered.base import CenteredBandit
from bestarm.problem import Problem

_DRAWS = 1000  # from the posterior, for the probabilities of the arms; as in the authors' code


class KimPaik(CenteredBandit):
    """Thompson sampling, with features centered at their mean under the sampling probabilities.

    An arm is pulled with the probability that it is the best under N(θ̂, v²B⁻¹), here with its
    frequency among 1,000 draws, so that the centering is exact. B has both the realised and the
    expected matrix, and y twice the rewards.

    Proven, for one pull per draw and v = (2R + 6)√(6d log(T/δ)): a regret of Õ(d^{3/2}√T), under
    every baseline that does not look at the current draw. Users tune v to far smaller values.
    Nothing is proven about the target that it names. The authors' repository says that a US patent
    has been filed for the method.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.
        sigma: the posterior's scale v, which users tune.
        seed: seeds the draws from the posterior.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.centered.kim_paik import KimPaik
        >>> round(float(KimPaik(Problem(np.eye(3)), budget=100).plan().weights.max()), 1)
        0.3

    Reference: Kim and Paik (2019), Algorithm 1; gisoo1989/semiparametric-MAB for the draws.
    """

    _realised: ClassVar[float] = 1.0
    _expected: ClassVar[float] = 1.0

    def __init__(self, problem: Problem, *, budget: int, sigma: float = 1.0, seed: int = 0) -> None:
        super().__init__(problem, budget=budget, seed=seed)
        self._sigma = positive(sigma, "sigma")

    def _probabilities(self, rng: np.random.Generator) -> Array:
        covariance = self._sigma**2 * np.linalg.inv(self._gram)
        drawn = rng.multivariate_normal(self._theta, covariance, size=_DRAWS, method="cholesky")
        best = np.argmax(drawn @ self._points.T, axis=1)
        return np.bincount(best, minlength=self.problem.arms) / _DRAWS
