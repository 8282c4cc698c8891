"""Where the random numbers of a run come from: no two of them from the same place."""

from __future__ import annotations

import numpy as np
from simulation_policies import ArmMeans

from bestarm import Problem
from bestarm.environments import Semiparametric, Stream, World
from bestarm.simulation import run_once


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
