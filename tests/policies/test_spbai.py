"""SP-BAI: the paper's algorithm to the letter."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from plans import carry_out, next_plan, next_weights, without_noise

from bestarm import SPBAI, Problem, Recommendation, Summary, bounds, design
from bestarm.environments import Semiparametric, small_gap
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import centered_diameter
from bestarm.policies import Method

REPLICATION = partial(SPBAI, preset="replication")


# --- as written ------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", [0, 4, 10])
def test_the_first_phase_is_the_papers_formula(anchor: int) -> None:
    problem = small_gap(declared_baseline=1.0).problem(0.1)
    policy = SPBAI(problem, anchor=anchor)
    weights, pulls = next_weights(policy), next_plan(policy).pulls
    source = problem.source
    contrast = design.xor(source, problem.target, anchor=anchor).weights
    expected = 0.5 * contrast + 0.5 * design.deo(source).weights
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    value = centered_diameter(source, weights, source)
    delta = 0.1 / (11**2 * 1 * 2)
    by_hand = (1 / 3) * value / 0.25 * math.log(value / (0.5 * delta))
    by_hand += (1 / 3) * 32 * 10 * math.sqrt(value) / 0.5 * math.log(10 / delta)
    assert pulls == math.ceil(by_hand)


@pytest.mark.parametrize(("method", "share"), [(SPBAI, 1 / 32), (REPLICATION, 1.0)])
def test_targets_a_radius_below_the_leader_are_dropped_and_the_ridge_is_the_papers(
    method: Method, share: float
) -> None:
    """The ridge has δ_1 = δ/(H² · 1 · 2); the replication preset takes δ itself."""
    problem = small_gap(3, 0.5, declared_baseline=1.0).problem(0.1)
    policy = method(problem)
    weights, pulls = next_weights(policy), next_plan(policy).pulls
    rng = np.random.default_rng(8)
    arms = rng.choice(problem.arms, size=pulls, p=weights)
    rewards = problem.source[arms] @ [2.0, 0, 0] + rng.normal(size=pulls)
    policy.update(Summary.from_pulls(arms, rewards, size=problem.arms))
    phase = policy.recommend().trace[0]
    # Algorithm 2, lines 9 to 16, one pull at a time.
    centered = problem.source[arms] - weights @ problem.source
    gram = centered.T @ centered + math.log(pulls / (0.1 * share)) * np.eye(3)
    scores = problem.target @ np.linalg.solve(gram, centered.T @ rewards)
    np.testing.assert_allclose(phase.contrasts, scores.max() - scores, atol=1e-9)
    dropped = np.flatnonzero(scores.max() - scores >= 0.5)
    assert phase.eliminated == tuple(dropped.tolist())
    assert phase.radii == (0.5,) * problem.targets


def test_the_anchor_follows_the_leader_and_starts_at_random() -> None:
    problem = small_gap(4, 0.3).problem(0.1)
    half = 0.5 * (0.5 + design.deo(problem.source).weights)  # on the anchor: ½·½ + ½·DEO
    firsts = set()
    for seed in range(30):
        weights = next_weights(SPBAI(problem, seed=seed))
        firsts.add(int(np.argmin(np.abs(weights - half))))
    assert len(firsts) == problem.arms  # 30 draws of 5 miss an arm with probability below 0.7 %
    policy = SPBAI(problem, seed=0)
    stream = small_gap(4, 0.3).begin(np.random.default_rng(0))
    policy.update(stream.pull(next_plan(policy)))
    leader = policy.recommend().trace[0].leader
    weights = next_weights(policy)
    active = problem.target[list(policy.recommend().active)]
    expected = design.xor(problem.source, active, anchor=leader).weights
    expected = 0.5 * expected + 0.5 * design.deo(problem.source).weights
    np.testing.assert_allclose(weights, expected, atol=1e-12)


@pytest.mark.parametrize(("rewards", "features"), [(1000.0, 1.0), (1.0, 1e-6), (1.0, 1e6)])
def test_units_do_not_matter(rewards: float, features: float) -> None:
    """Rewards in other units, with scales declared in the same units, or features: the same run."""

    def run(rewards: float, features: float) -> Recommendation:
        world = Semiparametric(
            features * small_gap(3, 0.6).problem(0.1).source,
            [2 * rewards / features, 0, 0],
            baseline=rewards,
            noise=rewards,
        )
        return carry_out(SPBAI(world.problem(0.1), seed=1), world, seed=4)

    plain, scaled = run(1.0, 1.0), run(rewards, features)
    assert plain.target == scaled.target == 0
    # Designs are certified, not exact: rounding may move a phase by a pull in ten thousand.
    some = {"rtol": 1e-4, "atol": 1} if features != 1 else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(
        [p.pulls for p in scaled.trace], [p.pulls for p in plain.trace], **some
    )
    if features == 1:
        one, other = plain.trace[0], scaled.trace[0]
        np.testing.assert_allclose(other.contrasts, rewards * np.array(one.contrasts))
        np.testing.assert_allclose(other.radii, rewards * np.array(one.radii))


# --- caps ------------------------------------------------------------------------------------


def test_a_phase_that_ends_at_the_cap_with_one_target_left_is_final() -> None:
    world = small_gap(3, 0.6)
    free = carry_out(SPBAI(world.problem(0.1), seed=1), world, seed=2)
    capped = carry_out(SPBAI(world.problem(0.1), seed=1, max_pulls=free.pulls), world, seed=2)
    assert capped.final
    assert capped.pulls == free.pulls


def test_a_cap_protects_from_phases_beyond_all_bounds() -> None:
    problem = Problem([[0.0], [1e-6]], [[0.0], [1e3]])
    policy = SPBAI(problem, seed=0, max_pulls=1000)
    assert next_plan(policy).pulls == 1000
    with pytest.raises(InvalidInputError, match="need a cap"):
        SPBAI(problem, seed=0).plan()


@pytest.mark.parametrize("anchor", [0, 1, 2])
def test_an_intercept_among_the_features_is_ordinary_input(anchor: int) -> None:
    source = np.array([[0.1, 1.0], [0.1, 0.0], [0.1, 0.5]])
    target = np.array([[0.3, 0.3, 0.4], [0.7, 0.1, 0.2], [0.1, 0.2, 0.7]]) @ source
    problem = Problem(source, target)
    assert SPBAI(problem, anchor=anchor).plan() is not None
    with_it = design.xor(source, target, anchor=anchor)
    without = design.xor(source[:, 1:], target[:, 1:], anchor=anchor)
    assert with_it.value == pytest.approx(without.value, rel=2e-3)
    theta = [0.0, 1.0]
    shifted = design.complexity(problem, theta, "shifted", anchor=anchor)
    plain = design.complexity(
        Problem(source[:, 1:], target[:, 1:]), [1.0], "shifted", anchor=anchor
    )
    assert shifted.value == pytest.approx(plain.value, rel=2e-3)


# --- the replication preset ------------------------------------------------------------------


def test_xor_pulls_active_arms_only_around_the_best_of_them() -> None:
    problem = Problem(np.random.default_rng(7).normal(size=(9, 3)), delta=0.1)
    policy = REPLICATION(problem, seed=2)
    spread = design.deo(problem.source).weights
    anchor = int(np.random.default_rng(2).integers(9))
    expected = design.xor(problem.source, problem.target, anchor=anchor).weights
    np.testing.assert_allclose(next_weights(policy), 0.5 * expected + 0.5 * spread, atol=1e-12)
    without_noise(policy, problem.source @ [0.6, 0.3, 0.0], 1)
    active = np.array(policy.recommend().active)
    assert 2 <= len(active) < 9
    weights, pulls = next_weights(policy), next_plan(policy).pulls
    contrasting = 2 * (weights - 0.5 * spread)
    out = np.setdiff1d(np.arange(9), active)
    np.testing.assert_allclose(contrasting[out], 0.0, atol=1e-12)
    leader = policy.recommend().trace[0].leader
    assert contrasting[leader] == pytest.approx(0.5)
    arms = problem.source[active]
    best = design.xor(arms, arms, anchor=active.tolist().index(leader))
    np.testing.assert_allclose(contrasting[active], best.weights, atol=1e-12)
    # The length follows from the mixture's own value over the active contrasts.
    assert pulls == bounds.phase_length(
        centered_diameter(problem.source, weights, arms),
        epsilon=0.25,
        delta=bounds.phase_delta(0.1, active=len(active), phase=2),
        stability=32.0 * 3,
        dimension=3,
    )


def test_a_tie_ends_after_ten_phases() -> None:
    problem = Problem(np.eye(2), noise=1e-3, baseline=0.0)
    for method, phases in ((REPLICATION, 10), (partial(REPLICATION, max_phases=3), 3)):
        policy = method(problem)
        without_noise(policy, np.zeros(2))
        answer = policy.recommend()
        assert (len(answer.trace), answer.reason, answer.final) == (phases, "max_phases", False)
