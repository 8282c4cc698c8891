"""Sequential halving: the whole budget, no bias from any baseline, less error than one shot.

Seeds are fixed; each comparison states how far apart the two are in standard errors.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from bestarm import DEO, Plan, Problem, SequentialHalving, Summary, Uniform, simulate
from bestarm.environments import Semiparametric, baselines
from bestarm.numerics.geometry import Array
from bestarm.simulation import Results


def _unequal(arms: int = 16, **options: object) -> Semiparametric:
    """Unrelated arms, the best ahead by 0.15, the others further and further behind."""
    means = np.r_[0.3, np.linspace(0.15, -0.6, arms - 1)]
    return Semiparametric(np.eye(arms), means, **options)  # type: ignore[arg-type]


def _play(policy: SequentialHalving, means: Array, *, seed: int = 0) -> list[Plan]:
    rng = np.random.default_rng(seed)
    plans = []
    while (plan := policy.plan()) is not None:
        plans.append(plan)
        assert plan.weights is not None
        arms = rng.choice(len(means), size=plan.pulls, p=plan.weights)
        policy.update(Summary.from_pulls(arms, means[arms], size=len(means)))
    return plans


# --- the budget ------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [5, 6, 21, 100, 1001, 98_765])
@pytest.mark.parametrize("batches", [1, 16])
def test_every_pull_of_the_budget_is_made(budget: int, batches: int) -> None:
    policy = SequentialHalving(Problem(np.eye(11)), budget=budget, batches=batches)
    plans = _play(policy, np.linspace(0, 1, 11))
    assert sum(plan.pulls for plan in plans) == budget
    answer = policy.recommend()
    assert (answer.pulls, answer.final, answer.reason) == (budget, False, "budget")
    assert answer.error_bound is None
    assert len(answer.active) == 1


def test_each_round_keeps_the_better_half() -> None:
    means = np.random.default_rng(0).permutation(np.linspace(0, 1, 11))
    policy = SequentialHalving(Problem(np.eye(11)), budget=20_000)
    plans = _play(policy, means)
    kept = [set(phase.active) - set(phase.eliminated) for phase in policy.recommend().trace]
    sizes = [len(part) for part in kept]
    assert sorted(set(sizes), reverse=True) == [11, 6, 3, 2, 1]
    order = np.argsort(-means)
    for part in kept:  # without noise the order is no secret
        assert part == set(order[: len(part)].tolist())
    assert plans[-1].weights is not None
    assert plans[-1].weights[order[:2]] == pytest.approx([0.5, 0.5], abs=1e-3)  # and nobody else
    ends = [phase for phase in policy.recommend().trace if phase.eliminated]
    shares = np.diff([0, *np.cumsum([p.pulls for p in policy.recommend().trace])])
    assert len(ends) == 4
    assert abs(shares[1:].sum() - 19_000) <= 1  # the pilot had one in twenty
    for phase in ends:
        dropped = np.array(phase.contrasts)[np.isin(phase.active, phase.eliminated)]
        assert dropped.min() == phase.radii[0]


def test_other_numbers_of_stages() -> None:
    problem = Problem(np.eye(9))
    for stages, left in ((1, [1]), (2, [3, 1]), (8, [7, 6, 4, 3, 3, 2, 2, 1])):
        policy = SequentialHalving(problem, budget=900, stages=stages, batches=1)
        assert len(_play(policy, np.linspace(1, 0, 9))) == 1 + stages
        trace = policy.recommend().trace
        assert [len(p.active) - len(p.eliminated) for p in trace] == [9, *left]


# --- what a baseline can do ------------------------------------------------------------------


def test_an_adversary_ruins_means_at_the_same_budget_and_not_halving() -> None:
    """Six unrelated arms, 2500 pulls. Intervals at 99 % over 60 runs: above ½, below 0.15."""
    world = Semiparametric(
        np.eye(6), [0.3, 0, 0, 0, 0, 0], baseline=baselines.adversary(1.0), declared_baseline=1.0
    )
    means = simulate(partial(Uniform, budget=2500), world, runs=60)
    halving = simulate(partial(SequentialHalving, budget=2500, batches=4), world, runs=60)
    assert means.error_interval(0.99)[0] > 0.5
    assert halving.error_interval(0.99)[1] < 0.15


FOUR_BATCHES = partial(SequentialHalving, budget=1000, batches=4)


@pytest.fixture(scope="module")
def without_a_baseline() -> Results:
    return simulate(FOUR_BATCHES, _unequal(8), runs=50)


@pytest.mark.parametrize(
    "baseline",
    [baselines.constant(30.0), baselines.custom(lambda t: 3 * np.cos(t / 3000), bound=3.0)],
    ids=["a high level", "a slow wave"],
)
def test_a_level_that_can_be_predicted_is_not_paid_for(
    baseline: baselines.Baseline, without_a_baseline: Results
) -> None:
    """Some 5 % of runs err without a baseline; a level of 30 that is not predicted makes it most.

    50 runs each: the difference of two such rates has a standard error of 4 %.
    """
    with_it = simulate(FOUR_BATCHES, _unequal(8, baseline=baseline), runs=50)
    assert with_it.error_rate < without_a_baseline.error_rate + 0.08 < 0.2


def test_a_baseline_that_leans_on_the_past_biases_nothing() -> None:
    """ν_t is the sign of arm 1's excess so far: it biases a level taken from the plan itself.

    Two arms alike, 300 runs: the mean estimate is within 3 standard errors of 0. With the plan's
    own mean reward in place of the level predicted it is off by more than 5.
    """
    estimates = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        policy = SequentialHalving(Problem([[0.0], [1.0]]), budget=200, batches=1)
        while (plan := policy.plan()) is not None:
            assert plan.weights is not None
            arms = rng.choice(2, size=plan.pulls, p=plan.weights)
            signs = 2 * arms - 1
            nu = 3.0 * np.sign(np.cumsum(signs) - signs)
            rewards = nu + 0.1 * rng.normal(size=plan.pulls)
            policy.update(Summary.from_pulls(arms, rewards, size=2))
        estimates.append(float(policy.theta[0]))
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert abs(np.mean(estimates)) < 3 * error


def test_targets_that_cannot_be_pulled() -> None:
    rng = np.random.default_rng(7)
    world = Semiparametric(
        rng.dirichlet(np.ones(5), size=20),
        3.0 * np.arange(5),
        target=rng.dirichlet(np.full(5, 3.0), size=12),
        baseline=baselines.sinusoid(),
    )
    results = simulate(partial(SequentialHalving, budget=4000, batches=4), world, runs=30)
    assert (results.error_rate < 0.2, results.mean_pulls) == (True, 4000)
    assert not results.final.any()


# --- what it is worth ------------------------------------------------------------------------


def test_halving_errs_less_than_one_shot_where_targets_differ_in_merit() -> None:
    """Sixteen arms, 2000 pulls: 2–3 % against about 17 %, 60 runs each; 2 standard errors."""
    halving = simulate(partial(SequentialHalving, budget=2000, batches=4), _unequal(), runs=60)
    for other in (
        partial(SequentialHalving, budget=2000, stages=1, batches=4),
        partial(Uniform, budget=2000),
        partial(DEO, budget=2000, design="centered"),
    ):
        assert simulate(other, _unequal(), runs=60).error_rate > 0.09 > 2 * halving.error_rate
