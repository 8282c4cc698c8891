"""How the anytime rule allocates pulls, its runs side by side, and rewards less forecasts."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
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
from bestarm.policies.anytime.bets import Frame, Scale
from bestarm.policies.anytime.group import AnytimeGroup, _Draws, draw, totals_by_arm
from bestarm.policies.anytime.sampler import (
    ForecastInterval,
    coordinates,
    least_variance_weights,
    shares_of_names,
)
from bestarm.presampled import PresampledRewards, RewardsAhead
from bestarm.records import Counts
from bestarm.simulation import run_once
from bestarm.simulation.run import run_side_by_side

FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.3, 0.5], [0.9, 0.9]])


@pytest.mark.parametrize("arms", [np.eye(4), FEATURES[:4]], ids=["names", "features"])
def test_every_plan_keeps_a_share_for_all_arms(arms: Array) -> None:
    """Without it the weights of arms that seem not to matter, and with them all falls, are endless.

    Of names each has an even share, and else there is the design that informs about all contrasts.
    Two arms are far behind and soon dropped: the design for what is open gives them nothing.
    """
    problem = Problem(arms)
    policy = AnytimeBAI(problem, bounds=(0, 1))
    names = len(arms) == arms.shape[1]
    rates = [0.55, 0.5, 0.05, 0.05] if names else [0.5] * 4
    pull = clicks(rates, np.random.default_rng(2))
    least = np.full(4, 0.01) if names else 0.018 * centered_g(problem.source, tol=1e-6).weights
    last = least
    for _ in range(80):
        last = weights_of(next_plan(policy))
        assert (last >= least * (1 - 1e-9)).all()  # designs are good to 5 %
        play(policy, pull, plans=1)
    assert not names or policy.recommend().active == (0, 1)
    assert not names or last[2:].max() < 0.02


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_units_and_constants_of_features_do_not_change_what_is_drawn(offset: float) -> None:
    """On the same outcomes: only what features say of contrasts matters."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(8, 3))
    changed = np.hstack([features * [1e-3, 1.0, 1e4] + offset, np.full((8, 1), 5.0)])
    policies = [AnytimeBAI(Problem(each), bounds=(0, 1)) for each in (features, changed)]
    pull = clicks(0.5 + 0.1 * np.tanh(features @ [1.0, -1.0, 0.5]), rng)
    for _ in range(40):
        plan, other = (next_plan(policy) for policy in policies)
        np.testing.assert_allclose(weights_of(plan), weights_of(other), rtol=0.01, atol=1e-3)
        policies[1].adopt(plan)
        summary = pull(plan)
        for policy in policies:
            policy.update(summary)
    one, other_evidence = (policy.evidence() for policy in policies)
    np.testing.assert_allclose(one, other_evidence, rtol=1e-4)


# --- options without features --------------------------------------------------------------------


def growth_rates(weights: Array, gaps: Array, spread: Array) -> Array:
    """How fast evidence grows that the first is ahead of each other one: Δ²/(s²/p + s²/p)."""
    each = spread / weights
    return np.asarray(gaps**2 / (each[:, :1] + each[:, 1:]))


def closed_form(gaps: Array, spread: Array) -> Array:
    runs, others = gaps.shape
    pairs = np.stack([np.zeros(others, dtype=np.int64), np.arange(1, others + 1)], axis=1)
    return shares_of_names(np.tile(pairs, (runs, 1, 1)), gaps, spread)


def solved(gaps: Array, spread: Array) -> Array:
    """The allocation under which the slowest evidence grows fastest, to 5 %."""
    problem = Problem(np.eye(spread.shape[1]))
    _, features, targets = coordinates(problem)
    rows = (targets[0] - targets[1:]) / gaps[..., None]
    rows = np.concatenate([np.zeros((*gaps.shape, 1)), rows], axis=2)
    return least_variance_weights(features, spread, rows).weights


def test_of_two_names_each_is_drawn_by_how_much_it_varies() -> None:
    spread = np.random.default_rng(4).uniform(0.1, 1.0, (20, 2))
    weights = closed_form(np.full((20, 1), 0.3), spread)
    neyman = np.sqrt(spread) / np.sqrt(spread).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, 0.96 * neyman + 0.02)


@pytest.mark.parametrize("others", [2, 5, 12])
def test_evidence_against_names_that_are_equally_far_behind_grows_alike(others: int) -> None:
    """As fast as under the allocation that a solver finds, but for the share that is even."""
    rng = np.random.default_rng(others)
    gaps, spread = np.full((20, others), 0.3), rng.uniform(0.3, 1.0, (20, others + 1))
    evenly = 0.04 / (others + 1)
    alike = growth_rates((closed_form(gaps, spread) - evenly) / 0.96, gaps, spread)
    np.testing.assert_allclose(alike, np.broadcast_to(alike[:, :1], alike.shape))
    rates = growth_rates(closed_form(gaps, spread), gaps, spread)
    slowest = rates.min(axis=1) / growth_rates(solved(gaps, spread), gaps, spread).min(axis=1)
    assert slowest.min() > 0.95


