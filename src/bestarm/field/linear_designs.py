"""What linear methods with a budget share: designs, in common for all runs, and estimates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from bestarm.design import linear_g
from bestarm.design.memo import recall
from bestarm.design.rounding import round_efficiently
from bestarm.estimation import ordinary
from bestarm.field.linear_model import spanning_arms
from bestarm.numerics.geometry import Array, Indices, first_largest, linear_span
from bestarm.policies.shrinking import Shrinking, linear_value
from bestarm.records import Counts, Plan, Summary

_G_TOL = 1e-6  # near-optimal G-designs may differ much in weights and hardly in value


class LinearShrinking(Shrinking):
    """Phases of counted pulls, after each of which least squares on its pulls alone ranks targets.

    A baseline biases it: the arms have no intercept.
    """

    _blind = True
    _kind = "fixed"

    def _scores(self, plan: Plan, summary: Summary) -> Array:  # noqa: ARG002
        targets = self.problem.target[self._active]
        return np.asarray((targets - targets[0]) @ ordinary(self.problem, summary))

    def _value(self, plan: Plan) -> float:
        return linear_value(self.problem, self._active, plan)


def longest_prefix(ranking: Indices, size: Callable[[Indices], float], most: float) -> int:
    """How many of a ranking have at most this size, which grows with their number; at least one."""
    fewer = range(2, len(ranking))  # all of them are too large
    return 1 + bisect_right(fewer, most, key=lambda number: size(ranking[:number]))


def g_weights(source: Array, active: Indices) -> Array:
    """The G-optimal design over some of the arms, as probabilities of all."""
    weights = np.zeros(len(source))
    weights[active] = recall(linear_g, source[active], tol=_G_TOL).weights
    return weights


def g_counts(source: Array, active: Indices, pulls: int) -> Counts:
    """The G-optimal design over some of the arms in whole pulls, at least as many as their rank.

    Where there are fewer pulls than arms in the design, the arms that span most of it come first,
    and each further pull goes to the arm whose mean is known least.
    """
    weights = g_weights(source, active)
    support = np.flatnonzero(weights)
    if pulls >= len(support):
        return round_efficiently(weights, pulls)
    features = linear_span(source[support]).coordinates(source[support])
    counts = np.zeros(len(source), dtype=np.int64)
    counts[support[spanning_arms(features * np.sqrt(weights[support])[:, None])]] = 1
    while counts.sum() < pulls:
        gram = features.T @ (counts[support][:, None] * features)
        variances = np.einsum("ij,ji->i", features, np.linalg.solve(gram, features.T))
        counts[support[first_largest(variances)]] += 1
    return counts


def _inverse_features(source: Array, weights: Array) -> Array:
    """Σ⁻¹ x_a for each arm, in features: what one unit of reward of an arm adds to Σ θ̂_t."""
    span = linear_span(source)
    arms = span.coordinates(source)
    gram = arms.T @ (weights[:, None] * arms)
    return np.asarray(span.dual @ np.linalg.pinv(gram, hermitian=True) @ arms.T)


def weighted_sum(source: Array, weights: Array, summary: Summary) -> Array:
    """Σ_t Σ(p)⁻¹ x_t r_t over pulls drawn with probabilities p: its mean is Σ_t θ_t.

    Nothing is assumed about how θ_t moves, as long as it does not depend on the draws to come.
    """
    return np.asarray(recall(_inverse_features, source, weights) @ summary.sums)
