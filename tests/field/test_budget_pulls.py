"""P1 and BayesGap: their pulls against the papers' formulas, written plainly."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from plans import equal_rewards, next_counts

from bestarm import Problem, simulate
from bestarm.environments import Semiparametric, soare
from bestarm.field.bayes_gap import BayesGap
from bestarm.field.moving_means import MovingMeans
from bestarm.field.p1 import P1
from bestarm.field.pull_by_pull import PullByPull
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards


def pull(policy: PullByPull, reward: float) -> int:
    """Pull what the policy wants, for this reward."""
    counts = next_counts(policy)
    policy.update(equal_rewards(counts, counts * reward))
    return int(np.argmax(counts))


def test_p1_draws_ranks_and_estimates_gains_by_their_chances() -> None:
    policy = P1(Problem(["a", "b", "c", "d"]), budget=400, seed=3)
    rng, own = np.random.default_rng(0), np.random.default_rng(3)  # the policy's
    chances = np.array([12, 6, 4, 3]) / 25  # 1/k over their sum
    gains, order = np.zeros(4), own.permutation(4).tolist()
    drawn = np.zeros(4)
    for _ in range(400):
        reward = rng.normal(0.2)  # arms rise and fall
        arm = pull(policy, reward)
        place = order.index(arm)
        assert place == np.searchsorted(np.cumsum(chances), own.random(), "right")
        drawn[place] += 1
        gains[arm] += reward / chances[place]
        order.sort(key=lambda a: -gains[a])
        assert policy.recommend().target == order[0]
    assert np.abs(drawn - 400 * chances).max() < 50  # five standard deviations


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


@pytest.mark.parametrize(("arms", "dimension"), [(6, 3), (7, 3), (2, 2), (4, 6), (20, 2)])
def test_bayes_gap_pulls_what_the_paper_would(arms: int, dimension: int) -> None:
    """With fewer arms than twice the dimension, or more: their posteriors are kept differently."""
    rng, budget = np.random.default_rng(1), 100
    features = rng.normal(size=(arms, dimension))
    features /= np.linalg.norm(features, axis=1).max()
    policy = BayesGap(Problem(7 * features), budget=budget, sigma=2.0, prior=3.0)  # in another unit
    pulls: list[int] = []
    rewards: list[float] = []
    least, named, wanted = np.inf, 0, 0
    for number in range(budget):
        reward = float(rng.normal(features[number % arms, 0], 2))
        arm = pull(policy, reward)
        assert arm == (number if number < arms else wanted)
        pulls.append(arm)
        rewards.append(reward)
        if number >= arms - 1:
            wanted, best, bound = posterior_choice(features, pulls, rewards, budget)
            if bound < least:
                least, named = bound, best
            assert policy.recommend().target == named
    assert policy.recommend().reason == "budget"


def test_bayes_gap_does_not_depend_on_last_digits() -> None:
    """On Soare's arms, deviations tie on paper; in other coordinates they differ by rounding."""
    rng = np.random.default_rng(6)
    for dimension in (2, 3, 4) * 2:
        source, pulls = soare(dimension, 0.4).problem(0.1).source, 3000
        turn = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
        table = rng.normal(size=(pulls, len(source)))
        table.flags.writeable = False
        presampled = PresampledRewards(table, np.arange(pulls), np.zeros(pulls))
        one, other = (BayesGap(Problem(each), budget=pulls) for each in (source, source @ turn))
        one.run_presampled(presampled)
        other.run_presampled(presampled)
        assert one._counts.tolist() == other._counts.tolist()
        assert one.recommend().target == other.recommend().target


def test_an_arm_without_features_is_no_obstacle() -> None:
    world = Semiparametric([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, -1.0])
    assert simulate(partial(BayesGap, budget=300), world, runs=10).error_rate == 0


def test_they_find_the_best_arm() -> None:
    """A gap of 1 at noise 1: more than 5 errors have a probability below 1e-6."""
    world = soare(5, 1.0, baseline=0.0)
    results = simulate(partial(BayesGap, budget=1000), world, runs=40)
    assert (~results.correct).sum() <= 5
    moving = np.zeros((4000, 3))
    moving[:2000, 1], moving[2000:, 0] = 1.0, 2.0  # the second arm leads at half time
    results = simulate(partial(P1, budget=4000), MovingMeans(np.eye(3), moving), runs=100)
    assert (~results.correct).sum() <= 5
