"""Lengths, radii and scales where their formulas end."""

from __future__ import annotations

import math

import numpy as np

from bestarm import bounds


def test_the_scale_of_bounded_rewards_is_that_of_a_fair_coin() -> None:
    """No law between two bounds varies more than a fair coin on them, and σ² is no less than that.

    Hoeffding: E exp(λ(X − μ)) ≤ exp(λ²σ²/2) with this σ. For the coin the left side is cosh(λσ).
    """
    low, high = -1.0, 3.0
    sigma = bounds.sub_gaussian_scale((low, high))
    assert sigma == np.std([low, high]) == 2.0
    for stake in np.linspace(-3, 3, 13):
        assert math.cosh(stake * (high - low) / 2) <= math.exp((stake * sigma) ** 2 / 2)


def test_targets_that_hardly_differ_do_not_shorten_a_phase() -> None:
    """V = 0.01 is below ε = 0.5: 40 log 10 + 4 log 20 = 92.10 + 11.98, with no credit for V < ε."""
    length = bounds.phase_length(
        0.01, epsilon=0.5, delta=0.1, stability=20.0, dimension=2, r1=1000.0, r2=1.0
    )
    assert length == math.ceil(40 * math.log(10) + 4 * math.log(20)) == 105


def test_an_arm_that_was_never_pulled_may_pay_anything() -> None:
    radii = bounds.lil_radius(np.array([0, 1, 100]), sigma=1.0, delta=0.1, arms=3)
    assert radii[0] == math.inf
    assert 0 < radii[2] < radii[1] < math.inf
