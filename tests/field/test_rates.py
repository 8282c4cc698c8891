"""Thresholds of rules on arm means: values by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import zeta

from bestarm.field import thresholds
from bestarm.field.means_rule import rate


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (thresholds.tuned_rate(0.1), lambda t: math.log((math.log(t) + 1) / 0.1)),
        (thresholds.kl_lucb_rate(0.1, arms=4), lambda t: math.log(405.5 * 4 * t**1.1 / 0.1)),
        (
            thresholds.kl_lucb_rate(0.01, arms=5, constant=11),
            lambda t: math.log(11 * 5 * t**1.1 / 0.01),
        ),
        (thresholds.chernoff_rate(0.1, arms=4), lambda t: math.log(2 * t * 3 / 0.1)),
    ],
)
def test_a_rate_is_its_formula(found: thresholds.Rate, expected: Callable[[float], float]) -> None:
    for t in (2, 17, 10**6):
        assert rate(t, tuple(found)) == pytest.approx(expected(t), rel=1e-12)


@pytest.mark.parametrize(("delta", "arms"), [(0.1, 4), (0.01, 10), (1e-6, 2)])
def test_the_rate_of_gaussian_ratios_is_the_smallest_over_a_grid(delta: float, arms: int) -> None:
    # C(x) = min (g(λ) + x)/λ of Kaufmann and Koolen (2021), by trying every λ.
    part = np.linspace(0.5, 1, 200_001)[1:-1]
    g = 2 * part - 2 * part * np.log(4 * part) + np.log(zeta(2 * part)) - np.log(1 - part) / 2
    x = math.log((arms - 1) / delta) / 2
    smallest = 2 * ((g + x) / part).min()
    found = thresholds.gaussian_rate(delta, arms=arms)
    for t in (2, 1000):
        value = smallest + 4 * math.log(4 + math.log(t / 2))
        assert rate(t, tuple(found)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("share", [0.52, 0.6, 0.75, 0.9, 0.99])
def test_the_mixture_of_an_arm_is_never_below_its_bound(share: float) -> None:
    """The inequality on which `gaussian_calibration` rests: at every N and S, with little room."""
    i = np.arange(1, 50)
    weights = i ** (-2 * share) / zeta(2 * share)
    prior = np.exp(4 * share * (i - 1)) * (1 - share) / share
    room = []
    for n in np.unique(np.geomspace(1, 1e9, 300).astype(int)):
        for square in (0.0, 1.0, 10.0, 100.0, 500.0):  # S²/N
            exponents = square * n / (2 * (n + prior))
            parts = np.log(weights) + np.log(prior / (n + prior)) / 2 + exponents
            bound = share * (square / 2 - 2 * math.log(4 + math.log(n)))
            room.append(np.logaddexp.reduce(parts) - bound + thresholds.log_growth(share))
    assert 0 <= min(room) < 2


def test_the_level_of_lil_ucb_solves_its_equation() -> None:
    level = thresholds.lil_ucb_delta(0.1, epsilon=0.01)
    c = 201 * math.log(1.01) ** -1.01
    assert 4 * math.sqrt(c * level) + 4 * c * level == pytest.approx(0.1)
    assert thresholds.lil_ucb_tuned_delta(0.1) == pytest.approx(0.02)


def test_the_constants_of_bose_are_those_of_its_theorem() -> None:
    ridge, width = thresholds.bose_constants(0.1, budget=1000, dimension=3)
    assert ridge == pytest.approx(12 * math.log(9000) + 8 * math.log(40_000))
    more = 81 * math.log(1 + 2000 / 3) + 54 * math.log(40_000)
    assert width == pytest.approx(math.sqrt(ridge) + math.sqrt(more))
