"""Published instances: against their definitions, and the same wherever they are made."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from bestarm.environments import (
    Environment,
    Semiparametric,
    baselines,
    many_arms,
    published_spheres,
    small_gap,
    soare,
    tao,
    transductive,
    uniform_sphere,
)
from bestarm.environments.instances import _PAPER_SEED


def test_small_gap_is_the_paper_s_instance() -> None:
    world = small_gap()
    problem = world.problem(0.1)
    assert (problem.arms, problem.targets, problem.dimension, world.best) == (11, 11, 10, 0)
    np.testing.assert_allclose(problem.source[10, :3], [math.cos(0.2), math.sin(0.2), 0])
    assert world.gap == pytest.approx(2 * (1 - math.cos(0.2)))
    assert (problem.noise, problem.baseline) == (1.0, 2.0)  # what 1 + sin 2t reaches
    assert small_gap(declared_baseline=1.0).problem(0.1).baseline == 1.0  # as the paper declared
    assert repr(world.baseline) == "Sinusoid(amplitude=1.0, offset=1.0, frequency=2.0)"


def test_uniform_sphere_is_drawn_afresh() -> None:
    environment = uniform_sphere(30, 4)
    assert isinstance(environment, Environment)
    first, again, second = (environment.instance(np.random.default_rng(i)) for i in (1, 1, 2))
    source = first.problem(0.1).source
    np.testing.assert_array_equal(source, again.problem(0.1).source)
    assert not np.array_equal(source, second.problem(0.1).source)
    np.testing.assert_allclose(np.linalg.norm(source, axis=1), 1)
    assert first.best == int(np.argmax(source[:, 0]))
    assert first.baseline is second.baseline  # so that its values are computed once


def test_published_instances_are_drawn_from_the_published_seeds() -> None:
    published = published_spheres(noise=2.0, declared_baseline=1.5)
    sphere = uniform_sphere(noise=2.0, declared_baseline=1.5)
    assert len(published.worlds) == 100
    for run in (0, 57, 99, 103):
        world = published.of_run(run)
        drawn = sphere.instance(np.random.default_rng(_PAPER_SEED + run % 100))
        assert isinstance(world, Semiparametric)
        assert world.problem(0.1) == drawn.problem(0.1)
        assert (world.best, world.gap, world.noise) == (drawn.best, drawn.gap, 2.0)
        assert published.of_run(run) is world
        assert published_spheres(declared_baseline=1.5).of_run(run) is not world


def test_published_instances_are_a_sequence() -> None:
    worlds = published_spheres().worlds
    assert worlds[-1] is worlds[99]
    assert list(worlds[2:4]) == [worlds[2], worlds[3]]
    assert sum(1 for _ in worlds) == 100
    with pytest.raises(IndexError):
        worlds[100]


def test_workers_are_sent_the_recipe_and_not_the_instances() -> None:
    published = published_spheres()
    published.of_run(5)
    sent = pickle.dumps(published)
    assert len(sent) < 2000  # one instance has 8,000 bytes of features
    received = pickle.loads(sent).of_run(5)
    assert received.problem(0.1) == published.of_run(5).problem(0.1)


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
    assert world.best == 0  # e₁, as x·θ is the cosine of the angle to it
    assert world.gap == pytest.approx(1 - np.cos(angles[1:]).max())
    np.testing.assert_allclose(angles[:2], [0, 3 * math.pi / 4])
    assert angles[2:].mean() == pytest.approx(math.pi / 4, abs=0.06)  # four standard errors
    assert angles[2:].std() == pytest.approx(0.3, rel=0.13)
    again = environment.instance(np.random.default_rng(1)).problem(0.1).source
    assert not np.array_equal(again, source)
