"""SP-BAI: the paper's algorithm to the letter, and the sharp reading's own parts."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from plans import carry_out, next_plan, next_weights, without_noise

from bestarm import SPBAI, Problem, Recommendation, Summary, bounds, design
from bestarm.environments import Semiparametric, small_gap
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, centered_diameter, covariance, stability
from bestarm.policies import Method
from bestarm.policies.phased.spbai import PooledTotals, equivalent_pulls
from bestarm.records import Plan

SHARP = partial(SPBAI, design="centered", stability="actual")
REPLICATION = partial(SPBAI, preset="replication")


# --- the paper's reading ---------------------------------------------------------------------


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
    policy = method(problem, seed=3)
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


@pytest.mark.parametrize("method", [SPBAI, SHARP])
@pytest.mark.parametrize(("rewards", "features"), [(1000.0, 1.0), (1.0, 1e-6), (1.0, 1e6)])
def test_units_do_not_matter(method: Method, rewards: float, features: float) -> None:
    """Rewards in other units, with scales declared in the same units, or features: the same run."""

    def run(rewards: float, features: float) -> Recommendation:
        world = Semiparametric(
            features * small_gap(3, 0.6).problem(0.1).source,
            [2 * rewards / features, 0, 0],
            baseline=rewards,
            noise=rewards,
        )
        return carry_out(method(world.problem(0.1), seed=1), world, seed=4)

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


# --- the sharp reading -----------------------------------------------------------------------


def test_the_mixture_is_the_shortest_there_is() -> None:
    rng = np.random.default_rng(1)
    source = rng.normal(size=(15, 4))
    problem = Problem(source, source[:3], delta=0.1)
    policy = SHARP(problem)
    weights, pulls = next_weights(policy), next_plan(policy).pulls
    contrast = design.centered_xy(source, source[:3]).weights
    spread = design.centered_g(source).weights
    delta = bounds.phase_delta(0.1, active=3, phase=1)
    lengths = []
    for share in np.linspace(0.001, 1, 400):
        mixed = (1 - share) * contrast + share * spread
        lengths.append(
            bounds.phase_length(
                centered_diameter(source, mixed, source[:3]),
                epsilon=0.5,
                delta=delta,
                stability=stability(source, mixed),
                dimension=problem.rank,
            )
        )
    assert pulls <= min(lengths) + 1
    shares = (weights - contrast) @ (spread - contrast) / np.sum((spread - contrast) ** 2)
    np.testing.assert_allclose(weights, contrast + shares * (spread - contrast), atol=1e-12)


def test_equivalent_pulls_are_the_most_pulls_the_past_can_replace() -> None:
    rng = np.random.default_rng(2)
    source = rng.normal(size=(8, 3))
    first, second = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    past, per_pull = 5000 * covariance(source, first), covariance(source, second)
    count = equivalent_pulls(past, per_pull)
    assert np.linalg.eigvalsh(past - count * per_pull)[0] >= -1e-9
    assert np.linalg.eigvalsh(past - (count + 1) * per_pull)[0] < 0
    for pulls in (1, 7, 5000, 10**6 + 1):  # the same distribution: a whole number, on any processor
        assert equivalent_pulls(pulls * per_pull, per_pull) == pulls


def test_a_pooled_is_the_regression_of_single_pulls_after_a_pilot() -> None:
    rng = np.random.default_rng(3)
    problem = Problem(rng.normal(size=(6, 3)))
    weights = rng.dirichlet(np.ones(6))

    def pull(count: int) -> tuple[Array, Array, Summary]:
        arms = rng.choice(6, size=count, p=weights)
        rewards = problem.source[arms] @ [1.0, -1, 0.5] + 3 + rng.normal(size=count)
        centered = problem.source[arms] - weights @ problem.source
        return centered, rewards, Summary.from_pulls(arms, rewards, size=6)

    pooled = PooledTotals(problem)
    contrast = (problem.source[0] - problem.source[1])[None]
    x, r, pilot = pull(500)
    pooled.add(pilot, weights, ridge=0.0)
    assert np.isinf(pooled.radii(contrast, delta=0.05)).all()  # a pilot decides nothing
    slope = np.linalg.solve(x.T @ x, x.T @ (r - r.mean()))
    np.testing.assert_allclose(pooled.theta, slope, atol=1e-8)
    per_pull = covariance(problem.source, weights)
    noise = np.mean((r - r.mean() - x @ slope) ** 2)
    at_first = (contrast @ np.linalg.inv(500 * per_pull) @ contrast.T)[0] * noise
    predicted = r.mean() - x.mean(axis=0) @ slope  # the level at the policy's mean
    x, r, phase = pull(4000)
    pooled.add(phase, weights, ridge=0.0)
    gram = x.T @ x
    theta = np.linalg.solve(gram, x.T @ (r - predicted))
    np.testing.assert_allclose(pooled.theta, theta, atol=1e-8)
    # The sandwich, one pull at a time: (Σx̃x̃ᵀ)⁻¹ (Σu²x̃x̃ᵀ) (Σx̃x̃ᵀ)⁻¹.
    residuals = r - predicted - x @ theta
    meat = (x * (residuals**2)[:, None]).T @ x * 4000 / (4000 - 3)
    errors = np.linalg.solve(gram, np.linalg.solve(gram, meat).T)
    variance = (contrast @ errors @ contrast.T)[0]
    expected = bounds.mixture_radius(variance, delta=0.05, reference=at_first / 40)
    np.testing.assert_allclose(pooled.radii(contrast, delta=0.05), expected, rtol=1e-7)


@pytest.mark.parametrize("reward", [0.0, 1.0, 100.0, -1e6])
@pytest.mark.parametrize("arms", [2, 3])
def test_rewards_that_never_vary_identify_nothing(arms: int, reward: float) -> None:
    for seed in range(4):
        policy = SHARP(Problem(np.eye(arms)), seed=seed, max_pulls=20_000)
        rng = np.random.default_rng(seed)
        while (plan := policy.plan()) is not None:
            assert plan.weights is not None
            counts = rng.multinomial(plan.pulls, plan.weights)
            sums = np.asarray(reward * counts, dtype=np.float64)
            policy.update(Summary(counts, sums, reward * sums))
        assert not policy.recommend().final


@pytest.mark.parametrize("method", [SPBAI, SHARP])
def test_a_cap_protects_from_phases_beyond_all_bounds(method: Method) -> None:
    problem = Problem([[0.0], [1e-6]], [[0.0], [1e3]])
    policy = method(problem, seed=0, max_pulls=1000)  # type: ignore[call-arg]
    assert next_plan(policy).pulls == 1000
    with pytest.raises(InvalidInputError, match="need a cap"):
        method(problem, seed=0).plan()


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


def test_the_level_predicted_spares_its_variance() -> None:
    """A large constant level costs the second phase nothing: its estimates hardly feel it."""
    source = np.eye(4)
    problem = Problem(source)
    weights = np.full(4, 0.25)

    def spread(level: float) -> float:
        errors = []
        for seed in range(80):
            world = Semiparametric(source, [0.5, 0, 0, 0], baseline=level, noise=1.0)
            stream = world.begin(np.random.default_rng(seed))
            pooled = PooledTotals(problem)
            for phase, pulls in ((1, 400), (2, 4000)):
                summary = stream.pull(Plan.randomised(weights, pulls, phase=phase))
                pooled.add(summary, weights, ridge=1.0)
            errors.append(pooled.theta[0] - pooled.theta[1] - 0.5)
        return float(np.std(errors))

    # Without a prediction the level's square would add to the variance: 400 times it, here.
    assert spread(20.0) < 1.25 * spread(0.0)


def test_each_contrast_of_those_left_has_an_equal_share() -> None:
    """The best target is dropped only if one of the |A| − 1 others passes it: δ/(|A| − 1) each."""
    world = Semiparametric(np.eye(5), [1.0, 0.85, 0.4, 0.3, 0.0], noise=1.0)
    delta = 0.08
    policy = SPBAI(world.problem(delta), design="centered", stability="actual")
    stream = world.begin(np.random.default_rng(2))
    sizes = set()
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
        phase = policy.recommend().trace[-1]
        share = delta / (len(phase.active) - 1)
        assert phase.delta == pytest.approx(share)
        options = policy.problem.target
        differences = options[phase.leader] - options[list(phase.active)]
        np.testing.assert_allclose(phase.radii, policy._pooled.radii(differences, delta=share))
        sizes.add(len(phase.active))
    assert sizes >= {5, 2}


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
        policy = method(problem, seed=0)
        without_noise(policy, np.zeros(2))
        answer = policy.recommend()
        assert (len(answer.trace), answer.reason, answer.final) == (phases, "max_phases", False)
