"""One run: presampled rounds have the law of plans, and a delay does what a live window does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained, Scripted
from scipy import stats

from benchmarks.engine import Planned
from bestarm import LUCB, SPBAI, ActionElimination, AnytimeBAI, Problem
from bestarm.environments import (
    Environment,
    PresampledRewards,
    Ratings,
    Semiparametric,
    World,
    baselines,
)
from bestarm.environments.baselines import Constant
from bestarm.environments.environment import ForecastFunction, Pulls
from bestarm.environments.two_point import TwoPoint
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.live import Experiment
from bestarm.live.draws import choose, uniforms
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Method, Policy, Traits
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary
from bestarm.simulation import Outcome, run, run_once, simulate
from bestarm.simulation.run import run_policy

RULES: list[type[LUCB | ActionElimination]] = [LUCB, ActionElimination]
SIGMA = {LUCB: 0.25, ActionElimination: 0.11}  # too small for noise of 1: runs are short, and err
MEANS = np.array([1.0, 0.6, 0.0])
ALARM = 1e-3  # the probability that one of the tests of a law fails where nothing is wrong


def _world(baseline: object, noise: float = 1.0) -> Semiparametric:
    return Semiparametric(np.eye(3), MEANS, baseline=baseline, noise=noise)


def _ratings(*, replacement: bool) -> Ratings:
    rng = np.random.default_rng(3)
    mood = rng.normal(size=(4_000, 1))
    matrix = np.round(2 * (MEANS + 0.6 * mood + 0.8 * rng.normal(size=(4_000, 3)))) / 2
    weights = rng.integers(0, 4, size=4_000) if replacement else np.ones(4_000)
    return Ratings(matrix, weights / weights.sum(), replacement=replacement)


WORLDS: dict[str, Environment] = {
    "constant": _world(0.5),
    "sinusoid": _world(baselines.sinusoid()),
    "random walk": _world(baselines.random_walk(0.1)),
    "users": _ratings(replacement=True),
    "users once": _ratings(replacement=False),
}


# Worlds presample rounds, rules follow them: every world with the rule of short runs, and the
# other rule where rounds share a baseline and where they share users.
CASES = [
    *((ActionElimination, name) for name in WORLDS),
    *((LUCB, name) for name in ("sinusoid", "users")),
]


def by_plans(rule: type[LUCB | ActionElimination], max_pulls: int | None = None) -> Method:
    """A rule without its `run_presampled`."""
    return partial(Planned, rule=rule, sigma=SIGMA[rule], max_pulls=max_pulls)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short that a run has many seams, and some blocks hold no whole round."""
    monkeypatch.setattr(run, "_CHUNK", 2)
    monkeypatch.setattr(run, "_LONGEST_CHUNK", 13)


@pytest.mark.parametrize(("rule", "name"), CASES)
@pytest.mark.usefixtures("short_blocks")
def test_the_law_is_that_of_plans(rule: type[LUCB | ActionElimination], name: str) -> None:
    # Seeds differ: the two samples are independent. Laws a quarter apart are told apart; seams that
    # skip or repeat a round are found to the digit below.
    presampled = simulate(partial(rule, sigma=SIGMA[rule]), WORLDS[name], runs=250, seed=1)
    plans = simulate(by_plans(rule), WORLDS[name], runs=130, seed=2)
    assert presampled.final.all()
    assert presampled.pulls.max() > 50  # many blocks
    assert plans.error_rate < 0.6
    assert name == "sinusoid" or plans.error_rate > 0.01  # its first rounds favour the best arm
    level = ALARM / (3 * len(CASES))
    assert stats.ks_2samp(presampled.pulls, plans.pulls).pvalue > level
    assert stats.ks_2samp(presampled.plans, plans.plans).pvalue > level
    right = np.array([[run.correct.sum(), (~run.correct).sum()] for run in (presampled, plans)])
    assert stats.fisher_exact(right).pvalue > level


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.usefixtures("short_blocks")
def test_the_adversary_reacts_ahead_as_it_does_to_plans(
    rule: type[LUCB | ActionElimination],
) -> None:
    world = _world(baselines.adversary(0.7), noise=0.0)  # nothing is drawn: runs are equal
    presampled = simulate(partial(rule, sigma=SIGMA[rule], max_pulls=600), world, runs=1)
    plans = simulate(by_plans(rule, max_pulls=600), world, runs=1)
    assert presampled.pulls[0] == plans.pulls[0] > 50
    assert presampled.target[0] == plans.target[0]


