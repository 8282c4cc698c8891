"""What linear methods know of a problem: arms and targets in the span of the arms."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bestarm.numerics.geometry import Array, Indices, first_largest, linear_span
from bestarm.policies.stepwise import NO_DRIFT
from bestarm.problem import Problem


def linear_assumptions(sigma: float) -> tuple[str, ...]:
    """What the proofs of linear methods rest on."""
    return (
        "The mean reward of an option is x·θ: linear in its features, without an intercept.",
        f"The noise is {sigma:g}-sub-Gaussian, given the past.",
        NO_DRIFT,
    )


@lru_cache(maxsize=256)
def coordinates(problem: Problem) -> tuple[Array, Array]:
    """Source and targets in the span of the source, up to the unit: the longest arm has norm 1.

    Angles and ratios of lengths are kept. Targets are relative to the first: only their
    differences matter.
    """
    source, target = problem.source, problem.target - problem.target[0]
    span = linear_span(source)
    if span.rank < problem.dimension:
        axes, _ = np.linalg.qr(span.basis)
        source, target = source @ axes, target @ axes
    longest = np.linalg.norm(source, axis=1).max()
    return np.array(source / longest, order="C"), np.array(target / longest, order="C")


def spanning_arms(arms: Array) -> Indices:
    """As many arms as they have coordinates: each the furthest from the span of those before it."""
    left, chosen = arms.copy(), []
    for _ in range(arms.shape[1]):
        chosen.append(first_largest(np.einsum("ij,ij->i", left, left)))
        axis = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left -= np.outer(left @ axis, axis)
    return np.array(chosen, dtype=np.int64)


class Points(NamedTuple):
    """Arms and targets in coordinates of the linear span of the arms, one row each.

    Targets are less the first of them, which changes no difference: an offset would cost digits.
    `basis` are as many arms as the span has dimensions, and span it.
    """

    arms: Array
    targets: Array
    basis: Indices


@lru_cache(maxsize=64)
def points_of(problem: Problem) -> Points:
    """The arms and targets of a problem."""
    span = linear_span(problem.source)
    arms = np.ascontiguousarray(span.coordinates(problem.source))
    targets = span.contrast_coordinates(problem.target - problem.target[0])
    return Points(arms, np.ascontiguousarray(targets), spanning_arms(arms))


def linear_rank(problem: Problem) -> int:
    """The dimension of the linear span of the arms."""
    return linear_span(problem.source).rank
