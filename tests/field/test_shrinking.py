"""OD-LinBAI, GSE and PSS: their phases, counts and estimates against the papers' formulas."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from plans import equal_rewards, next_plan, next_weights, without_noise

from bestarm import Problem, simulate
from bestarm.environments import Semiparametric
from bestarm.errors import InvalidInputError
from bestarm.field.gse import GSE
from bestarm.field.linear_designs import g_counts, g_weights
from bestarm.field.od_linbai import ODLinBAI, sparse_weights
from bestarm.field.pss import PSS

SPHERE = np.random.default_rng(5).normal(size=(40, 3))
SPHERE /= np.linalg.norm(SPHERE, axis=1, keepdims=True)


def test_od_linbai_keeps_half_as_many_arms_as_dimensions() -> None:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(12, 5)) @ rng.normal(size=(5, 8))  # rank 5 in R⁸
    means = flat @ rng.normal(size=8)
    policy = ODLinBAI(Problem(flat), budget=500)
    plans = without_noise(policy, means)
    # ⌈log₂ 5⌉ = 3 phases, m = (500 − min(12, 15) − (3 + 2))/3.
    pulls = (500 - 12 - 5) / 3
    assert [len(phase.active) for phase in policy.recommend().trace] == [12, 3, 2]
    assert all(pulls <= plan.pulls <= pulls + 12 for plan in plans)
    assert sum(plan.pulls for plan in plans) <= 500
    assert plans[-1].counts is not None
    assert sorted(plans[-1].counts)[-2:] == [81, 81]
    assert policy.recommend().target == np.argmax(means)


def test_a_g_design_never_needs_more_arms_than_entries_of_its_matrix() -> None:
    everything = np.arange(40)
    even = np.full(40, 1 / 40)
    few = sparse_weights(SPHERE, even)
    assert (few > 0).sum() <= 6
    assert few.min() >= 0
    # Up to the weights' sum, the matrix is the same.
    gram = SPHERE.T @ (few[:, None] * SPHERE)
    np.testing.assert_allclose(gram / gram.trace(), SPHERE.T @ SPHERE / 40, atol=1e-9)
    weights = g_weights(SPHERE, everything)
    gram = SPHERE.T @ (weights[:, None] * SPHERE)
    norms = np.einsum("ij,ji->i", SPHERE, np.linalg.solve(gram, SPHERE.T))
    assert norms.max() < 3 * (1 + 1e-5)  # Kiefer and Wolfowitz: the optimum is the rank


def test_gse_halves_on_each_stage_alone() -> None:
    means = SPHERE[:11] @ np.array([1.0, -2.0, 0.5])
    policy = GSE(Problem(SPHERE[:11]), budget=103)
    plans = without_noise(policy, means)
    assert [plan.pulls for plan in plans] == [25, 26, 26, 26]
    assert [len(phase.active) for phase in policy.recommend().trace] == [11, 6, 3, 2]
    assert policy.recommend().target == np.argmax(means)
    policy = GSE(Problem(SPHERE[:11]), budget=500, factor=4)
    without_noise(policy, means)
    assert [len(phase.active) for phase in policy.recommend().trace] == [11, 3]


def test_few_pulls_still_span_the_arms() -> None:
    """Five pulls for a design on more arms: as good as greedy, and never singular."""
    everything = np.arange(40)
    support = (g_weights(SPHERE, everything) > 0).sum()
    for pulls in range(3, support):
        counts = g_counts(SPHERE, everything, pulls)
        assert counts.sum() == pulls
        gram = SPHERE.T @ (counts[:, None] * SPHERE)
        norms = np.einsum("ij,ji->i", SPHERE, np.linalg.solve(gram, SPHERE.T))
        assert pulls * norms.max() < 4 * 3  # at most four times the optimum, the rank


def test_pss_estimates_by_inverse_probabilities_in_each_phase() -> None:
    policy = PSS(Problem(list("abcde")), budget=100)
    assert next_plan(policy).pulls == 33  # ⌈log₂ 5⌉ phases
    policy.update(equal_rewards([1, 8, 8, 8, 8], [2.0, 6.0, 4.0, 5.0, 1.0]))
    # The sums decide, not the means: arm 0 has the best mean and is dropped.
    assert policy.recommend().active == (1, 2, 3)
    np.testing.assert_allclose(next_weights(policy), [0.0, 1 / 3, 1 / 3, 1 / 3, 0])
    policy.update(equal_rewards([0, 11, 11, 11, 0], [0.0, 1.0, 3.0, 3.0, 0.0]))
    assert policy.recommend().active == (2, 3)  # a tie goes to the first
    assert policy.recommend().target == 2


@pytest.mark.parametrize(
    ("method", "least"),
    [
        (ODLinBAI, 6 + 2 + 1),  # d(d + 1)/2, the arms of the second phase, and one
        (GSE, 6 * 3),  # ⌈log₂ 40⌉ stages of rank 3
        (PSS, 40),
    ],
)
def test_a_budget_too_small_is_refused_before_the_first_pull(
    method: type[ODLinBAI] | type[GSE] | type[PSS], least: int
) -> None:
    problem = Problem(SPHERE)
    with pytest.raises(InvalidInputError, match=f"`budget` .* of at least {least}"):
        method(problem, budget=least - 1)
    policy = method(problem, budget=least)
    pulls = sum(plan.pulls for plan in without_noise(policy, SPHERE[:, 0]))
    assert pulls <= least
    assert policy.recommend().reason == "budget"


def test_arms_on_a_line() -> None:
    """One dimension: a single phase decides between the ends."""
    policy = ODLinBAI(Problem([[1.0], [2.0], [3.0]]), budget=10)
    assert len(without_noise(policy, np.array([1.0, 2.0, 3.0]))) == 1
    assert policy.recommend().target == 2


def test_they_find_the_best_arm() -> None:
    """Five arms with gap 1: each errs with a probability far below 0.02 per run."""
    world = Semiparametric(np.eye(5), [1.0, 0, 0, 0, 0], noise=0.5)
    for method in (ODLinBAI, GSE, PSS):
        results = simulate(partial(method, budget=400), world, runs=50)
        assert (~results.correct).sum() <= 3
