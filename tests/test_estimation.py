"""Regression from a Summary against the paper's formula over single pulls, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_instances import (
    Instance,
    contrasts_of,
    exact_rank,
    fractions,
    instances,
    random_weights,
    second_moment,
    solve,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.estimation import arm_means, ordinary, orthogonalized
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Summary

often = settings(max_examples=50, deadline=None, derandomize=True)
ridges = st.sampled_from([0.5, 1.0, 7.0, 1000.0])


def problem_of(source: Array) -> Problem:
    """These arms as they are, and two targets at any two different arms."""
    other = int(np.flatnonzero((source != source[0]).any(axis=1))[0])
    return Problem(source, source[[0, other]])


def pulls_of(instance: Instance, weights: Array) -> tuple[list[int], list[float]]:
    """Arms drawn with these weights, and rewards with a baseline that moves with time."""
    rng = instance.rng
    count = int(rng.integers(1, 60))
    arms = rng.choice(len(weights), size=count, p=weights)
    rewards = 1 + np.sin(2 * np.arange(count)) + rng.normal(size=count) + 0.3 * arms
    return [int(a) for a in arms], [float(r) for r in rewards]


def full_weights(instance: Instance) -> Array:
    return instance.rng.dirichlet(np.ones(len(instance.source)))


def dot(x: list[Fraction], y: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def by_single_pulls(
    source: Array,
    weights: Array,
    pulls: tuple[list[int], list[float]],
    ridge: float,
) -> list[Fraction]:
    """(β I + Σ_s x̃_s x̃_sᵀ)⁻¹ Σ_s x̃_s r_s, d × d, one pull at a time, as the paper writes it.

    The features are first divided by their largest norm, and the parameter is brought back to
    feature units at the end.
    """
    largest = max(math.hypot(*map(float, x)) for x in source)
    rows = [[value / Fraction(largest) for value in fractions(x)] for x in source]
    size, mass = len(rows[0]), fractions(weights)
    mass = [w / sum(mass) for w in mass]  # exactly a distribution: the mean lies on the span
    mean = [sum((w * x[j] for w, x in zip(mass, rows, strict=True)), Fraction(0))
            for j in range(size)]  # fmt: skip
    centered = [[a - b for a, b in zip(x, mean, strict=True)] for x in rows]
    gram = [[Fraction(0)] * size for _ in range(size)]
    moment = [Fraction(0)] * size
    for arm, reward in zip(*pulls, strict=True):
        x, r = centered[arm], Fraction(reward)
        for i in range(size):
            moment[i] += x[i] * r
            for j in range(size):
                gram[i][j] += x[i] * x[j]
    for i in range(size):
        gram[i][i] += Fraction(ridge)
    (theta,), _ = solve(gram, [moment])
    assert theta is not None
    return [value / Fraction(largest) for value in theta]


def exact_means(contrasts: Array, theta: list[Fraction]) -> Array:
    return np.array([float(dot(fractions(y), theta)) for y in contrasts])


def close(ours: Array, expected: Array, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(ours, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@often
@given(instances(arms=7), ridges)
def test_a_summary_says_what_single_pulls_say(instance: Instance, ridge: float) -> None:
    weights = full_weights(instance)
    pulls = pulls_of(instance, weights)
    summary = Summary.from_pulls(*pulls, size=len(weights))
    theta = orthogonalized(problem_of(instance.source), summary, weights, ridge=ridge)
    contrasts = contrasts_of(instance.source)
    expected = by_single_pulls(instance.source, weights, pulls, ridge)
    assert theta.shape == (instance.source.shape[1],)
    # From θ̂ itself: what a caller does with it.
    close(contrasts @ theta, exact_means(contrasts, expected))


@often
@given(instances(arms=7))
def test_without_a_ridge_it_is_least_squares(instance: Instance) -> None:
    """Contrasts that the pulled arms determine do not depend on which solution is taken."""
    weights = full_weights(instance)
    pulls = pulls_of(instance, weights)
    summary = Summary.from_pulls(*pulls, size=len(weights))
    theta = orthogonalized(problem_of(instance.source), summary, weights)
    pulled = sorted(set(pulls[0]))
    centered = instance.base_source[pulled] - weights @ instance.base_source
    if np.linalg.matrix_rank(centered, tol=1e-3) < instance.rank:
        return  # rounding of the mean decides there what is determined
    expected = by_single_pulls(instance.source, weights, pulls, 0.0)
    contrasts = contrasts_of(instance.source)
    close(contrasts @ theta, exact_means(contrasts, expected), rtol=1e-4)


@often
@given(instances(arms=7, offsets=False))
def test_ordinary_regression_says_what_single_pulls_say(instance: Instance) -> None:
    source = instance.source
    weights = random_weights(instance.rng, len(source))
    arms, rewards = pulls_of(instance, weights)
    summary = Summary.from_pulls(arms, rewards, size=len(source))
    theta = ordinary(problem_of(instance.source), summary)
    # Fitted values of the pulled arms are determined, whatever the rank: normal equations.
    rows = [fractions(source[arm]) for arm in arms]
    gram = second_moment(rows, [Fraction(1)] * len(rows))
    size = len(rows[0])
    moment = [sum((x[j] * Fraction(r) for x, r in zip(rows, rewards, strict=True)), Fraction(0))
              for j in range(size)]  # fmt: skip
    (expected,), _ = solve(gram, [moment])
    assert expected is not None
    pulled = source[sorted(set(arms))]
    close(pulled @ theta, exact_means(pulled, expected))


@often
@given(instances(arms=7, offsets=False, units=False), ridges, st.sampled_from([1e-6, 1e6]))
def test_the_ridge_knows_no_common_unit(instance: Instance, ridge: float, unit: float) -> None:
    """Features are divided by their largest norm first, so one unit for all makes no difference."""
    weights = full_weights(instance)
    summary = Summary.from_pulls(*pulls_of(instance, weights), size=len(weights))
    problem = problem_of(instance.source)
    scaled = Problem(unit * problem.source, unit * problem.target)
    theta = orthogonalized(problem, summary, weights, ridge=ridge)
    other = orthogonalized(scaled, summary, weights, ridge=ridge)
    contrasts = contrasts_of(problem.source)
    close(unit * contrasts @ other, contrasts @ theta)


def test_one_hot_arms() -> None:
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.ones(6))
    arms = rng.choice(6, size=80, p=weights)
    rewards = rng.normal(size=80) + arms
    pulls = ([int(a) for a in arms], [float(r) for r in rewards])
    theta = orthogonalized(
        Problem(np.eye(6)), Summary.from_pulls(*pulls, size=6), weights, ridge=3.0
    )
    expected = by_single_pulls(np.eye(6), weights, pulls, 3.0)
    contrasts = contrasts_of(np.eye(6))
    close(contrasts @ theta, exact_means(contrasts, expected), rtol=1e-10)


def test_two_arms_by_hand() -> None:
    """x̃ = ±½ of the difference: θ̂ = Σ x̃ r / Σ x̃², and the ridge is added below."""
    problem = Problem([[0.0], [1.0]])
    summary = Summary(np.array([3, 5]), np.array([6.0, 20.0]), np.array([12.0, 80.0]))
    half = np.array([0.5, 0.5])
    assert orthogonalized(problem, summary, half) == pytest.approx([(10 - 3) / 2])
    theta = orthogonalized(problem, summary, half, ridge=4.0)
    assert theta == pytest.approx([(10 - 3) / (2 + 4)])


def test_a_constant_baseline_drops_out_where_the_draw_is_balanced() -> None:
    """Counts in proportion to the weights: Σ n_a x̃_a = 0, and any constant cancels exactly."""
    rng = np.random.default_rng(8)
    source, theta = rng.normal(size=(5, 3)), np.array([1.0, -2.0, 0.5])
    counts = np.array([10, 20, 30, 25, 15])
    for baseline in (0.0, 1e3):
        sums = counts * (source @ theta + baseline)
        summary = Summary(counts, sums, sums**2 / counts)
        estimate = orthogonalized(Problem(source), summary, counts / 100)
        assert estimate == pytest.approx(theta, rel=1e-9)
    assert ordinary(Problem(source), Summary(counts, counts * (source @ theta), sums)) == (
        pytest.approx(theta, rel=1e-9)
    )


def test_the_center_is_the_policy_s_mean_not_the_sample_s() -> None:
    """With unbalanced draws a constant baseline leaves its trace, as the formula has it."""
    problem = Problem([[0.0], [1.0]])
    summary = Summary(np.array([1, 3]), np.array([5.0, 15.0]), np.array([25.0, 75.0]))
    estimate = orthogonalized(problem, summary, np.array([0.5, 0.5]))
    assert estimate == pytest.approx([(15 - 5) / 2 / 1])


def test_arms_never_pulled_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    source = rng.normal(size=(6, 2))
    summary = Summary(np.array([4, 0, 3, 0, 2, 0]), np.array([4.0, 0, 1, 0, 2, 0]), np.ones(6))
    weights = np.array([0.5, 0.0, 0.3, 0.0, 0.2, 0.0])
    kept = [0, 2, 4]
    less = Summary(summary.counts[kept], summary.sums[kept], summary.squares[kept])
    whole, part = Problem(source), Problem(source[kept])
    assert orthogonalized(whole, summary, weights) == pytest.approx(
        orthogonalized(part, less, weights[kept])
    )
    assert ordinary(whole, summary) == pytest.approx(ordinary(part, less))


def test_estimates_stay_on_the_span() -> None:
    """A direction in which no two arms differ has no effect that could be estimated."""
    problem = Problem([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0]])
    summary = Summary(np.array([1, 1, 1]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0]))
    theta = orthogonalized(problem, summary, np.full(3, 1 / 3))
    assert theta == pytest.approx([1.0, 0.0])
    assert exact_rank(problem.source) == 2


def test_arm_means() -> None:
    means = arm_means(Summary(np.array([2, 0, 4]), np.array([3.0, 0.0, -2.0]), np.ones(3)))
    np.testing.assert_array_equal(means, [1.5, np.nan, -0.5])
    assert np.isnan(arm_means(Summary(np.zeros(2, dtype=int), np.zeros(2), np.zeros(2)))).all()


def test_rewards_count_from_zero_whatever_number_was_subtracted_from_them() -> None:
    arms, rewards = [0, 0, 1, 2, 2, 2], [10.0, 11.0, 12.5, 9.0, 8.0, 10.0]
    problem = Problem([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    plain, shifted = (
        Summary.from_pulls(arms, rewards, size=3, center=center) for center in (0.0, 10.0)
    )
    assert arm_means(shifted) == pytest.approx([10.5, 12.5, 9.0])
    assert ordinary(problem, shifted) == pytest.approx(ordinary(problem, plain))
