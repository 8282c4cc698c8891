"""Semiparametric bandits: their regressions, probabilities and regret."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from plans import next_plan, next_weights
from scipy.special import ndtr

from bestarm import Plan, Problem
from bestarm.environments import Semiparametric, baselines
from bestarm.field.centered import BOSE, ActionCentered, CenteredBandit, KimPaik
from bestarm.numerics.geometry import Array
from bestarm.policies.registry import make_policy
from bestarm.records import Counts, Summary

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.5, 0.5]])  # the largest norm is 1
METHODS: dict[str, Callable[..., CenteredBandit]] = {
    "action-centered": ActionCentered,
    "bose": partial(BOSE, width=1.0),
    "kim-paik": KimPaik,
}


def run(policy: CenteredBandit, pulls: int) -> list[tuple[Plan, Counts, Array]]:
    """Plans with the counts and sums that came of them."""
    rng = np.random.default_rng(4)
    known: list[tuple[Plan, Counts, Array]] = []
    while sum(plan.pulls for plan, _, _ in known) < pulls:
        plan, weights = next_plan(policy), next_weights(policy)
        # Not `multinomial`: it draws otherwise at 0.5 and just above it.
        drawn = np.searchsorted(np.cumsum(weights[:-1]), rng.random(plan.pulls))
        counts = np.bincount(drawn, minlength=4)
        sums = counts * (ARMS @ [0.3, 0.9]) + rng.normal(size=4) * np.sqrt(counts)
        policy.update(Summary(counts, sums, sums**2 + counts))
        known.append((plan, counts, sums))
    return known


@pytest.mark.parametrize("name", METHODS)
def test_estimates_are_those_of_the_paper(name: str) -> None:
    policy = METHODS[name](Problem(ARMS), budget=1000)
    gram, moment = np.eye(2), np.zeros(2)
    for plan, counts, sums in run(policy, 60):
        weights = plan.weights
        assert weights is not None
        mean = weights @ ARMS
        for arm in range(4):
            away = ARMS[arm] - mean
            realised = counts[arm] * np.outer(away, away)
            expected = plan.pulls * weights[arm] * np.outer(away, away)
            # Greenewald et al.: π(1 − π)ssᵀ is the expected matrix. Krishnamurthy et al.: the
            # realised one. Kim and Paik: both, and twice the moment.
            if name == "action-centered":
                gram, moment = gram + expected, moment + away * sums[arm]
            elif name == "bose":
                gram, moment = gram + realised, moment + away * sums[arm]
            else:
                gram, moment = gram + realised + expected, moment + 2 * away * sums[arm]
    np.testing.assert_allclose(policy._theta, np.linalg.solve(gram, moment), rtol=1e-9)
    assert policy.recommend().target == int(np.argmax(ARMS @ policy._theta))


def test_action_centered_pulls_the_preferred_arm_by_its_chance() -> None:
    policy = ActionCentered(Problem(ARMS), budget=1000, sigma=0.5)
    run(policy, 60)
    weights = next_weights(policy)
    arm = 1 + int(np.argmax(weights[1:] > 0))
    step = ARMS[arm] - ARMS[0]
    spread = 0.5 * np.sqrt(step @ np.linalg.solve(policy._gram, step))
    chance = np.clip(ndtr(step @ policy._theta / spread), 0.2, 0.8)
    assert weights[[0, arm]].tolist() == pytest.approx([1 - chance, chance])


def test_kim_paik_draws_arms_by_their_chance_to_be_the_best() -> None:
    policy = KimPaik(Problem(ARMS), budget=1000)
    run(policy, 60)
    weights = next_weights(policy)
    draws = np.random.default_rng(0).multivariate_normal(
        policy._theta, np.linalg.inv(policy._gram), size=200_000
    )
    chances = np.bincount(np.argmax(draws @ ARMS.T, axis=1), minlength=4) / 200_000
    # 1,000 draws of the policy: four standard errors are at most 0.065.
    np.testing.assert_allclose(weights, chances, atol=0.065)


def test_bose_keeps_what_may_be_best_and_draws_around_the_center() -> None:
    policy = BOSE(Problem(ARMS), budget=10_000, width=2.0)
    run(policy, 40)
    weights = next_weights(policy)
    inverse, scores = np.linalg.inv(policy._gram), ARMS @ policy._theta
    steps = ARMS[None, :] - ARMS[:, None]
    norms = np.sqrt(np.einsum("abi,ij,abj->ab", steps, inverse, steps))
    kept = (scores[None, :] - scores[:, None] <= 2.0 * norms).all(axis=1)
    assert 1 < kept.sum() < 4
    assert not weights[~kept].any()
    away = ARMS - weights @ ARMS
    squares = np.einsum("ai,ij,aj->a", away, inverse, away)
    assert squares[kept].max() <= 1.011 * (weights @ squares)


def test_bose_plans_the_same_on_every_processor() -> None:
    # Three arms have one norm, so that many distances are equal but for their last digits.
    rng = np.random.default_rng(0)
    policy = BOSE(Problem(ARMS), budget=10_000, width=2.0)
    for _ in range(40):
        run(policy, 1)
        expected, exact = policy._probabilities(rng), policy._gram
        policy._gram = exact * (1 + 1e-14 * rng.normal(size=(2, 2)))
        np.testing.assert_allclose(policy._probabilities(rng), expected, atol=1e-9)
        policy._gram = exact


@pytest.mark.parametrize("name", METHODS)
def test_they_lose_less_than_equal_shares_would(name: str) -> None:
    # Equal shares would lose 2000 · 0.5 = 1000 in every run.
    wave = baselines.custom(lambda t: 2 * np.sin(t / 50), bound=2.0)
    world = Semiparametric(np.eye(3), [0.0, 0.9, 0.6], baseline=wave)
    for seed in range(3):
        policy = make_policy(partial(METHODS[name], budget=2000), world.problem(0.1), seed=seed)
        stream = world.begin(np.random.default_rng(seed))
        pulled = np.zeros(3)
        while (plan := policy.plan()) is not None:
            policy.update(summary := stream.pull(plan))
            pulled += summary.counts
        assert pulled @ (0.9 - world.theta) < 900
