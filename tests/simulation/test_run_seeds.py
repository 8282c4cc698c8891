"""Where the random numbers of a run come from: no two of them from the same place."""

from __future__ import annotations

import numpy as np
from simulation_policies import ArmMeans

from bestarm import Problem
from bestarm.environments import Semiparametric, Stream, World
from bestarm.simulation import run_once
from bestarm.simulation.engine import Simulation


class Watched:
    """A world, and an environment of it, that keep the seeds they were begun with."""

    name = "watched"

    def __init__(self) -> None:
        self._world = Semiparametric(np.eye(2), [1.0, 0.0])
        self.best = self._world.best
        self.seeds: list[int] = []

    def problem(self, delta: float) -> Problem:
        return self._world.problem(delta)

    def instance(self, rng: np.random.Generator) -> World:
        self.seeds.append(number_of(rng))
        return self

    def begin(self, rng: np.random.Generator) -> Stream:
        self.seeds.append(number_of(rng))
        return self._world.begin(rng)


def number_of(rng: np.random.Generator) -> int:
    """The number that a policy would have been given in place of this generator."""
    sequence = rng.bit_generator.seed_seq
    assert isinstance(sequence, np.random.SeedSequence)
    return int(sequence.generate_state(1, np.uint64)[0] >> 11)


def seeds_of(seed: int, run: int) -> list[int]:
    """Of the instance, of the stream and of the policy."""
    world, found = Watched(), list[int]()

    class Spy(ArmMeans):
        def __init__(self, problem: Problem, *, seed: int) -> None:
            super().__init__(problem, seed=seed)
            found.append(seed)

    run_once(Spy, world, seed=seed, run=run)
    return [*world.seeds, *found]


def test_runs_of_neighbouring_seeds_have_nothing_in_common() -> None:
    """Run 1 of seed 0 is not run 0 of seed 1: 53 bits agree by chance once in 10¹³ times here."""
    every = [number for seed in range(5) for run in range(5) for number in seeds_of(seed, run)]
    assert len(every) == 75
    assert len(set(every)) == 75


def test_a_policy_a_stream_and_an_instance_are_seeded_apart() -> None:
    """A policy that draws from its seed must not draw the noise, or the instance, once more."""
    instance, stream, policy = seeds_of(7, 3)
    assert len({instance, stream, policy}) == 3


def test_seeds_are_the_children_of_one_sequence_per_run() -> None:
    """Results stay the same from version to version: a seed that is not used is not made, and does
    not change the others."""
    instance, policy, stream = np.random.SeedSequence(7, spawn_key=(3,)).spawn(3)
    expected = [number_of(np.random.default_rng(seed)) for seed in (instance, stream, policy)]
    assert seeds_of(7, 3) == expected


class Drawn(Semiparametric):
    """A world of one kind that draws the instance of every run, as only subclasses do."""

    def instance(self, rng: np.random.Generator) -> Drawn:
        return Drawn(np.eye(2), rng.permutation([1.0, 0.0]))


def test_a_world_that_draws_its_instance_gets_the_generator_of_the_run() -> None:
    kind = Drawn(np.eye(2), [1.0, 0.0])
    found = []
    for run in range(20):
        seed = np.random.SeedSequence(7, spawn_key=(run,)).spawn(3)[0]
        drawn = np.random.Generator(np.random.PCG64DXSM(seed)).permutation([1.0, 0.0])
        _, _, world = Simulation(ArmMeans, kind, delta=0.1, seed=7).begin(run)
        assert world.best == np.argmax(drawn)
        found.append(world.best)
    assert set(found) == {0, 1}


def test_a_fixed_world_is_the_same_object_in_every_run() -> None:
    world = Semiparametric(np.eye(2), [1.0, 0.0])
    assert Simulation(ArmMeans, world, delta=0.1, seed=7).begin(3)[2] is world
