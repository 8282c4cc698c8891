"""Paired tests: what every bet is worth under its null, exactly, and what a stop means."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations

import numpy as np
import pytest

from bestarm import PairedTests, Problem, simulate
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.paired import settle
from bestarm.records import BlockPlan, Plan, Rounds

PAIR = Problem(np.eye(2), delta=0.05)


def tell(policy: PairedTests, table: Array) -> None:
    """Tell these rounds, in plans of the policy's own lengths, until it stops."""
    told = 0
    while told < len(table) and (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        rows = table[told : told + plan.rounds]
        policy.update(Rounds.of(plan, np.zeros(len(rows), dtype=int), rows))
        told += plan.rounds


def log_wealth(differences: Array, *, reach: float, items: int | None) -> list[float]:
    """The log wealth against θ_1 ≤ θ_2 after every round, straight from the docstring."""
    wealth, path, known = 0.0, [], list[float]()
    for t, difference in enumerate(differences, 1):
        bound = 0.0 if items is None else -sum(known) / (items - t + 1)
        mean = sum(known) / t
        variance = (sum(d * d for d in known) + reach**2) / t - mean**2
        excess = mean - bound
        stake = max(0.0, excess / (variance + excess**2))
        if reach + bound > 1e-9:
            stake = min(stake, 0.9 / (reach + bound))
            wealth += math.log1p(stake * (difference - bound))
        path.append(wealth)
        known.append(float(difference))
    return path


@pytest.mark.parametrize("items", [None, 60])
def test_wealth_is_that_of_the_formula(items: int | None) -> None:
    rng = np.random.default_rng(1)
    table = -1.0 + 3.0 * rng.beta(0.5, 0.5, size=(40, 2)) * [1.0, 0.9]
    policy = PairedTests(PAIR, bounds=(-1, 2), items=items)
    tell(policy, table)
    differences = table[:, 0] - table[:, 1]
    for wealth, sign in ((policy._wealth[0, 1], 1), (policy._wealth[1, 0], -1)):
        expected = log_wealth(sign * differences, reach=3.0, items=items)[-1]
        assert wealth == pytest.approx(expected, abs=1e-9)


# Ratings of two equally good arms on six items; differences are small, large and one-sided.
TIED = {
    "even": [(0.5, 0.4), (0.4, 0.5), (0.9, 0.1), (0.1, 0.9), (0.3, 0.2), (0.2, 0.3)],
    "one far off": [(1.0, 0.0), *[(0.3, 0.5)] * 5],
    "one far below": [(0.0, 1.0), *[(0.5, 0.3)] * 5],
    "extremes": [(1.0, 0.0), (0.0, 1.0)] * 3,
}


@pytest.mark.parametrize("name", TIED)
def test_wealth_is_worth_one_at_every_round_of_a_random_order(name: str) -> None:
    """All 720 orders of six items: a supermartingale has a mean of at most 1, here exactly 1."""
    table = np.array(TIED[name])
    paths = []
    for order in permutations(range(6)):
        differences = table[list(order), 0] - table[list(order), 1]
        paths.append(np.exp(log_wealth(differences, reach=1.0, items=6)))
    np.testing.assert_allclose(np.mean(paths, axis=0), 1.0, rtol=0, atol=1e-9)


def test_the_wealth_of_a_tie_hardly_ever_reaches_the_level() -> None:
    """2000 orders of 80 items, two equally good arms: 1/δ = 50 is reached in at most 2 % of them.

    More than 65 would come by chance once in 10⁴ if it were 2 %.
    """
    rng = np.random.default_rng(3)
    table = np.zeros((80, 2))
    table[:, 0] = rng.choice([0.0, 0.8, 1.1, 1.8], size=80)
    table[:, 1] = table[:, 0].mean()
    early = 0
    for _ in range(2000):
        squares, wealth, evidence = np.zeros((3, 2, 2))
        settle(rng.permutation(table), 2.0, 80, 0, np.zeros(2), squares, wealth, evidence)
        early += bool(evidence[0, 1] >= math.log(50))
    assert 0 < early <= 65


def test_when_all_items_are_known_the_answer_is_exact() -> None:
    rng = np.random.default_rng(4)
    table = rng.random((50, 4))
    table[:, 1] = table[:, 0]
    table[17, 1] += 1e-6  # better by nothing but this
    table[:, 2:] *= 0.9
    policy = PairedTests(Problem(np.eye(4)), bounds=(0, 2), items=50)
    tell(policy, table)
    answer = policy.recommend()
    assert (answer.target, answer.reason, answer.final) == (1, "exact", True)
    assert (answer.pulls, answer.error_bound, answer.active) == (200, 0.05, (0, 1, 2, 3))
    assert policy.plan() is None


def test_what_is_left_may_decide_before_it_is_seen() -> None:
    """Once the rest cannot make up for a lead, the evidence is beyond any level."""
    table = np.tile([1.0, 0.0], (40, 1))
    policy = PairedTests(Problem(np.eye(2), delta=1e-90), bounds=(0, 1), items=40)
    tell(policy, table)
    answer = policy.recommend()
    assert (answer.reason, answer.target) == ("identified", 0)
    assert answer.pulls < 2 * 25


def test_a_baseline_of_any_size_cancels_and_errors_stay_below_delta() -> None:
    """25 runs, δ = 0.1: 9 errors would come by chance once in 2000 times."""
    world = Semiparametric(
        np.eye(3),
        [1.0, 0.0, 0.0],
        baseline=baselines.custom(lambda t: 5 * np.cos(t), bound=5.0),
        noise=0.3,
        block=3,
    )
    results = simulate(partial(PairedTests, bounds=(-8, 8)), world, runs=25, delta=0.1)
    assert results.final.all()
    assert np.count_nonzero(~results.correct) <= 8
    assert results.pulls.max() < 3000


def test_prompts_run_out_and_blocks_are_complete() -> None:
    rng = np.random.default_rng(5)
    level = rng.random((200, 1))
    matrix = 0.5 * level + 0.5 * rng.random((200, 3)) * [1.0, 0.97, 0.7]
    world = Ratings(matrix, replacement=False, block=3)
    results = simulate(partial(PairedTests, bounds=(0, 1), items=200), world, runs=10, delta=0.05)
    assert results.final.all()
    assert (results.pulls % 3 == 0).all()
    assert 600 >= results.pulls.max() > results.pulls.min()
    assert results.correct.mean() > 0.9


def test_a_reward_outside_the_bounds_is_refused_and_changes_nothing() -> None:
    policy = PairedTests(PAIR, bounds=(0, 1))
    plan = policy.plan()
    assert isinstance(plan, BlockPlan)
    with pytest.raises(InvalidInputError, match="paid a reward outside the bounds"):
        policy.update(Rounds.of(plan, [0], [[0.5, 1.1]]))
    assert (policy.plan(), policy._sums.tolist()) == (plan, [0.0, 0.0])


def test_plans_that_cannot_be_its_own_are_not_adopted() -> None:
    policy = PairedTests(Problem(np.eye(3)), bounds=(0, 1), items=5)
    with pytest.raises(ProtocolError, match="does not pull all arms in every round"):
        policy.adopt(Plan.randomised(np.full(3, 1 / 3), 3, phase=1))
    with pytest.raises(ProtocolError, match="does not pull all arms in every round"):
        policy.adopt(BlockPlan.drawn([[0, 1], [1, 2]], [0.5, 0.5], 2, arms=3, phase=1))
    with pytest.raises(ProtocolError, match="has 6 rounds, and 5 items are left"):
        policy.adopt(BlockPlan.drawn([[0, 1, 2]], [1.0], 6, arms=3, phase=1))
