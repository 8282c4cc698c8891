"""Complexities in their order, phase lengths by hand, and a boundary that is rarely crossed."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from exact_instances import Instance, instances, small_gap_features
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from bestarm.bounds import (
    contrast_delta,
    mixture_radius,
    phase_delta,
    phase_length,
    rage_delta,
    rage_phase_length,
)
from bestarm.design import BlockDesign, complexity
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem

some = settings(max_examples=25, deadline=None, derandomize=True)
often = settings(max_examples=100, deadline=None, derandomize=True)
TOL = 1e-4


def with_parameter(instance: Instance) -> tuple[Problem, Array, Array]:
    """The problem, a parameter in its features, and the gaps of the targets to the best."""
    assume(len(np.unique(instance.base_target, axis=0)) == len(instance.base_target))
    # θ in base coordinates: whole numbers, so that the gaps are exact there.
    theta = instance.rng.integers(-5, 6, size=instance.rank).astype(float)
    means = instance.base_target @ theta
    gaps = means.max() - means
    assume(np.count_nonzero(gaps == 0) == 1)
    rows = instance.base_source - instance.base_source[0]
    source = instance.source - instance.source[0]
    # Any θ in feature units with the same means of differences will do; units first, for digits.
    unit = np.abs(source).max(axis=0)
    unit[unit == 0] = 1.0
    solution, *_ = np.linalg.lstsq(source / unit, rows @ theta, rcond=None)
    return Problem(instance.source, instance.target), solution / unit, np.sort(gaps)[1:]


# --- complexities --------------------------------------------------------------------------------


@some
@given(instances(arms=8, targets=6))
def test_the_shifted_complexity_encloses_the_centered_one_within_4(instance: Instance) -> None:
    """τ_lin(shifted by i) ≤ τ_cov ≤ 4 τ_lin(shifted by i), so any two anchors differ by ≤ 4."""
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    centered = complexity(problem, theta, tol=TOL)
    shifted = [
        complexity(problem, theta, "shifted", anchor=i, tol=TOL) for i in range(problem.arms)
    ]
    for design in shifted:
        assert design.gap <= TOL
        assert design.lower_bound <= centered.value * (1 + 1e-6)
        assert centered.lower_bound <= 4 * design.value * (1 + 1e-6)
    assert max(d.lower_bound for d in shifted) <= 4 * min(d.value for d in shifted) * (1 + 1e-6)


@some
@given(instances(arms=8, targets=6, offsets=False))
def test_an_intercept_can_only_hurt(instance: Instance) -> None:
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    linear = complexity(problem, theta, "linear", tol=TOL)
    centered = complexity(problem, theta, tol=TOL)
    assert linear.lower_bound <= centered.value * (1 + 1e-6)


@some
@given(instances(arms=8, targets=6), st.sampled_from([1e-6, 0.5, 3.0, 1e6]))
def test_complexities_scale_with_the_parameter(instance: Instance, c: float) -> None:
    problem, theta, _ = with_parameter(instance)
    for kind in ("centered", "shifted"):
        plain = complexity(problem, theta, kind, tol=1e-6)
        scaled = complexity(problem, c * theta, kind, tol=1e-6)
        assert scaled.value * c**2 == pytest.approx(plain.value, rel=3e-6)


@some
@given(instances(arms=8, targets=6))
def test_complexities_survive_affine_maps(instance: Instance) -> None:
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    base = Problem(instance.base_source, instance.base_target)
    rows = instance.base_source - instance.base_source[0]
    means = (instance.source - instance.source[0]) @ theta
    base_theta, *_ = np.linalg.lstsq(rows, means, rcond=None)
    moved = complexity(problem, theta, tol=1e-6).value
    assert moved == pytest.approx(complexity(base, base_theta, tol=1e-6).value, rel=1e-4)


def test_one_hot_complexity() -> None:
    """Two arms, gap g: variance 4 for a contrast, 4/g². Three, gaps 1 and 1: (√2 + 1)²."""
    assert complexity(Problem(np.eye(2)), [0.5, 0.0]).value == pytest.approx(16, rel=1e-3)
    # Minimise max_i (1/p_1 + 1/p_i) over p: p_1 = √2 p_i, in all 1/p_1 + 1/p_2 = 3 + 2√2.
    value = complexity(Problem(np.eye(3)), [1.0, 0.0, 0.0], tol=1e-6).value
    assert value == pytest.approx(3 + 2 * math.sqrt(2), rel=1e-6)


def test_small_gap_complexity() -> None:
    """Far above the arms that are easily told apart: the gap of the turned arm decides.

    2(1 − cos 0.2) is its gap. With half of the mass on each end of that contrast alone the
    variance is 4; the other contrasts are worth 4 at their gap of 2, and hardly cost anything.
    """
    problem = Problem(small_gap_features())
    gap = 2 * (1 - math.cos(0.2))
    value = complexity(problem, 2 * np.eye(10)[0]).value
    assert 4 / gap**2 < value < 4.3 / gap**2


@pytest.mark.parametrize("kind", ["centered", "shifted", "linear", "blocked"])
@pytest.mark.parametrize("theta", [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.1 + 0.2, 0.3, 0.0]])
def test_a_tie_at_the_top_is_never_resolved(kind: str, theta: list[float]) -> None:
    design = complexity(Problem(np.eye(3)), theta, kind)  # type: ignore[arg-type]
    assert design.value == design.lower_bound == math.inf
    assert design.weights.sum() == pytest.approx(1)


@some
@given(instances(arms=7, targets=6))
def test_larger_blocks_need_fewer_rounds_but_no_fewer_pulls_than_the_limit(
    instance: Instance,
) -> None:
    """τ*_cov ≤ k τ*_blocked: by Jensen, M(q) ⪯ k Σ_cov,p with p the share of each arm."""
    problem, theta, _ = with_parameter(instance)
    centered = complexity(problem, theta, tol=TOL)
    found = [
        complexity(problem, theta, "blocked", size=k, tol=TOL) for k in range(2, problem.arms + 1)
    ]
    for k, design in enumerate(found, start=2):
        assert centered.lower_bound <= k * design.value * (1 + 1e-9)
        assert isinstance(design, BlockDesign)
        assert design.blocks.shape[1] == k
    for smaller, larger in pairwise(found):
        assert larger.lower_bound <= smaller.value * (1 + 1e-9)
    assert len(found[-1].weights) == 1


def test_one_hot_complexity_of_blocks() -> None:
    """With every arm in every round, the difference of two has a variance of 2; the gap is ½."""
    pairs = complexity(Problem(np.eye(2)), [0.5, 0.0], "blocked", size=2, tol=1e-6)
    assert pairs.value == pytest.approx(2 / 0.25, rel=1e-6)
    full = complexity(Problem(np.eye(3)), [1.0, 0.5, 0.0], "blocked", size=3, tol=1e-6)
    assert full.value == pytest.approx(2 / 0.25, rel=1e-6)


def test_a_tie_below_the_top_does_no_harm() -> None:
    assert math.isfinite(complexity(Problem(np.eye(3)), [1.0, 0.0, 0.0]).value)


@pytest.mark.parametrize("offset", [2.0**10, 2.0**20, 2.0**30])
def test_an_offset_does_not_hide_the_best(offset: float) -> None:
    """x·θ rounds at the size of the offset; the gaps, which are differences, need not."""
    base = np.ldexp([[0.0, 4.0], [4.0, 0.0], [0.0, 0.0], [1.0, 1.0]], -10)
    theta = np.array([1.0, 1.0 - 1e-6]) / 3
    near = complexity(Problem(base), theta)
    far = complexity(Problem(base + offset), theta)
    assert far.value == pytest.approx(near.value, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"kind": "circular"}, "kind"),
        ({"kind": "shifted", "anchor": 3}, "anchor"),
        ({"kind": "shifted", "anchor": -1}, "anchor"),
        ({"kind": "shifted", "anchor": 0.5}, "anchor"),
        ({"kind": "blocked", "size": 1}, "size"),
        ({"kind": "blocked", "size": 4}, "size"),
        ({"tol": 0.0}, "tol"),
    ],
)
@pytest.mark.parametrize("theta", [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
def test_what_complexity_refuses(
    options: dict[str, object], field: str, theta: list[float]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        complexity(Problem(np.eye(3)), theta, **options)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("theta", [[1.0, 2.0], 1.0, [[1.0, 0.0, 0.0]], [1.0, math.nan, 0.0], "abc"])
def test_the_parameter_has_one_number_a_feature(theta: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        complexity(Problem(np.eye(3)), theta)
    assert caught.value.field == "theta"


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
