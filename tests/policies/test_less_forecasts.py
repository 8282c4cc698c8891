"""Rewards less forecasts: valid whatever the forecasts, as long as they precede the draw."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from first_runs import until_settled

from bestarm import SPBAI, AnytimeBAI, Plan, Problem, Summary, simulate
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.environments.environment import Pulls
from bestarm.environments.streams import ForecastStream
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.policies import BernsteinElimination, Method
from bestarm.policies.anytime import bets

JUMPS = Semiparametric(
    np.eye(3), [0.3, 0.1, 0.0], baseline=baselines.switches((-2.0, 2.0), period=50), noise=0.5
)
RULE = partial(AnytimeBAI, mean_bound=1.0)


class Last(Forecaster):
    """The last reward, whatever its arm."""

    def __init__(self) -> None:
        self.last = 0.0

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        return self.last

    def learn(self, number: int, features: Array, reward: float) -> None:
        self.last = reward


class Spite(Forecaster):
    """The end of the clip that hurts the leader most, from all that has happened."""

    def __init__(self) -> None:
        self.sums, self.counts = np.zeros(2), np.ones(2)
        self.before = 0

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        leader = int(np.argmax(self.sums / self.counts))
        return 1e9 if self.before == leader else -1e9

    def learn(self, number: int, features: Array, reward: float) -> None:
        self.before = int(np.argmax(features))
        self.sums[self.before] += reward
        self.counts[self.before] += 1


class Peek(Last):
    """A broken twin that looks at the arm before it forecasts: the second arm's is lower."""

    def follow(
        self,
        first: int,
        moments: Array | None,
        covariates: Array | None,
        features: Array,
        rewards: Array,
    ) -> Array:
        return np.asarray(-0.4 * features[:, 1])


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stakes for short runs: any shares are valid, and these err more."""
    shares = 1 / (1 + np.square(np.log10(bets.STAKES / 0.1) / 0.2))
    monkeypatch.setattr(bets, "LOG_PRIOR", np.log(shares / shares.sum()))


def test_forecasts_shorten_runs_where_the_baseline_can_be_foreseen() -> None:
    """The baseline's deviation is four times the noise's: 8 runs each, told apart by far."""
    plain = simulate(RULE, JUMPS, runs=8, delta=0.1)
    forecasted = simulate(RULE, JUMPS, runs=8, delta=0.1, forecaster=Last())
    assert forecasted.correct.all()
    assert forecasted.mean_pulls < 0.5 * plain.mean_pulls


@pytest.mark.parametrize("bounded", [False, True])
def test_the_worst_forecasts_do_not_make_it_err(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead is all but none: P(wrong and final) ≤ δ = 0.2, so over 23 in 60 but for 1e-4."""
    short(monkeypatch)
    options: dict[str, Any] = {"bounds": (0.0, 1.0)} if bounded else {"mean_bound": 0.5}
    rng = np.random.default_rng(2)
    table = (rng.random((4000, 2)) < [0.501, 0.5]).astype(float)
    table[0] = 1.0, 0.0  # the first is better, by a hair
    world = (
        Ratings(table)
        if bounded
        else Semiparametric(np.eye(2), [1e-3, 0], baseline=baselines.adversary(1.0))
    )
    rule: Method = partial(AnytimeBAI, max_pulls=250, **options)
    results = until_settled(rule, world, runs=60, most=23, delta=0.2, seed=5, forecaster=Spite())
    assert (results.final & ~results.correct).sum() <= 23


def test_a_forecast_that_knows_the_arm_is_caught() -> None:
    """The second arm is worse by 0.2, and its forecasts are lower by 0.4: it seems better."""
    world = Semiparametric(np.eye(2), [0.2, 0.0], noise=0.3, declared_baseline=1.0)
    results = simulate(RULE, world, runs=20, delta=0.1, forecaster=Peek())
    assert (results.final & ~results.correct).sum() >= 18


@pytest.mark.parametrize(
    "method", [SPBAI, partial(BernsteinElimination, bounds=(-3.0, 3.0))], ids=["spbai", "bernstein"]
)
def test_forecasts_serve_every_policy(method: Method) -> None:
    world = Semiparametric(np.eye(2), [0.8, 0.0], baseline=baselines.random_walk(0.05), noise=0.1)
    results = simulate(method, world, runs=3, delta=0.1, forecaster=Last())
    assert results.correct.all()


def test_plans_say_where_forecasts_must_lie() -> None:
    problem = Problem(np.eye(2))
    policy = AnytimeBAI(problem, bounds=(0, 10), forecasts=True)
    first = policy.plan()
    assert first is not None
    assert first.forecasts == (5.0, 5.0)
    assert first.center == 0.0
    half = first.pulls // 2
    arms = np.repeat([0, 1], [half, first.pulls - half])
    rng = np.random.default_rng(1)
    rewards = 2.0 + rng.random(first.pulls)
    policy.update(less(Summary.from_pulls(arms, rewards - 5.0, size=2), 5.0 * first.pulls))
    second = policy.plan()
    assert second is not None
    assert second.forecasts is not None
    low, high = second.forecasts
    assert 0 <= low < 2.5 < high <= 10
    total = Summary.from_pulls(arms[: second.pulls], np.zeros(second.pulls), size=2)
    with pytest.raises(ProtocolError, match="Clip"):
        policy.update(less(total, (high + 0.1) * second.pulls))


def less(summary: Summary, forecast_sum: float) -> Summary:
    return Summary(
        summary.counts,
        summary.sums,
        summary.squares,
        least=summary.least,
        largest=summary.largest,
        cubes=summary.cubes,
        forecast_sum=forecast_sum,
    )


def test_totals_are_of_rewards_less_forecasts() -> None:
    """What the stream tells is what single pulls and their forecasts add up to."""
    kept: list[tuple[Pulls, Array]] = []

    class Watched(Last):
        def follow(
            self,
            first: int,
            moments: Array | None,
            covariates: Array | None,
            features: Array,
            rewards: Array,
        ) -> Array:
            found = super().follow(first, moments, covariates, features, rewards)
            kept.append((Pulls(features.argmax(axis=1).astype(np.uint32), rewards.copy()), found))
            return found

    stream = ForecastStream(
        JUMPS.begin(np.random.default_rng(1)), Watched(), np.eye(3), (-1.0, 1.0)
    )
    summary = stream.pull(Plan.randomised([0.5, 0.3, 0.2], 300, phase=1))
    [(pulls, raw)] = kept
    forecasts = np.clip(raw, -1.0, 1.0)
    expected = Summary.from_pulls(pulls.arms.astype(int), pulls.rewards - forecasts, size=3)
    np.testing.assert_allclose(summary.sums, expected.sums)
    np.testing.assert_allclose(summary.squares, expected.squares)
    assert summary.forecast_sum == pytest.approx(forecasts.sum())
    assert (np.abs(raw[1:] - pulls.rewards[:-1]) == 0).all()  # it forecasts from the past alone


def test_without_a_baseline_there_is_nothing_to_forecast() -> None:
    with pytest.raises(InvalidInputError) as error:
        AnytimeBAI(Problem(np.eye(2), baseline=0), forecasts=True)
    assert error.value.field == "forecasts"


def test_a_forecaster_must_be_one() -> None:
    with pytest.raises(InvalidInputError) as error:
        simulate(RULE, JUMPS, runs=1, forecaster="best")
    assert error.value.field == "forecaster"
