"""What linear rules that decide after every pull have in common: least squares and thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from linear_runs import PROBLEMS, drive, rewards_of
from scipy.special import zeta

from bestarm import Problem, environments, simulate
from bestarm.field import thresholds
from bestarm.field.alba import ALBA
from bestarm.field.fws import FrankWolfeSampling
from bestarm.field.lazy_tas import LazyTrackAndStop
from bestarm.field.linear_model import coordinates
from bestarm.field.linear_rule import LinearRule, threshold_now
from bestarm.field.lingame import LinGame, LinGameC
from bestarm.field.lingape import LinGapE
from bestarm.field.peace import Peace
from bestarm.field.xy_adaptive import XYAdaptive
from bestarm.field.xy_static import XYOracle, XYStatic
from bestarm.presampled import PresampledRewards
from bestarm.simulation import Oracle

Rule = Callable[..., LinearRule]
RULES: list[Rule] = [LinGapE, LazyTrackAndStop, LinGame, LinGameC, FrankWolfeSampling]

SOURCE = np.array([[1.0, 0, 0.3], [0, 1, 0], [0.2, 0, 1], [1, 1, 0.5]]) / 1.5
COUNTS = np.array([40, 7, 3, 110])
DESIGN = SOURCE.T @ (COUNTS[:, None] * SOURCE)
PROBLEM = Problem(SOURCE, delta=0.02)


@pytest.mark.parametrize("rule", RULES)
def test_the_inverse_stays_exact(rule: Rule) -> None:
    """After 20,200 pulls, 232 after the last exact computation, against NumPy's from the counts."""
    problem = PROBLEMS["soare"]
    policy = rule(problem, sigma=1e3)  # so large that it does not stop
    policy.run_presampled(rewards_of(problem, 20_200))
    source, _ = coordinates(problem)
    design = policy._model[2] * np.eye(3) + source.T @ (policy._counts[:, None] * source)
    np.testing.assert_allclose(policy._state[2] @ design, np.eye(3), atol=1e-11)
    theta = np.linalg.solve(design, source.T @ policy._sums) / 1e3
    np.testing.assert_allclose(policy._state[3], theta, rtol=1e-10)
    assert policy._state[7][0] == pytest.approx(np.linalg.slogdet(design)[1], rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_tied_targets_are_never_told_apart(rule: Rule) -> None:
    """Two arms are the best, and there is no noise: 3,000 pulls show nothing."""
    problem = Problem([[1, 0], [0, 1], [0.4, 0.3]])
    table = np.array([[1.0, 1.0, 0.7]])
    table.flags.writeable = False
    policy = rule(problem)
    policy.run_presampled(PresampledRewards(table, np.zeros(3000, dtype=np.int64), np.zeros(3000)))
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
def test_degenerate_features(rule: Rule, features: list[list[float]]) -> None:
    """The rule opens, decides and finds an arm that is far better than the others."""
    problem = Problem(features, delta=0.1)
    best = 1
    theta = np.linalg.lstsq(problem.source, np.eye(problem.arms)[best], rcond=None)[0]
    means = problem.source @ theta
    table = 10 * means[None, :] / np.abs(means).max()
    table.flags.writeable = False
    noise = np.random.default_rng(0).normal(size=5000)
    policy = rule(problem, sigma=0.1)
    policy.run_presampled(PresampledRewards(table, np.zeros(5000, dtype=np.int64), 0.1 * noise))
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
        policy.run_presampled(PresampledRewards(table, np.zeros(300, dtype=np.int64), noise))
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
        text = " ".join(answer.assumptions)
        for part in ("without an intercept", "0.1-sub-Gaussian, given the past", "nothing drifts"):
            assert (part in text) == (threshold != "experiments")
        regularised = policy._model[2] > 0
        assert ("norm 2 or less" in text) == (regularised and threshold == "published")
        assert answer.claims == (None if threshold == "experiments" else problem.delta)


@pytest.mark.parametrize(
    ("rule", "threshold", "runs", "most"),
    [
        (LinGapE, "published", 200, 35),
        (LinGapE, "certified", 200, 35),
        (LazyTrackAndStop, "published", 40, 12),
        (LazyTrackAndStop, "certified", 40, 12),
        (LinGame, "published", 100, 23),
        (LinGame, "certified", 100, 23),
        (LinGameC, "certified", 100, 23),
        (FrankWolfeSampling, "published", 100, 23),
        (FrankWolfeSampling, "certified", 100, 23),
    ],
)
def test_errors_are_rarer_than_delta(rule: Any, threshold: str, runs: int, most: int) -> None:
    """δ = 0.1 allows `runs`/10 errors; at that rate more than `most` are a case in 10³."""
    world = environments.soare(3, 0.5)
    found = simulate(partial(rule, threshold=threshold), world, runs=runs, delta=0.1, seed=5)
    assert np.count_nonzero(~found.correct) <= most


@pytest.mark.parametrize(
    ("method", "seed"),
    [
        (ALBA, 4),
        (Peace, 8),
        (XYStatic, 8),
        (XYAdaptive, 8),
        (Oracle(XYOracle, theta="theta"), 8),
        (partial(XYStatic, threshold="small"), 8),
        (partial(XYAdaptive, threshold="small"), 8),
    ],
    ids=["alba", "peace", "static", "adaptive", "oracle", "static-small", "adaptive-small"],
)
def test_errors_stay_below_delta(method: Any, seed: int) -> None:
    """At most δ = 0.1 wrong: 20 of 100 runs would be with probability below 0.2 %."""
    results = simulate(method, environments.soare(3, 0.6), runs=100, seed=seed, delta=0.1)
    assert (~results.correct).sum() < 20
    assert results.final.all()


# --- thresholds, against closed forms and NumPy ----------------------------------------------


def _compiled(rule: LinearRule) -> float:
    """What the rule's kernel wants after these pulls."""
    rule._counts[:] = COUNTS
    rule._state[8][0] = COUNTS.sum()
    return threshold_now(rule._model, rule._state, rule._rule)


def _log_det(matrix: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def test_lingape_squares_half_its_radius() -> None:
    """C_t of the paper, with S = 1.5 and σ = 0.5, in units of the noise."""
    volume = math.sqrt(math.exp(_log_det(np.eye(3) + DESIGN)))
    radius = 0.5 * math.sqrt(2 * math.log(16 * volume / 0.02)) + 1.5
    wanted = _compiled(LinGapE(PROBLEM, sigma=0.5, norm=1.5))
    assert wanted == pytest.approx((radius / 0.5) ** 2 / 2, rel=1e-12)


def test_lazy_is_equation_9() -> None:
    """With c the least eigenvalue of a basis: arms 3, 2, 0, each furthest from those before."""
    basis = SOURCE[[3, 2, 0]]
    least = np.linalg.eigvalsh(basis.T @ basis)[0]
    expected = 1.1 * (math.log(50) + _log_det(np.eye(3) + DESIGN / (0.1 * least)) / 2)
    assert _compiled(LazyTrackAndStop(PROBLEM)) == pytest.approx(expected, rel=1e-12)
    expected = 1.1 * (math.log(50) + math.log(160) / 2 + 1.5 * math.log(11))
    rule = LazyTrackAndStop(PROBLEM, threshold="experiments")
    assert _compiled(rule) == pytest.approx(expected, rel=1e-12)


def test_certified_has_a_prior_of_thirty_pulls() -> None:
    """log det of A + Λ against that of Λ; and the other rules' threshold in experiments."""
    prior = 30 * SOURCE.T @ SOURCE / 4
    expected = math.log(50) + (_log_det(prior + DESIGN) - _log_det(prior)) / 2
    assert _compiled(LinGapE(PROBLEM, threshold="certified")) == pytest.approx(expected, rel=1e-12)
    expected = math.log((1 + math.log(160)) / 0.02)
    rule = LinGapE(PROBLEM, threshold="experiments")
    assert _compiled(rule) == pytest.approx(expected, rel=1e-12)


def test_counts_threshold_is_the_least_over_a_grid() -> None:
    """K C(log(1/δ)/K), by brute force."""
    share = np.linspace(0.501, 0.999, 20_000)
    g = 2 * share * (1 - np.log(4 * share)) + np.log(zeta(2 * share)) - np.log(1 - share) / 2
    for arms in (2, 7, 500):
        expected = arms * ((g + math.log(100) / arms) / share).min()
        assert thresholds.counts_threshold(0.01, arms=arms).level == pytest.approx(expected, 1e-6)


def test_certified_bound_holds_at_every_moment() -> None:
    """Rewards are noise: the ellipsoid misses θ = 0 at some of 2,000 pulls in at most δ of runs.

    At δ = 0.1 and 400 runs, 62 misses or more have a probability below 10⁻³ if the bound is true.
    """
    rng, misses = np.random.default_rng(2), 0
    prior = 30 * SOURCE.T @ SOURCE / 4
    for _ in range(400):
        arms = SOURCE[rng.integers(4, size=2000)]
        scores = np.cumsum(arms * rng.normal(size=(2000, 1)), axis=0)[::10]
        designs = prior + np.cumsum(arms[:, :, None] * arms[:, None, :], axis=0)[::10]
        squares = np.einsum(
            "ti,ti->t", scores, np.linalg.solve(designs, scores[:, :, None])[..., 0]
        )
        volumes = np.linalg.slogdet(designs)[1] - _log_det(prior)
        misses += bool((squares / 2 > math.log(10) + volumes / 2).any())
    assert 0 < misses < 62
