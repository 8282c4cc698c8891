"""The baselines that a plan simulates move as declared: how far, how fast, about which level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bestarm import Problem
from bestarm.environments.baselines import Constant, Moving
from bestarm.numerics.geometry import Array
from bestarm.planning import Drift, PlanRequest, Scenario
from bestarm.planning.forecasts import AssumedWorld
from bestarm.planning.worlds import ScenarioWorld

ROUNDS = 400_000
LEVEL, SIZE, PERIOD = 0.5, 0.75, 200.0
THETA = (0.3, 0.1, -0.5)  # whose middle is −0.1


def world_of(drift: Drift, **given: Any) -> tuple[Any, AssumedWorld]:
    problem = Problem(np.eye(3), noise=0.1, baseline=2.0)
    scenario = Scenario("one", theta=THETA, drift=drift, level=LEVEL)
    request = PlanRequest(problem, scenarios=[scenario], policies=["anytime"], **given)
    return ScenarioWorld(request, scenario).make()


def levels(drift: Drift, *, seed: int = 0, rounds: int = ROUNDS, **given: Any) -> Array:
    """The middle of the arm means in every round."""
    world, _ = world_of(drift, **given)
    assert isinstance(world.baseline, Moving)
    chunks, path = world.baseline.chunks(np.random.default_rng(seed)), np.empty(0)
    while len(path) < rounds:
        path = np.concatenate([path, next(chunks)])
    means = world.problem(0.1).source @ world.theta
    return np.asarray(path[:rounds] + (means.max() + means.min()) / 2)


@pytest.mark.parametrize(("period", "given"), [(PERIOD, {}), (None, {}), (None, {"per_day": 365})])
def test_a_sine_is_a_wave_of_its_size_and_period(
    period: float | None, given: dict[str, Any]
) -> None:
    drift = Drift("sine", size=SIZE, period=period)
    rounds = period or given.get("per_day", 1000)
    wave = LEVEL + SIZE * np.sin(2 * math.pi * np.arange(1, ROUNDS + 1) / rounds)
    np.testing.assert_allclose(levels(drift, **given), wave, atol=1e-8)
    assert world_of(drift, **given)[1].period == rounds


def test_a_walk_begins_at_its_level_and_moves_by_its_size_within_a_period() -> None:
    """Steps of a walk add up: their variance over a period is the square of the size."""
    path = levels(Drift("walk", size=SIZE, period=10_000.0))
    step = SIZE / math.sqrt(10_000)
    assert abs(path[0] - LEVEL) < 5 * step
    assert np.abs(path - LEVEL).max() <= SIZE * (1 + 1e-12)
    assert np.diff(path).std() == pytest.approx(step, rel=0.02)  # walls turn few of them
    # A hundredth of a period moves a walk by a tenth of its size; ± 4 standard errors of 20.
    slow = Drift("walk", size=SIZE, period=1e6)
    paths = [levels(slow, seed=seed, rounds=10_000) for seed in range(20)]
    moved = np.std([path[-1] - LEVEL for path in paths])
    assert 0.4 < moved / (SIZE / 10) < 1.6


def test_switches_jump_between_two_levels_once_per_period() -> None:
    path = levels(Drift("switches", size=SIZE, period=PERIOD))
    np.testing.assert_allclose(np.unique(path.round(9)), [LEVEL - SIZE, LEVEL + SIZE])
    jumps = np.count_nonzero(np.diff(path))
    expected = ROUNDS / PERIOD
    assert abs(jumps - expected) < 5 * math.sqrt(expected)  # a binomial number
    lengths = np.diff(np.flatnonzero(np.diff(path)))
    assert lengths.std() == pytest.approx(PERIOD, rel=0.1)  # at random times: geometric ones


def test_people_have_a_level_of_their_own_in_every_round() -> None:
    path = levels(Drift("people", size=SIZE))
    assert len(np.unique(path)) > 0.99 * ROUNDS
    assert np.abs(path - LEVEL).max() <= SIZE * (1 + 1e-12)
    apart = path - path.mean()
    assert abs((apart[1:] @ apart[:-1]) / (apart @ apart)) < 5 / math.sqrt(ROUNDS)


@pytest.mark.parametrize(
    ("kind", "close"), [("sine", 1e-2), ("people", 1e-2), ("switches", 0.2), ("walk", 0.2)]
)
def test_the_places_that_noise_is_averaged_over_are_those_of_the_path(
    kind: str, close: float
) -> None:
    """Compared by quantiles, or by shares where there are two places; slow paths vary more."""
    drift = Drift(kind, size=SIZE, period=PERIOD)
    path, places = levels(drift) - LEVEL, drift.places(SIZE)
    assert np.abs(places).max() == pytest.approx(np.abs(path).max(), rel=0.01)
    assert places.std() == pytest.approx(path.std(), rel=close)
    if kind == "switches":
        assert (path > 0).mean() == pytest.approx((places > 0).mean(), abs=close)
        return
    quantiles = np.linspace(0.05, 0.95, 19)
    found, declared = np.quantile(path, quantiles), np.quantile(places, quantiles)
    np.testing.assert_allclose(found, declared, atol=close * SIZE)


@pytest.mark.parametrize("kind", ["sine", "walk", "switches", "people"])
def test_by_default_a_drift_goes_as_far_as_the_declared_baseline_allows(kind: str) -> None:
    _, assumed = world_of(Drift(kind))
    assert (assumed.drift, assumed.level, assumed.size) == (kind, LEVEL, 2.0 - LEVEL)
    path = levels(Drift(kind, period=PERIOD))
    assert np.abs(path).max() == pytest.approx(2.0, rel=0.01)
    assert np.abs(path - LEVEL).max() == pytest.approx(1.5, rel=0.01)


def test_none_stays_at_its_level() -> None:
    world, assumed = world_of(Drift("none"))
    assert world.baseline == Constant(LEVEL + 0.1)  # arm means are −0.1 in the middle
    assert (assumed.drift, assumed.size, assumed.level) == ("none", 0.0, LEVEL)