@pytest.mark.parametrize("rule", RULES)
def test_plans_are_counted_as_if_planned(rule: type[LUCB | ActionElimination]) -> None:
    for cap in (3, 4, 1000, 50_001):
        method = partial(rule, sigma=1e3, max_pulls=cap)
        result = simulate(method, WORLDS["sinusoid"], runs=2)
        each = 2 if rule is LUCB else 3
        assert (result.pulls == cap).all()
        assert (result.plans == 1 + -(-(cap - 3) // each)).all()
        assert not result.final.any()


class Recorder(Policy):
    """Follows by odd steps between plans, and keeps every reward."""

    def __init__(self, problem: Problem, *, seed: int, pulls: int, kept: list[float]) -> None:
        self.problem, self._pulls, self._kept = problem, pulls, kept
        self._rng = np.random.default_rng(seed)

    @property
    def traits(self) -> Traits:
        return Traits(runs_presampled=True)

    def plan(self) -> Plan | None:
        counts = np.array([0, 1, 0])
        return None if len(self._kept) >= self._pulls else Plan.fixed(counts, phase=1)

    def adopt(self, plan: Plan) -> None:
        raise NotImplementedError

    def update(self, summary: Summary) -> None:
        self._kept.append(float(summary.sums[1]))

    def run_presampled(self, presampled: PresampledRewards) -> tuple[int, int]:
        table, rows, common = presampled[:3]
        used = min(int(self._rng.integers(0, 900)), len(rows), self._pulls - len(self._kept))
        if self._rng.random() < 0.3:
            used = 0
        self._kept.extend((table[rows[:used], 1] + common[:used]).tolist())
        return used, used

    def recommend(self) -> Recommendation:
        return Recommendation(1, "1", False, "max_pulls", len(self._kept), None, (0, 1, 2))


def _record(world: Environment, pulls: int) -> Array:
    kept: list[float] = []
    run_once(partial(Recorder, pulls=pulls, kept=kept), world)
    return np.array(kept)


def test_the_baseline_keeps_to_the_rounds() -> None:
    seen = _record(_world(baselines.sinusoid(), noise=0.0), 60_000)
    t = np.arange(1, 60_001)
    np.testing.assert_allclose(seen, 0.6 + 1 + np.sin(2 * t), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(_record(_world(2.0, noise=0.0), 5000), np.full(5000, 2.6))


def test_a_random_path_does_not_depend_on_how_it_is_pulled() -> None:
    world = _world(baselines.random_walk(), noise=0.0)
    whole, parts = (world.begin(np.random.default_rng(4)) for _ in range(2))
    path = _known(whole, 70_000).common
    place = 0
    for number, used in enumerate((1, 4999, 0, 4_000, 333)):
        known = _known(parts, 30_000)
        np.testing.assert_array_equal(known.common, path[place : place + 30_000])
        parts.skip(used)  # type: ignore[attr-defined]
        place += used
        summary = parts.pull(Plan.fixed(np.array([7, 0, 0]), phase=number + 1))
        assert summary.sums[0] == pytest.approx(7 + path[place : place + 7].sum(), abs=1e-9)
        place += 7


def _known(stream: object, rounds: int) -> PresampledRewards:
    known = stream.presample(rounds)  # type: ignore[attr-defined]
    assert isinstance(known, PresampledRewards)
    return known


def test_no_round_beyond_the_horizon_is_offered() -> None:
    values = np.arange(100.0)
    world = _world(values, noise=0.0)
    np.testing.assert_allclose(_record(world, 100), values + 0.6)
    with pytest.raises(InvalidInputError, match="100 rounds"):
        _record(world, 101)
    stream = world.begin(np.random.default_rng(0))
    assert len(_known(stream, 1000).common) == 100
    stream.skip(100)  # type: ignore[attr-defined]
    assert stream.presample(1) is None  # type: ignore[attr-defined]
    for rule in RULES:
        simulate(partial(rule, sigma=50.0, max_pulls=100), world, runs=1)
        with pytest.raises(InvalidInputError, match="100 rounds"):
            simulate(partial(rule, sigma=50.0), world, runs=1)


def test_everybody_is_asked_once() -> None:
    matrix = np.stack([np.zeros(500), np.arange(500.0), np.full(500, 900.0)], axis=1)
    world = Ratings(matrix, replacement=False)
    assert sorted(_record(world, 500)) == list(range(500))
    with pytest.raises(InvalidInputError, match="500 users"):
        _record(world, 501)


def test_users_come_by_their_weights() -> None:
    weights = np.array([0.0, 0.5, 0.0, 0.2, 0.3, 0.0])
    matrix = np.stack([np.arange(6.0), 9 - np.arange(6.0)], axis=1)
    known = _known(Ratings(matrix, weights).begin(np.random.default_rng(1)), 100_000)
    np.testing.assert_array_equal(known.table, matrix)
    counts = np.bincount(known.rows, minlength=6)
    assert counts[weights == 0].sum() == 0
    positive = weights > 0
    assert stats.chisquare(counts[positive], 100_000 * weights[positive]).pvalue > ALARM


def test_a_plain_stream_is_pulled_by_plans() -> None:
    for rule in RULES:
        followed = simulate(partial(rule, sigma=SIGMA[rule], max_pulls=500), Plain(), runs=5)
        planned = simulate(by_plans(rule, 500), Plain(), runs=5)
        np.testing.assert_array_equal(followed.pulls, planned.pulls)
        np.testing.assert_array_equal(followed.plans, planned.plans)


class _PlainStream:
    """One pull at a time, and nothing else to ask."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def pull(self, plan: Plan) -> Summary:
        assert plan.counts is not None
        arms = np.repeat(np.arange(3), plan.counts)
        return Summary.from_pulls(arms, MEANS[arms] + self._rng.normal(size=len(arms)), size=3)


class Plain:
    """Somebody's own world, written to the protocols alone."""

    name, best = "plain", 0

    def instance(self, rng: np.random.Generator) -> World:
        return self

    def problem(self, delta: float) -> Problem:
        return Problem(np.eye(3), delta=delta)

    def begin(self, rng: np.random.Generator) -> _PlainStream:
        return _PlainStream(rng)


# --- delayed outcomes -----------------------------------------------------------------------------

MOST = 20_000  # pulls
SIZES = (6, 5, 9, 4, 30, 1, 17, 8, 3, 12)


class Clock:
    """One second per round."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class LiveDraws:
    """A stream whose arms are those of a live experiment with the same seed.

    Args:
        seed: of the experiment.
        rewards: one row per pull, one column per arm.
    """

    def __init__(self, seed: int, rewards: Array) -> None:
        self._seed, self._rewards = seed, rewards
        self.pulls = 0

    def pull(self, plan: Plan) -> Summary:
        return self.pull_adjusted(plan, lambda pulls, _plan: np.zeros(len(pulls.arms)))

    def pull_adjusted(self, plan: Plan, forecast: ForecastFunction) -> Summary:
        assert plan.weights is not None
        numbers = np.arange(self.pulls, self.pulls + plan.pulls)
        self.pulls += plan.pulls
        arms = choose(plan.weights, uniforms(self._seed, start=int(numbers[0]), count=len(numbers)))
        rewards = self._rewards[numbers, arms]
        forecast(Pulls(arms.astype(np.uint32), rewards), plan)
        return Summary.from_pulls(arms, rewards, size=plan.arms, center=plan.center)


def live(policy: Policy, seed: int, delay: int, rewards: Array) -> tuple[int, int]:
    """Pulls and rounds of a live experiment: one assignment per second, reported a second later."""
    clock = Clock()
    start = clock.now
    with Experiment(policy, seed=seed, window=delay, otherwise=0, clock=clock) as experiment:
        while not experiment.finished:
            batch = experiment.ask(1)
            clock.now += 1
            if len(batch.ids):
                number, arm = int(batch.ids[0]), int(batch.arms[0])
                experiment.tell(number, float(rewards[number, arm]))
            else:
                experiment.expire()
        return experiment.status().pulls, round(clock.now - start)


def summaries_of(policy: Policy) -> list[Any]:
    """What a policy was told, to the last bit, with the plans."""
    assert isinstance(policy, (Chained, Recording))
    names = ("counts", "sums", "squares", "pending", "least", "largest")
    return [[getattr(each, name).tolist() for name in names] for each in policy.summaries]


class Recording(AnytimeBAI):
    """Remembers what it is told."""

    def __init__(self, problem: Problem, **options: Any) -> None:
        super().__init__(problem, **options)
        self.summaries: list[Summary] = []

    def update(self, summary: Summary) -> None:
        self.summaries.append(summary)
        super().update(summary)

    def amend(self, summary: Summary, *, phase: int) -> None:
        self.summaries.append(summary)
        super().amend(summary, phase=phase)


Make = Callable[[], Policy]
PAGES = Problem(np.eye(3), delta=0.1)
MAKERS: dict[str, Make] = {
    "provisional": partial(Chained, PROBLEM, kind="provisional", sizes=SIZES),
    "open": partial(Chained, PROBLEM, kind="open", sizes=SIZES),
    "turning": partial(Chained, PROBLEM, kind="turning", sizes=SIZES),
    "closed": partial(Chained, PROBLEM, kind="randomised", sizes=SIZES),
    "anytime": partial(Recording, PAGES, bounds=(0, 1)),
    "anytime, capped": partial(Recording, PAGES, bounds=(0, 1), max_pulls=150),
    "anytime, unbounded": partial(
        Recording, Problem(np.eye(3), delta=0.1, noise=0.5, baseline=0.0)
    ),
    "anytime, unbounded, capped": partial(Recording, PAGES, max_pulls=150),
}


@pytest.mark.parametrize("delay", [2, 40, 120])
@pytest.mark.parametrize("name", MAKERS)
def test_does_what_a_live_experiment_with_a_window_does(name: str, delay: int) -> None:
    # Rewards of quarters: sums are exact in any order.
    for seed in range(2):
        make = MAKERS[name]
        rng = np.random.default_rng([seed, delay])
        one, other = make(), make()
        chances = np.linspace(0.1, 0.9, one.problem.arms)
        rewards = np.where(rng.random((MOST, len(chances))) < chances, 1.0, 0.25)
        pulls, rounds = live(one, seed, delay, rewards)
        found = run_policy(other, LiveDraws(seed, rewards), delay=delay)
        assert (found[0], found[1], found[3]) == (pulls, rounds, True)
        assert summaries_of(other) == summaries_of(one)
        assert len(summaries_of(one)) > 1
        assert other.recommend().target == one.recommend().target


PAGE_WORLD = TwoPoint.for_problem(
    Problem(np.eye(3)), np.array([0.1, 0.3, 0.6]), bounds=(0, 1), baseline=Constant(0.0), name="abc"
)
ANYTIME = partial(AnytimeBAI, bounds=(0, 1), max_pulls=5000)


@pytest.mark.parametrize("method", [ANYTIME, SPBAI])
@pytest.mark.parametrize("delay", [0, 1])
def test_a_delay_of_at_most_a_round_changes_nothing(method: Method, delay: int) -> None:
    assert outcomes(method, delay=delay) == outcomes(method)


def outcomes(method: Method, **options: Any) -> list[Outcome]:
    return list(simulate(method, PAGE_WORLD, runs=4, seed=1, delta=0.1, **options).outcomes())


def test_closed_plans_wait_for_their_last_outcome() -> None:
    for prompt, delayed in zip(outcomes(SPBAI), outcomes(SPBAI, delay=500), strict=True):
        assert delayed == prompt._replace(rounds=prompt.rounds + 499 * prompt.plans)
        assert delayed.plans > 1


def test_index_rules_wait_after_every_plan() -> None:
    method = partial(LUCB, max_pulls=400)
    for prompt, delayed in zip(outcomes(method), outcomes(method, delay=50), strict=True):
        assert delayed == prompt._replace(rounds=prompt.rounds + 49 * prompt.plans)


def test_open_plans_do_not_wait_and_take_longer() -> None:
    prompt, delayed = outcomes(ANYTIME), outcomes(ANYTIME, delay=400)
    for each in delayed:
        assert each.rounds == each.pulls > 400
        assert each.correct
    assert sum(each.pulls for each in delayed) > sum(each.pulls for each in prompt) + 4 * 400


def test_workers_and_repeated_runs_know_the_delay(pool: Executor) -> None:
    here = outcomes(ANYTIME, delay=100)
    assert outcomes(ANYTIME, delay=100, executor=pool) == here
    again = run_once(ANYTIME, PAGE_WORLD, run=2, seed=1, delta=0.1, delay=100)
    assert again.pulls <= here[2].pulls  # some were drawn after the last that was told
    assert again.pulls > run_once(ANYTIME, PAGE_WORLD, run=2, seed=1, delta=0.1).pulls


class TotalsOnly:
    """A stream that gives totals only."""

    def pull(self, plan: Plan) -> Summary:
        raise NotImplementedError


def test_what_cannot_be_simulated_late_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="does not tell its single pulls"):
        run_policy(ANYTIME(PROBLEM, seed=0), TotalsOnly(), delay=5)
    with pytest.raises(InvalidInputError, match="Forecasts cannot be simulated with a delay"):
        simulate(ANYTIME, PAGE_WORLD, runs=1, forecaster="default", delay=5)
    with pytest.raises(InvalidInputError, match="`delay` must be a whole number of at least 0"):
        simulate(ANYTIME, PAGE_WORLD, runs=1, delay=-1)
    blocks = Chained(PROBLEM, kind="blocks")
    with pytest.raises(InvalidInputError, match="Rounds of several pulls"):
        run_policy(blocks, LiveDraws(0, np.zeros((1, 4))), delay=5)


def test_a_plan_that_can_never_be_closed_is_an_error() -> None:
    plan = Plan.randomised(np.full(4, 0.25), 9, phase=1, open=True, most=5, provisional=True)
    with pytest.raises(ProtocolError, match="can never be carried out"):
        run_policy(Scripted(plan), LiveDraws(0, np.zeros((9, 4))), delay=5)
