"""The four exact designs: their certificates against a conic solver, closed forms, invariance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conic_oracle import conic_optimum
from exact_instances import (
    Instance,
    contrasts_of,
    fractions,
    instances,
    inverse_norms,
    lifted_norms,
    second_moment,
    small_gap_features,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import Design, centered_g, centered_xy, linear_g, linear_xy
from bestarm.numerics.geometry import Array, lift

ORACLE = 1e-6  # relative accuracy credited to the conic solver, whose own tolerance is 1e-8

some = settings(max_examples=25, deadline=None, derandomize=True)
often = settings(max_examples=40, deadline=None, derandomize=True)
tolerances = st.sampled_from([1e-2, 1e-3, 1e-6])


def linear_norms(source: Array, weights: Array, vectors: Array) -> Array:
    """yᵀ(Σ p_i x_i x_iᵀ)⁻¹y in exact arithmetic."""
    moment = second_moment([fractions(x) for x in source], fractions(weights))
    return inverse_norms(moment, [fractions(y) for y in vectors])


def check_certificate(design: Design, tol: float, value: float, optimum: float) -> None:
    """lower_bound ≤ optimum ≤ value, no more than tol apart, all as told by others."""
    assert (design.weights >= 0).all()
    assert abs(design.weights.sum() - 1) <= 1e-12
    assert design.value == pytest.approx(value, rel=1e-7)
    assert 0 <= design.gap <= tol
    assert design.gap == pytest.approx(design.value / design.lower_bound - 1, abs=1e-12)
    assert design.lower_bound <= optimum * (1 + ORACLE)
    assert optimum <= design.value * (1 + ORACLE)


@some
@given(instances(arms=12, targets=12), tolerances)
def test_centered_xy_is_certified(instance: Instance, tol: float) -> None:
    source, target = instance.source, instance.target
    design = centered_xy(source, target, tol=tol)
    value = lifted_norms(source, design.weights, contrasts_of(target), 0).max()
    base = lift(contrasts_of(instance.base_target), 0.0)
    check_certificate(design, tol, value, conic_optimum(lift(instance.base_source), base))


@some
@given(instances(arms=12, targets=12, offsets=False), tolerances)
def test_linear_xy_is_certified(instance: Instance, tol: float) -> None:
    source, target = instance.source, instance.target
    design = linear_xy(source, target, tol=tol)
    value = linear_norms(source, design.weights, contrasts_of(target)).max()
    optimum = conic_optimum(instance.base_source, contrasts_of(instance.base_target))
    check_certificate(design, tol, value, optimum)


@some
@given(instances(arms=12), tolerances)
def test_centered_g_is_certified_and_reaches_the_dimension(instance: Instance, tol: float) -> None:
    design = centered_g(instance.source, tol=tol)
    value = lifted_norms(instance.source, design.weights, instance.source, 1).max() - 1
    features = lift(instance.base_source)
    optimum = conic_optimum(features, features) - 1
    assert optimum == pytest.approx(instance.rank, rel=1e-6)  # Kiefer and Wolfowitz
    check_certificate(design, tol, value, optimum)


@some
@given(instances(arms=12, offsets=False), tolerances)
def test_linear_g_is_certified_and_reaches_the_rank(instance: Instance, tol: float) -> None:
    design = linear_g(instance.source, tol=tol)
    value = linear_norms(instance.source, design.weights, instance.source).max()
    optimum = conic_optimum(instance.base_source, instance.base_source)
    assert optimum == pytest.approx(instance.rank, rel=1e-6)
    check_certificate(design, tol, value, optimum)


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("arms", [2, 3, 8, 40])
def test_one_hot_arms(arms: int) -> None:
    """Σ_cov,p⁻¹ acts on contrasts as diag(1/p): ‖e_i − e_j‖² = 1/p_i + 1/p_j, at best 2K."""
    eye = np.eye(arms)
    assert centered_xy(eye, eye, tol=1e-6).value == pytest.approx(2 * arms, rel=1e-6)
    assert linear_xy(eye, eye, tol=1e-6).value == pytest.approx(2 * arms, rel=1e-6)
    assert centered_g(eye, tol=1e-6).value == pytest.approx(arms - 1, rel=1e-6)
    assert linear_g(eye, tol=1e-6).value == pytest.approx(arms, rel=1e-6)
    np.testing.assert_allclose(centered_xy(eye, eye, tol=1e-6).weights, 1 / arms, rtol=1e-2)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_two_arms(scale: float, offset: float) -> None:
    """Half on each is a variance of ¼ in units of their distance."""
    pair = scale * (np.array([[0.0, 1.0], [2.0, -1.0]]) + offset)
    design = centered_xy(pair, pair, tol=1e-9)
    assert design.value == pytest.approx(4, rel=1e-9)
    np.testing.assert_allclose(design.weights, 0.5, atol=1e-4)
    assert centered_g(pair, tol=1e-9).value == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("angle", [0.2, 1e-2, 1e-4])
def test_small_gap_instance(angle: float) -> None:
    """Its 11 arms are a simplex in 10 dimensions, an affine image of one-hot ones: 2·11."""
    features = small_gap_features(angle=angle)
    assert centered_xy(features, features, tol=1e-6).value == pytest.approx(22, rel=1e-6)
    assert centered_g(features, tol=1e-6).value == pytest.approx(10, rel=1e-6)
    assert linear_g(features, tol=1e-6).value == pytest.approx(10, rel=1e-6)
    # Without an intercept the turned arm is of no use, and the rest is one-hot in 10 dimensions.
    assert linear_xy(features, features, tol=1e-6).value == pytest.approx(20, rel=1e-6)


def test_points_on_a_line() -> None:
    """Only the two ends matter: variance ¼ of the squared length, and the same for the targets."""
    line = np.linspace(-1, 1, 21)[:, None]
    design = centered_xy(line, line[5:16], tol=1e-9)
    assert design.value == pytest.approx(1.0, rel=1e-8)
    np.testing.assert_allclose(design.weights[[0, -1]], 0.5, atol=1e-4)


def test_contrasts_of_a_subspace() -> None:
    """Arms that vary in what no target needs are left out, though M(p) degenerates there."""
    source = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    design = centered_xy(source, [[2.0, 0.0], [-2.0, 0.0]], tol=1e-9)
    assert design.value == pytest.approx(16, rel=1e-8)
    assert design.weights[2:].max() < 1e-4


# --- invariance ----------------------------------------------------------------------------------


@often
@given(instances())
def test_centered_values_survive_affine_maps(instance: Instance) -> None:
    """`source` is an exact affine image of `base_source`: nothing the designs see has changed."""
    moved = centered_xy(instance.source, instance.target, tol=1e-6)
    plain = centered_xy(instance.base_source, instance.base_target, tol=1e-6)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)
    assert centered_g(instance.source, tol=1e-6).value == pytest.approx(instance.rank, rel=2e-6)


@often
@given(instances(offsets=False))
def test_linear_values_survive_linear_maps(instance: Instance) -> None:
    moved = linear_xy(instance.source, instance.target, tol=1e-6)
    plain = linear_xy(instance.base_source, instance.base_target, tol=1e-6)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)
    assert linear_g(instance.source, tol=1e-6).value == pytest.approx(instance.rank, rel=2e-6)


@often
@given(instances())
def test_linear_values_ignore_an_offset_of_the_targets(instance: Instance) -> None:
    """Only differences of targets matter, for the linear designs too."""
    source = instance.source - instance.source[0]
    moved = linear_xy(source, instance.target, tol=1e-6)
    plain = linear_xy(source, instance.target - instance.target[0], tol=1e-6)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)


@often
@given(instances(units=False), st.integers(0, 2**32 - 1))
def test_order_and_repetition_do_not_matter(instance: Instance, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = instance.source[rng.permutation(len(instance.source))]
    target = instance.target[rng.permutation(len(instance.target))]
    plain = centered_xy(instance.source, instance.target, tol=1e-6).value
    repeated = centered_xy(
        np.vstack([source, source[:2]]), np.vstack([target, target[:1]]), tol=1e-6
    )
    assert repeated.value == pytest.approx(plain, rel=2e-6)


@often
@given(instances(offsets=False))
def test_an_intercept_can_only_hurt(instance: Instance) -> None:
    linear = linear_xy(instance.source, instance.target, tol=1e-6)
    centered = centered_xy(instance.source, instance.target, tol=1e-6)
    assert linear.lower_bound <= centered.value


@often
@given(instances())
def test_more_arms_can_only_help_and_more_targets_only_hurt(instance: Instance) -> None:
    source, target = instance.source, instance.target
    richer = np.vstack([source, target])
    fewer = target[: max(2, len(target) // 2)]
    if (fewer == fewer[0]).all():
        fewer = target
    whole = centered_xy(source, target)
    assert centered_xy(richer, target).lower_bound <= whole.value
    assert centered_xy(source, fewer).lower_bound <= whole.value


@often
@given(instances())
def test_the_same_question_has_the_same_answer(instance: Instance) -> None:
    first = centered_xy(instance.source, instance.target)
    second = centered_xy(instance.source.copy(), np.asfortranarray(instance.target))
    assert first.weights.tobytes() == second.weights.tobytes()
    assert (first.value, first.lower_bound) == (second.value, second.lower_bound)


@pytest.mark.parametrize("criterion", [linear_g, centered_g])
@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_arms_nearly_alike(criterion: Callable[..., Design], distance: float) -> None:
    rng = np.random.default_rng(5)
    source = rng.normal(size=(30, 4))
    source[15:] = source[:15] * (1 + distance * rng.normal(size=(15, 4)))
    assert criterion(source, tol=1e-6).value == pytest.approx(4, rel=1e-6)


def test_weights_are_read_only() -> None:
    design = centered_g(np.eye(3))
    with pytest.raises(ValueError, match="read-only"):
        design.weights[0] = 1.0
