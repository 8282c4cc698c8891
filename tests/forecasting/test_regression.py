"""The default forecaster predicts what can be predicted, from the past alone, and costs little
where nothing can be."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError
from bestarm.forecasting import Regression
from bestarm.forecasting import regression as k
from bestarm.numerics.geometry import Array
from bestarm.testing import check_forecaster

ARMS = np.eye(4)
EFFECTS = np.array([0.0, 0.3, 0.6, 0.9])


def arms(rng: np.random.Generator, draws: int) -> Array:
    return ARMS[rng.integers(len(ARMS), size=draws)]


def side_by_side(runs: int) -> Regression:
    forecaster = Regression()
    forecaster.select(np.zeros(runs, dtype=np.int64))
    return forecaster


def follow(features: Array, rewards: Array, **known: Any) -> Array:
    known = {"moments": None, "covariates": None} | known
    return Regression().follow(0, features=features, rewards=rewards, **known)


# --- from the past alone, whatever stands beside it ----------------------------------------------


def test_a_forecast_rests_on_outcomes_before_the_draw_alone() -> None:
    """At every draw: another reward there, and from there on, changes nothing up to it."""
    rng = np.random.default_rng(0)
    features, known = arms(rng, 200), rng.standard_normal((200, 2))
    rewards = np.sin(np.arange(200)) + known[:, 0] + 0.1 * rng.standard_normal(200)
    made = follow(features, rewards, covariates=known)
    for draw in range(200):
        changed, other = rewards.copy(), features.copy()
        changed[draw:] += 10.0
        other[draw:] = ARMS[0]
        again = follow(other, changed, covariates=known)
        assert np.array_equal(again[: draw + 1], made[: draw + 1])
        if draw < 198:
            assert not np.array_equal(again, made)


def batches_of(sizes: Array, seed: int) -> list[tuple[Array, Array]]:
    """For each batch of a run, the features and rewards of its draws."""
    rng = np.random.default_rng(seed)
    made = []
    for size in sizes:
        features = arms(rng, int(size))
        made.append((features, np.cumsum(rng.standard_normal(int(size))) + features @ EFFECTS))
    return made


def test_a_run_is_the_same_to_the_last_bit_however_many_stand_beside_it() -> None:
    """With batches of different sizes, some empty, and runs that end."""
    runs, batches = 9, 30
    sizes = np.random.default_rng(1).integers(0, 90, (runs, batches))
    draws = [batches_of(sizes[run], 100 + run) for run in range(runs)]
    alone = []
    for run in range(runs):
        forecaster = Regression()
        alone.append([forecaster.follow(0, None, None, *batch) for batch in draws[run]])
    together, left = side_by_side(runs), np.arange(runs)
    for batch in range(batches):
        if batch == 20:
            kept = np.array([7, 2, 3])
            together.select(kept)
            left = left[kept]
        features, rewards = (
            np.concatenate([draws[run][batch][part] for run in left]) for part in (0, 1)
        )
        made = together.follow_runs(sizes[left, batch], features, rewards)
        expected = np.concatenate([alone[run][batch] for run in left])
        assert made.tobytes() == expected.tobytes()


def test_copies_side_by_side_go_on_from_what_was_learned() -> None:
    [(features, rewards), (more, later)] = batches_of(np.array([150, 100]), 3)
    forecaster = Regression()
    forecaster.follow(0, None, None, features, rewards)
    several = deepcopy(forecaster)
    several.select(np.array([0, 0]))
    made = several.follow_runs(np.array([100, 100]), np.tile(more, (2, 1)), np.tile(later, 2))
    expected = forecaster.follow(150, None, None, more, later)
    assert made.tobytes() == np.tile(expected, 2).tobytes()


def test_it_keeps_the_contract() -> None:
    check_forecaster(Regression)


# --- what it predicts ----------------------------------------------------------------------------


def within(values: Array) -> float:
    """The mean variance within batches of 200: what a policy cannot take off by itself."""
    return float(values.reshape(-1, 200).var(axis=1).mean())


def ratio(level: Array, seed: int, *, late: int = 0, skip: int = 400, **known: Any) -> float:
    """The variance with forecasts over that without, where noise of variance 1 is added."""
    rng = np.random.default_rng(seed)
    features, noisy = arms(rng, len(level)), level + rng.standard_normal(len(level))
    rewards = noisy + features @ EFFECTS
    if late:
        forecaster, forecasts = Regression(), np.empty(len(level))
        for number in range(len(level)):
            forecasts[number] = forecaster.forecast(number, None, None)
            if (told := number - late) >= 0:
                forecaster.learn(told, features[told], float(rewards[told]))
    else:
        forecasts = follow(features, rewards, **known)
    return within((noisy - forecasts)[skip:]) / within(noisy[skip:])


def test_it_costs_little_where_nothing_can_be_predicted() -> None:
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
        ("sine", 0, 0.72),  # 2/3 if it were known
        ("sine", 50, 0.76),
        ("walk", 0, 0.65),
        ("jumps", 0, 0.90),
        ("slow sine", 0, 0.75),
        ("slow sine", 50, 0.95),
    ],
)
def test_it_predicts(name: str, late: int, most: float) -> None:
    assert ratio(PATHS[name], 2, late=late) < most


def test_it_predicts_the_cycle_of_day_and_week() -> None:
    hours = np.arange(6000) * 0.1  # 25 days
    level = np.sin(2 * np.pi * hours / 24) + 0.7 * np.cos(2 * np.pi * hours / 168)
    blind, timed = ratio(level, 3), ratio(level, 3, moments=1.7e9 + 3600 * hours)
    assert timed < blind - 0.01


def test_time_is_told_by_sines_of_day_and_week() -> None:
    day, moment = 86400.0, 1_800_000_000.0 + 0.3 * 86400.0
    found = Regression()._known((1, 1), np.array([[moment]]), None)[0, 0]
    speeds = [n / day for n in (1, 2, 3)] + [n / (7 * day) for n in (1, 2)]
    turns = 2 * np.pi * np.array([moment * speed for speed in speeds])
    np.testing.assert_allclose(found, [*np.sin(turns), *np.cos(turns)], atol=1e-6)
    assert not Regression()._known((1, 1), None, None).any()


def test_it_predicts_what_covariates_explain_whatever_their_scales() -> None:
    rng = np.random.default_rng(4)
    known = rng.standard_normal((4000, 8))
    level = known[:, 0] - known[:, 1] + np.where(np.arange(4000) < 2000, 3.0, -3.0)
    scales = 10.0 ** np.arange(-4, 4)
    assert ratio(level, 5, covariates=known * scales + 7 * scales) < 0.37  # 1/3 if it were known


def test_slopes_are_those_of_a_ridge_regression() -> None:
    """Closed form over all rows, with both sides standardised and prior precisions on the diagonal.

    The first 200 outcomes; what was forgotten of old ones is 200² / 2 · 10⁻⁴, one in a hundred.
    """
    rng = np.random.default_rng(9)
    features, known = arms(rng, 200), rng.standard_normal((200, 3))
    rewards = known @ [1.0, -0.5, 0.0] + features @ EFFECTS + 0.3 * rng.standard_normal(200)
    forecaster, rows = Regression(), []
    store = forecaster._store

    def keeping(given: Array, *rest: Any) -> None:
        store(given, *rest)
        rows.append(given[0])

    forecaster._store = keeping  # type: ignore[method-assign, assignment]
    forecaster.follow(0, None, known, features, rewards)
    fitted = np.vstack(rows)[: 200 - int(forecaster._filled[0])]
    y, z = fitted[:, 1], np.delete(fitted, [0, 1], axis=1)
    moving = z.std(axis=0) > 0
    z, prior = z[:, moving], forecaster._prior[2:][moving]
    standard = (z - z.mean(axis=0)) / z.std(axis=0)
    gram = standard.T @ standard + np.diag(1 / prior)
    slopes = np.linalg.solve(gram, standard.T @ (y - y.mean())) / z.std(axis=0)
    found = forecaster._slopes[0, 2:][moving]
    np.testing.assert_allclose(found, slopes, atol=0.01)
    assert found[-7:-4] == pytest.approx([1.0, -0.5, 0.0], abs=0.1)


def test_the_level_is_the_reward_less_the_effect_of_its_arm() -> None:
    rng = np.random.default_rng(5)
    features, effects = np.eye(3)[rng.integers(3, size=2000)], np.array([0.0, 1.0, -2.0])
    forecaster = Regression()
    rewards = 50.0 + features @ effects + 0.1 * rng.standard_normal(2000)
    forecaster.follow(0, None, None, features, rewards)
    found = forecaster._slopes[0, -3:]
    np.testing.assert_allclose(found - found[0], effects, atol=0.02)
    assert forecaster._levels.std() == pytest.approx(0.1, rel=0.15)  # no effect is left in them


# --- numbers of every kind -----------------------------------------------------------------------


def test_forecasts_scale_with_the_rewards() -> None:
    rng = np.random.default_rng(7)
    features, known = arms(rng, 1000), rng.standard_normal((1000, 2))
    rewards = np.cumsum(0.1 * rng.standard_normal(1000)) + rng.standard_normal(1000) + known[:, 0]
    plain = follow(features, rewards, covariates=known)
    for scale in (2.0**20, 2.0**-20):
        scaled = follow(features, scale * rewards, covariates=known)
        np.testing.assert_allclose(scaled, scale * plain, rtol=1e-9, atol=1e-9 * scale)
    shifted = follow(features, rewards + 1e6, covariates=known)
    assert np.abs(shifted - 1e6 - plain)[1:].max() < 1e-6


@pytest.mark.parametrize("value", [0.0, 1e6, -1e-6])
def test_constant_rewards_are_predicted_exactly(value: float) -> None:
    forecasts = follow(np.ones((500, 3)), np.full(500, value))
    assert np.all(forecasts[1:] == value)


def test_an_outlier_does_little_harm() -> None:
    rng = np.random.default_rng(8)
    rewards = rng.standard_normal(3000)
    rewards[1000] = 1e4
    forecasts = follow(arms(rng, 3000), rewards)
    assert within((rewards - forecasts)[1200:]) < 1.06 * within(rewards[1200:])


def test_an_outlier_among_covariates_does_little_harm() -> None:
    rng = np.random.default_rng(9)
    known = rng.standard_normal((3000, 1))
    level = known[:, 0].copy()
    known[1000] = 1e9
    assert ratio(level, 10, skip=1200, covariates=known) < 0.54  # 1/2 if it were known


numbers = st.floats(-1e100, 1e100) | st.sampled_from([1e308, -1e308, np.inf, -np.inf, np.nan])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(-1e12, 1e12)), min_size=60, max_size=80))
def test_forecasts_are_finite_whatever_comes(draws: list[tuple[float, float, float]]) -> None:
    values = np.array(draws)
    features = np.clip(np.nan_to_num(values[:, 1:2]), -1e100, 1e100) / 1e90
    forecasts = Regression().follow(0, values[:, 2], values[:, :1], features, values[:, 1])
    assert np.all(np.isfinite(forecasts))


def test_what_is_not_a_number_counts_as_the_mean() -> None:
    """One covariate in ten is missing: what the others explain is predicted all the same."""
    rng = np.random.default_rng(11)
    known = rng.standard_normal((3000, 1))
    level = known[:, 0].copy()
    known[::10] = np.nan
    assert ratio(level, 12, covariates=known) < 0.58  # 0.55 if it were known


# --- draws that come late, and widths that change ------------------------------------------------


def test_the_oldest_draws_without_outcomes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k, "_OUTSTANDING", 10)
    forecaster = Regression()
    for number in range(11):
        forecaster.forecast(number, None, None)
    other = deepcopy(forecaster)
    forecaster.learn(0, ARMS[0], 5.0)
    assert forecaster.forecast(11, None, None) == 0.0
    other.learn(1, ARMS[0], 5.0)
    assert other.forecast(11, None, None) == 5.0


def test_a_width_that_changes_is_refused() -> None:
    forecaster = Regression()
    forecaster.forecast(0, None, np.ones(2))
    with pytest.raises(InvalidInputError, match="`covariates` has 3 numbers; those of earlier"):
        forecaster.forecast(1, None, np.ones(3))
    forecaster.learn(0, np.ones(4), 1.0)
    with pytest.raises(InvalidInputError, match="`features`"):
        forecaster.follow(1, None, None, np.ones((1, 3)), np.ones(1))


def test_covariates_may_come_later_and_be_missing() -> None:
    forecaster = Regression()
    forecaster.forecast(0, None, None)
    forecaster.forecast(1, None, np.ones(2))
    for number in (0, 1):
        forecaster.learn(number, ARMS[number], 3.0)
    assert forecaster.forecast(2, None, None) == 3.0


@pytest.mark.parametrize("width", [5, 70])
def test_features_that_are_added_change_nothing_until_one_of_them_is_not_0(width: int) -> None:
    """As of an option that was added."""
    rng = np.random.default_rng(4)
    narrow = Regression()
    for number in range(40):
        narrow.forecast(number, None, None)
        narrow.learn(number, ARMS[rng.integers(4)], float(rng.normal()))
    wide = deepcopy(narrow)
    for number in range(40, 60):
        arm, reward = ARMS[rng.integers(4)], float(rng.normal())
        made = [each.forecast(number, None, None) for each in (narrow, wide)]
        assert made[0] == pytest.approx(made[1], rel=1e-9)
        narrow.learn(number, arm, reward)
        wide.learn(number, np.append(arm, np.zeros(width - 4)), reward)
    wide.forecast(60, None, None)
    wide.learn(60, np.eye(width)[4], 1.0)
    assert np.isfinite(wide.forecast(61, None, None))
    with pytest.raises(InvalidInputError, match="those of earlier draws had"):
        wide.learn(61, ARMS[0], 1.0)
