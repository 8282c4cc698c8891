"""Thresholds of linear rules against closed forms, and the compiled ones against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import zeta

from bestarm import Problem, bounds
from bestarm.policies.linear.base import LinearRule
from bestarm.policies.linear.lazy import LazyTrackAndStop
from bestarm.policies.linear.lingape import LinGapE

SOURCE = np.array([[1.0, 0, 0.3], [0, 1, 0], [0.2, 0, 1], [1, 1, 0.5]]) / 1.5
COUNTS = np.array([40, 7, 3, 110])
DESIGN = SOURCE.T @ (COUNTS[:, None] * SOURCE)
PROBLEM = Problem(SOURCE, delta=0.02)


def _compiled(rule: LinearRule) -> float:
    """What the rule's kernel wants after these pulls."""
    from bestarm.policies.linear.kernels import threshold  # noqa: PLC0415 - compiles

    rule._counts[:] = COUNTS
    rule._counters[0] = COUNTS.sum()
    return threshold(rule._model, rule._state, rule._rule)


def _log_det(matrix: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def test_lingape_squares_half_its_radius() -> None:
    """C_t of the paper, with S = 1.5 and σ = 0.5, in units of the noise."""
    volume = math.sqrt(math.exp(_log_det(np.eye(3) + DESIGN)))
    radius = 0.5 * math.sqrt(2 * math.log(16 * volume / 0.02)) + 1.5
    wanted = _compiled(LinGapE(PROBLEM, sigma=0.5, norm=1.5))
    assert wanted == pytest.approx((radius / 0.5) ** 2 / 2, rel=1e-12)


def test_lazy_is_equation_9() -> None:
    """With c the least eigenvalue of a basis: arms 3, 2, 0, each furthest from those before."""
    basis = SOURCE[[3, 2, 0]]
    least = np.linalg.eigvalsh(basis.T @ basis)[0]
    expected = 1.1 * (math.log(50) + _log_det(np.eye(3) + DESIGN / (0.1 * least)) / 2)
    assert _compiled(LazyTrackAndStop(PROBLEM)) == pytest.approx(expected, rel=1e-12)
    expected = 1.1 * (math.log(50) + math.log(160) / 2 + 1.5 * math.log(11))
    rule = LazyTrackAndStop(PROBLEM, threshold="experiments")
    assert _compiled(rule) == pytest.approx(expected, rel=1e-12)


def test_certified_has_a_prior_of_thirty_pulls() -> None:
    """log det of A + Λ against that of Λ; and the other rules' threshold in experiments."""
    prior = 30 * SOURCE.T @ SOURCE / 4
    expected = math.log(50) + (_log_det(prior + DESIGN) - _log_det(prior)) / 2
    assert _compiled(LinGapE(PROBLEM, threshold="certified")) == pytest.approx(expected, rel=1e-12)
    expected = math.log((1 + math.log(160)) / 0.02)
    rule = LinGapE(PROBLEM, threshold="experiments")
    assert _compiled(rule) == pytest.approx(expected, rel=1e-12)


def test_counts_threshold_is_the_least_over_a_grid() -> None:
    """K C(log(1/δ)/K), by brute force."""
    share = np.linspace(0.501, 0.999, 20_000)
    g = 2 * share * (1 - np.log(4 * share)) + np.log(zeta(2 * share)) - np.log(1 - share) / 2
    for arms in (2, 7, 500):
        expected = arms * ((g + math.log(100) / arms) / share).min()
        assert bounds.counts_threshold(0.01, arms=arms).level == pytest.approx(expected, 1e-6)


def test_certified_bound_holds_at_every_moment() -> None:
    """Rewards are noise: the ellipsoid misses θ = 0 at some of 2,000 pulls in at most δ of runs.

    At δ = 0.1 and 400 runs, 62 misses or more have a probability below 10⁻³ if the bound is true.
    """
    rng, misses = np.random.default_rng(2), 0
    prior = 30 * SOURCE.T @ SOURCE / 4
    for _ in range(400):
        arms = SOURCE[rng.integers(4, size=2000)]
        scores = np.cumsum(arms * rng.normal(size=(2000, 1)), axis=0)[::10]
        designs = prior + np.cumsum(arms[:, :, None] * arms[:, None, :], axis=0)[::10]
        squares = np.einsum(
            "ti,ti->t", scores, np.linalg.solve(designs, scores[:, :, None])[..., 0]
        )
        volumes = np.linalg.slogdet(designs)[1] - _log_det(prior)
        misses += bool((squares / 2 > math.log(10) + volumes / 2).any())
    assert 0 < misses < 62
