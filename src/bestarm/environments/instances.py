"""Published instances: those of the paper's experiments and those on which the field compares.

Functions make them: `small_gap`, `uniform_sphere` and `published_spheres` are the paper's; `soare`,
`transductive`, `tao` and `many_arms` come from work on linear bandits, and nothing drifts in them
unless a baseline is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import numpy as np

from bestarm.checks import finite, not_negative, whole
from bestarm.environments.baselines import as_baseline, sinusoid
from bestarm.environments.environment import World
from bestarm.environments.semiparametric import Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

_PAPER_SEED, _PAPER_RUNS = 1_792_033, 100  # run i of its uniform table drew from this seed plus i


class WorldOptions(TypedDict, total=False):
    """Options of the instances whose baseline can be chosen: see `Semiparametric`."""

    baseline: object
    noise: float
    declared_baseline: float | None
    block: int


_PAPER: WorldOptions = {"baseline": sinusoid()}


def small_gap(
    dimension: int = 10, angle: float = 0.2, **options: Unpack[WorldOptions]
) -> Semiparametric:
    """One arm close to the best: X = {e₁, …, e_d, cos(angle) e₁ + sin(angle) e₂}, θ = 2e₁.

    By default ν_t = 1 + sin(2t), as in the paper, and policies are told |ν_t| ≤ 2, which holds. The
    paper told them |ν_t| ≤ 1: `declared_baseline=1`. Options are those of `Semiparametric`:
    `baseline`, `noise`, `declared_baseline` and `block`.
    """
    arms, told = turned_arms(dimension, angle), _PAPER | options
    return Semiparametric(arms, 2.0 * np.eye(dimension)[0], name="small-gap", **told)


def turned_arms(dimension: int, angle: float) -> Array:
    """e₁, …, e_d and cos(angle) e₁ + sin(angle) e₂."""
    size = whole(dimension, "dimension", least=2)
    turned = np.zeros(size)
    turned[:2] = math.cos(finite(angle, "angle")), math.sin(angle)
    return np.vstack([np.eye(size), turned])


@dataclass(frozen=True)
class DrawnArms:
    """Arms drawn anew in every run, as by `uniform_sphere`; `draw` gives them and θ."""

    draw: Callable[[int, int, np.random.Generator], tuple[Array, Array]]
    arms: int
    dimension: int
    name: str
    baseline: object = 0.0
    noise: float = 1.0
    declared_baseline: float | None = None
    block: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "baseline", as_baseline(self.baseline))  # computed once for all
        whole(self.arms, "arms", least=2)
        whole(self.dimension, "dimension", least=2)
        whole(self.block, "block", least=1, below=self.arms + 1)
        not_negative(self.noise, "noise")

    def instance(self, rng: np.random.Generator) -> Semiparametric:
        """Draw the arms of one run."""
        return Semiparametric(
            *self.draw(self.arms, self.dimension, rng),
            baseline=self.baseline,
            noise=self.noise,
            declared_baseline=self.declared_baseline,
            block=self.block,
            name=self.name,
        )


def uniform_sphere(
    arms: int = 100, dimension: int = 10, **options: Unpack[WorldOptions]
) -> DrawnArms:
    """Unit vectors drawn uniformly, anew in every run; θ = 2e₁. Gaps can be very small.

    Baseline and options are those of `small_gap`.
    """
    return DrawnArms(_unit_vectors, arms, dimension, "uniform-sphere", **_PAPER | options)


def _unit_vectors(arms: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    points = rng.normal(size=(arms, dimension))
    return points / np.linalg.norm(points, axis=1, keepdims=True), 2.0 * np.eye(dimension)[0]


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


def published_spheres(*, noise: float = 1.0, declared_baseline: float | None = None) -> InTurn:
    """The hundred instances behind the paper's table of uniform arms: K = 100 in dimension 10.

    By default policies are told |ν_t| ≤ 2, which holds; the paper told them |ν_t| ≤ 1.
    """
    sphere = uniform_sphere(noise=noise, declared_baseline=declared_baseline)
    return InTurn(_PublishedWorlds(sphere), "uniform-sphere, as published")


@dataclass(frozen=True)
class _PublishedWorlds(Sequence[World]):
    """The published instances, each made when it is needed: workers are sent only the recipe."""

    sphere: DrawnArms

    def __len__(self) -> int:
        return _PAPER_RUNS

    def __getitem__(self, place: Any) -> Any:
        numbers = range(_PAPER_RUNS)[place]
        if isinstance(numbers, range):
            return [_published_world(self.sphere, number) for number in numbers]
        return _published_world(self.sphere, numbers)


@lru_cache(maxsize=1024)  # of the same noise, all methods have the same worlds
def _published_world(sphere: DrawnArms, number: int) -> World:
    return sphere.instance(np.random.default_rng(_PAPER_SEED + number))


def soare(
    dimension: int = 5, angle: float = 0.1, **options: Unpack[WorldOptions]
) -> Semiparametric:
    """Soare's instance: the arms e₁, …, e_d and one close to the best, which is e₁; θ = 2e₁.

    Options are those of `small_gap`; nothing drifts unless a baseline is given.

    Reference: Soare, Lazaric and Munos (2014), where the angle is 0.01.
    """
    arms = turned_arms(dimension, angle)
    return Semiparametric(arms, 2.0 * np.eye(dimension)[0], name="soare", **options)


def transductive(
    dimension: int = 10, angle: float = 0.1, **options: Unpack[WorldOptions]
) -> Semiparametric:
    """Targets of which half cannot be pulled: the arms are 0, e₁, …, e_d, θ = e₁, and d is even.

    The targets are e_j and cos(angle) e_j + sin(angle) e_{j + d/2} for j = 1, …, d/2: each of the
    first half of the arms, and a target close to it. The arm 0 pays the baseline alone; without it
    a baseline would hide some of the contrasts. Options are those of `soare`.

    Reference: in the manner of Fiez, Jain, Jamieson and Ratliff (2019).
    """
    half = whole(dimension, "dimension", least=4) // 2
    unit = np.eye(2 * half)
    turned = math.cos(finite(angle, "angle")) * unit[:half] + math.sin(angle) * unit[half:]
    source, target = np.vstack([np.zeros(2 * half), unit]), np.vstack([unit[:half], turned])
    return Semiparametric(source, unit[0], target=target, name="transductive", **options)


def tao(arms: int = 100, dimension: int = 10, **options: Unpack[WorldOptions]) -> DrawnArms:
    """Unit vectors drawn uniformly, anew in every run; θ lies next to one of the closest pair.

    With u and v the two arms that are closest to each other, θ = u + 0.01 (v − u). Options are
    those of `soare`.

    Reference: Tao, Blanco and Zhou (2018).
    """
    return DrawnArms(_closest_pair, arms, dimension, "tao", **options)


def many_arms(arms: int = 100, **options: Unpack[WorldOptions]) -> DrawnArms:
    """Many arms in the plane, drawn anew in every run, whose gaps are moderate; θ = e₁ is the best.

    Arms are e₁, one at the angle 3π/4, and all others near π/4, with a standard deviation of 0.3.
    Options are those of `soare`.

    Reference: in the manner of Fiez, Jain, Jamieson and Ratliff (2019).
    """
    return DrawnArms(_fan, whole(arms, "arms", least=3), 2, "many-arms", **options)


def _closest_pair(arms: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    points, _ = _unit_vectors(arms, dimension, rng)
    near = points @ points.T
    np.fill_diagonal(near, -np.inf)
    first, second = np.unravel_index(np.argmax(near), near.shape)
    return points, points[first] + 0.01 * (points[second] - points[first])


def _fan(arms: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    spread = np.pi / 4 + 0.3 * rng.normal(size=arms - 2)
    angles = np.concatenate([[0.0, 3 * np.pi / 4], spread])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points, np.eye(dimension)[0]
