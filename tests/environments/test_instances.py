"""The published instances: each is made when a run needs it, and is the same wherever that is."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bestarm.environments import Semiparametric, published_spheres, uniform_sphere
from bestarm.environments.instances import _PAPER_SEED


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


def test_worlds_of_another_noise_are_others() -> None:
    quiet, loud = (published_spheres(noise=noise).of_run(3) for noise in (1.0, 4.0))
    assert isinstance(quiet, Semiparametric)
    assert isinstance(loud, Semiparametric)
    assert (quiet.noise, loud.noise) == (1.0, 4.0)


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
