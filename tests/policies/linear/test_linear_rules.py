"""What all linear rules that decide after every pull have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from linear_runs import PROBLEMS, drive, rewards_of

from bestarm import Problem
from bestarm.policies.linear.base import LinearRule, coordinates
from bestarm.policies.linear.fws import FrankWolfeSampling
from bestarm.policies.linear.lazy import LazyTrackAndStop
from bestarm.policies.linear.lingame import LinGame, LinGameC
from bestarm.policies.linear.lingape import LinGapE
from bestarm.presampled import PresampledRewards

Rule = Callable[..., LinearRule]
RULES: list[Rule] = [LinGapE, LazyTrackAndStop, LinGame, LinGameC, FrankWolfeSampling]


@pytest.mark.parametrize("rule", RULES)
def test_the_inverse_stays_exact(rule: Rule) -> None:
    """After 20,200 pulls, 232 after the last exact computation, against NumPy's from the counts."""
    problem = PROBLEMS["soare"]
    policy = rule(problem, sigma=1e3)  # so large that it does not stop
    policy.follow(rewards_of(problem, 20_200))
    source, _ = coordinates(problem)
    design = policy._model[3] * np.eye(3) + source.T @ (policy._counts[:, None] * source)
    np.testing.assert_allclose(policy._fit[0] @ design, np.eye(3), atol=1e-11)
    theta = np.linalg.solve(design, source.T @ policy._sums) / 1e3
    np.testing.assert_allclose(policy._fit[1], theta, rtol=1e-10)
    assert policy._numbers[0] == pytest.approx(np.linalg.slogdet(design)[1], rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_tied_targets_are_never_told_apart(rule: Rule) -> None:
    """Two arms are the best, and there is no noise: 3,000 pulls show nothing."""
    problem = Problem([[1, 0], [0, 1], [0.4, 0.3]])
    table = np.array([[1.0, 1.0, 0.7]])
    table.flags.writeable = False
    policy = rule(problem)
    policy.follow(PresampledRewards(table, np.zeros(3000, dtype=np.int64), np.zeros(3000)))
    assert policy.recommend().reason == "running"
    assert policy.recommend().target in {0, 1}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "features",
    [
        [[1.0], [2.0], [-1.0]],
        [[0.0, 0.0], [1.0, 0.0], [0.3, 0.9]],
        [[1e6 + 1, 1.0], [1e6, 1.0], [1e6 - 1, 1.1]],
    ],
    ids=["one feature", "an arm without features", "an offset"],
)
def test_odd_features(rule: Rule, features: list[list[float]]) -> None:
    """The rule opens, decides and finds an arm that is far better than the others."""
    problem = Problem(features, delta=0.1)
    best = 1
    theta = np.linalg.lstsq(problem.source, np.eye(problem.arms)[best], rcond=None)[0]
    means = problem.source @ theta
    table = 10 * means[None, :] / np.abs(means).max()
    table.flags.writeable = False
    noise = np.random.default_rng(0).normal(size=5000)
    policy = rule(problem, sigma=0.1)
    policy.follow(PresampledRewards(table, np.zeros(5000, dtype=np.int64), 0.1 * noise))
    answer = policy.recommend()
    assert answer.target == int(np.argmax(means))


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [
        *((rule, "certified") for rule in RULES),
        (LazyTrackAndStop, "published"),
        (FrankWolfeSampling, "published"),
    ],
)
def test_nothing_is_identified_by_rounding(rule: Rule, threshold: str) -> None:
    """Two features differ in one arm, by 10⁻⁹: A⁻¹ without regularisation has no digit left."""
    source = np.array([[0.7, 0.7, 0], [0.7, 0.7 + 1e-9, 0], [0, 0, 1]])
    problem = Problem(source, target=source[[0, 2]], delta=0.05)
    table = np.array([[30.0, 30.0, 31.0]])
    table.flags.writeable = False
    for seed in range(5):
        policy = rule(problem, threshold=threshold)
        noise = np.random.default_rng(seed).normal(size=300)
        policy.follow(PresampledRewards(table, np.zeros(300, dtype=np.int64), noise))
        assert policy.recommend().reason == "running"


@pytest.mark.parametrize("rule", RULES)
def test_a_final_answer_says_what_it_rests_on(rule: Rule) -> None:
    """δ where it is proven, with a bound on ‖θ‖ only where regularisation needs one."""
    problem = PROBLEMS["soare"]
    for threshold in ("published", "certified", "experiments"):
        policy = rule(problem, sigma=0.1, threshold=threshold)
        drive(policy, rewards_of(problem, 300))
        answer = policy.recommend()
        assert bool(answer.assumptions) == (threshold != "experiments")
        said = " ".join(answer.assumptions)
        for part in ("without an intercept", "0.1-sub-Gaussian, given the past", "nothing drifts"):
            assert (part in said) == (threshold != "experiments")
        regularised = policy._model[3] > 0
        assert ("norm 2 or less" in said) == (regularised and threshold == "published")
        assert answer.claims == (None if threshold == "experiments" else problem.delta)
