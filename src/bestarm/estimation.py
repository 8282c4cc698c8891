"""Regression from a Summary: per-arm counts and reward sums suffice for every estimate."""

from __future__ import annotations

import numpy as np

from bestarm.checks import not_negative
from bestarm.numerics.geometry import Array, linear_span
from bestarm.problem import Problem, as_weights
from bestarm.records import Summary

__all__ = ["arm_means", "ordinary", "orthogonalized", "predict_level"]


def orthogonalized(
    problem: Problem,
    summary: Summary,
    weights: Array,
    *,
    ridge: float = 0.0,
) -> Array:
    """θ̂ = (B + ridge·I)⁻¹ b with features centered at the policy's mean x̄_p.

        B = Σ_a n_a x̃_a x̃_aᵀ,   b = Σ_a s_a x̃_a,   x̃_a = x_a − x̄_p

    with n_a pulls and the sum s_a of the rewards of arm a, less the summary's center, which drops
    out as a baseline does. The draw is independent of the baseline given the past, and E x̃ = 0
    under the policy, so ν_t drops out of E[b − Bθ] whatever it is. (Centering at the empirical mean
    would not do: an adaptive baseline can lean on the arms drawn so far.)

    Args:
        problem: the problem.
        summary: totals over pulls drawn with `weights`.
        weights: the distribution the arms were drawn from.
        ridge: the amount of regularisation, for features divided by the largest source norm (the
            paper's Assumption 1 has norms of at most 1); 0 gives the least-norm solution.

    Returns:
        θ̂ in feature units. Only its products with differences of arms are meaningful.

    Reference: the paper's section on orthogonalized regression; Krishnamurthy, Wu and Syrgkanis
    (2018).
    """
    not_negative(ridge, "ridge")
    weights = as_weights(weights, problem.arms)
    span = problem.span
    if ridge:
        # In features of norm at most 1 the ridge alone makes the system well conditioned.
        size = float(np.sqrt(np.max(np.einsum("ij,ij->i", problem.source, problem.source))))
        gram, moment = _equations((problem.source - span.origin) / size, summary, weights)
        return np.asarray(np.linalg.solve(gram + ridge * np.eye(len(gram)), moment) / size)
    gram, moment = _equations(span.coordinates(problem.source), summary, weights)
    solution, *_ = np.linalg.lstsq(gram, moment, rcond=None)
    return np.asarray(span.dual @ solution)


def _equations(points: Array, summary: Summary, weights: Array) -> tuple[Array, Array]:
    """B and b. The points should be near their origin: offsets cost digits."""
    centered = points - weights @ points
    gram = centered.T @ (summary.counts[:, None] * centered)
    return gram, centered.T @ summary.sums


def ordinary(problem: Problem, summary: Summary) -> Array:
    """Ordinary least squares without intercept, the least-norm solution; a baseline biases it.

    Args:
        problem: the problem.
        summary: totals over pulls, drawn or fixed.
    """
    pulled = summary.counts > 0
    root = np.sqrt(summary.counts[pulled])
    span = linear_span(problem.source)
    regressors = span.coordinates(problem.source[pulled]) * root[:, None]
    solution, *_ = np.linalg.lstsq(regressors, summary.rewards[pulled] / root, rcond=None)
    return np.asarray(span.dual @ solution)


def arm_means(summary: Summary) -> Array:
    """The mean reward of each arm; NaN for an arm that was not pulled."""
    means = np.full(len(summary.counts), np.nan)
    np.divide(summary.rewards, summary.counts, out=means, where=summary.counts > 0)
    return means


def predict_level(before: Summary, arms: Array, mean: Array, slope: Array) -> float:
    """The mean reward to expect from pulls whose features have this mean.

    Args:
        before: the totals of earlier pulls.
        arms: coordinates of all source arms.
        mean: the mean of the coordinates of the pulls to come.
        slope: θ̂ in these coordinates.
    """
    moved = mean - before.counts @ arms / before.pulls
    return float(before.sums.sum() / before.pulls + moved @ slope)
