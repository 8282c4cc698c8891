"""All pulls so far, kept as totals: estimates, standard errors, and what they spare later phases.

Every phase's estimating equation, b_k − B_k θ with features centered at that phase's policy mean,
is a sum of martingale differences whatever the baseline does, and so are sums of them over phases.
Estimates may therefore use all pulls so far, and their error is known from the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from bestarm import bounds
from bestarm.geometry import Array, covariance
from bestarm.problem import Problem
from bestarm.records import Summary

__all__ = ["Ledger", "worth"]

_TIGHTEST = 1 / 100  # the boundary is tightest once a contrast is known ten times as precisely


def worth(information: Array, per_pull: Array) -> int:
    """How many pulls of a plan the past replaces: the largest c with information ⪰ c · per_pull.

    Args:
        information: Σ_k n_k Σ_cov,k over past phases, in coordinates of the span.
        per_pull: Σ_cov,p of the plan, in the same coordinates.
    """
    return max(0, int(eigh(information, per_pull, eigvals_only=True, subset_by_index=[0, 0])[0]))


@dataclass(frozen=True, eq=False)
class _Entry:
    """One phase: its totals, its centered arms, and the level predicted before it was pulled."""

    summary: Summary
    centered: Array
    level: float
    gram: Array
    moment: Array

    def variation(self, slope: Array) -> tuple[Array, float]:
        """Σ u² x̃x̃ᵀ and the mean of u², with residuals u = r − level − x̃·slope."""
        total = self.summary
        fit = self.level + self.centered @ slope
        squares = total.squares - 2 * fit * total.sums + fit * fit * total.counts
        squares = np.maximum(squares, 0.0)  # rounding
        quadratic = self.centered.T @ (squares[:, None] * self.centered)
        return quadratic, float(squares.sum()) / total.pulls


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
        self._coordinates = problem.span.coordinates(problem.source)
        self._entries: list[_Entry] = []
        self._noise: list[float] = []
        self._pulls = 0
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
        level = self._foresee(weights)
        centered = self._coordinates - weights @ self._coordinates
        gram = centered.T @ (summary.counts[:, None] * centered)
        moment = centered.T @ (summary.sums - level * summary.counts)
        self._entries.append(_Entry(summary, centered, level, gram, moment))
        per_pull = covariance(self._coordinates, weights)
        self._information = self._information + summary.pulls * per_pull
        self._pulls += summary.pulls
        first = len(self._entries) == 1
        # The last phase's noise is judged by what was known before it.
        self._noise.append(self._entries[-1].variation(self._slope)[1])
        self._solve(ridge)
        if first:
            self._first_errors = self._errors

    def _foresee(self, weights: Array) -> float:
        if not self._entries:
            return 0.0
        last = self._entries[-1].summary
        moved = weights @ self._coordinates - last.counts @ self._coordinates / last.pulls
        return float(last.sums.sum() / last.pulls + moved @ self._slope)

    def _solve(self, ridge: float) -> None:
        shares = [1 / noise if noise > 0 else 1.0 for noise in self._noise]
        gram = np.zeros_like(self._information)
        moment = np.zeros(len(gram))
        for share, entry in zip(shares, self._entries, strict=True):
            gram += share * entry.gram
            moment += share * entry.moment
        gram *= 1 + ridge / self._pulls
        inverse = np.linalg.pinv(gram, hermitian=True)
        self._slope = inverse @ moment
        # The errors' covariance is B⁻¹ (Σ u² x̃x̃ᵀ) B⁻¹, with the quadratic variation itself inside:
        # no arm's variance need be known or equal another's.
        variation = np.zeros_like(gram)
        for share, entry in zip(shares, self._entries, strict=True):
            variation += share**2 * entry.variation(self._slope)[0]
        degrees = self._pulls / max(self._pulls - len(gram), 1)
        self._errors = degrees * (inverse @ variation @ inverse)

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
