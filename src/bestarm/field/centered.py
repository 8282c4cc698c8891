"""Semiparametric contextual bandits on fixed arms: they seek reward, and name the best estimate."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from bestarm.checks import positive, whole
from bestarm.field import thresholds
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_BATCH = 0.05  # pulls with the same probabilities, relative to all pulls before them
# Of the arm that `ActionCentered` prefers.
_LEAST_PROBABILITY, _LARGEST_PROBABILITY = 0.2, 0.8
# For the smallest enclosing ball of `BOSE`.
_STEPS = 1000  # moves of weight, at most
_SLACK = 0.01  # relative: how far an arm may be beyond what the method asks for
_TIE = 1e-9  # relative: squared distances closer than this are equal, on every processor
# From the posterior of `KimPaik`, for the probabilities of the arms; as in the authors' code.
_DRAWS = 1000


class CenteredBandit(StepwisePolicy):
    """A bandit for rewards x·θ + ν_t that draws its arms with known probabilities.

    The published methods draw anew for every pull. Here probabilities are kept for a twentieth of
    the pulls so far, at least for one: a plan per pull would make simulations long, and the
    regression is exact for whatever probabilities were used.

    With x̄ the mean feature under the probabilities of a pull,

        θ̂ = B⁻¹ y,   B = λI + Σ ( r (x − x̄)(x − x̄)ᵀ + e Cov(x) ),   y = (r + e) Σ (x − x̄) reward

    where (r, e) says whether the realised or the expected matrix counts. Features are divided by
    the largest norm of an arm, which the methods assume to be at most 1.

    It seeks reward, and never stops by itself: after its budget it names the target with the best
    estimate, and is never final.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls.
        ridge: λ.
        seed: seeds what the policy draws itself.
    """

    _realised: ClassVar[float]
    _expected: ClassVar[float]

    def __init__(self, problem: Problem, *, budget: int, ridge: float = 1.0, seed: int = 0) -> None:
        super().__init__(problem, budget=budget)
        size = float(np.linalg.norm(problem.source, axis=1).max()) or 1.0
        self._points = problem.source / size
        self._options = (problem.target - problem.target[0]) / size
        self._gram = ridge * np.eye(problem.dimension)
        self._moment = np.zeros(problem.dimension)
        self._theta: Array = np.zeros(problem.dimension)  # of features divided by `size`
        self._seed = seed

    def _make_plan(self) -> Plan:
        # A generator per plan: plans on record are adopted, and nothing is drawn for them.
        weights = self._probabilities(np.random.default_rng((self._seed, self._plans)))
        length = min(max(1, int(_BATCH * self._pulls)), self._pulls_left())
        return Plan.randomised(weights, length, phase=self._plans + 1)

    def _observe(self, plan: Plan, summary: Summary) -> None:
        assert plan.weights is not None
        centered = self._points - plan.weights @ self._points
        factors = self._realised * summary.counts + self._expected * plan.pulls * plan.weights
        rewards = summary.sums + summary.center * summary.counts
        self._gram = self._gram + centered.T @ (factors[:, None] * centered)
        self._moment = self._moment + (self._realised + self._expected) * (centered.T @ rewards)
        self._theta = np.asarray(np.linalg.solve(self._gram, self._moment))
        self._leader = first_largest(self._options @ self._theta)

    @abstractmethod
    def _probabilities(self, rng: np.random.Generator) -> Array:
        """The probabilities of the next pulls."""


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
        >>> from bestarm import Problem
        >>> from bestarm.field import ActionCentered
        >>> policy = ActionCentered(Problem(["a", "b", "c"]), budget=100)
        >>> sorted(policy.plan().weights.tolist())
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
        weights[arm] = min(max(chance, _LEAST_PROBABILITY), _LARGEST_PROBABILITY)
        weights[0] = 1 - weights[arm]
        return weights


class BOSE(CenteredBandit):
    """Keep the arms that no other is shown to beat; draw them around a center near to all.

    Arm a is kept if (x_b − x_a)·θ̂ ≤ γ ‖x_b − x_a‖ for all arms b, with norms under B⁻¹. Those kept
    are drawn with probabilities for which ‖x_a − x̄‖² ≤ Σ p_b ‖x_b − x̄‖² for every one: x̄ is the
    center of their smallest enclosing ball. B has the realised matrix.

    Proven, for one pull per draw and with the theorem's γ and λ (the default): a regret of Õ(d√T),
    under every baseline that does not look at the current draw, for |rewards| ≤ 1 and ‖θ‖ ≤ 1. They
    are so large that few arms are dropped in budgets one would have; the paper's experiments tune
    γ. Nothing is proven about the target that it names.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls T.
        width: γ, with λ = 1; the theorem's γ and λ if left out.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import BOSE
        >>> policy = BOSE(Problem(["a", "b", "c", "d"]), budget=100)
        >>> policy.plan().weights.round(2).tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference: Krishnamurthy, Wu and Syrgkanis (2018), Algorithm 1 and Theorem 1.
    """

    _realised: ClassVar[float] = 1.0
    _expected: ClassVar[float] = 0.0

    def __init__(self, problem: Problem, *, budget: int, width: float | None = None) -> None:
        whole(budget, "budget", least=1)
        if width is None:
            ridge, self._width = thresholds.bose_constants(
                problem.delta, budget=budget, dimension=problem.dimension
            )
        else:
            ridge, self._width = 1.0, positive(width, "width")
        super().__init__(problem, budget=budget, ridge=ridge)

    def _probabilities(self, rng: np.random.Generator) -> Array:  # noqa: ARG002
        # In coordinates where norms under B⁻¹ are ordinary ones.
        whitened = np.linalg.solve(np.linalg.cholesky(self._gram), self._points.T).T
        scores = self._points @ self._theta
        squares = (whitened**2).sum(axis=1)
        distances = squares[:, None] + squares - 2 * whitened @ whitened.T
        behind = scores[None, :] - scores[:, None]
        kept = (behind <= self._width * np.sqrt(np.maximum(distances, 0.0))).all(axis=1)
        weights = np.zeros(self.problem.arms)
        weights[kept] = _enclose(whitened[kept])
        return weights


def _enclose(points: Array) -> Array:
    """Weights whose mean is about the center of the smallest ball around the points.

    They maximise the variance Σ p ‖x − x̄‖², whose derivatives are the ‖x − x̄‖²: weight moves from
    the nearest point that has some to the farthest, by the best amount, until no point is farther
    than they are on average. Of points equally far, or equally near, the first is taken.
    """
    weights = np.full(len(points), 1 / len(points))
    for _ in range(_STEPS):
        away = points - weights @ points
        squares = (away**2).sum(axis=1)
        farthest = int(np.argmax(squares >= (1 - _TIE) * squares.max()))
        if squares[farthest] <= (1 + _SLACK) * (weights @ squares):
            break
        least = squares[weights > 0].min() + _TIE * squares.max()
        nearest = int(np.argmax((weights > 0) & (squares <= least)))
        gain = squares[farthest] - squares[nearest]
        step = gain / (2 * ((points[farthest] - points[nearest]) ** 2).sum())
        step = min(step, float(weights[nearest]))
        weights[farthest] += step
        weights[nearest] -= step
    return weights


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
        >>> from bestarm import Problem
        >>> from bestarm.field import KimPaik
        >>> policy = KimPaik(Problem(["a", "b", "c"]), budget=100)
        >>> round(float(policy.plan().weights.max()), 1)
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
