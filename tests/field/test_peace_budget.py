"""Peace at a fixed budget: its phases, what it keeps, and the published error rates."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from plans import next_counts, without_noise

from bestarm import Problem, Summary, environments, simulate
from bestarm.design import linear_xy
from bestarm.field.peace_budget import PeaceBudget

SOARE = environments.soare(5, 0.3)


def test_phases_halve_the_largest_variance() -> None:
    """Every phase keeps the longest prefix of the ranking whose design value is at most half."""
    problem = SOARE.problem(0.1)
    policy = PeaceBudget(problem, budget=1003, design="variance")
    value = linear_xy(problem.source, problem.target).value
    phases, means = math.ceil(math.log2(value)), problem.source @ SOARE.theta
    ranking = np.argsort(-means, kind="stable")
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        assert plan.pulls == 1003 // phases + (1003 % phases if plan.phase == phases else 0)
        active = list(policy.recommend().active)
        value = linear_xy(problem.source, problem.target[active]).value
        policy.update(Summary(plan.counts, plan.counts * means, np.zeros(problem.arms)))
        left = [arm for arm in ranking if arm in active]
        sizes = [linear_xy(problem.source, problem.target[left[:i]]).value for i in range(2, 7)]
        kept = 1 + sum(size <= value / 2 for size in sizes[: len(left) - 1])
        if plan.phase < phases:
            assert sorted(left[:kept]) == list(policy.recommend().active)
    assert policy.recommend().target == 0
    assert policy.recommend().reason == "budget"
    assert not policy.recommend().final


@pytest.mark.parametrize("budget", [1, 3, 40])
def test_small_budgets_are_spent(budget: int) -> None:
    policy = PeaceBudget(SOARE.problem(0.1), budget=budget)
    plans = without_noise(policy, np.ones(policy.problem.arms))
    assert sum(plan.pulls for plan in plans) <= budget
    assert policy.recommend().reason == "budget"


def test_two_targets_need_the_phases_of_their_width() -> None:
    """γ = 8/π for two orthogonal arms, so there are two phases."""
    policy = PeaceBudget(Problem(np.eye(2)), budget=100)
    assert next_counts(policy).tolist() == [25, 25]


def test_published_errors() -> None:
    """Soare's d = 10, ω = 0.1, 1,010 pulls: 8.5 % of 21,000 runs (Xiong et al. 2024, stored data).

    Of 150 runs 13 are expected; below 3 or above 24 are fewer than one in 500 simulations.
    """
    method = partial(PeaceBudget, budget=1010, design="variance")
    results = simulate(method, environments.soare(10, 0.1), runs=150, seed=1)
    assert 3 <= int((~results.correct).sum()) <= 24
