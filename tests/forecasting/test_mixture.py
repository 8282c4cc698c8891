"""The default forecaster foresees what can be foreseen, and costs little where nothing can."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError
from bestarm.forecasting import Mixture, kernels, mixture
from bestarm.numerics.geometry import Array
from bestarm.testing import check_forecaster

ARMS = np.eye(4)
EFFECTS = np.array([0.0, 0.3, 0.6, 0.9])


def arms(rng: np.random.Generator, draws: int) -> Array:
    return ARMS[rng.integers(len(ARMS), size=draws)]


def within(values: Array) -> float:
    """The mean variance within batches of 200: what a policy cannot take off by itself."""
    return float(values.reshape(-1, 200).var(axis=1).mean())


def ratio(level: Array, seed: int, *, late: int = 0, skip: int = 400, **known: Any) -> float:
    """The variance with forecasts over that without, where noise of variance 1 is added."""
    rng = np.random.default_rng(seed)
    features, noisy = arms(rng, len(level)), level + rng.standard_normal(len(level))
    rewards = noisy + features @ EFFECTS
    forecaster = Mixture()
    if late:
        forecasts = np.empty(len(level))
        for number in range(len(level)):
            forecasts[number] = forecaster.forecast(number, None, None)
            if (told := number - late) >= 0:
                forecaster.learn(told, features[told], float(rewards[told]))
    else:
        known = {"moments": None, "covariates": None} | known
        forecasts = forecaster.follow(0, features=features, rewards=rewards, **known)
    return within((noisy - forecasts)[skip:]) / within(noisy[skip:])


def test_it_keeps_the_contract() -> None:
    check_forecaster(Mixture)


def test_it_costs_little_where_nothing_can_be_foreseen() -> None:
    assert np.mean([ratio(np.zeros(600), seed, skip=200) for seed in range(100)]) < 1.005
    assert ratio(np.zeros(20_000), 0) < 1.001


TIME = np.arange(10_000)
PATHS = {
    "sine": 1 + np.sin(2 * TIME),
    "walk": np.cumsum(0.2 * np.random.default_rng(1).standard_normal(len(TIME))),
    "jumps": np.where(TIME // 1500 % 2, 5.0, -5.0),
    "slow sine": 3 * np.sin(2 * np.pi * TIME / 700),
}


@pytest.mark.parametrize(
    ("name", "late", "most"),
    [
        ("sine", 0, 0.70),  # 2/3 if it were known
        ("sine", 50, 0.72),
        ("walk", 0, 0.65),
        ("jumps", 0, 0.90),
        ("slow sine", 0, 0.75),
        ("slow sine", 50, 0.95),
    ],
)
def test_it_foresees(name: str, late: int, most: float) -> None:
    assert ratio(PATHS[name], 2, late=late) < most


def test_it_foresees_the_rhythm_of_day_and_week() -> None:
    hours = np.arange(6000) * 0.1  # 25 days
    level = np.sin(2 * np.pi * hours / 24) + 0.7 * np.cos(2 * np.pi * hours / 168)
    blind, timed = ratio(level, 3), ratio(level, 3, moments=1.7e9 + 3600 * hours)
    assert timed < blind - 0.01


def test_it_foresees_what_covariates_explain_whatever_their_scales() -> None:
    rng = np.random.default_rng(4)
    known = rng.standard_normal((4000, 8))
    level = known[:, 0] - known[:, 1] + np.where(np.arange(4000) < 2000, 3.0, -3.0)
    scales = 10.0 ** np.arange(-4, 4)
    assert ratio(level, 5, covariates=known * scales + 7 * scales) < 0.37  # 1/3 if it were known


def test_forecasts_scale_with_the_rewards() -> None:
    rng = np.random.default_rng(7)
    features, known = arms(rng, 1000), rng.standard_normal((1000, 2))
    rewards = np.cumsum(0.1 * rng.standard_normal(1000)) + rng.standard_normal(1000) + known[:, 0]
    plain = Mixture().follow(0, None, known, features, rewards)
    for scale in (2.0**20, 2.0**-20):
        scaled = Mixture().follow(0, None, known, features, scale * rewards)
        assert np.array_equal(scaled, scale * plain)
    shifted = Mixture().follow(0, None, known, features, rewards + 1e6)
    assert np.abs(shifted - 1e6 - plain)[1:].max() < 1e-6


@pytest.mark.parametrize("value", [0.0, 1e6, -1e-6])
def test_constant_rewards_are_foreseen_exactly(value: float) -> None:
    forecasts = Mixture().follow(0, None, None, np.ones((500, 3)), np.full(500, value))
    assert np.all(forecasts[1:] == value)


def test_an_outlier_does_little_harm() -> None:
    rng = np.random.default_rng(8)
    rewards = rng.standard_normal(3000)
    rewards[1000] = 1e4
    forecasts = Mixture().follow(0, None, None, arms(rng, 3000), rewards)
    assert within((rewards - forecasts)[1200:]) < 1.06 * within(rewards[1200:])


def test_an_outlier_among_covariates_does_little_harm() -> None:
    rng = np.random.default_rng(9)
    known = rng.standard_normal((3000, 1))
    level = known[:, 0].copy()
    known[1000] = 1e9
    assert ratio(level, 10, skip=1200, covariates=known) < 0.54  # 1/2 if it were known


numbers = st.floats(-1e100, 1e100)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(-1e12, 1e12)), min_size=60, max_size=80))
def test_forecasts_are_finite_whatever_comes(draws: list[tuple[float, float, float]]) -> None:
    values = np.array(draws)
    columns = values[:, :1], values[:, 1:2] / 1e90
    forecasts = Mixture().follow(0, values[:, 2], *columns, values[:, 0])
    assert np.all(np.isfinite(forecasts))


def test_the_oldest_draws_without_outcomes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "_OUTSTANDING", 10)
    forecaster = Mixture()
    for number in range(11):
        forecaster.forecast(number, None, None)
    other = deepcopy(forecaster)
    forecaster.learn(0, ARMS[0], 5.0)
    assert forecaster.forecast(11, None, None) == 0.0
    other.learn(1, ARMS[0], 5.0)
    assert other.forecast(11, None, None) == 5.0


def test_a_width_that_changes_is_refused() -> None:
    forecaster = Mixture()
    forecaster.forecast(0, None, np.ones(2))
    with pytest.raises(InvalidInputError, match="`covariates` has 3 numbers; those of earlier"):
        forecaster.forecast(1, None, np.ones(3))
    forecaster.learn(0, np.ones(4), 1.0)
    with pytest.raises(InvalidInputError, match="`features`"):
        forecaster.follow(1, None, None, np.ones((1, 5)), np.ones(1))


def test_covariates_may_come_later_and_be_missing() -> None:
    forecaster = Mixture()
    forecaster.forecast(0, None, None)
    forecaster.forecast(1, None, np.ones(2))
    for number in (0, 1):
        forecaster.learn(number, ARMS[number], 3.0)
    assert forecaster.forecast(2, None, None) == 3.0


@pytest.mark.parametrize("size", [1, 5, 70])
def test_regressions_are_ridge_regressions(size: int) -> None:
    # Closed form: (XᵀX + I/prior)⁻¹ Xᵀy; above 64 regressors only where their products vanish.
    rng, prior = np.random.default_rng(9), 0.7
    x = rng.standard_normal((6, size)) / 4 if size < 64 else np.diag(rng.random(size))
    y = rng.standard_normal(len(x))
    fit = kernels.regression(size, prior)
    for row, target in zip(x, y, strict=True):
        kernels._regress(fit, row, target, np.inf, prior)
    exact = np.linalg.solve(x.T @ x + np.eye(size) / prior, x.T @ y)
    assert fit[0] == pytest.approx(exact, rel=1e-9, abs=1e-12)
