"""The methods SP-BAI is compared with, held against published figures and formulas."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import (
    DEO,
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    GOpt,
    Problem,
    Summary,
    Uniform,
    bounds,
    design,
)
from bestarm.environments import small_gap
from bestarm.errors import InvalidInputError
from bestarm.policies import Method


def test_g_opt_pulls_exactly_what_was_published() -> None:
    """Table `sim-summary-smallgapd10`: 387 106 pulls in every run."""
    world = small_gap()
    plan = GOpt(world.problem(0.1), gap=world.gap).plan()
    assert plan is not None
    assert plan.pulls == 387_106
    assert plan.weights is not None
    np.testing.assert_array_equal(plan.weights, design.deo(world.problem(0.1).source).weights)


def test_g_opt_budgets_on_the_published_uniform_instances() -> None:
    """Table `sim-summary-uniformk100`: 323 509.88 ± 904 131.81, capped at five million."""
    budgets = []
    for run in range(100):
        features = np.random.default_rng(1_792_033 + run).normal(size=(100, 10))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        second, first = np.sort(2 * features[:, 0])[-2:]
        budgets.append(
            min(bounds.sbe_phase_length(10, epsilon=first - second, delta=0.1), 5 * 10**6)
        )
    assert round(np.mean(budgets), 2) == 323_509.88
    assert round(np.std(budgets, ddof=1), 2) == 904_131.81


def test_a_batch_cut_short_is_not_an_identification() -> None:
    world = small_gap()
    for cap, final in ((1000, False), (387_106, True)):
        policy = GOpt(world.problem(0.1), gap=world.gap, max_pulls=cap)
        plan = policy.plan()
        assert plan is not None
        assert plan.pulls == cap
        policy.update(world.begin(np.random.default_rng(0)).pull(plan))
        assert policy.recommend().final is final


def test_uniform_spends_its_budget_to_the_last_pull_and_names_the_best_mean() -> None:
    policy = Uniform(Problem(np.eye(3)), budget=8)
    plan = policy.plan()
    assert plan is not None
    assert plan.counts is not None
    assert plan.counts.tolist() == [3, 3, 2]
    policy.update(Summary(plan.counts, np.array([3.0, 6.0, 2.0]), np.array([9.0, 20.0, 5.0])))
    answer = policy.recommend()
    assert (answer.target, answer.final, answer.reason) == (1, False, "budget")
    assert "not identified" in str(answer)


def test_deo_ranks_by_orthogonalized_regression() -> None:
    rng = np.random.default_rng(4)
    problem = Problem(np.eye(5))
    policy = DEO(problem, budget=20_000)
    plan = policy.plan()
    assert plan is not None
    arms = rng.choice(5, size=plan.pulls, p=plan.weights)
    rewards = np.array([0.0, 0.1, 0.5, 0.2, 0.1])[arms] + rng.normal(size=plan.pulls) + 4
    policy.update(Summary.from_pulls(arms, rewards, size=5))
    assert policy.recommend().target == 2


def test_bad_options_are_refused_in_a_sentence() -> None:
    problem = Problem(np.eye(3))
    for make, field in (
        (lambda: GOpt(problem, gap=0.0), "gap"),
        (lambda: GOpt(problem, gap=0.1, max_pulls=0), "max_pulls"),
        (lambda: DEO(problem, budget=0), "budget"),
        (lambda: DEO(problem, budget=10, anchor=3), "anchor"),
        (lambda: Uniform(problem, budget=2), "budget"),
        (lambda: SBE(problem, r1=-1.0), "r1"),
        (lambda: RAGE(problem, sigma=0.0), "sigma"),
        (lambda: RAGE(problem, tol=0.0), "tol"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            make()
        assert caught.value.field == field


@pytest.mark.parametrize("method", [SPBAI, SBE, RAGE, LUCB, ActionElimination])
def test_features_alone_are_no_problem(method: Method) -> None:
    with pytest.raises(InvalidInputError, match="`problem` must be a Problem; got list"):
        method([[1, 0], [0, 1]], seed=0)  # type: ignore[arg-type]
