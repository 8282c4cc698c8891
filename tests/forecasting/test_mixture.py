"""The default forecaster predicts what can be predicted, and costs little where nothing can.

Each part is stated again in plain NumPy.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError
from bestarm.forecasting import Mixture
from bestarm.forecasting import mixture as k
from bestarm.forecasting.mixture import find_cycles
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
        ("sine", 0, 0.70),  # 2/3 if it were known
        ("sine", 50, 0.72),
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


def test_it_predicts_what_covariates_explain_whatever_their_scales() -> None:
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
def test_constant_rewards_are_predicted_exactly(value: float) -> None:
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
    monkeypatch.setattr(k, "_OUTSTANDING", 10)
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
        forecaster.follow(1, None, None, np.ones((1, 3)), np.ones(1))


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
    fit = k.regression(size, prior)
    for row, target in zip(x, y, strict=True):
        k._regress(fit, row, target, np.inf, prior)
    exact = np.linalg.solve(x.T @ x + np.eye(size) / prior, x.T @ y)
    assert fit[0] == pytest.approx(exact, rel=1e-9, abs=1e-12)


# --- its parts -----------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
NOISE = RNG.standard_normal(3000)
NOTHING = np.zeros(0)


def make_state(*, covariates: int = 0, features: int = 1) -> tuple[Any, ...]:
    series = np.zeros(k.SERIES)
    series[k.NEXT_SEARCH], series[k.ACTIVE], series[k.SHARE] = math.inf, k.LAGGED, k.FIRST_SHARE
    return (
        series,
        np.full((2, k.RECORD), -math.inf),
        np.zeros((k.CYCLES, 3)),
        k.regression(k.TIMED, k.TIME_PRIOR),
        k.regression(covariates, k.COVARIATE_PRIOR / max(covariates, 1)),
        k.regression(features, k.EFFECT_PRIOR),
    )


def run(state: tuple[Any, ...], rewards: Array, features: Array | None = None) -> Array:
    """The forecasts of draws whose outcomes come at once."""
    if features is None:
        features = np.ones((len(rewards), 1))  # one arm: x − x̄ is 0
    row, out = np.empty(k.ROW), np.empty(len(rewards))
    for number, reward in enumerate(rewards):
        out[number] = k.predict(state, float(number), math.nan, NOTHING, row)
        k.update(state, row, features[number], float(reward))
    return out


def test_a_blend_is_a_mean_weighted_by_odds() -> None:
    averages = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    odds = np.array([-1.0, 0.0, -3.0, -0.5, -2.0, -4.0])
    prior = np.array([k._MEAN_PRIOR, 0.0, 0.0, 0.0, 0.0, k._RECENT_PRIOR])
    expected = np.average(averages, weights=np.exp(odds + prior))
    assert k._blend(averages, odds) == pytest.approx(expected, rel=1e-12)


def test_covariates_are_in_deviations_from_their_mean_so_far() -> None:
    """Over the draws so far, the new one included; a constant one says nothing."""
    rows = np.column_stack([NOISE[:200] * 1e6 + 3e6, NOISE[200:400] * 1e-3, np.full(200, 7.0)])
    fit, out = k.regression(3, 1.0), np.empty(3)
    for seen, row in enumerate(rows, start=1):
        k._standardize(fit, row, float(seen), out)
        if seen >= 3:
            past = rows[:seen, :2]
            expected = (row[:2] - past.mean(axis=0)) / past.std(axis=0)
            np.testing.assert_allclose(out[:2], expected, rtol=1e-6)
        assert out[2] == 0.0


def test_time_is_told_by_sines_of_cycles_day_and_week() -> None:
    series, cycles = np.zeros(k.SERIES), np.array([[0.3, 0.1, 5.0], [0.0, 0.0, 0.0]])
    row, day = np.full(k.ROW, np.nan), 86400.0
    row[k._NUMBER], moment = 17.0, 1_800_000_000.0 + 0.3 * day
    k._fill_harmonics(series, cycles, moment, row)
    angles = [0.1 + 0.3 * (17 - 5)]
    expected = [[math.sin(angle), math.cos(angle)] for angle in angles] + [[0.0, 0.0]]
    found = row[k._CYCLE :].reshape(-1, 2)
    np.testing.assert_allclose(found[: k.CYCLES], expected, atol=1e-9)
    speeds = [n / day for n in (1, 2, 3)] + [n / (7 * day) for n in (1, 2)]
    turns = 2 * math.pi * np.array([moment * speed for speed in speeds])
    np.testing.assert_allclose(found[k.CYCLES :, 0], np.sin(turns), atol=1e-6)
    np.testing.assert_allclose(found[k.CYCLES :, 1], np.cos(turns), atol=1e-6)
    assert series[k.ACTIVE] == k.TIMED
    k._fill_harmonics(series, cycles, math.nan, row)
    assert not row[k._WAVE : k.ROW].any()


@pytest.mark.parametrize(("speed", "keeps"), [(0.3005, True), (0.4, False)])
def test_a_cycle_that_changes_goes_on_where_it_is(speed: float, keeps: bool) -> None:
    """The angle of the draw at the change is the same; what was learned of a close one is kept."""
    state = make_state()
    series, _, cycles, time, _, _ = state
    series[k.COUNT], cycles[1], time[0] = 1000.0, (0.3, 0.1, 5.0), 1.0
    time[k._SPREAD :] = 0.01 * (np.eye(k.TIMED) + 1.0)
    k.set_cycle(state, 1, speed, 400.0)
    assert cycles[1].tolist() == pytest.approx([speed, 0.1 + 0.3 * 395, 400.0])
    assert series[k.ACTIVE] == k.CYCLIC
    own = np.zeros(k.TIMED, dtype=bool)
    own[k.LAGGED + 2 : k.LAGGED + 4] = True
    spread = time[k._SPREAD :]
    assert (time[0][~own] == 1.0).all()
    assert (spread[np.ix_(~own, ~own)] > 0).all()
    if keeps:
        assert (time[0][own] == 1.0).all()
        assert (spread == 0.01 * (np.eye(k.TIMED) + 1.0)).all()
    else:
        assert not time[0][own].any()
        np.testing.assert_array_equal(spread[np.ix_(own, own)], k.CYCLE_PRIOR * np.eye(2))
        assert not spread[np.ix_(own, ~own)].any()
        assert not spread[np.ix_(~own, own)].any()


def test_levels_are_averaged_at_several_speeds() -> None:
    """An average of speed s is the mean of all at first, and then an exponential one."""
    state, rewards = make_state(), 3.0 + NOISE[:900]
    run(state, rewards)
    series, record = state[:2]
    for speed, found in zip(k.SPEEDS, series[k._AVERAGES :], strict=False):
        gains = np.maximum(speed, 1 / np.arange(1, len(rewards) + 1))
        kept = np.append(np.cumprod((1 - gains)[:0:-1])[::-1], 1.0)  # of each, until now
        assert found == pytest.approx((gains * kept) @ rewards, rel=1e-9)
    np.testing.assert_allclose(series[k._PAST : k._PAST + k.LAGS], rewards[::-1][: k.LAGS])
    np.testing.assert_array_equal(record[:, :900], [np.arange(900.0), rewards])


def test_the_level_is_the_reward_less_the_effect_of_its_arm() -> None:
    """Ridge regression on features about their mean finds the effects, whatever the level."""
    features = np.eye(3)[RNG.integers(3, size=2000)]
    effects = np.array([0.0, 1.0, -2.0])
    state = make_state(features=3)
    run(state, 50.0 + features @ effects + 0.1 * NOISE[:2000], features)
    found = state[5][0]
    np.testing.assert_allclose(found - found[0], effects, atol=0.05)
    levels = state[1][1, 1500:2000]
    assert levels.mean() == pytest.approx(50.0 + features.mean(axis=0) @ effects, abs=0.05)
    assert levels.std() == pytest.approx(0.1, rel=0.15)  # no effect is left in them


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_mean_since_the_last_jump_begins_at_the_jump(sign: float) -> None:
    """Before one it is the mean of all. A jump of two deviations is found after some draws, and
    these count as well: 20 draws after it, it is the mean of 20, but for one or two."""
    series, jump = np.zeros(k.SERIES), 300
    series[k._VARIANCE_OF_LEVEL] = 1.0
    levels = sign * (NOISE[:320] + 2.0 * (np.arange(320) >= jump))
    last = k._PAST - 1
    for number, level in enumerate(levels):
        k._update_recent_mean(series, float(level))
        if number == jump - 1:
            assert series[last] == pytest.approx(levels[:jump].mean(), abs=1e-9)
            assert series[k._SINCE] == jump
    assert 18 <= series[k._SINCE] <= 22
    since = int(series[k._SINCE])
    assert series[last] == pytest.approx(levels[-since:].mean(), abs=1e-9)


def test_variances_are_mean_squares_and_odds_are_losses_as_made_at_the_draw() -> None:
    """Of each average, minus its squared error over twice the variance, older ones counting less;
    the best has 0. A gate opens by what its part has saved."""
    series, row = np.zeros(k.SERIES), np.zeros(k.ROW)
    row[k._LEVEL] = 0.5
    row[k._AVERAGE : k._AVERAGE + k.AVERAGES] = [0.0, 0.2, 0.4, 0.6, 0.8, 3.0]
    row[k._GATE : k._GATE + 2], row[k._PART : k._PART + 2] = (0.3, 0.6), (0.05, -0.02)
    odds, gates = np.zeros(k.AVERAGES), np.zeros(2)
    levels = 0.5 + 0.5 * NOISE[:200]
    errors, aparts = [], []
    for level in levels:
        apart = float(level - row[k._LEVEL])
        error = apart - 0.3 * 0.05  # g₁a is part of f; what covariates explain is not in u
        k._update_odds(series, row, error, apart)
        errors.append(error)
        aparts.append(apart)
        variance, of_level = np.mean(np.square([errors, aparts]), axis=1)
        assert series[k._VARIANCE] == pytest.approx(variance, rel=1e-9)
        assert series[k._VARIANCE_OF_LEVEL] == pytest.approx(of_level, rel=1e-9)
        misses = level - row[k._AVERAGE : k._AVERAGE + k.AVERAGES]
        odds = k._FORGET_LOSS * odds - np.minimum(misses**2 / (2 * of_level), 32.0)
        odds = np.maximum(odds - odds.max(), -k._MOST_LOG_ODDS)
        for which in range(2):
            without = error + row[k._GATE + which] * row[k._PART + which]
            saved = without**2 - (without - row[k._PART + which]) ** 2
            gates[which] = k._FORGET_LOSS * gates[which] + saved / (2 * variance)
    assert 0.1 < np.abs(gates).min() < np.abs(gates).max() < k._MOST_LOG_ODDS
    np.testing.assert_allclose(series[k._ODDS : k._ODDS + k.AVERAGES], odds, rtol=1e-6)
    np.testing.assert_allclose(series[k._GATES : k._GATES + 2], gates, rtol=1e-6)


@pytest.mark.parametrize("slope", [-0.5, 0.4, 0.7, 3.0])
def test_the_share_is_the_slope_of_outcomes_on_forecasts_within_windows(slope: float) -> None:
    """What moves from window to window does not count; with little evidence it is 0.8."""
    series = np.zeros(k.SERIES)
    series[k._VARIANCE], series[k.SHARE], size = 1.0, k.FIRST_SHARE, 10
    forecasts = 5.0 * NOISE[:400]
    steps = 100.0 * np.repeat(NOISE[1000:1040], size)  # seen by no forecast
    outcomes = slope * forecasts + steps + NOISE[400:800]
    for number in range(400):
        series[k.COUNT] = 10.0
        k._update_share(series, float(forecasts[number]), float(outcomes[number]))
        if number == 8:
            assert series[k.SHARE] == k.FIRST_SHARE
    own, both = 0.0, 0.0
    for start in range(0, 400, size):
        x, y = forecasts[start : start + size], outcomes[start : start + size]
        own = k._FORGET_WINDOW * own + size * x.var()
        both = k._FORGET_WINDOW * both + size * np.mean((x - x.mean()) * (y - y.mean()))
    prior = k._EVIDENCE * 1.0
    expected = np.clip((both + k.FIRST_SHARE * prior) / (own + prior), 0.0, 1.0)
    assert series[k.SHARE] == pytest.approx(expected, rel=1e-9)
    assert series[k.SHARE] == pytest.approx(np.clip(slope, 0.0, 1.0), abs=0.05)


def test_a_regression_forgets_what_it_knows_well_and_nothing_else() -> None:
    """Two regressors, of which one never moves: its variance stays, the other's has a floor."""
    fit, prior = k.regression(2, 1.0), 1.0
    for number in range(60_000):
        k._regress(fit, np.array([1.0 - 2.0 * (number % 2), 0.0]), 1.0, np.inf, prior)
    moving, still = fit[k._SPREAD, 0], fit[k._SPREAD + 1, 1]
    assert still == prior
    # The variance of n observations of which a share f is forgotten each time tends to f.
    assert moving == pytest.approx(k._FORGET_DATA, rel=0.01)


