"""Designs for a declared bound on the baseline.

References: a search over s, the two limits, and the quadratic program that is dual to it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm import Problem
from bestarm.design import complexity
from bestarm.design.bounded import best_sums
from bestarm.environments import soare
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

SUMS = np.linspace(-6, 6, 24_001)


def value(weights: Array, features: Array, row: Array, gap: float, bound: float) -> float:
    """min over s of ‖(s, y)‖² / (gap − |s|R)², by a search."""
    inverse = np.linalg.inv(features.T @ (weights[:, None] * features))
    tilted = np.column_stack([SUMS, np.tile(row, (len(SUMS), 1))])
    norms = np.einsum("ij,jk,ik->i", tilted, inverse, tilted)
    signals = gap - np.abs(SUMS) * bound
    return float(np.min(np.where(signals > 0, norms / np.maximum(signals, 1e-12) ** 2, np.inf)))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), bound=st.floats(0.01, 2.0))
def test_the_best_sum_of_weights_is_that_of_a_search(seed: int, bound: float) -> None:
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(5), rng.normal(size=(5, 2))])
    weights, row, gap = rng.dirichlet(np.ones(5)), rng.normal(size=2), rng.uniform(0.1, 1.0)
    inverse = np.asarray(np.linalg.inv(features.T @ (weights[:, None] * features)))
    sums, least = best_sums(inverse, row[None], np.array([gap]), bound)
    searched = value(weights, features, row, gap, bound)
    assert least[0] <= searched * (1 + 1e-9)
    if abs(sums[0]) < 6:
        assert least[0] >= searched * (1 - 1e-3)


def test_sums_of_many_problems_are_those_of_each() -> None:
    rng = np.random.default_rng(1)
    features = np.concatenate([np.ones((4, 6, 1)), rng.normal(size=(4, 6, 2))], axis=2)
    inverse = np.linalg.inv(features.swapaxes(1, 2) @ features)
    rows, gaps = rng.normal(size=(4, 3, 2)), rng.uniform(0.1, 1.0, size=(4, 3))
    level = rng.uniform(-0.2, 0.2, size=4)
    sums, least = best_sums(inverse, rows, gaps, 0.3, level=level, worth=0.9)
    assert sums.any()
    for i in range(4):
        one, value = best_sums(inverse[i], rows[i], gaps[i], 0.3, level=level[i], worth=0.9)
        np.testing.assert_allclose(sums[i], one, rtol=1e-9)
        np.testing.assert_allclose(least[i], value, rtol=1e-9)


def test_a_known_level_and_a_sum_that_is_hardly_worth_it() -> None:
    """Reference: a search over s of ‖(s, y)‖² / (gap + s ν − |s|R)²."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        features = np.column_stack([np.ones(5), rng.normal(size=(5, 2))])
        inverse = np.asarray(np.linalg.inv(features.T @ features))
        row, gap, level = rng.normal(size=2), rng.uniform(0.1, 1.0), rng.uniform(-0.3, 0.3)
        tilted = np.column_stack([SUMS, np.tile(row, (len(SUMS), 1))])
        norms = np.einsum("ij,jk,ik->i", tilted, inverse, tilted)
        signals = gap + SUMS * level - np.abs(SUMS) * 0.2
        values = norms[signals > 0] / np.square(signals[signals > 0])
        zero = row @ inverse[1:, 1:] @ row / gap**2
        sums, least = best_sums(inverse, row[None], np.array([gap]), 0.2, level=level, worth=0.95)
        if sums[0]:
            assert least[0] <= values.min() * (1 + 1e-9)
            assert least[0] < 0.95 * zero
        else:
            assert least[0] == pytest.approx(0.95 * zero)
            assert values.min() >= 0.95 * zero * (1 - 1e-6)


def test_the_inner_minimum_is_dual_to_the_nearest_alternative() -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(5), rng.normal(size=(5, 2))])
    for _ in range(10):
        weights, row, gap = rng.dirichlet(np.ones(5)), rng.normal(size=2), rng.uniform(0.2, 1.0)
        bound = rng.uniform(0.05, 0.5)
        moment = features.T @ (weights[:, None] * features)
        # The best h_θ with y·h_θ = gap for each h_ν: the conditional mean, moved along M_θθ⁻¹y.
        across, within = moment[0, 1:], np.linalg.inv(moment[1:, 1:])
        found = []
        for level in np.linspace(-bound, bound, 2_001):
            free = -level * within @ across
            step = (gap - row @ free) / (row @ within @ row)
            h = np.append(level, free + step * within @ row)
            found.append(float(h @ moment @ h))
        _, least = best_sums(np.asarray(np.linalg.inv(moment)), row[None], np.array([gap]), bound)
        assert min(found) == pytest.approx(1 / least[0], rel=1e-4)


@pytest.mark.parametrize(
    ("dimension", "angle", "bound", "expected"),
    [(5, 0.3, 0.01, 16.2), (5, 0.3, 0.1, 28.8), (5, 0.3, 0.2, 76.3), (5, 0.1, 0.03, 216.0)],
)
def test_complexities_between_linear_and_centered(
    dimension: int, angle: float, bound: float, expected: float
) -> None:
    """References: an independent fixed-point iteration, to three digits."""
    world = soare(dimension, angle)
    found = complexity(world.problem(0.05), world.theta, baseline=bound)
    assert found.gap <= 1e-3
    assert found.lower_bound <= found.value
    assert found.value == pytest.approx(expected, rel=5e-3)


def test_the_ends_are_the_linear_and_the_centered_complexity() -> None:
    world = soare(5, 0.3)
    problem = world.problem(0.05)
    linear = complexity(problem, world.theta, "linear").value
    centered = complexity(problem, world.theta, "centered").value
    assert complexity(problem, world.theta, baseline=0.0).value == linear
    assert complexity(problem, world.theta, baseline=1e-6).value == pytest.approx(linear, rel=3e-3)
    for bound in (0.4, 1.0, 50.0):
        found = complexity(problem, world.theta, baseline=bound)
        assert found.value == pytest.approx(centered, rel=3e-3)


def test_no_design_is_better_than_the_certificate_says() -> None:
    rng = np.random.default_rng(3)
    source = rng.normal(size=(6, 2))
    problem, theta = Problem(source), np.array([0.7, 0.4])
    found = complexity(problem, theta, baseline=0.15)
    features = np.column_stack([np.ones(6), source])
    means = source @ theta
    best = int(means.argmax())
    contrasts = np.delete(source[best] - source, best, axis=0)
    for weights in [*rng.dirichlet(np.ones(6), size=200), found.weights]:
        worst = max(value(weights, features, row, float(row @ theta), 0.15) for row in contrasts)
        assert worst >= found.lower_bound * (1 - 1e-9)
    assert worst == pytest.approx(found.value, rel=1e-3)


def test_a_level_that_features_express_leaves_no_choice() -> None:
    problem = Problem(np.eye(3))
    assert (
        complexity(problem, [1, 0.5, 0], baseline=0.01).value
        == complexity(problem, [1, 0.5, 0]).value
    )


def test_a_bound_is_for_centered_complexities() -> None:
    with pytest.raises(InvalidInputError, match="no part in the linear complexity"):
        complexity(Problem(np.eye(3)), [1, 0.5, 0], "linear", baseline=0.1)
    with pytest.raises(InvalidInputError, match="baseline"):
        complexity(Problem(np.eye(3)), [1, 0.5, 0], baseline=-0.1)
