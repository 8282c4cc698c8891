"""Instances whose arms' means move, from work on robust best-arm identification.

All are linear at every round: arm x has the mean x·θ_t, and the best arm has the best average.

Reference: Xiong, Camilleri, Fazel, Jain and Jamieson (2024), and the authors' public repository.
"""

from __future__ import annotations

import itertools

import numpy as np

from bestarm.checks import finite, positive, whole
from bestarm.environments.moving_means import MovingMeans
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.records import Counts

_PAPER_SEED = 6
_ARTICLES = 24
_LEAST_GAP = 1e-5  # of the stationary θ of the multivariate test
_SCALES = tuple(float(scale) for scale in range(10))
_PERIODS = tuple(range(300, 3001, 300))


def _soare_arms(dimension: int, angle: float) -> Array:
    """The unit vectors, and one at an angle from the first."""
    turned = np.zeros(dimension)
    turned[:2] = np.cos(finite(angle, "angle")), np.sin(angle)
    return np.vstack([np.eye(dimension), turned])


def malicious(
    dimension: int = 10, angle: float = 0.5, *, rounds: int = 10_000, noise: float = 1.0
) -> MovingMeans:
    """A first third in which every arm but the later best one pays, made to fool eliminations.

    The arms are Soare's. θ is (0, 1, …, 1) for a third of the rounds, 0 for one round, then 2e₁.
    """
    size, length = whole(dimension, "dimension", least=2), whole(rounds, "rounds", least=3)
    thetas = np.zeros((length, size))
    thetas[: length // 3, 1:] = 1.0
    thetas[length // 3 + 1 :, 0] = 2.0
    arms = _soare_arms(size, angle)
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="malicious")


def oscillating(
    magnitude: float = 2.5,
    period: float = 900,
    *,
    dimension: int = 10,
    angle: float = 0.5,
    rounds: int = 10_000,
    noise: float = 1.0,
) -> MovingMeans:
    """Soare's arms, of which the last unit vector is the best on average and swings.

    θ_t = 0.3 e₁ + (0.5 − magnitude · sin(2πt/period)) e_d at t = 0, 1, …
    """
    size = whole(dimension, "dimension", least=3)
    times = np.arange(whole(rounds, "rounds", least=1))
    thetas = np.zeros((len(times), size))
    thetas[:, 0] = 0.3
    swing = np.sin(2 * np.pi * times / positive(period, "period"))
    thetas[:, -1] = 0.5 - finite(magnitude, "magnitude") * swing
    arms = _soare_arms(size, angle)
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="oscillating")


def multivariate(
    scale: float = 2.0, period: float | None = None, *, rounds: int = 10_000, noise: float = 0.3
) -> MovingMeans:
    """The paper's multivariate test: four yes-no choices, each with its pairs, of moving effects.

    An arm has the features 1, v_i = ±1 and v_i v_j. Each effect swings around its mean with `scale`
    times the largest of them and a random phase, such that the best arm stays the best on average.
    Means and phases are those of the paper's two series of instances: scales 0, 1, …, 9 at a period
    of 900 rounds, which is the series without `period`, and periods 300, 600, …, 3000 at scale 2.
    """
    choices = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    pairs = [choices[:, i] * choices[:, j] for i, j in itertools.combinations(range(4), 2)]
    arms = np.column_stack([np.ones(len(choices)), choices, *pairs])
    series: list[tuple[float, float]] = [(each, 900.0) for each in _SCALES]
    if period is not None:
        series = [(2.0, float(each)) for each in _PERIODS]
    wanted = (float(scale), 900.0 if period is None else float(period))
    if wanted not in series:
        raise InvalidInputError(
            f"The paper has no instance of scale {scale:g} and period {wanted[1]:g}.",
            field="scale" if period is None else "period",
            value=scale if period is None else period,
            remedy="Without `period` the scale is 0, 1, … or 9; with it the scale is 2 and the "
            "period 300, 600, … or 3000.",
        )
    times = np.arange(whole(rounds, "rounds", least=1))
    thetas = _swinging_effects(arms, times, series[: series.index(wanted) + 1])
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="multivariate")


def _swinging_effects(arms: Array, times: Counts, series: list[tuple[float, float]]) -> Array:
    """θ_t of the last instance of a series; those before it use up random numbers."""
    rng = np.random.RandomState(_PAPER_SEED)  # the paper's instances
    theta = np.zeros(arms.shape[1])
    while np.ptp(np.sort(arms @ theta)[-2:]) < _LEAST_GAP:
        theta = np.asarray(rng.randint(-10, 10, len(theta)) / 100)
        theta[5] /= 2  # the first pair
    best, largest = np.argmax(arms @ theta), np.abs(theta).max()
    for scale, period in series:
        while True:
            phases = np.empty(len(theta))
            for feature in range(len(theta)):
                rng.randint(0, 2)  # the paper's instances draw it and do not use it
                phases[feature] = rng.uniform(0, 2 * np.pi)
            angles = 2 * np.pi * times[:, None] / period + phases
            thetas = theta + scale * largest * np.sin(angles)
            if np.argmax(arms @ thetas.mean(axis=0)) == best:
                break
    return np.asarray(thetas)


def weekly(duration: int = 500, *, rounds: int = 21_000, noise: float = 1.0) -> MovingMeans:
    """A stand-in for the paper's news articles, whose data may not be passed on: a θ per weekday.

    24 arms in dimension 24. Each day lasts `duration` rounds, and the week repeats. As in the paper
    the best arm leads the others on average by 0.05 to 1; all other numbers are drawn.
    """
    length, total = whole(duration, "duration", least=1), whole(rounds, "rounds", least=1)
    rng = np.random.default_rng(_PAPER_SEED)
    arms = rng.standard_normal((_ARTICLES, _ARTICLES)) / np.sqrt(_ARTICLES)
    gaps = rng.uniform(0.05, 1.0, _ARTICLES)
    gaps[0] = 0.0
    days = rng.standard_normal((7, _ARTICLES))
    days += np.linalg.solve(arms, -gaps) - days.mean(axis=0)
    thetas = days[np.arange(total) // length % 7]
    return MovingMeans(arms, thetas @ arms.T, noise=noise, name="weekly")