def test_errors_of_a_regression_are_cut() -> None:
    """A target far off moves slopes as one at the limit does."""
    x = np.array([0.6, -0.8, 1.0])
    far, limit = k.regression(3, 0.7), k.regression(3, 0.7)
    k._regress(far, x, 1e9, 2.5, 0.7)
    k._regress(limit, x, 2.5, np.inf, 0.7)
    np.testing.assert_allclose(far, limit, rtol=1e-12)
    # (xxᵀ + I/prior)⁻¹ x y in closed form.
    np.testing.assert_allclose(far[0], 2.5 * x / (x @ x + 1 / 0.7), rtol=1e-12)


def test_a_forecast_is_the_mean_and_a_share_of_what_moves() -> None:
    """f = L + g₁a + g₂c, with gates 1 / (1 + exp(2 − odds)), of which the share is given out."""
    state, row = make_state(covariates=2), np.empty(k.ROW + 2)
    series, _, _, time, covariate_fit, _ = state
    for number in range(60):
        k.predict(state, float(number), math.nan, NOISE[number : number + 2], row)
        k.update(state, row, np.ones(1), float(NOISE[number] + number % 2))
    series[k._GATES : k._GATES + 2], series[k.SHARE] = (3.0, 1.0), 0.5
    known = np.array([0.3, -0.2])
    given = k.predict(state, 60.0, math.nan, known, row)
    level, scale = k._blend(series[k._AVERAGES : k._PAST], series[k._ODDS : k._AVERAGES]), 0.0
    scale = math.sqrt(series[k._VARIANCE])
    past = np.clip((series[k._PAST : k._SINCE] - level) / scale, -8, 8)
    averages = np.clip((series[k._AVERAGES : k._PAST] - level) / scale, -8, 8)
    a = scale * (np.concatenate([past, averages]) @ time[0, : k.LAGGED])
    c = row[k.ROW :] @ covariate_fit[0]
    gates = 1 / (1 + np.exp(2.0 - np.array([3.0, 1.0])))
    f = level + gates @ [a, c]
    mean = series[k._AVERAGES]
    assert given == pytest.approx(mean + 0.5 * (f - mean), rel=1e-12)
    assert abs(a) > 1e-3
    assert abs(c) > 1e-3


