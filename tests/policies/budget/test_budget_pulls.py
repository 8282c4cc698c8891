"""P1 and BayesGap: their pulls against the papers' formulas, written plainly."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from told import told

from bestarm import Problem, simulate
from bestarm.ahead import Ahead
from bestarm.environments import MovingMeans, Semiparametric, soare
from bestarm.errors import InvalidInputError
from bestarm.geometry import Array
from bestarm.policies.budget.bayes_gap import BayesGap
from bestarm.policies.budget.p1 import P1
from bestarm.policies.pull_by_pull import PullByPull


def pull(policy: PullByPull, reward: float) -> int:
    """Pull what the policy wants, for this reward."""
    plan = policy.plan()
    assert plan is not None
    assert plan.counts is not None
    policy.update(told(plan.counts, plan.counts * reward))
    return int(np.argmax(plan.counts))


def test_p1_estimates_gains_by_the_chances_of_ranks() -> None:
    policy = P1(Problem.named(["a", "b", "c", "d"]), budget=200, seed=3)
    rng = np.random.default_rng(0)
    chances = np.array([12, 6, 4, 3]) / 25  # 1/k over their sum
    gains, order = np.zeros(4), np.random.default_rng(3).permutation(4).tolist()
    drawn = np.zeros(4)
    for _ in range(200):
        reward = rng.normal(1.0)
        arm = pull(policy, reward)
        place = order.index(arm)
        drawn[place] += 1
        gains[arm] += reward / chances[place]
        order.sort(key=lambda a: -gains[a])
        assert policy.recommend().target == order[0]
    assert np.abs(drawn - 200 * chances).max() < 35  # five standard deviations


def posterior_choice(
    features: Array, pulls: list[int], rewards: list[float], budget: int
) -> tuple[int, int, float]:
    """The arm to pull, J and B_J by the paper, from the posterior in closed form; σ = 2, η = 3."""
    played = features[pulls]
    covariance = np.linalg.inv(played.T @ played / 4 + np.eye(features.shape[1]) / 9)
    means = features @ covariance @ played.T @ np.array(rewards) / 4
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", features, covariance, features))
    arms = np.arange(len(features))
    others = [arms != k for k in arms]
    upper, lower = means + 3 * deviations, means - 3 * deviations
    gaps = np.array([upper[others[k]].max() - lower[k] for k in arms])
    difficulty = np.sum((gaps / 2) ** -2.0)
    kappa = np.sum(np.linalg.norm(features, axis=1) ** -2.0)
    beta = np.sqrt(((budget - len(arms)) / 4 + kappa / 9) / (4 * difficulty))
    upper, lower = means + beta * deviations, means - beta * deviations
    bounds = np.array([upper[others[k]].max() - lower[k] for k in arms])
    best = int(np.argmin(bounds))
    rival = int(arms[others[best]][np.argmax(upper[others[best]])])
    chosen = best if deviations[best] >= deviations[rival] else rival
    return chosen, best, float(bounds[best])


def test_bayes_gap_pulls_what_the_paper_would() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(6, 3))
    features /= np.linalg.norm(features, axis=1).max()
    policy = BayesGap(Problem(7 * features), budget=80, sigma=2.0, prior=3.0)  # in another unit
    pulls: list[int] = []
    rewards: list[float] = []
    least, named, wanted = np.inf, 0, 0
    for number in range(80):
        reward = float(rng.normal(features[number % 6, 0], 2))
        arm = pull(policy, reward)
        assert arm == (number if number < 6 else wanted)
        pulls.append(arm)
        rewards.append(reward)
        if number >= 5:
            wanted, best, bound = posterior_choice(features, pulls, rewards, 80)
            if bound < least:
                least, named = bound, best
            assert policy.recommend().target == named
    assert policy.recommend().reason == "budget"


@pytest.mark.parametrize("method", [P1, BayesGap])
def test_many_pulls_at_once_are_the_same_pulls(method: type[P1] | type[BayesGap]) -> None:
    rng = np.random.default_rng(0)
    table, common = rng.normal(size=(1, 4)), rng.normal(size=100)
    table.flags.writeable = False
    ahead = Ahead(table, np.zeros(100, dtype=np.int64), common)
    problem = Problem(np.eye(4))
    one, many = method(problem, budget=100, seed=5), method(problem, budget=100, seed=5)
    for i in range(100):
        plan = one.plan()
        assert plan is not None
        assert plan.counts is not None
        arm = int(np.argmax(plan.counts))
        one.update(told(plan.counts, plan.counts * (table[0, arm] + common[i])))
    assert many.follow(ahead) == (100, 100)
    assert one.recommend().target == many.recommend().target
    np.testing.assert_array_equal(one._counts, many._counts)
    assert one.plan() is None
    assert many.plan() is None


def test_bayes_gap_needs_more_pulls_than_arms() -> None:
    with pytest.raises(InvalidInputError, match="too few for 4 arms") as caught:
        BayesGap(Problem(np.eye(4)), budget=4)
    assert "5" in caught.value.remedy


def test_an_arm_without_features_is_no_obstacle() -> None:
    world = Semiparametric([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, -1.0])
    assert simulate(partial(BayesGap, budget=300), world, runs=10).error_rate == 0


def test_they_find_the_best_arm() -> None:
    """A gap of 1 at noise 1: errors in more than 5 of 100 runs have a probability below 1e-6."""
    world = soare(5, 1.0, baseline=0.0)
    results = simulate(partial(BayesGap, budget=1000), world, runs=100)
    assert (~results.correct).sum() <= 5
    moving = np.zeros((4000, 3))
    moving[:2000, 1], moving[2000:, 0] = 1.0, 2.0  # the second arm leads at half time
    results = simulate(partial(P1, budget=4000), MovingMeans(np.eye(3), moving), runs=100)
    assert (~results.correct).sum() <= 5
