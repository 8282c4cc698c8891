"""Rules of testing platforms: period weights, drops and stops, and a level kept under drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import next_plan, next_weights

from bestarm import Problem, simulate
from bestarm.environments import Semiparametric, baselines
from bestarm.field.industry import EpochStratified, PeriodRule, PeriodThompson
from bestarm.records import Summary


def summary(rewards: list[list[float]]) -> Summary:
    """Totals of the rewards of each arm."""
    return Summary(
        np.array([len(each) for each in rewards]),
        np.array([sum(each) for each in rewards]),
        np.array([sum(r * r for r in each) for each in rewards]),
    )


@pytest.mark.parametrize("method", [EpochStratified, PeriodThompson])
def test_periods_weigh_by_all_their_pulls(method: type[PeriodRule]) -> None:
    policy = method(Problem(np.eye(2)))
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(3):
        pulls, weights = next_plan(policy).pulls, next_weights(policy)
        first = int(pulls * weights[0])
        parts.append([rng.normal(size=first).tolist(), rng.normal(size=pulls - first)])
        policy.update(summary([list(each) for each in parts[-1]]))
    lengths = np.array([sum(map(len, part)) for part in parts])
    for arm in (0, 1):
        means = np.array([np.mean(part[arm]) for part in parts])
        errors = np.array([np.var(part[arm], ddof=1) / len(part[arm]) for part in parts])
        assert policy._means[arm] == pytest.approx(lengths @ means / lengths.sum())
        assert policy._variances[arm] == pytest.approx(lengths**2 @ errors / lengths.sum() ** 2)


def test_a_level_that_moves_between_periods_cancels() -> None:
    problem = Problem(np.eye(3))
    still, moved = EpochStratified(problem), EpochStratified(problem)
    rng = np.random.default_rng(1)
    for level in (0.0, 50.0, -20.0, 7.0):
        plan = next_plan(still)
        parts = [rng.normal(0.02 * arm, 1.0, plan.pulls // 3).tolist() for arm in range(3)]
        still.update(summary(parts))
        moved.update(summary([[r + level for r in part] for part in parts]))
    differences = still._means - still._means[0]
    np.testing.assert_allclose(moved._means - moved._means[0], differences, atol=1e-12)
    assert moved.recommend().target == still.recommend().target


def test_epochs_drop_an_arm_by_the_mixture_boundary() -> None:
    """Two arms, the second behind by a hair more or less than the mixture test asks for."""
    v, reference, share = 2 / 100, 2 / 300, 0.1  # 100 pulls of variance 1 each; δ = 0.1, K = 2
    # A half-normal mixture over the drift, N(0, 1/v₀): its evidence at z is 2Φ(·) times the normal
    # one, and the boundary is where a lower bound on that reaches 1/δ.
    root = math.sqrt(2 * math.log(1 / (2 * share)))
    c = 0.5 * (1 + math.erf(root / math.sqrt(2)))
    edge = math.sqrt(
        v * (1 + v / reference) * (2 * math.log(1 / (2 * share * c)) + math.log1p(reference / v))
    )
    unit = np.tile([1.0, -1.0], 50) * math.sqrt(99 / 100)  # mean 0, sample variance 1
    for lead, left in ((0.999 * edge, 2), (1.001 * edge, 1)):
        policy = EpochStratified(Problem(np.eye(2), delta=share))
        policy.update(summary([(unit + lead).tolist(), unit.tolist()]))
        assert len(policy.recommend().active) == left
        assert policy.recommend().final is (left == 1)


def test_thompson_goes_by_chances_to_be_first_or_second() -> None:
    """Three arms with known posteriors: the chance to win by integration, shares at least 1 %."""
    unit = np.tile([1.0, -1.0], 50) * math.sqrt(99 / 100)  # mean 0, sample variance 1
    means = np.array([0.2, 0.1, -0.6])
    grid = np.linspace(-2, 2, 4001)
    densities = np.exp(-((grid - means[:, None]) ** 2) / 0.02) / math.sqrt(0.02 * math.pi)
    below = np.cumsum(densities, axis=1) * 0.001
    chance = float((densities[0] * below[1] * below[2]).sum() * 0.001)
    # 10,000 draws: the frequency is off by more than 0.02 with probability 10⁻⁵.
    for delta, sure in ((1 - chance - 0.02, False), (1 - chance + 0.02, True)):
        policy = PeriodThompson(Problem(np.eye(3), delta=delta), seed=3)
        policy.update(summary([(unit + mean).tolist() for mean in means]))
        assert policy.recommend().final is sure
        if not sure:
            # The third is hardly ever among the first two: the others have half of the rest each.
            assert next_weights(policy).tolist() == pytest.approx([0.495, 0.495, 0.01], abs=0.01)


def test_epochs_keep_their_level_under_a_drift_that_misleads_pooled_means() -> None:
    # 100 runs, δ = 0.1: more than 21 errors have probability 10⁻³ if the level is kept.
    wave = baselines.custom(lambda t: 3 * np.sin(t / 400), bound=3.0)
    world = Semiparametric(np.eye(4), [0.4, 0.2, 0.1, 0.0], baseline=wave, noise=1.0)
    results = simulate(EpochStratified, world, runs=100, seed=2, delta=0.1)
    assert results.final.all()
    assert (~results.correct).sum() <= 21
