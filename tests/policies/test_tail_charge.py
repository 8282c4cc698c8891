"""What the anytime rule charges for noise beyond its reach."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from bestarm.policies.anytime.bets import BatchOutcome, Frame, Sampling, Scale
from bestarm.records import Summary


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("pulls", [0, 99, 10**6])
def test_the_charge_bounds_what_noise_beyond_the_reach_adds(noise: float, pulls: int) -> None:
    """E(η − k)₊ = ∫ P(η > t) dt from k on, and P(η > t) ≤ exp(−t²/2α²) for α-sub-Gaussian noise."""
    reach, charge = Scale(-1.0, 1.0, noise).reach(pulls)
    beyond, _ = quad(lambda t: math.exp(-((t / noise) ** 2) / 2), reach, math.inf, epsabs=0.0)
    assert charge == pytest.approx(beyond, rel=1e-6)


def test_bounded_rewards_are_charged_nothing() -> None:
    assert Scale(-1.0, 1.0).reach(100) == (0.0, 0.0)


def test_every_pull_is_charged_for_all_its_weights() -> None:
    """Clipping moves E[z] by at most κ Σ p|w|: stake λ pays λκ Σ p|w| per pull, in logs."""
    rng = np.random.default_rng(3)
    weights, spread = np.array([0.5, 0.3, 0.2]), np.full(3, 0.25)
    frame = Frame(
        Sampling(rng.normal(size=(3, 1)), weights, spread),
        guess=np.zeros(3),
        spread=spread,
        scale=Scale(-1.0, 1.0, 0.5),
        size=50,
        pulls=100,
    )
    bets = frame.bets(np.array([[1.0], [-0.4]]))
    summary = Summary.from_pulls(rng.integers(0, 3, 50), rng.normal(size=50), size=3)
    stakes, charged = bets.settle(BatchOutcome(frame, summary))
    charge, frame.tail = frame.tail, 0.0
    free = bets.log_growth(BatchOutcome(frame, summary))
    size = np.abs(bets.w) @ weights
    np.testing.assert_allclose(free - charged, 50 * stakes * charge * size[:, None])
    assert charge > 0


@pytest.mark.parametrize("end", [-1.0, 1.0])
def test_no_reward_within_the_reach_takes_all_of_a_stake(end: float) -> None:
    """1 + λz > 0 for every reward that is not charged for, or the product is no wealth at all.

    Guesses are at an end of the range, where all falls are falls of the noise, and hardly any
    spread is foreseen, so that nothing but the reach keeps the largest stakes small.
    """
    weights, spread, scale = np.array([0.9, 0.1]), np.full(2, 1e-4), Scale(-1.0, 1.0, 0.5)
    for pulls in (0, 10_000):
        frame = Frame(
            Sampling(np.array([[-0.5], [0.5]]), weights, spread),
            guess=np.full(2, end),
            spread=spread,
            scale=scale,
            size=50,
            pulls=pulls,
        )
        bets = frame.bets(np.array([[1.0], [-1.0]]))
        stakes, _ = bets.settle(BatchOutcome(frame, Summary.from_pulls([0], [end], size=2)))
        reach, _ = scale.reach(pulls)
        for reward in (scale.low - reach, scale.high + reach):
            left = 1 + stakes[:, :, None] * (bets.w * (reward - frame.guess))[:, None, :]
            assert left.min() >= 0.1 - 1e-12  # a tenth is left of the largest
