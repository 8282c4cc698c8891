"""Medium and large designs: certified, and in memory that does not grow with all pairs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bestarm.design import centered_g, centered_xy, linear_xy, xor
from bestarm.numerics.geometry import Array, centered_diameter


def sphere(seed: int, count: int, dimension: int) -> Array:
    points = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def check_value(source: Array, target: Array, weights: Array, value: float) -> None:
    """The worst pair under Σ_cov,p⁻¹, row by row with a dense inverse."""
    centered = source - weights @ source
    root = np.linalg.cholesky(np.linalg.inv(centered.T @ (weights[:, None] * centered)))
    whitened = target @ root
    worst = max(float(np.max(np.sum((whitened - row) ** 2, axis=1))) for row in whitened)
    assert value == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize(
    ("arms", "targets", "dimension"), [(300, 300, 12), (2000, 500, 20), (257, 40, 3)]
)
def test_sizes_between_the_paper_and_the_limit(arms: int, targets: int, dimension: int) -> None:
    source, target = sphere(1, arms, dimension), sphere(2, targets, dimension)
    design = centered_xy(source, target)
    assert design.gap <= 1e-3
    assert abs(design.weights.sum() - 1) <= 1e-12
    assert (design.weights >= 0).all()
    check_value(source, target, design.weights, design.value)
    # The certificate is believed elsewhere; here only that nothing simple lies below it.
    rng = np.random.default_rng(0)
    for weights in (np.full(arms, 1 / arms), rng.dirichlet(np.ones(arms))):
        assert centered_diameter(source, weights, target) >= design.lower_bound
    assert xor(source, target).value >= design.lower_bound


def test_many_arms_in_few_dimensions() -> None:
    """20 000 arms on a circle: half of many ties at the optimum, whose value is known."""
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    # By symmetry uniform weights are optimal: Σ_cov = ½ I, and the longest contrast has length 2.
    assert centered_xy(circle, circle[::100]).value == pytest.approx(8, rel=1e-3)
    assert centered_g(circle).value == pytest.approx(2, rel=1e-3)


def test_pairs_are_never_materialised() -> None:
    """3 million pairs in 10 dimensions would fill 250 MB; the matrix of all distances, 50 MB."""
    source, target = sphere(3, 200, 10), sphere(4, 2500, 10)
    tracemalloc.start()
    try:
        design = centered_xy(source, target)
        linear = linear_xy(source, target)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(design.gap, linear.gap) <= 1e-3
    assert peak < 40e6
