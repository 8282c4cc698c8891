"""Shares of δ that add up, lengths by hand, and a boundary that is rarely crossed."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from bestarm.bounds import (
    arm_delta,
    contrast_delta,
    lil_radius,
    mixture_radius,
    pairs_delta,
    phase_delta,
    phase_length,
    rage_delta,
    rage_phase_length,
    rates_delta,
    sbe_delta,
    set_delta,
    sub_gaussian_scale,
)

often = settings(max_examples=100, deadline=None, derandomize=True)
DELTA = 0.06

# --- shares of δ: those of all events that could make a claim wrong add up to δ --


@pytest.mark.parametrize(("targets", "top"), [(2, 1), (5, 1), (5, 2), (5, 4), (9, 3)])
def test_a_set_is_wrong_only_where_one_left_out_passes_one_inside(targets: int, top: int) -> None:
    """A wrong set of m leaves a good target out and holds a bad one: m(H − m) such pairs."""
    good, bad = range(top), range(top, targets)
    share = set_delta(DELTA, targets=targets, top=top)
    assert sum(share for _ in product(good, bad)) == pytest.approx(DELTA)


@pytest.mark.parametrize("targets", [2, 3, 7])
def test_intervals_of_all_contrasts_miss_on_either_side(targets: int) -> None:
    """The lower end of a − b is the upper end of b − a: one event per ordered pair."""
    share = pairs_delta(DELTA, targets=targets)
    assert sum(share for _ in permutations(range(targets), 2)) == pytest.approx(DELTA)


@pytest.mark.parametrize("targets", [2, 3, 7])
def test_rates_miss_on_either_side(targets: int) -> None:
    share = rates_delta(DELTA, targets=targets)
    assert sum(share for _ in product(range(targets), ["lower", "upper"])) == pytest.approx(DELTA)


@pytest.mark.parametrize("arms", [2, 3, 8])
def test_arm_means_err_once_per_arm(arms: int) -> None:
    """The best arm's mean may be too low, any other's too high: one event per arm."""
    share = arm_delta(DELTA, arms=arms)
    assert sum(share for _ in range(arms)) == pytest.approx(DELTA)


def test_sbe_s_shares_of_all_phases_add_up() -> None:
    """K arms in each phase, and Σ 1/(ℓ(ℓ+1)) up to n is n/(n + 1)."""
    spent = [8 * sbe_delta(DELTA, arms=8, phase=phase) for phase in range(1, 1001)]
    assert sum(spent) == pytest.approx(DELTA * 1000 / 1001)


# --- phase lengths -------------------------------------------------------------------------------


def test_the_phase_length_by_hand() -> None:
    """Small-gap instance, phase 1, K = 11, d = 10: V = 22 with M = 32 d = 320.

    δ₁ = 0.1/(121·2). First term: 22/(3·¼)·log(44·2420) = 29.333·11.57571 = 339.55.
    Second: 320·√22·2/3·log(24 200) = 1000.62·10.09411 = 10 100.38. Together 10 439.94.
    """
    delta = phase_delta(0.1, active=11, phase=1)
    assert delta == pytest.approx(0.1 / 242)
    options = {"epsilon": 0.5, "delta": delta, "dimension": 10}
    assert phase_length(22, stability=320, **options) == 10_440  # type: ignore[arg-type]
    # The actual M of the centered G-design, 10, is a thirty-second of it: 339.55 + 315.64.
    assert phase_length(22, stability=10, **options) == 656  # type: ignore[arg-type]
    # XOR's 40 in its place: 80/0.75·log(80·2420) with V = 40: 53.333·12.17354 = 649.26,
    # and 320·√40·2/3·10.09411 = 13 619.35.
    assert phase_length(40, stability=320, **options) == 14_269  # type: ignore[arg-type]
    # No tuning: three times each term.
    plain = phase_length(22, stability=320, r1=1.0, r2=1.0, **options)  # type: ignore[arg-type]
    assert plain == 31_320


numbers = st.floats(1e-3, 1e6)
small = st.floats(1e-12, 0.5)


@often
@given(numbers, numbers, small, small, st.integers(1, 500), st.floats(1.0, 10.0))
def test_phase_lengths_grow_with_difficulty(
    value: float, stability: float, epsilon: float, delta: float, dimension: int, more: float
) -> None:
    def length(
        value: float = value,
        stability: float = stability,
        epsilon: float = epsilon,
        delta: float = delta,
        dimension: int = dimension,
    ) -> int:
        return phase_length(
            value, epsilon=epsilon, delta=delta, stability=stability, dimension=dimension
        )

    base = length()
    assert base >= 1
    assert length(value=value * more) >= base
    assert length(stability=stability * more) >= base
    assert length(epsilon=epsilon / more) >= base
    assert length(delta=delta / more) >= base
    assert length(dimension=dimension + 1) >= base


@pytest.mark.parametrize("active", [2, 11, 1000])
def test_phase_deltas_add_up_to_delta(active: int) -> None:
    """A union over |A|² contrasts and all phases: Σ 1/(ℓ(ℓ+1)) = 1."""
    spent = [active**2 * phase_delta(0.1, active=active, phase=k) for k in range(1, 10_001)]
    assert sum(spent) <= 0.1
    assert sum(spent) == pytest.approx(0.1 * 10_000 / 10_001)
    # A set that shrinks between phases spends no more.
    assert 4 * phase_delta(0.1, active=2, phase=3) <= 0.1 / 12 * (1 + 1e-12)


def test_contrast_deltas_add_up_to_delta() -> None:
    assert contrast_delta(0.1, active=11) * 10 == pytest.approx(0.1)
    assert contrast_delta(0.1, active=2) == contrast_delta(0.1, active=1) == 0.1


def test_rage_by_hand() -> None:
    """K = 11, δ = 0.1, phase 1, ρ = 20: 8·16·1.2·20·log(1210) = 3072·7.09838 = 21 806.2."""
    delta = rage_delta(0.1, targets=11, phase=1)
    assert delta == pytest.approx(0.1 / 121)
    length = rage_phase_length(20, phase=1, delta=delta, sigma=1.0, slack=0.2, least=280)
    assert length == 21_807
    assert rage_phase_length(20, phase=1, delta=delta, sigma=2.0, slack=0.2, least=280) == 87_228
    assert rage_phase_length(1e-6, phase=1, delta=delta, sigma=1.0, slack=0.2, least=280) == 280
    assert rage_delta(0.1, targets=11, phase=3) == pytest.approx(0.1 / 121 / 9)


# --- the boundary of a mixture -------------------------------------------------------------------

DELTAS = [1e-6, 0.01, 0.1, 0.4, 0.6]


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("ratio", [1e-4, 0.1, 1.0, 30.0, 1e4])
def test_the_boundary_is_where_the_mixture_reaches_one_over_delta(
    delta: float, ratio: float
) -> None:
    """The mixture itself by quadrature: means μ > 0, half-normal with variance v₀."""
    reference, variance = 2.0, 2.0 * ratio
    x = float(mixture_radius(np.array([variance]), delta=delta, reference=np.array(reference))[0])

    def integrand(mu: float) -> float:
        prior = 2 * math.exp(-(mu**2) / (2 * reference)) / math.sqrt(2 * math.pi * reference)
        return prior * math.exp((mu * x - mu**2 / 2) / variance)

    peak = x * reference / (reference + variance)
    width = math.sqrt(reference * variance / (reference + variance))
    low, high = max(0.0, peak - 12 * width), peak + 12 * width
    mixture, _ = quad(integrand, low, high, points=[max(peak, low)], epsabs=0, epsrel=1e-9)
    # Valid: at least 1/δ at the boundary. Sharp: c costs at most a factor 2, less for small δ.
    assert 1 <= mixture * delta * (1 + 1e-9) <= (2.0 if delta > 0.2 else 1.25)


@pytest.mark.parametrize(("delta", "seed"), [(0.1, 1), (0.02, 2)])
def test_a_driftless_walk_rarely_crosses_the_boundary(delta: float, seed: int) -> None:
    """W(t)/t estimates zero with variance 1/t; 1000 looks from t = 1/100 to 10⁶, v₀ = 1.

    8000 runs. If the crossing probability were δ exactly, more than the upper limit would
    cross with probability below 1e-5 (binomial), so that is the false-alarm probability. It is
    also asked that at least δ/2 of the runs cross: the boundary is not needlessly far out.
    """
    runs, looks = 8_000, 1000
    rng = np.random.default_rng(seed)
    times = np.geomspace(1e-2, 1e6, looks)
    radius = mixture_radius(1 / times, delta=delta, reference=np.array(1.0))
    steps = np.sqrt(np.diff(times, prepend=0.0))
    walk, crossed = np.zeros(runs), np.zeros(runs, dtype=bool)
    for time, step, limit in zip(times, steps, radius, strict=True):
        walk += step * rng.standard_normal(runs)
        crossed |= walk / time >= limit
    upper = int(binom.isf(1e-5, runs, delta))
    assert delta / 2 * runs <= crossed.sum() <= upper


def test_no_variance_no_radius() -> None:
    radius = mixture_radius(np.array([0.0, 1.0]), delta=0.1, reference=np.array([1.0, 1.0]))
    assert radius[0] == 0.0
    assert radius[1] > 0


@often
@given(st.floats(1e-9, 0.3), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1.01, 100))
def test_radii_are_monotone_and_scale(
    delta: float, variance: float, reference: float, more: float
) -> None:
    def radius(v: float, delta: float, v0: float) -> float:
        return float(mixture_radius(np.array([v]), delta=delta, reference=np.array([v0]))[0])

    base = radius(variance, delta, reference)
    assert radius(variance * more, delta, reference) > base
    assert radius(variance, delta / more, reference) > base
    assert radius(variance * 9, delta, reference * 9) == pytest.approx(3 * base)
    # Never below what a single look would need, nor below the running law.
    assert base >= math.sqrt(variance)


# --- where formulas end --------------------------------------------------------------------------


def test_the_scale_of_bounded_rewards_is_that_of_a_fair_coin() -> None:
    """No law between two bounds varies more than a fair coin on them, and σ² is no less than that.

    Hoeffding: E exp(λ(X − μ)) ≤ exp(λ²σ²/2) with this σ. For the coin the left side is cosh(λσ).
    """
    low, high = -1.0, 3.0
    sigma = sub_gaussian_scale((low, high))
    assert sigma == np.std([low, high]) == 2.0
    for stake in np.linspace(-3, 3, 13):
        assert math.cosh(stake * (high - low) / 2) <= math.exp((stake * sigma) ** 2 / 2)


def test_targets_that_hardly_differ_do_not_shorten_a_phase() -> None:
    """V = 0.01 is below ε = 0.5: 40 log 10 + 4 log 20 = 92.10 + 11.98, with no credit for V < ε."""
    length = phase_length(
        0.01, epsilon=0.5, delta=0.1, stability=20.0, dimension=2, r1=1000.0, r2=1.0
    )
    assert length == math.ceil(40 * math.log(10) + 4 * math.log(20)) == 105


def test_an_arm_without_pulls_has_an_infinite_radius() -> None:
    radii = lil_radius(np.array([0, 1, 100]), sigma=1.0, delta=0.1, arms=3)
    assert radii[0] == math.inf
    assert 0 < radii[2] < radii[1] < math.inf