@pytest.mark.parametrize(("others", "part"), [(2, 0.9), (3, 0.85), (7, 0.8)])
def test_evidence_against_the_nearest_name_grows_nearly_as_fast_as_under_a_solved_design(
    others: int, part: float
) -> None:
    """Gaps within a factor of three; evidence against all of them grows alike within another."""
    rng = np.random.default_rng(others)
    gaps, spread = rng.uniform(0.1, 0.3, (60, others)), rng.uniform(0.5, 1.0, (60, others + 1))
    rates = growth_rates(closed_form(gaps, spread), gaps, spread)
    best = growth_rates(solved(gaps, spread), gaps, spread)
    assert (rates.min(axis=1) / best.min(axis=1)).min() > part
    assert (rates.max(axis=1) / rates.min(axis=1)).max() < 3


def test_names_that_do_not_count_get_their_even_share_alone() -> None:
    gaps, spread = np.array([[0.3, np.inf, 0.2], [np.inf, np.inf, 0.2]]), np.full((2, 4), 0.25)
    weights = closed_form(gaps, spread)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights[[0, 1, 1], [2, 1, 2]], 0.01)
    np.testing.assert_allclose(weights[1], [0.49, 0.01, 0.01, 0.49])


# --- runs side by side ---------------------------------------------------------------------------


WORLDS: dict[str, tuple[Any, Any]] = {
    "names": (
        partial(AnytimeBAI, mean_bound=1.0),
        Semiparametric(np.eye(3), [0.8, 0.2, 0.0], baseline=baselines.random_walk(0.1), noise=0.5),
    ),
    "features": (
        partial(AnytimeBAI, mean_bound=2.0),
        Semiparametric(FEATURES, [1.0, 0.3], baseline=baselines.sinusoid(1.0), noise=0.5),
    ),
    "no baseline": (
        partial(AnytimeBAI, mean_bound=2.0),
        Semiparametric(FEATURES, [1.0, 0.3], noise=0.5),
    ),
    "a small baseline": (
        partial(AnytimeBAI, mean_bound=2.0),
        Semiparametric(FEATURES, [1.0, 0.3], baseline=baselines.constant(0.1), noise=0.5),
    ),
    "adversary": (
        partial(AnytimeBAI, mean_bound=1.0),
        Semiparametric(np.eye(3), [0.8, 0.2, 0.0], baseline=baselines.adversary(1.0), noise=0.5),
    ),
    "cap": (
        partial(AnytimeBAI, mean_bound=1.0, max_pulls=333),
        Semiparametric(np.eye(3), [0.5, 0.4, 0.0], baseline=baselines.random_walk(0.1), noise=0.5),
    ),
    "adversary and cap": (
        partial(AnytimeBAI, mean_bound=2.0, max_pulls=333),
        Semiparametric(FEATURES, [0.6, 0.3], baseline=baselines.adversary(1.0), noise=0.5),
    ),
}
RUNS = 40


def ends_of(name: str, runs: Iterable[int]) -> dict[int, tuple[int, int, int, tuple[int, ...]]]:
    """Pulls, plans, the target that is named, and those left, of runs made side by side."""
    rule, world = WORLDS[name]
    policy, numbers = rule(world.problem(0.1)), list(runs)
    assert policy.traits.side_by_side
    group = policy.group([1000 + run for run in numbers])
    streams = [world.begin(np.random.default_rng(run)) for run in numbers]
    ended = list(run_side_by_side(group, streams))
    assert sorted(ended) == list(range(len(numbers)))
    ends = {}
    for place in ended:
        answer = group.recommend(place)
        pulls, plans = int(group.pulls[place]), int(group.plans[place])
        ends[numbers[place]] = pulls, plans, answer.target, answer.active
    return ends


@pytest.mark.parametrize("name", WORLDS)
def test_a_run_is_the_same_however_many_stand_beside_it(name: str) -> None:
    together = ends_of(name, range(RUNS))
    assert len(set(together.values())) > RUNS / 6  # they end at different moments
    for runs in (range(7), range(30, 37), [3], [12], [39]):
        for run, end in ends_of(name, runs).items():
            assert end == together[run]


