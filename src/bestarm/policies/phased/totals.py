"""All pulls so far, kept as totals: estimates, standard errors, and what they spare later phases.

Every phase's estimating equation, b_k − B_k θ with features centered at that phase's policy mean,
is a sum of martingale differences whatever the baseline does, and so are sums of them over phases.
Estimates may therefore use all pulls so far, and their error is known from the data.
"""

from __future__ import annotations

import numpy as np

from bestarm import bounds
from bestarm.numerics.geometry import TIE, Array, covariance
from bestarm.problem import Problem
from bestarm.records import Summary

_TIGHTEST = 1 / 40  # the boundary is tightest at this part of the variance after the pilot
_EPSILON = float(np.finfo(float).eps)
_SINGULAR = 1e-15  # an eigenvalue, relative to the largest, that counts as zero

Totals = tuple[Array, Array, Array]


def worth(information: Array, per_pull: Array) -> int:
    """How many pulls of a plan the past replaces: the largest c with information ⪰ c · per_pull.

    Args:
        information: Σ_k n_k Σ_cov,k over past phases, in coordinates of the span.
        per_pull: Σ_cov,p of the plan, in the same coordinates.
    """
    # The least eigenvalue of L⁻¹ information L⁻ᵀ with LLᵀ = per_pull.
    lower = np.linalg.cholesky(per_pull)
    half = np.linalg.solve(lower, information)
    whitened = np.linalg.solve(lower, half.T)
    found = float(np.linalg.eigvalsh((whitened + whitened.T) / 2)[0])
    # Where the past has the same distribution it is a whole number, but for rounding.
    return max(0, int(found * (1 + TIE)))


def _inverse(matrix: Array) -> Array:
    """The pseudo-inverse of a symmetric matrix; NumPy's takes three times as long."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > _SINGULAR * float(np.abs(values).max(initial=0.0))
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)


class PooledTotals:
    """The phases so far, and the orthogonalized regression on all of them but the first.

    Subtracting a level m from all rewards of a phase changes b by m Σ x̃, which has mean zero if m
    was fixed before the pulls. It removes the variance that the common level of the rewards (x̄·θ
    plus the mean baseline) would add, often the largest part. The first phase is a pilot: it
    estimates the level and the noise, and decides nothing. All later phases have equal weight.
    (Weighting them by their noise would let a baseline that reacts to the past choose which of them
    to drown.)
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arms = problem.span.coordinates(problem.source)
        self._last: Summary | None = None
        self._pilot: Array = np.zeros((problem.rank, problem.rank))  # variances after the pilot
        self._phases: list[Summary] = []
        self._means = np.empty((0, problem.rank))  # the policy's mean in each phase, …
        self._levels = np.empty(0)  # … and the level foreseen for it
        self._information = np.zeros((problem.rank, problem.rank))
        self._slope = np.zeros(problem.rank)
        self._errors = np.zeros((problem.rank, problem.rank))

    @property
    def theta(self) -> Array:
        """θ̂ in feature units; only its products with differences of arms mean anything."""
        return np.asarray(self._problem.span.dual @ self._slope)

    def worth(self, weights: Array) -> int:
        """How many pulls from this distribution the phases that count replace."""
        return worth(self._information, covariance(self._arms, weights))

    def add(self, summary: Summary, weights: Array, *, ridge: float) -> None:
        """Enter a phase, and estimate afresh.

        Args:
            summary: the phase's totals.
            weights: the distribution its arms were drawn from.
            ridge: the amount of shrinkage, in pulls.
        """
        if self._last is None:
            self._take_pilot(summary, weights, ridge)
        else:
            mean = weights @ self._arms
            self._levels = np.append(self._levels, self._foresee(mean))
            self._means = np.vstack([self._means, mean])
            self._phases.append(summary)
            per_pull = covariance(self._arms, weights)
            self._information = self._information + summary.pulls * per_pull
            self._slope, self._errors = self._solve(ridge)
        self._last = summary

    def _take_pilot(self, summary: Summary, weights: Array, ridge: float) -> None:
        """Estimate from the pilot at the level it turned out to have: it decides nothing."""
        self._phases, self._means = [summary], (weights @ self._arms)[None]
        self._levels = np.array([summary.sums.sum() / summary.pulls])
        self._slope, _ = self._solve(ridge)
        exact, least = self._residuals(self._totals(), self._slope)
        # Rewards that did not vary at all tell nothing of their scale; then the declared one must.
        varied = exact.sum() > least.sum()
        noise = float(exact.sum()) / summary.pulls if varied else self._problem.scale**2
        per_pull = covariance(self._arms, weights)
        self._pilot = noise / summary.pulls * _inverse(per_pull)
        self._phases, self._means, self._levels = [], self._means[:0], self._levels[:0]

    def _foresee(self, mean: Array) -> float:
        """The mean reward to expect from pulls with this mean feature."""
        last = self._last
        assert last is not None
        moved = mean - last.counts @ self._arms / last.pulls
        return float(last.sums.sum() / last.pulls + moved @ self._slope)

    def _totals(self) -> Totals:
        """Counts, sums and sums of squares: phases × arms."""
        counts, sums, squares = (
            np.array([getattr(phase, name) for phase in self._phases], dtype=float)
            for name in ("counts", "sums", "squares")
        )
        return counts, sums, squares

    def _solve(self, ridge: float) -> tuple[Array, Array]:
        """The slope, and the covariance of its error."""
        counts, sums, _ = totals = self._totals()
        rest = sums - self._levels[:, None] * counts
        moment = rest.sum(axis=0) @ self._arms - rest.sum(axis=1) @ self._means
        pulls = float(counts.sum())
        gram = (1 + ridge / pulls) * self._scatter(counts)
        inverse = _inverse(gram)
        slope = inverse @ moment
        # The error's covariance is B⁻¹ (Σ u² x̃x̃ᵀ) B⁻¹, with the quadratic variation itself inside:
        # no arm's variance need be known or equal another's.
        variation = self._scatter(np.maximum(*self._residuals(totals, slope)))
        degrees = pulls / max(pulls - len(gram), 1.0)
        return slope, degrees * (inverse @ variation @ inverse)

    def _residuals(self, totals: Totals, slope: Array) -> tuple[Array, Array]:
        """Σ u² over the pulls of each arm in each phase, u = r − level − x̃·slope, and its rounding.

        A variance that cancels to less than the rounding of its parts is set to that rounding.
        """
        counts, sums, squares = totals
        fit = (self._levels - self._means @ slope)[:, None] + self._arms @ slope
        exact = squares - 2 * fit * sums + fit * fit * counts
        return exact, (counts + 64) * _EPSILON * (squares + fit * fit * counts)

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
        if not self._phases:
            return np.full(len(contrasts), np.inf)
        rows = self._problem.span.contrast_coordinates(contrasts)
        variance = np.einsum("ij,jk,ik->i", rows, self._errors, rows)
        at_first = np.einsum("ij,jk,ik->i", rows, self._pilot, rows)
        return bounds.mixture_radius(variance, delta=delta, reference=_TIGHTEST * at_first)
