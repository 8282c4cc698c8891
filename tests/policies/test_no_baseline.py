"""`Problem(baseline=0)`: no intercept to pay for, and no protection against a level that moves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, Summary, simulate
from bestarm.environments import Semiparametric, baselines
from bestarm.environments.baselines import Baseline
from bestarm.policies.anytime.bets import Sampling

RULE = partial(AnytimeBAI, mean_bound=2.0)


def soare(
    dimension: int = 5,
    angle: float = 0.3,
    baseline: Baseline | float = 0.0,
    declared: float | None = None,
) -> Semiparametric:
    """Soare et al. (2014): the unit vectors, and one at a small angle to the best of them."""
    near = np.zeros(dimension)
    near[:2] = np.cos(angle), np.sin(angle)
    theta = np.zeros(dimension)
    theta[0] = 2.0
    return Semiparametric(
        np.vstack([np.eye(dimension), near]), theta, baseline=baseline, declared_baseline=declared
    )


def test_weights_read_contrasts_off_rewards_without_a_baseline() -> None:
    """Σ p w x = y on the linear span; Σ p w may be anything (Lemma 1)."""
    rng = np.random.default_rng(3)
    arms, p = rng.normal(size=(7, 3)), rng.dirichlet(np.ones(7))
    sampling = Sampling(arms, p, rng.uniform(0.5, 2.0, 7), intercept=False)
    contrasts = rng.normal(size=(4, 3))
    w = contrasts @ sampling.readout
    np.testing.assert_allclose((w * p) @ arms, contrasts, atol=1e-9)
    assert np.abs((w * p).sum(axis=1)).max() > 1e-3
    centered = contrasts @ Sampling(arms, p, np.ones(7)).readout
    np.testing.assert_allclose((centered * p).sum(axis=1), 0.0, atol=1e-9)


def test_assuming_no_baseline_buys_most_of_the_pulls() -> None:
    """With an intercept the contrast of two nearly parallel arms is all but invisible."""
    still = simulate(RULE, soare(), runs=20, delta=0.05)
    moving = simulate(RULE, soare(declared=1.0), runs=4, delta=0.05)
    assert still.correct.all()
    assert still.mean_pulls < moving.mean_pulls / 5


def test_a_sine_that_was_said_not_to_be_misleads() -> None:
    """Declared 0 and truly 1 + sin 2t: the unit vectors' mean rewards no longer say who is best."""
    results = simulate(
        RULE, soare(baseline=baselines.sinusoid(), declared=0.0), runs=20, delta=0.05
    )
    assert (results.final & ~results.correct).sum() > 5


@pytest.mark.parametrize("bounds", [None, (-8.0, 8.0), (-4.0, 12.0)])
def test_the_level_is_known_to_be_zero_wherever_the_bounds_lie(
    bounds: tuple[float, float] | None,
) -> None:
    """Rewards are summed less the middle of the bounds, which a guess of zero must allow for."""
    rng = np.random.default_rng(4)
    problem = Problem(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.2]]), baseline=0)
    theta = np.array([1.0, 0.5])
    options: dict[str, Any] = {"mean_bound": 2.0} if bounds is None else {"bounds": bounds}
    policy = AnytimeBAI(problem, **options)
    while policy.recommend().pulls < 400 and (plan := policy.plan()) is not None:
        assert plan.weights is not None
        arms = rng.choice(3, plan.pulls, p=plan.weights)
        rewards = problem.source[arms] @ theta + rng.normal(0, 0.5, plan.pulls)
        policy.update(Summary.from_pulls(arms, rewards, size=3, center=plan.center))
    expected = policy._estimates.rewards(10) + policy._scale.center
    np.testing.assert_allclose(expected, problem.source @ theta, atol=0.4)


def test_the_assumption_is_said() -> None:
    still, moving = (
        AnytimeBAI(Problem([[1.0], [2.0]], baseline=b), mean_bound=1.0).recommend().assumptions
        for b in (0.0, 1.0)
    )
    assert any("there is no baseline" in sentence for sentence in still)
    assert not any("there is no baseline" in sentence for sentence in moving)


@pytest.mark.parametrize(
    ("bounds", "means"),
    [((-1.0, 0.0), (-0.1, -0.2)), ((0.0, 1.0), (0.1, 0.2)), ((-0.2, 3), (0.5, 1))],
)
def test_bounds_that_are_not_about_zero_mislead_nobody(
    bounds: tuple[float, float], means: tuple[float, float]
) -> None:
    """Σ p w is not 0 here, so that a center taken off the rewards would bias every bet.

    Each of 20 runs errs with probability 0.05 at most: four or more do with 0.016 at most, and a
    biased rule was wrong in all of them.
    """
    low, high = bounds
    problem = Problem(np.array([[1.0], [2.0]]), baseline=0, delta=0.05)
    rates = (np.array(means) - low) / (high - low)
    wrong, misses = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        policy = AnytimeBAI(problem, bounds=bounds, max_pulls=3000)
        while (plan := policy.plan()) is not None:
            assert plan.weights is not None
            arms = rng.choice(2, plan.pulls, p=plan.weights)
            rewards = np.where(rng.random(plan.pulls) < rates[arms], high, low)
            policy.update(Summary.from_pulls(arms, rewards, size=2, center=plan.center))
        answer, found = policy.recommend(), policy.intervals()
        other = 1 - found.leader
        wrong += answer.final and answer.target != int(np.argmax(means))
        truth = means[found.leader] - means[other]
        misses += not found.low[other] <= truth <= found.high[other]
    assert wrong <= 3
    assert misses <= 3