# --- cycles --------------------------------------------------------------------------------------

STEPS = np.arange(1024)
NOISES = np.random.default_rng(0).standard_normal((50, len(STEPS)))


@pytest.mark.parametrize("speed", [0.1, 0.777, 2.0, 3.0])
def test_a_cycle_in_noise_is_found(speed: float) -> None:
    for noise in NOISES:
        found = find_cycles(np.sin(speed * STEPS + 1) + noise, 1)
        # Within a quarter of a line: over the next 1024 steps, the phase drifts by less than π/2.
        assert found == pytest.approx([speed], abs=0.25 * 2 * np.pi / len(STEPS))


def test_the_clearest_of_several_come_first() -> None:
    series = 2 * np.sin(0.5 * STEPS) + np.sin(1.5 * STEPS) + 0.5 * np.sin(2.5 * STEPS)
    assert find_cycles(series + 0.3 * NOISES[0], 2) == pytest.approx([0.5, 1.5], abs=1e-3)


def test_nothing_is_found_in_noise_drift_and_constants() -> None:
    # By chance in half a per cent of series of noise; the seed is fixed.
    assert not any(len(find_cycles(noise, 2)) for noise in NOISES)
    assert not any(len(find_cycles(np.cumsum(noise), 2)) for noise in NOISES[:20])
    assert not len(find_cycles(np.where(STEPS < 400, 5.0, -5.0) + NOISES[0], 2))
    assert not len(find_cycles(np.full(128, 1e6), 2))


@pytest.mark.parametrize("width", [5, 70])
def test_features_that_are_added_change_nothing_until_one_of_them_is_not_0(width: int) -> None:
    """As of an option that was added: above 64 features only a diagonal is kept."""
    rng = np.random.default_rng(4)
    narrow = Mixture()
    for number in range(40):
        narrow.forecast(number, None, None)
        narrow.learn(number, ARMS[rng.integers(4)], float(rng.normal()))
    wide = deepcopy(narrow)
    for number in range(40, 44):
        arm, reward = ARMS[rng.integers(4)], float(rng.normal())
        made = [each.forecast(number, None, None) for each in (narrow, wide)]
        assert number > 40 + (width > k.FULL) or made[0] == made[1]
        narrow.learn(number, arm, reward)
        wide.learn(number, np.append(arm, np.zeros(width - 4)), reward)
        if width <= k.FULL:
            assert made[0] == made[1]
    wide.forecast(44, None, None)
    wide.learn(44, np.eye(width)[4], 1.0)
    assert math.isfinite(wide.forecast(45, None, None))
    with pytest.raises(InvalidInputError, match="those of earlier draws had"):
        wide.learn(45, ARMS[0], 1.0)
