"""Designs for the Gaussian width, against closed forms, other designs and independent draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm.design import linear_xy
from bestarm.field.widths import width_design
from bestarm.numerics.geometry import Array, linear_diameter

RNG = np.random.default_rng(7)
ARMS, TARGETS = RNG.normal(size=(8, 3)), RNG.normal(size=(5, 3))


def objective(source: Array, target: Array, weights: Array, penalty: float) -> float:
    """g² + penalty·ρ from independent draws."""
    root = np.linalg.cholesky(np.linalg.inv((source.T * weights) @ source))
    errors = np.random.default_rng(99).normal(size=(50_000, source.shape[1])) @ root.T @ target.T
    width = float(np.mean(errors.max(axis=1) - errors.min(axis=1)))
    return width**2 + penalty * linear_diameter(source, weights, target)


def test_two_orthogonal_arms() -> None:
    """The difference of two estimates is N(0, 4), whose mean size is √(8/π)."""
    found = width_design(np.eye(2), np.eye(2))
    assert found.weights == pytest.approx([0.5, 0.5], abs=0.01)
    assert found.width == pytest.approx(8 / math.pi, rel=0.02)
    assert found.variance == pytest.approx(4.0, rel=0.01)


def test_four_orthogonal_arms() -> None:
    """Each estimate is N(0, 4); the mean range of four standard normal draws is 2.05875."""
    found = width_design(np.eye(4), np.eye(4))
    assert found.weights == pytest.approx([0.25] * 4, abs=0.02)
    assert found.width == pytest.approx(4 * 2.05875**2, rel=0.02)


@pytest.mark.parametrize("penalty", [0.0, 6.0])
def test_no_other_design_is_better(penalty: float) -> None:
    found = width_design(ARMS, TARGETS, penalty=penalty)
    value = objective(ARMS, TARGETS, found.weights, penalty)
    assert found.gap <= 0.02
    assert found.value == pytest.approx(value, rel=0.03)
    for other in np.random.default_rng(0).dirichlet(np.ones(8), size=20):
        nearby = 0.8 * found.weights + 0.2 * other
        assert objective(ARMS, TARGETS, nearby, penalty) >= value / 1.03
    xy = linear_xy(ARMS, TARGETS).weights
    assert objective(ARMS, TARGETS, xy, penalty) >= value / 1.03


def test_a_heavy_penalty_leads_to_the_xy_design() -> None:
    found = width_design(ARMS, TARGETS, penalty=1e6)
    assert found.variance <= 1.03 * linear_xy(ARMS, TARGETS).value


def test_arms_that_span_less_than_their_features() -> None:
    plane = np.column_stack([ARMS[:, :2], ARMS[:, 0]])
    found = width_design(plane, plane[:3])
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.width == pytest.approx(width_design(plane[:, :2], plane[:3, :2]).width, rel=0.02)
