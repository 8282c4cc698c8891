"""All pulls so far, kept as totals: estimates, standard errors, and what they spare later phases.

Every phase's estimating equation, b_k − B_k θ with features centered at that phase's policy mean,
is a sum of martingale differences whatever the baseline does, and so are sums of them over phases.
Estimates may therefore use all pulls so far, and their error is known from the data.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from bestarm import bounds
from bestarm.geometry import Array, covariance
from bestarm.problem import Problem
from bestarm.records import Counts, Summary

__all__ = ["Ledger", "worth"]

_TIGHTEST = 1 / 100  # the boundary is tightest once a contrast is known ten times as precisely


def worth(information: Array, per_pull: Array) -> int:
    """How many pulls of a plan the past replaces: the largest c with information ⪰ c · per_pull.

    Args:
        information: Σ_k n_k Σ_cov,k over past phases, in coordinates of the span.
        per_pull: Σ_cov,p of the plan, in the same coordinates.
    """
    return max(0, int(eigh(information, per_pull, eigvals_only=True, subset_by_index=[0, 0])[0]))


class Ledger:
    """The phases so far, and the orthogonalized regression on all of them.

    Taking a level m off all rewards of a phase changes b by m Σ x̃, which has mean zero whatever m
    is, as long as m was fixed before the pulls. It spares the variance that the common level of
    the rewards (x̄·θ plus the baseline's mean) would add, often the largest part of it. The level
    is predicted from the phase before; for the first phase there is nothing to predict it from,
    and phases are weighted by how noisy they turn out.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arms = problem.span.coordinates(problem.source)
        self._phases: list[Summary] = []
        self._means = np.empty((0, problem.rank))  # the policy's mean in each phase, …
        self._levels = np.empty(0)  # … the level foreseen for it, …
        self._noise = np.empty(0)  # … and the mean square of what was not foreseen
        self._information = np.zeros((problem.rank, problem.rank))
        self._slope = np.zeros(problem.rank)
        self._errors = np.zeros((problem.rank, problem.rank))
        self._first_errors = self._errors

    @property
    def information(self) -> Array:
        """Σ_k n_k Σ_cov,k, in coordinates of the span."""
        return self._information

    @property
    def theta(self) -> Array:
        """θ̂ in feature units; only its products with differences of arms mean anything."""
        return np.asarray(self._problem.span.dual @ self._slope)

    def add(self, summary: Summary, weights: Array, *, ridge: float) -> None:
        """Enter a phase, and estimate afresh.

        Args:
            summary: the phase's totals.
            weights: the distribution its arms were drawn from.
            ridge: the amount of shrinkage, in pulls.
        """
        mean = weights @ self._arms
        level = self._foresee(mean)
        fit = level + (self._arms - mean) @ self._slope
        surprise = _squares(summary.counts, summary.sums, summary.squares, fit)
        self._phases.append(summary)
        self._means = np.vstack([self._means, mean])
        self._levels = np.append(self._levels, level)
        self._noise = np.append(self._noise, surprise.sum() / summary.pulls)
        self._information = self._information + summary.pulls * covariance(self._arms, weights)
        self._solve(ridge)
        if len(self._phases) == 1:
            self._first_errors = self._errors

    def _foresee(self, mean: Array) -> float:
        """The mean reward to expect from pulls with this mean feature."""
        if not self._phases:
            return 0.0
        last = self._phases[-1]
        moved = mean - last.counts @ self._arms / last.pulls
        return float(last.sums.sum() / last.pulls + moved @ self._slope)

    def _solve(self, ridge: float) -> None:
        counts, sums, squares = (
            np.array([getattr(phase, name) for phase in self._phases])
            for name in ("counts", "sums", "squares")
        )
        # Phases count by how noisy they turned out: a first one, with nothing to foresee, less.
        share = np.where(self._noise > 0, 1 / np.maximum(self._noise, 1e-300), 1.0)[:, None]
        rest = share * (sums - self._levels[:, None] * counts)
        moment = rest.sum(axis=0) @ self._arms - rest.sum(axis=1) @ self._means
        pulls = int(counts.sum())
        gram = (1 + ridge / pulls) * self._scatter(share * counts)
        inverse = np.linalg.pinv(gram, hermitian=True)
        self._slope = inverse @ moment
        # The errors' covariance is B⁻¹ (Σ u² x̃x̃ᵀ) B⁻¹, with the quadratic variation itself inside:
        # no arm's variance need be known or equal another's.
        offsets = self._levels - self._means @ self._slope
        fit = offsets[:, None] + self._arms @ self._slope
        variation = self._scatter(share**2 * _squares(counts, sums, squares, fit))
        degrees = pulls / max(pulls - len(gram), 1)
        self._errors = degrees * (inverse @ variation @ inverse)

    def _scatter(self, masses: Array) -> Array:
        """Σ over phases k and arms a of masses[k, a] (x_a − x̄_k)(x_a − x̄_k)ᵀ."""
        arms, means = self._arms, self._means
        cross = (masses @ arms).T @ means
        own = arms.T @ (masses.sum(axis=0)[:, None] * arms)
        return np.asarray(own - cross - cross.T + means.T @ (masses.sum(axis=1)[:, None] * means))

    def radii(self, contrasts: Array, *, delta: float) -> Array:
        """For each contrast (row) the estimate from which on it is shown to be positive.

        Args:
            contrasts: differences of targets.
            delta: the error probability allowed to each, over all looks together.
        """
        rows = self._problem.span.contrast_coordinates(contrasts)
        variance = np.einsum("ij,jk,ik->i", rows, self._errors, rows)
        at_first = np.einsum("ij,jk,ik->i", rows, self._first_errors, rows)
        return bounds.mixture_radius(variance, delta=delta, reference=_TIGHTEST * at_first)


def _squares(counts: Counts, sums: Array, squares: Array, fit: Array) -> Array:
    """Σ (r − fit)² over each arm's pulls, from their totals."""
    return np.maximum(squares - 2 * fit * sums + fit * fit * counts, 0.0)  # rounding
