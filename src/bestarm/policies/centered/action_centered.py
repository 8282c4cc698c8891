"""Action-centered Thompson sampling: the arm that a draw prefers, or else the first arm."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from bestarm.checks import positive
from bestarm.numerics.geometry import Array
from bestarm.policies.centered.base import CenteredBandit
from bestarm.problem import Problem

_LEAST, _MOST = 0.2, 0.8  # the probability of the preferred arm


class ActionCentered(CenteredBandit):
    """Pull the arm that one draw from the posterior prefers to the first arm, or the first arm.

    The first arm of the problem is the one to which others are compared ("do nothing"). A draw of θ
    from N(θ̂, σ²B⁻¹) picks the other arm with the highest x·θ. It is pulled with the posterior
    probability that it is better than the first, kept between 0.2 and 0.8, and the first arm
    otherwise. B has the expected matrix π(1 − π) s sᵀ, with s the difference of the two arms.

    Proven, for one pull per draw and a larger σ than one would use: a regret of Õ(d²√T) against
    policies that keep to the same probabilities, under every baseline that does not look at the
    current draw. Nothing is proven about the target that it names.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.
        sigma: the posterior's scale v, which users tune.
        seed: seeds the draws from the posterior.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.centered.action_centered import ActionCentered
        >>> sorted(ActionCentered(Problem(np.eye(3)), budget=100).plan().weights.tolist())
        [0.0, 0.5, 0.5]

    Reference: Greenewald, Tewari, Klasnja and Murphy (2017), Algorithm 1.
    """

    _realised: ClassVar[float] = 0.0
    _expected: ClassVar[float] = 1.0

    def __init__(self, problem: Problem, *, budget: int, sigma: float = 1.0, seed: int = 0) -> None:
        super().__init__(problem, budget=budget, seed=seed)
        self._sigma = positive(sigma, "sigma")

    def _probabilities(self, rng: np.random.Generator) -> Array:
        covariance = self._sigma**2 * np.linalg.inv(self._gram)
        drawn = rng.multivariate_normal(self._theta, covariance, method="cholesky")
        differences = self._points - self._points[0]
        arm = 1 + int(np.argmax(differences[1:] @ drawn))
        step = differences[arm]
        spread = math.sqrt(step @ covariance @ step)
        chance = float(ndtr(step @ self._theta / spread)) if spread > 0 else 0.5
        weights = np.zeros(self.problem.arms)
        weights[arm] = min(max(chance, _LEAST), _MOST)
        weights[0] = 1 - weights[arm]
        return weights
