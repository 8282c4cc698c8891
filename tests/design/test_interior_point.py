"""Many small design problems at once: each is certified, and none depends on its neighbours.

References: the value and the bound by their definitions, with dense inverses; a closed form.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design.interior_point import interior_points
from bestarm.numerics.geometry import Array

ROUNDING = 1e-9  # of dense inverses


def problems(seed: int, count: int = 8) -> tuple[Array, Array]:
    """Features with an intercept, and contrasts without, of one shape for all problems."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 6))
    arms, contrasts = rank + int(rng.integers(0, 8)), int(rng.integers(1, 12))
    features = rng.normal(size=(count, arms, rank))
    features[:, :, 0] = 1.0
    rows = rng.normal(size=(count, contrasts, rank)) * 10.0 ** rng.uniform(-2, 2, (count, 1, 1))
    rows[:, :, 0] = 0.0
    return features, rows


def certificate(features: Array, rows: Array, q: Array, mu: Array) -> tuple[float, float]:
    """The largest yᵀM(p)⁻¹y of one problem, and (Σ λ g)² / max w, by definition."""
    p, share = q / q.sum(), mu / mu.sum()
    inverse = np.linalg.inv(features.T @ np.diag(p) @ features)
    g = np.array([y @ inverse @ y for y in rows])
    scores = [sum(share * (rows @ inverse @ phi) ** 2) for phi in features]
    return float(g.max()), float(share @ g) ** 2 / max(scores)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 1e-3, 1e-6]))
def test_each_problem_is_certified_as_if_alone(seed: int, tol: float) -> None:
    features, rows = problems(seed)
    found = interior_points(features, rows, tol)
    assert (found.masses > 0).all()
    for i in range(len(features)):
        value, bound = certificate(features[i], rows[i], found.masses[i], found.multipliers[i])
        assert value / bound - 1 <= tol + ROUNDING
        assert found.gap[i] == pytest.approx(value / bound - 1, abs=ROUNDING)
        alone = interior_points(features[i : i + 1], rows[i : i + 1], tol)
        other, _ = certificate(features[i], rows[i], alone.masses[0], alone.multipliers[0])
        assert other == pytest.approx(value, rel=2 * tol)


@pytest.mark.parametrize("count", [1, 40])
def test_rows_of_zeros_do_not_count(count: int) -> None:
    features, rows = problems(5, count)
    holes = np.zeros((count, rows.shape[1] + 7, rows.shape[2]))
    kept = 2 * np.arange(rows.shape[1]) % holes.shape[1]
    holes[:, kept] = rows
    plain, masked = interior_points(features, rows, 1e-6), interior_points(features, holes, 1e-6)
    assert (masked.gap <= 1e-6).all()
    assert (np.delete(masked.multipliers, kept, axis=1) == 0).all()
    for i in range(count):
        q, mu = masked.masses[i], masked.multipliers[i, kept]
        value, bound = certificate(features[i], rows[i], q, mu)
        assert value / bound - 1 <= 1e-6 + ROUNDING
        expected, _ = certificate(features[i], rows[i], plain.masses[i], plain.multipliers[i])
        assert value == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize("count", [2, 40])
def test_a_singular_problem_stops_alone(count: int) -> None:
    features, rows = problems(2, count)
    features[1, :, -1] = 0.0  # no arm informs about the last feature
    found = interior_points(features, rows, 1e-4)
    assert found.gap[1] == np.inf
    assert (found.masses[1] == 1).all()
    assert (np.delete(found.gap, 1) <= 1e-4).all()


def test_a_start_at_the_solution_is_near_it() -> None:
    features, rows = problems(11, 30)
    cold = interior_points(features, rows, 1e-2)
    warm = interior_points(features, rows, 1e-2, cold.masses, cold.multipliers)
    assert (warm.gap <= 1e-2).all()
    assert warm.steps.mean() < 0.7 * cold.steps.mean()


@pytest.mark.parametrize("arms", [2, 5, 60])
def test_one_hot_arms(arms: int) -> None:
    """‖e_i − e_j‖² = 1/p_i + 1/p_j, at best 2K; at max g = 1 the total mass is that value."""
    first, second = np.triu_indices(arms, 1)
    rows = np.eye(arms)[first] - np.eye(arms)[second]
    found = interior_points(np.eye(arms)[None], rows[None], 1e-6)
    q = found.masses[0]
    np.testing.assert_allclose(q / q.sum(), 1 / arms, rtol=1e-2)
    assert q.sum() * (1 / q[first] + 1 / q[second]).max() == pytest.approx(2 * arms, rel=1e-6)
