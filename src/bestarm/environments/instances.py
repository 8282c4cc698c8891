"""The synthetic instances of the paper's experiments, and lists of instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np

from bestarm.checks import finite, whole
from bestarm.environments.baselines import Baseline, as_baseline, sinusoid
from bestarm.environments.environment import World
from bestarm.environments.semiparametric import Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

_PAPER_BASELINE = sinusoid()
_PAPER_SEED, _PAPER_RUNS = 1_792_033, 100  # run i of its uniform table drew from this seed plus i


def small_gap(
    dimension: int = 10,
    angle: float = 0.2,
    *,
    baseline: object = _PAPER_BASELINE,
    noise: float = 1.0,
    declared_baseline: float = 1.0,
    block: int = 1,
) -> Semiparametric:
    """One arm close to the best: X = {e₁, …, e_d, cos(angle) e₁ + sin(angle) e₂}, θ = 2e₁.

    Policies are told |ν_t| ≤ 1, as in the paper, although its ν_t = 1 + sin(2t) reaches 2. A round
    can pull up to `block` arms.
    """
    return Semiparametric(
        turned_arms(dimension, angle),
        2.0 * np.eye(dimension)[0],
        baseline=baseline,
        noise=noise,
        declared_baseline=declared_baseline,
        block=block,
        name="small-gap",
    )


def turned_arms(dimension: int, angle: float) -> Array:
    """e₁, …, e_d and cos(angle) e₁ + sin(angle) e₂."""
    size = whole(dimension, "dimension", least=2)
    turned = np.zeros(size)
    turned[:2] = math.cos(finite(angle, "angle")), math.sin(angle)
    return np.vstack([np.eye(size), turned])


@dataclass(frozen=True)
class UniformSphere:
    """Arms drawn uniformly on the unit sphere, anew in every run; see `uniform_sphere`."""

    arms: int
    dimension: int
    baseline: Baseline
    noise: float
    declared_baseline: float
    block: int = 1
    name: str = "uniform-sphere"

    def instance(self, rng: np.random.Generator) -> Semiparametric:
        """Draw the arms of one run."""
        points = rng.normal(size=(self.arms, self.dimension))
        return Semiparametric(
            points / np.linalg.norm(points, axis=1, keepdims=True),
            2.0 * np.eye(self.dimension)[0],
            baseline=self.baseline,
            noise=self.noise,
            declared_baseline=self.declared_baseline,
            block=self.block,
            name=self.name,
        )


def uniform_sphere(
    arms: int = 100,
    dimension: int = 10,
    *,
    baseline: object = _PAPER_BASELINE,
    noise: float = 1.0,
    declared_baseline: float = 1.0,
    block: int = 1,
) -> UniformSphere:
    """Unit vectors drawn uniformly, anew in every run; θ = 2e₁. Gaps can be very small.

    A round can pull up to `block` arms.
    """
    return UniformSphere(
        whole(arms, "arms", least=2),
        whole(dimension, "dimension", least=2),
        as_baseline(baseline),
        finite(noise, "noise"),
        finite(declared_baseline, "declared_baseline"),
        whole(block, "block", least=1, below=arms + 1),
    )


@dataclass(frozen=True, eq=False)
class InTurn:
    """Run i of a simulation happens in world i; after the last world comes the first again.

    For fixed lists of instances, such as those of a published experiment.

    Attributes:
        worlds: the worlds.
        name: their name in results and tables.

    Example:
        >>> from bestarm import environments, simulate, SPBAI
        >>> worlds = [environments.small_gap(3, angle) for angle in (0.8, 0.4)]
        >>> pulls = simulate(SPBAI, environments.InTurn(worlds, "angles"), runs=4).pulls
        >>> bool(pulls[0] < pulls[1] and pulls[2] < pulls[3])
        True
    """

    worlds: Sequence[World]
    name: str

    def __post_init__(self) -> None:
        if not self.worlds:
            raise InvalidInputError("There must be at least one world.", field="worlds", value=())

    def of_run(self, run: int) -> World:
        """The world of this run of a simulation."""
        return self.worlds[run % len(self.worlds)]

    def instance(self, rng: np.random.Generator) -> World:
        """A random one of the worlds, for callers that do not number runs."""
        return self.worlds[int(rng.integers(len(self.worlds)))]


def published_spheres(*, noise: float = 1.0, declared_baseline: float = 1.0) -> InTurn:
    """The hundred instances behind the paper's table of uniform arms: K = 100 in dimension 10."""
    sphere = uniform_sphere(noise=noise, declared_baseline=declared_baseline)
    return InTurn(_PublishedWorlds(sphere), "uniform-sphere, as published")


@dataclass(frozen=True)
class _PublishedWorlds(Sequence[World]):
    """The published instances, each made when it is needed: workers are sent only the recipe."""

    sphere: UniformSphere

    def __len__(self) -> int:
        return _PAPER_RUNS

    @overload
    def __getitem__(self, place: int) -> World: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[World]: ...

    def __getitem__(self, place: int | slice) -> World | Sequence[World]:
        numbers = range(_PAPER_RUNS)[place]
        if isinstance(numbers, range):
            return [_published_world(self.sphere, number) for number in numbers]
        return _published_world(self.sphere, numbers)


@lru_cache(maxsize=1024)  # of the same noise, all methods have the same worlds
def _published_world(sphere: UniformSphere, number: int) -> World:
    return sphere.instance(np.random.default_rng(_PAPER_SEED + number))
