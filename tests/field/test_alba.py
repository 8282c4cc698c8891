"""ALBA against the algorithms and lemmas of Tao, Blanco and Zhou (2018)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import next_plan

from bestarm import Problem, Summary
from bestarm.field import thresholds
from bestarm.field.alba import ALBA

STEP = thresholds.alba_step(sigma=1.0, bound=2.0, delta=0.05, rank=3, arms=5, place=(1, 4))


def test_length_of_a_step() -> None:
    """⌈4 c₀ (2 + (6 + ε)d)/ε² · log(5·25/(2δ_s))⌉ with c₀ = 16 and δ_s = (6/π²)² δ/(2·4)²."""
    epsilon, share = 4 / 1.1**4, (6 / math.pi**2) ** 2 * 0.05 / 64
    length = 64 * (2 + (6 + epsilon) * 3) / epsilon**2
    assert STEP.delta == pytest.approx(share)
    assert STEP.pulls == math.ceil(length * math.log(125 / (2 * share)))
    assert STEP.accuracy == pytest.approx(2 / 1.1**4)


def test_radius_is_the_smaller_of_the_two_errors_of_lemma_7() -> None:
    length, width = 40.0, 0.5
    noise = math.sqrt(2) * math.sqrt(width**2 / length * (math.sqrt(9 / length) + 1))
    plain = math.sqrt(2) * 2 * width / math.sqrt(length)
    plain += 2 * (2 * 2 + 2 * width * math.sqrt(3)) / (3 * length) + noise
    known = math.sqrt(2 * 0.01 / length)
    known += 2 * (0.3 + STEP.accuracy + 2 * width * math.sqrt(3)) / (3 * length) + noise
    found = [
        thresholds.alba_radius(
            np.array([width**2]),
            lead=np.array([0.3]),
            spread=np.array([spread]),
            length=length,
            step=STEP,
        )[0]
        for spread in (0.01, 100.0)
    ]
    assert found == pytest.approx([known, plain])
    short = thresholds.alba_radius(
        np.ones(2), lead=np.ones(2), spread=np.ones(2), length=8.9, step=STEP
    )
    assert np.isinf(short).all()  # the lemma asks for ℓ ≥ 3d


def test_rounds_pull_only_arms_in_the_span_of_those_left() -> None:
    """Arms that span a plane remain of four dimensions: the others are pulled no more."""
    source = np.vstack([2 * np.eye(4), [1.95, 0.2, 0, 0]])
    policy = ALBA(Problem(source, delta=0.05), sigma=0.01, mean_bound=2.0)
    theta, rng, seen = np.array([1.0, 0.9, -1.0, -1.0]), np.random.default_rng(0), []
    while (plan := policy.plan()) is not None:
        assert plan.weights is not None
        counts = rng.multinomial(plan.pulls, plan.weights)
        sums = counts * (source @ theta) + 0.01 * np.sqrt(counts) * rng.normal(size=5)
        seen.append((policy.recommend().active, plan.weights))
        policy.update(Summary(counts, sums, np.zeros(5)))
    plane = [weights for active, weights in seen if set(active) <= {0, 1, 4}]
    assert plane
    assert policy.recommend().target == 4
    assert plane[-1][[2, 3]].tolist() == [0, 0]
    assert seen[0][1][[2, 3]].min() > 0.1


def test_the_estimate_uses_the_expected_information() -> None:
    """θ̂ = M(λ)⁻¹ Σ r x/n (eq. 8), and not least squares."""
    problem = Problem(np.eye(2), delta=0.05)
    policy = ALBA(problem)
    pulls = next_plan(policy).pulls
    counts = np.array([pulls - 10, 10])
    policy.update(Summary(counts, np.array([1.0, 8.0]) * counts, np.zeros(2)))
    lead = policy.recommend().trace[0].contrasts
    assert max(lead) == pytest.approx(abs(1.0 * counts[0] - 8.0 * 10) / pulls * 2)
