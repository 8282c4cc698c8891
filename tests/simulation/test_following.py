"""Rounds made ahead of plans: the same law, the same rounds, the same on any workers."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial

import numpy as np
import pytest
from scipy import stats

from benchmarks.engine import Planned
from bestarm import LUCB, ActionElimination, Problem
from bestarm.environments import (
    Environment,
    PresampledRewards,
    Ratings,
    Semiparametric,
    World,
    baselines,
)
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Method, Policy, Traits
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary
from bestarm.simulation import Results, engine, run_once, simulate

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


# Worlds make the rounds ahead, rules follow them: every world with the rule of short runs, and the
# other rule where rounds share a baseline and where they share users.
CASES = [
    *((ActionElimination, name) for name in WORLDS),
    *((LUCB, name) for name in ("sinusoid", "users")),
]


def by_plans(rule: type[LUCB | ActionElimination], max_pulls: int | None = None) -> Method:
    """A rule without its `follow`."""
    return partial(Planned, rule=rule, sigma=SIGMA[rule], max_pulls=max_pulls)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short that a run has many seams, and some blocks hold no whole round."""
    monkeypatch.setattr(engine, "_BLOCK", 2)
    monkeypatch.setattr(engine, "_LONGEST_BLOCK", 13)


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
        return Traits(follows=True)

    def plan(self) -> Plan | None:
        counts = np.array([0, 1, 0])
        return None if len(self._kept) >= self._pulls else Plan.fixed(counts, phase=1)

    def adopt(self, plan: Plan) -> None:
        raise NotImplementedError

    def update(self, summary: Summary) -> None:
        self._kept.append(float(summary.sums[1]))

    def follow(self, presampled: PresampledRewards) -> tuple[int, int]:
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


def test_a_rule_and_a_wrapped_rule_are_policies() -> None:
    problem = Problem(np.eye(3))
    for rule in RULES:
        assert isinstance(rule(problem), Policy)
        wrapped = by_plans(rule)(problem, seed=0)
        assert isinstance(wrapped, Policy)
        assert not wrapped.traits.follows


def test_results_are_the_same_in_other_processes(pool: Executor) -> None:
    for rule in RULES:
        for name in ("random walk", "users"):
            go = partial(simulate, partial(rule, sigma=0.6), WORLDS[name], runs=20, seed=9)
            here: Results = go()
            there: Results = go(executor=pool)
            for field in ("index", "pulls", "correct", "final", "target", "plans"):
                np.testing.assert_array_equal(getattr(here, field), getattr(there, field))
