"""Instances on which the field compares its methods. Nothing drifts unless one says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bestarm.checks import finite, whole
from bestarm.environments.baselines import Baseline, as_baseline
from bestarm.environments.instances import turned_arms
from bestarm.environments.semiparametric import Semiparametric
from bestarm.numerics.geometry import Array

_NO_DRIFT = 0.0


def soare(
    dimension: int = 5,
    angle: float = 0.1,
    *,
    baseline: object = _NO_DRIFT,
    noise: float = 1.0,
    declared_baseline: float | None = None,
) -> Semiparametric:
    """Soare's instance: the arms e₁, …, e_d and one close to the best, which is e₁; θ = 2e₁.

    Reference: Soare, Lazaric and Munos (2014), where the angle is 0.01.
    """
    return Semiparametric(
        turned_arms(dimension, angle),
        2.0 * np.eye(dimension)[0],
        baseline=baseline,
        noise=noise,
        declared_baseline=declared_baseline,
        name="soare",
    )


def transductive(
    dimension: int = 10,
    angle: float = 0.1,
    *,
    baseline: object = _NO_DRIFT,
    noise: float = 1.0,
    declared_baseline: float | None = None,
) -> Semiparametric:
    """Targets of which half cannot be pulled: the arms are 0, e₁, …, e_d, θ = e₁, and d is even.

    The targets are e_j and cos(angle) e_j + sin(angle) e_{j + d/2} for j = 1, …, d/2: each of the
    first half of the arms, and a target close to it. The arm 0 pays the baseline alone; without it
    a baseline would hide some of the contrasts.

    Reference: in the manner of Fiez, Jain, Jamieson and Ratliff (2019).
    """
    half = whole(dimension, "dimension", least=4) // 2
    unit = np.eye(2 * half)
    turned = math.cos(finite(angle, "angle")) * unit[:half] + math.sin(angle) * unit[half:]
    return Semiparametric(
        np.vstack([np.zeros(2 * half), unit]),
        unit[0],
        target=np.vstack([unit[:half], turned]),
        baseline=baseline,
        noise=noise,
        declared_baseline=declared_baseline,
        name="transductive",
    )


@dataclass(frozen=True)
class DrawnArms:
    """Arms drawn anew in every run; see `tao` and `many_arms`. `draw` gives them and θ."""

    draw: Callable[[int, int, np.random.Generator], tuple[Array, Array]]
    arms: int
    dimension: int
    baseline: Baseline
    noise: float
    declared_baseline: float | None
    name: str

    def instance(self, rng: np.random.Generator) -> Semiparametric:
        """Draw the arms of one run."""
        arms, theta = self.draw(self.arms, self.dimension, rng)
        return Semiparametric(
            arms,
            theta,
            baseline=self.baseline,
            noise=self.noise,
            declared_baseline=self.declared_baseline,
            name=self.name,
        )


def tao(
    arms: int = 100,
    dimension: int = 10,
    *,
    baseline: object = _NO_DRIFT,
    noise: float = 1.0,
    declared_baseline: float | None = None,
) -> DrawnArms:
    """Unit vectors drawn uniformly, anew in every run; θ lies next to one of the closest pair.

    With u and v the two arms that are closest to each other, θ = u + 0.01 (v − u).

    Reference: Tao, Blanco and Zhou (2018).
    """
    return DrawnArms(
        _closest_pair,
        whole(arms, "arms", least=2),
        whole(dimension, "dimension", least=2),
        as_baseline(baseline),
        finite(noise, "noise"),
        declared_baseline,
        "tao",
    )


def many_arms(
    arms: int = 100,
    *,
    baseline: object = _NO_DRIFT,
    noise: float = 1.0,
    declared_baseline: float | None = None,
) -> DrawnArms:
    """Many arms in the plane, drawn anew in every run, whose gaps are moderate; θ = e₁ is the best.

    Arms are e₁, one at the angle 3π/4, and all others near π/4, with a standard deviation of 0.3.

    Reference: in the manner of Fiez, Jain, Jamieson and Ratliff (2019).
    """
    return DrawnArms(
        _fan,
        whole(arms, "arms", least=3),
        2,
        as_baseline(baseline),
        finite(noise, "noise"),
        declared_baseline,
        "many-arms",
    )


def _closest_pair(arms: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    points = rng.normal(size=(arms, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    near = points @ points.T
    np.fill_diagonal(near, -np.inf)
    first, second = np.unravel_index(np.argmax(near), near.shape)
    return points, points[first] + 0.01 * (points[second] - points[first])


def _fan(arms: int, dimension: int, rng: np.random.Generator) -> tuple[Array, Array]:
    spread = np.pi / 4 + 0.3 * rng.normal(size=arms - 2)
    angles = np.concatenate([[0.0, 3 * np.pi / 4], spread])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points, np.eye(dimension)[0]
