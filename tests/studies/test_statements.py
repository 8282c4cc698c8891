"""The paper's bounds: by hand, beside simulations under an adaptive baseline, and through a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm import SPBAI, Plan, Problem
from bestarm.environments import Semiparametric, baselines, small_gap
from bestarm.estimation import ordinary, orthogonalized
from bestarm.numerics.geometry import Array, centered_norms
from bestarm.simulation import run_once
from bestarm.studies import statements

THETA = 2 * np.eye(10)[0]


def small_gap_problem(delta: float = 0.1) -> Problem:
    return small_gap(declared_baseline=1.0).problem(delta)


def test_proposition_1_and_the_limit_on_the_small_gap() -> None:
    """τ is 631 with the two arms next to each other as anchors, and 2,519 with any other."""
    problem = small_gap_problem()
    near, far = (
        statements.anchored_lower_bound(problem, THETA, anchor=anchor) for anchor in (0, 5)
    )
    assert near / math.log(10) == pytest.approx(631.4, rel=2e-3)
    assert far / math.log(10) == pytest.approx(2519, rel=2e-3)
    assert far <= 4 * near * 1.002  # Proposition 2
    assert statements.information_limit(problem, THETA) == pytest.approx(8856, rel=2e-3)


def test_the_chain_of_theorem_1_by_hand() -> None:
    """One gap of 1 in one dimension: X = {0, 1}, so τ = 1, L* = 2, d = 1 and H = 2."""
    problem, total = Problem([[0.0], [1.0]], delta=0.1), 0
    for phase in (1, 2):
        epsilon, share = 2.0**-phase, 0.1 / (4 * phase * (phase + 1))
        value = 512 * epsilon**2
        total += math.ceil(
            value / epsilon**2 * math.log(value / (epsilon * share)) / 3
            + 32 * math.sqrt(value) / epsilon * math.log(1 / share) / 3
        )
    chain = statements.theorem_chain(problem, np.array([1.0]))
    assert chain == pytest.approx(total, rel=3e-3)  # τ is certified to a thousandth


def largest_ratios(estimate: str, runs: int = 200, pulls: int = 400) -> Array:
    """The largest error of a contrast as a share of the bound, in every run."""
    source = np.random.default_rng(3).normal(size=(6, 3))
    source /= np.linalg.norm(source, axis=1, keepdims=True)
    theta, delta = np.array([0.6, -0.2, 0.4]), 0.1
    world = Semiparametric(source, theta, baseline=baselines.adversary(1.0), noise=0.5)
    problem, weights = world.problem(delta), np.full(6, 1 / 6)
    contrasts = source[1:] - source[0]
    stability = float(centered_norms(source, weights, source - weights @ source).max())
    bounds = [
        statements.concentration_bound(
            value, pulls=pulls, delta=delta, stability=stability, dimension=3
        )
        for value in centered_norms(source, weights, contrasts)
    ]
    plan, found = Plan.randomised(weights, pulls, phase=1), []
    for seed in range(runs):
        summary = world.begin(np.random.default_rng(seed)).pull(plan)
        if estimate == "orthogonalized":
            fitted = orthogonalized(problem, summary, weights, ridge=math.log(pulls / delta))
        else:
            fitted = ordinary(problem, summary)
        found.append(np.max(np.abs(contrasts @ (fitted - theta)) / bounds))
    return np.array(found)


def test_the_concentration_bound_holds_against_the_adversary() -> None:
    """Equation (4) with c₁ = c₂ = 1, in each of 200 runs with δ = 0.1.

    Errors stay near a fifth of the bound; one beyond it would be a standard normal beyond 6, so the
    chance of a false alarm is below 10⁻⁶. The adversary biases least squares without centering:
    that copy must do worse.
    """
    assert largest_ratios("orthogonalized").max() < 1
    assert largest_ratios("orthogonalized").max() < 0.7 * largest_ratios("ordinary").max()


def test_lemmas_1_and_2_in_runs_against_the_adversary() -> None:
    """With δ = 0.1 the good event fails in at most a tenth of runs; here in none of 40.

    Lemma 2 holds for certain on that event: the targets of phase ℓ are within 4ε_ℓ of the best, the
    best is among them, and one is left after phase L*.
    """
    world = small_gap(3, 0.6, baseline=baselines.adversary(1.0), declared_baseline=1.0)
    problem, theta = world.problem(0.1), 2 * np.eye(3)[0]
    behind = statements.gaps(problem, theta)
    last = statements.last_phase(float(behind[behind > 0].min()))
    good = 0
    for run in range(40):
        phases = run_once(SPBAI, world, run=run, delta=problem.delta).trace
        assert len(phases) <= last
        event = True
        for phase in phases:
            active, epsilon = np.asarray(phase.active), 2.0**-phase.phase
            truth = behind[active] - behind[phase.leader]
            event &= bool(np.all(np.abs(np.asarray(phase.contrasts) - truth) <= epsilon))
            if event:
                assert (behind[active] <= 4 * epsilon).all()
                assert 0 in active
        good += event
    assert good == 40