@pytest.mark.parametrize("name", WORLDS)
def test_a_run_of_a_group_is_the_run_that_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, if a live rule adopts its plans.

    Those of names are its own; other designs begin with the ones before, and end elsewhere.
    """
    rule, world = WORLDS[name]
    problem, seed, drawn = world.problem(0.01), 5, list[tuple[Array, int]]()
    known = world.begin(np.random.default_rng(8)).presample(1500)
    again = deepcopy(known)  # an adversary learns
    carry_out = AnytimeGroup._carry_out

    def noting(group: AnytimeGroup, frame: Frame, sizes: Counts) -> None:
        drawn.append((frame.weights[0].copy(), int(sizes[0])))
        carry_out(group, frame, sizes)

    monkeypatch.setattr(AnytimeGroup, "_carry_out", noting)
    group, told = rule(problem).group([seed]), rule(problem)
    group.run_presampled(np.array([0]), [known])
    assert int(group.plans[0]) == len(drawn) > 20
    ahead, draws = RewardsAhead(1), _Draws([seed])
    ahead.put(np.array([0]), [again])
    for weights, size in drawn:
        plan = next_plan(told)
        assert plan.pulls == size
        if problem.unstructured:
            np.testing.assert_allclose(weights_of(plan), weights, rtol=1e-12)
        told.adopt(replace(plan, weights=weights))
        arms, rewards = draw(weights[None], np.array([size]), draws, ahead)
        sums, extremes = totals_by_arm(arms, rewards - plan.center, (1, problem.arms))
        counts, first, squares = (each[0] for each in sums)
        least, largest, cubes = (each[0] for each in extremes)
        more = {"least": least, "largest": largest, "cubes": cubes, "center": plan.center}
        told.update(Summary(counts.astype(np.int64), first, squares, **more))
    assert told.has_stopped() is not bool(group.running[0])
    other = told.recommend()
    assert int(group.pulls[0]) == other.pulls
    if not group.running[0]:
        one = group.recommend(0)
        assert (one.active, one.target, one.final) == (other.active, other.target, other.final)
        assert one.pulls == other.pulls
    else:
        left, values = group._evidence.active, group._evidence.log_evidence()
        np.testing.assert_allclose(np.exp(values)[left], told.evidence()[left], rtol=1e-7)
        for part in ("slope", "spread", "information"):
            kept = getattr(group._sampler.estimates, part)
            np.testing.assert_allclose(kept, getattr(told._estimates, part), rtol=1e-7, atol=1e-9)


def followed_in_parts(cuts: list[int]) -> AnytimeGroup:
    """Three runs whose rewards are known up to each of these pulls in turn."""
    rule, world = WORLDS["adversary"]
    group: AnytimeGroup = rule(world.problem(1e-9)).group([1, 2, 3])
    known = [world.begin(np.random.default_rng(run)).presample(1500) for run in range(3)]
    start, lacking = np.zeros(3, dtype=np.int64), np.arange(3)
    for cut in cuts:
        parts = []
        for run in lacking:
            part, ahead = known[run], slice(start[run], cut)
            parts.append(part._replace(rows=part.rows[ahead], common=part.common[ahead]))
        group.run_presampled(lacking, parts)
        wanted = group.wanted()
        for place, (used, _) in wanted.items():
            start[place] += used
        lacking = np.array(list(wanted), dtype=np.int64)
    return group


def test_it_does_not_matter_how_many_rewards_are_known_at_a_time() -> None:
    at_once, in_parts = followed_in_parts([1500]), followed_in_parts([100, 101, 400, 950, 1500])
    assert not in_parts.running.any()
    assert min(at_once.pulls) > 500
    assert at_once.plans.tolist() == in_parts.plans.tolist()
    assert at_once.pulls.tolist() == in_parts.pulls.tolist()
    for run in range(3):
        assert at_once.recommend(run).active == in_parts.recommend(run).active


def test_arms_are_drawn_as_often_as_their_probabilities_say() -> None:
    """Each run from its own numbers: counts within five standard deviations; never an arm of 0."""
    weights = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0], [1e-6, 0.25, 0.25, 0.499999]])
    pulls, total = 5000, np.zeros((3, 4))
    ahead, draws = RewardsAhead(3), _Draws([1, 2, 3])
    rewards = PresampledRewards.single(0.0, 4)
    many = rewards._replace(rows=np.zeros(pulls, dtype=np.int64), common=np.arange(1.0, pulls + 1))
    ahead.put(np.arange(3), [many] * 3)
    for _ in range(5):
        drawn, paid = draw(weights, np.full(3, pulls // 5), draws, ahead)
        (counts, sums, _), _ = totals_by_arm(drawn, paid, (3, 4))
        total += counts
    assert ahead.left.tolist() == [0, 0, 0]
    assert sums.sum(axis=1).tolist() == [np.arange(4001.0, 5001.0).sum()] * 3  # of the last pulls
    assert (total[weights == 0] == 0).all()
    assert (np.abs(total - pulls * weights) <= 5 * np.sqrt(pulls * weights) + 1e-9).all()


def test_rewards_outside_the_bounds_are_refused_side_by_side() -> None:
    policy = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 0.5))
    group = policy.group([0, 1])
    world = Semiparametric(np.eye(3), [0.8, 0.2, 0.0], noise=0.5)
    streams: list[Any] = [world.begin(np.random.default_rng(run)) for run in range(2)]
    with pytest.raises(InvalidInputError, match=r"between 0 and 0\.5"):
        list(run_side_by_side(group, streams))


def test_rules_that_keep_more_than_wealth_are_not_made_side_by_side() -> None:
    problem = Problem(np.eye(4))
    others: list[dict[str, Any]] = [
        {"top": 2},
        {"tolerance": 0.1},
        {"block": 2},
        {"control": "1"},
    ]
    assert not any(AnytimeBAI(problem, **other).traits.side_by_side for other in others)
    assert AnytimeBAI(problem).traits.side_by_side


# --- where forecasts may lie ---------------------------------------------------------------------


SCALE = Scale(-5.0, 5.0, noise=1.0, center=100.0)


def _width(interval: ForecastInterval) -> float:
    [low], [high] = interval.ends
    return float(high - low)


def _learn(
    interval: ForecastInterval, mean: float, pulls: int, *, drawn: int, variance: float
) -> None:
    known = np.array([drawn]), np.array([variance])
    interval.learn(np.array([mean]), np.array([pulls]), drawn=known[0], variance=known[1])


def test_nothing_is_forecast_before_the_first_batch() -> None:
    assert np.array(ForecastInterval(SCALE, 3).ends).tolist() == [[100.0], [100.0]]


def test_it_is_narrow_where_arms_have_many_dimensions_and_widens() -> None:
    widths = []
    for dimensions, drawn in ((4, 100), (30, 100), (30, 3000), (30, 10**6)):
        interval = ForecastInterval(SCALE, dimensions)
        _learn(interval, 100.0, 50, drawn=drawn, variance=0.25)
        widths.append(_width(interval))
    assert widths[1] < widths[2] < widths[0] < widths[3]
    assert widths[3] == pytest.approx(6.0)  # six deviations to each side


def test_it_stays_where_it_is_until_the_level_has_left_its_middle() -> None:
    interval = ForecastInterval(SCALE, 3)
    _learn(interval, 101.0, 10_000, drawn=100, variance=0.01)
    before = interval.ends
    for mean in (101.1, 100.9, 101.2):
        _learn(interval, mean, 10_000, drawn=100, variance=0.01)
        assert interval.ends == before
    _learn(interval, 104.0, 10_000, drawn=100, variance=0.01)
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
        _learn(interval, mean, pulls, drawn=drawn, variance=variance)
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
    """The baseline's deviation is four times the noise's: half the pulls, of 1,580 on average."""
    plain = simulate(RULE, JUMPS, runs=100, delta=0.1)
    forecasted = simulate(RULE, JUMPS, runs=30, delta=0.1, forecaster=Last())
    assert forecasted.correct.all()
    assert forecasted.mean_pulls < 0.65 * plain.mean_pulls


def test_a_run_with_forecasts_is_the_same_however_many_stand_beside_it() -> None:
    together = simulate(RULE, JUMPS, runs=12, delta=0.1, seed=3, forecaster="default")
    for run in (0, 7, 11):
        alone = run_once(RULE, JUMPS, run=run, seed=3, delta=0.1, forecaster="default")
        assert (alone.pulls, alone.target) == (together.pulls[run], together.target[run])
    assert len(set(together.pulls.tolist())) > 6


def test_what_is_known_of_users_is_forecast() -> None:
    """Ratings of users whose level is known but for noise: half the pulls are saved, and more."""
    rng = np.random.default_rng(4)
    level = rng.normal(0, 2.0, 3000)
    ratings = np.clip(5 + level[:, None] + [0.4, 0.0, 0.0] + rng.normal(0, 0.7, (3000, 3)), 0, 10)
    world = Ratings(ratings, covariates=level[:, None])
    rule = partial(AnytimeBAI, bounds=(0.0, 10.0))
    plain = simulate(rule, world, runs=6, delta=0.1)
    adjusted = simulate(rule, world, runs=6, delta=0.1, forecaster="default")
    assert adjusted.correct.all()
    assert adjusted.mean_pulls < 0.5 * plain.mean_pulls


def test_a_rule_for_rewards_less_forecasts_needs_a_forecaster() -> None:
    with pytest.raises(ProtocolError, match="needs a forecaster"):
        simulate(partial(RULE, forecasts=True), JUMPS, runs=2, delta=0.1)


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
