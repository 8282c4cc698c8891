"""The base of semiparametric bandits: centered regression on drawn arms, in short batches."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from bestarm.checks import whole
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.policy import Traits
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_BATCH = 0.05  # pulls with the same probabilities, relative to all pulls before them


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
        super().__init__(problem)
        self._budget = whole(budget, "budget", least=1)
        size = float(np.linalg.norm(problem.source, axis=1).max()) or 1.0
        self._points = problem.source / size
        self._options = (problem.target - problem.target[0]) / size
        self._gram = ridge * np.eye(problem.dimension)
        self._moment = np.zeros(problem.dimension)
        self._theta: Array = np.zeros(problem.dimension)  # of features divided by `size`
        self._seed = seed

    @property
    def traits(self) -> Traits:
        """It stops when its pulls are spent."""
        return Traits(budgeted=True)

    def _make_plan(self) -> Plan:
        # A generator per plan: plans on record are adopted, and nothing is drawn for them.
        weights = self._probabilities(np.random.default_rng((self._seed, self._plans)))
        length = min(max(1, int(_BATCH * self._pulls)), self._budget - self._pulls)
        return Plan.randomised(weights, length, phase=self._plans + 1)

    def _take(self, plan: Plan, summary: Summary) -> str | None:
        assert plan.weights is not None
        centered = self._points - plan.weights @ self._points
        factors = self._realised * summary.counts + self._expected * plan.pulls * plan.weights
        rewards = summary.sums + summary.center * summary.counts
        self._gram = self._gram + centered.T @ (factors[:, None] * centered)
        self._moment = self._moment + (self._realised + self._expected) * (centered.T @ rewards)
        self._theta = np.asarray(np.linalg.solve(self._gram, self._moment))
        self._leader = first_largest(self._options @ self._theta)
        return "budget" if self._pulls + plan.pulls >= self._budget else None

    @abstractmethod
    def _probabilities(self, rng: np.random.Generator) -> Array:
        """The probabilities of the next pulls."""
