"""XY-static, XY-adaptive and XY-oracle against the formulas of Soare, Lazaric and Munos (2014)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plans import without_noise

from bestarm import Problem, Summary, design, environments
from bestarm.errors import InvalidInputError
from bestarm.field import thresholds
from bestarm.field.linear_model import points_of
from bestarm.field.xy_adaptive import XYAdaptive
from bestarm.field.xy_allocation import greedy_allocation
from bestarm.field.xy_static import XYOracle, XYStatic
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards

RNG = np.random.default_rng(5)
ARMS = RNG.normal(size=(6, 3))
TARGETS = RNG.normal(size=(4, 3))
# Arms in a plane of R⁴, with targets whose differences lie in it.
FLAT = Problem(RNG.normal(size=(5, 2)) @ RNG.normal(size=(2, 4)), delta=0.05)
CASES = {
    "arms": Problem(ARMS, delta=0.05),
    "transductive": Problem(ARMS, TARGETS, delta=0.05),
    "two arms": Problem([[1, 0], [0.6, 0.8]], delta=0.05),
    "plane": FLAT,
}


def differences(problem: Problem) -> Array:
    first, second = np.triu_indices(problem.targets, 1)
    return np.asarray(problem.target[first] - problem.target[second])


def widths(source: Array, counts: NDArray[Any], contrasts: Array) -> Array:
    """‖y‖² under the pseudo-inverse of Σ n x xᵀ."""
    gram = np.linalg.pinv((source.T * counts) @ source, rcond=1e-9)
    return np.asarray(np.einsum("ij,jk,ik->i", contrasts, gram, contrasts))


@pytest.mark.parametrize("name", CASES)
def test_each_pull_makes_the_widest_contrast_narrowest(name: str) -> None:
    problem = CASES[name]
    order = greedy_allocation(problem).first(60)
    contrasts = differences(problem)
    rank = len(points_of(problem).basis)
    assert np.linalg.matrix_rank(problem.source[order[:rank]]) == rank
    counts = np.bincount(order[:rank], minlength=problem.arms)
    for arm in order[rank:60]:
        after = [
            widths(problem.source, counts + np.eye(problem.arms)[a], contrasts).max()
            for a in range(problem.arms)
        ]
        assert after[arm] <= min(after) * (1 + 1e-6)
        counts[arm] += 1


def test_ties_do_not_stop_the_greedy_allocation() -> None:
    """All contrasts of orthogonal arms are equally wide, and no pull makes all of them narrower."""
    order = greedy_allocation(Problem(np.eye(4))).first(400)
    assert np.bincount(order[:400]).tolist() == [100] * 4


def test_a_long_order_is_the_same_however_it_is_asked_for() -> None:
    problem = CASES["arms"]
    long = greedy_allocation(problem).first(9_000)
    step = greedy_allocation.__wrapped__(problem)  # not the one that is remembered
    for pulls in (3, 3_000, 5_000, 9_000):
        known = step.first(pulls)
    assert np.array_equal(known[:9_000], long[:9_000])


@pytest.mark.parametrize("threshold", ["published", "small"])
@pytest.mark.parametrize("name", CASES)
def test_it_stops_at_the_first_pull_that_separates_the_leader(name: str, threshold: str) -> None:
    problem, sigma = CASES[name], 0.1
    policy = XYStatic(problem, sigma=sigma, threshold=threshold)  # type: ignore[arg-type]
    theta = np.linalg.pinv(problem.target - problem.target.mean(axis=0)) @ np.arange(
        problem.targets
    )
    rng, counts, sums = np.random.default_rng(1), np.zeros(problem.arms), np.zeros(problem.arms)
    rank = np.linalg.matrix_rank(problem.source)
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        arm = int(np.argmax(plan.counts))
        reward = float(problem.source[arm] @ theta + sigma * rng.normal())
        counts[arm] += 1
        sums[arm] += reward
        policy.update(Summary.from_pulls([arm], [reward], size=problem.arms))
        n = counts.sum()
        if n <= rank:
            continue
        root = np.sqrt(counts)
        estimate = np.linalg.lstsq(problem.source * root[:, None], sums / np.maximum(root, 1))[0]
        scores = problem.target @ estimate
        best = int(np.argmax(scores))
        others = np.delete(np.arange(problem.targets), best)
        if threshold == "published":
            inside = 8 * sigma**2 * math.log(6 * n**2 * problem.targets**2 / (math.pi**2 * 0.05))
        else:
            inside = 2 * sigma**2 * math.log(math.pi**2 * n**2 * len(others) / (6 * 0.05))
        contrasts = problem.target[best] - problem.target[others]
        radii = np.sqrt(inside * widths(problem.source, counts, contrasts))
        assert policy.recommend().target == best
        assert policy.recommend().final == bool((scores[best] - scores[others] >= radii).all())
        assert n < 2000
    assert policy.recommend().error_bound == 0.05
    text = " ".join(policy.recommend().assumptions)
    for part in ("without an intercept", "0.1-sub-Gaussian, given the past", "nothing drifts"):
        assert part in text


def test_arms_that_only_just_span_decide_nothing() -> None:
    policy = XYStatic(Problem(np.eye(3)), sigma=0.1)
    without_noise(policy, np.array([100.0, 0.0, 0.0]), 3)
    assert policy.recommend().reason == "running"
    without_noise(policy, np.array([100.0, 0.0, 0.0]), 1)
    assert policy.recommend().final


def test_thresholds() -> None:
    """8σ² log(6n²H²/(π²δ)) and 2σ² log(π²n²(H−1)/(6δ)) at H = 3, δ = 0.1, σ = 2, n = 10."""
    factor, level = thresholds.xy_threshold(sigma=2.0, delta=0.1, targets=3, directions=9)
    assert factor * (2 * math.log(10) + level) == pytest.approx(32 * math.log(5471.313), rel=1e-6)
    factor, level = thresholds.xy_threshold(sigma=2.0, delta=0.1, targets=3, directions=None)
    assert factor * (2 * math.log(10) + level) == pytest.approx(8 * math.log(3289.868), rel=1e-6)
    at_phase = thresholds.xy_phase_threshold(sigma=2.0, delta=0.1, targets=3, phase=10)
    assert at_phase == pytest.approx(8 * math.log(3289.868), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_phase_ends_with_the_first_pull_that_makes_contrasts_narrow(name: str) -> None:
    problem = CASES[name]
    policy, rank = XYAdaptive(problem, sigma=0.05), np.linalg.matrix_rank(problem.source)
    level, theta = 0.1 / (rank * (rank + 1) + 1), np.linalg.pinv(problem.target)[:, 0]
    rng = np.random.default_rng(3)
    while (plan := policy.plan()) is not None:
        assert plan.counts is not None
        targets = problem.target[list(policy.recommend().active)]
        contrasts = (targets[:, None] - targets).reshape(-1, targets.shape[1])
        reached = widths(problem.source, plan.counts, contrasts).max() / plan.pulls
        assert reached <= level * (1 + 1e-9)
        if plan.pulls > rank:  # no pull less would do, whichever was last
            before = [
                widths(problem.source, plan.counts - row, contrasts).max() / (plan.pulls - 1)
                for row in np.eye(problem.arms)[plan.counts > 1]
            ]
            assert max(before) > level
        noise = 0.05 * np.sqrt(plan.counts) * rng.normal(size=problem.arms)
        sums = np.asarray(plan.counts * (problem.source @ theta) + noise, dtype=float)
        policy.update(Summary(plan.counts, sums, np.zeros(problem.arms)))
        level = 0.1 * reached
    assert policy.recommend().target == int(np.argmax(problem.target @ theta))
    assert policy.recommend().final


def test_a_cap_below_the_rank_is_kept() -> None:
    policy = XYAdaptive(Problem(np.eye(4)), max_pulls=3)
    assert [plan.pulls for plan in without_noise(policy, np.zeros(4))] == [3]
    assert policy.recommend().reason == "max_pulls"


def test_the_oracle_pulls_the_optimal_design() -> None:
    world = environments.soare(4, 0.3)
    problem = world.problem(0.05)
    policy = XYOracle(problem, theta=world.theta, max_pulls=3000, sigma=100.0)
    table = np.zeros((1, 5))
    table.flags.writeable = False
    policy.run_presampled(PresampledRewards(table, np.zeros(3000, dtype=np.int64), np.zeros(3000)))
    best = design.complexity(problem, world.theta, "linear").weights
    assert policy._counts / 3000 == pytest.approx(best, abs=2e-3)
    with pytest.raises(InvalidInputError):
        XYOracle(problem, theta=[1.0, 2.0])
