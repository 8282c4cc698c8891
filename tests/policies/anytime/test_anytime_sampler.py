"""How the anytime rule allocates pulls, and rewards less forecasts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from anytime_runs import clicks, made_for_short_runs, next_plan, play, weights_of
from first_runs import until_settled
from hypothesis import given
from hypothesis import strategies as st

from bestarm import SPBAI, AnytimeBAI, Plan, Problem, Summary, simulate
from bestarm.design import centered_g
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.environments.environment import Pulls
from bestarm.environments.streams import ForecastStream
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.forecasting import Forecaster
from bestarm.numerics.geometry import Array
from bestarm.policies import BernsteinElimination, Method
from bestarm.policies.anytime.bets import Scale, contrast_sizes
from bestarm.policies.anytime.sampler import ForecastInterval, contrast_metric, span_of


def pairs_sizes(features: Array, problem: Problem) -> Array:
    span = span_of(problem, tilted=False)
    contrasts = (features[:, None] - features[None])[~np.eye(len(features), dtype=bool)]
    return contrast_sizes(span.contrast_coordinates(contrasts), contrast_metric(problem))


def test_options_without_features_have_a_distance_of_one() -> None:
    for options in (2, 3, 7):
        problem = Problem(np.eye(options))
        np.testing.assert_allclose(pairs_sizes(np.eye(options), problem), 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_units_and_constants_of_features_do_not_change_how_far_options_are_apart(
    offset: float,
) -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(8, 3))
    sizes = pairs_sizes(features, Problem(features))
    assert np.mean(sizes**2) == pytest.approx(1)
    assert sizes.max() > 2 * sizes.min()
    changed = np.hstack([features * [1e-3, 1.0, 1e4] + offset, np.full((8, 1), 5.0)])
    np.testing.assert_allclose(pairs_sizes(changed, Problem(changed)), sizes, rtol=1e-6)


def test_every_plan_keeps_a_share_of_the_design_for_all_arms() -> None:
    """Without it the weights of arms that seem not to matter, and with them all falls, are endless.

    Two arms are far behind and soon dropped: the design for what is open gives them nothing.
    """
    problem = Problem(np.eye(4))
    policy = AnytimeBAI(problem, bounds=(0, 1))
    pull = clicks([0.55, 0.5, 0.05, 0.05], np.random.default_rng(2))
    design = centered_g(problem.source, tol=1e-6).weights
    last = design
    for _ in range(80):
        last = weights_of(next_plan(policy))
        assert (last >= 0.02 * design * 0.9).all()  # designs are good to 5 %
        play(policy, pull, plans=1)
    assert policy.recommend().active == (0, 1)
    assert last[2:].max() < 0.02


# --- where forecasts may lie ---------------------------------------------------------------------


SCALE = Scale(-5.0, 5.0, noise=1.0, center=100.0)


def _width(interval: ForecastInterval) -> float:
    low, high = interval.ends
    return high - low


def test_nothing_is_forecast_before_the_first_batch() -> None:
    assert ForecastInterval(SCALE, 3).ends == (100.0, 100.0)


def test_it_is_narrow_where_arms_have_many_dimensions_and_widens() -> None:
    widths = []
    for dimensions, drawn in ((4, 100), (30, 100), (30, 3000), (30, 10**6)):
        interval = ForecastInterval(SCALE, dimensions)
        interval.learn(100.0, 50, drawn=drawn, variance=0.25)
        widths.append(_width(interval))
    assert widths[1] < widths[2] < widths[0] < widths[3]
    assert widths[3] == pytest.approx(6.0)  # six deviations to each side


def test_it_stays_where_it_is_until_the_level_has_left_its_middle() -> None:
    interval = ForecastInterval(SCALE, 3)
    interval.learn(101.0, 10_000, drawn=100, variance=0.01)
    before = interval.ends
    for mean in (101.1, 100.9, 101.2):
        interval.learn(mean, 10_000, drawn=100, variance=0.01)
        assert interval.ends == before
    interval.learn(104.0, 10_000, drawn=100, variance=0.01)
    assert interval.ends[0] > before[1]


@given(
    batches=st.lists(
        st.tuples(st.floats(-1e3, 1e3), st.integers(1, 10_000), st.floats(0.0, 1e4)), max_size=8
    )
)
def test_it_never_leaves_the_range_of_rewards(batches: list[tuple[float, int, float]]) -> None:
    interval, drawn = ForecastInterval(SCALE, 2), 0
    for mean, pulls, variance in batches:
        drawn += pulls
        interval.learn(mean, pulls, drawn=drawn, variance=variance)
        low, high = interval.ends
        assert 95.0 <= low <= high <= 105.0


# --- rewards less forecasts ----------------------------------------------------------------------


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


def test_forecasts_shorten_runs_where_the_baseline_can_be_predicted() -> None:
    """The baseline's deviation is four times the noise's: half the pulls, of 1 450 on average."""
    plain = simulate(RULE, JUMPS, runs=200, delta=0.1)
    forecasted = simulate(RULE, JUMPS, runs=8, delta=0.1, forecaster=Last())
    assert forecasted.correct.all()
    assert forecasted.mean_pulls < 0.6 * plain.mean_pulls


@pytest.mark.parametrize("bounded", [False, True])
def test_the_worst_forecasts_do_not_make_it_err(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead is all but none: P(wrong and final) ≤ δ = 0.2, so over 23 in 60 but for 1e-4."""
    made_for_short_runs(monkeypatch)
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
    first = next_plan(policy)
    assert first.forecasts == (5.0, 5.0)
    assert first.center == 0.0
    half = first.pulls // 2
    arms = np.repeat([0, 1], [half, first.pulls - half])
    rng = np.random.default_rng(1)
    rewards = 2.0 + rng.random(first.pulls)
    policy.update(less(Summary.from_pulls(arms, rewards - 5.0, size=2), 5.0 * first.pulls))
    second = next_plan(policy)
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


def test_a_forecaster_must_be_one() -> None:
    with pytest.raises(InvalidInputError) as error:
        simulate(RULE, JUMPS, runs=1, forecaster="best")
    assert error.value.field == "forecaster"
