"""The field's instances, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm.environments import baselines, many_arms, soare, tao, transductive


def test_soare() -> None:
    world = soare(4, 0.3)
    problem = world.problem(0.1)
    assert (problem.arms, problem.dimension, world.best, world.name) == (5, 4, 0, "soare")
    assert world.gap == pytest.approx(2 * (1 - math.cos(0.3)))
    assert not problem.drifts
    assert soare(4, 0.3, baseline=baselines.sinusoid()).problem(0.1).drifts


def test_half_of_the_targets_of_transductive_cannot_be_pulled() -> None:
    world = transductive(6, 0.2)
    problem = world.problem(0.1)
    assert (problem.arms, problem.targets) == (7, 6)
    # Target 3 is e₁ turned by 0.2 towards e₄; e₁ is the best, by 1 − cos(0.2).
    np.testing.assert_allclose(problem.target[3], [math.cos(0.2), 0, 0, math.sin(0.2), 0, 0])
    assert world.best == 0
    assert world.gap == pytest.approx(1 - math.cos(0.2))


def test_the_best_of_tao_is_one_of_the_closest_pair() -> None:
    world = tao(30, 4).instance(np.random.default_rng(2))
    source = world.problem(0.1).source
    np.testing.assert_allclose(np.linalg.norm(source, axis=1), 1)
    distances = np.linalg.norm(source[:, None] - source[None], axis=2) + 9 * np.eye(30)
    pair = np.argwhere(distances == distances.min())[0]
    assert world.best in pair
    # u·θ − v·θ with θ = u + 0.01 (v − u), |u| = |v| = 1
    assert world.gap == pytest.approx((0.5 - 0.01) * distances.min() ** 2)


def test_many_arms_have_a_fan_in_the_middle() -> None:
    environment = many_arms(500)
    world = environment.instance(np.random.default_rng(0))
    source = world.problem(0.1).source
    angles = np.arctan2(source[:, 1], source[:, 0])
    assert world.best == 0 or abs(angles[world.best]) < abs(angles[1:]).max()
    np.testing.assert_allclose(angles[:2], [0, 3 * math.pi / 4])
    assert angles[2:].mean() == pytest.approx(math.pi / 4, abs=0.06)  # four standard errors
    assert angles[2:].std() == pytest.approx(0.3, rel=0.13)
    again = environment.instance(np.random.default_rng(1)).problem(0.1).source
    assert not np.array_equal(again, source)
