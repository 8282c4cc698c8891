"""The exact designs: certificates against a conic solver, closed forms, invariance, refusals."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

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
    sphere,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import (
    Design,
    centered_g,
    centered_xy,
    deo,
    linear_g,
    linear_xy,
    xor,
)
from bestarm.errors import BestArmError, InvalidInputError, UnidentifiableError
from bestarm.numerics.geometry import Array, centered_diameter, lift

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


# --- lower bounds --------------------------------------------------------------------------------

COARSE, FINE = 0.5, 1e-7
POINTS = np.random.default_rng(0).normal(size=(14, 4))
SHIFTED = POINTS - POINTS[0]


def test_the_solver_does_stop_far_from_the_optimum() -> None:
    """Or the tests below would say nothing."""
    for coarse, fine in (
        (linear_xy(SHIFTED, POINTS, tol=COARSE), linear_xy(SHIFTED, POINTS, tol=FINE)),
        (linear_g(SHIFTED, tol=COARSE), linear_g(SHIFTED, tol=FINE)),
    ):
        assert coarse.value > 1.01 * fine.value


@pytest.mark.parametrize("anchored", ["xor", "deo"])
def test_the_bound_of_an_anchored_design_is_below_its_benchmark_s_optimum(anchored: str) -> None:
    if anchored == "xor":
        design, fine = xor(POINTS, POINTS, tol=COARSE), linear_xy(SHIFTED, POINTS, tol=FINE)
    else:
        design, fine = deo(POINTS, tol=COARSE), linear_g(SHIFTED, tol=FINE)
    assert design.lower_bound <= fine.value
    assert design.gap == pytest.approx(design.value / design.lower_bound - 1)


def test_the_bounds_of_exact_designs_are_below_their_optima() -> None:
    """By Kiefer and Wolfowitz the optimum of a G-design is the rank; of the others a finer one."""
    assert linear_g(POINTS, tol=COARSE).lower_bound <= 4
    assert centered_g(POINTS, tol=COARSE).lower_bound <= 4
    for make in (linear_xy, centered_xy):
        assert make(POINTS, POINTS, tol=COARSE).lower_bound <= make(POINTS, POINTS, tol=FINE).value


# --- sizes ---------------------------------------------------------------------------------------


def check_value(source: Array, target: Array, weights: Array, value: float) -> None:
    """The worst pair under Σ_cov,p⁻¹, row by row with a dense inverse."""
    centered = source - weights @ source
    root = np.linalg.cholesky(np.linalg.inv(centered.T @ (weights[:, None] * centered)))
    whitened = target @ root
    worst = max(float(np.max(np.sum((whitened - row) ** 2, axis=1))) for row in whitened)
    assert value == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize(
    ("arms", "targets", "dimension"), [(300, 300, 12), (1000, 300, 16), (257, 40, 3)]
)
def test_sizes_between_the_paper_and_the_limit(arms: int, targets: int, dimension: int) -> None:
    source, target = sphere(1, arms, dimension), sphere(2, targets, dimension)
    design = centered_xy(source, target)
    assert design.gap <= 1e-3
    assert abs(design.weights.sum() - 1) <= 1e-12
    assert (design.weights >= 0).all()
    check_value(source, target, design.weights, design.value)
    # The certificate is believed elsewhere; here only that nothing simple lies below it.
    rng = np.random.default_rng(0)
    for weights in (np.full(arms, 1 / arms), rng.dirichlet(np.ones(arms))):
        assert centered_diameter(source, weights, target) >= design.lower_bound
    assert xor(source, target).value >= design.lower_bound


def test_many_arms_in_few_dimensions() -> None:
    """20 000 arms on a circle: half of many ties at the optimum, whose value is known."""
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    # By symmetry uniform weights are optimal: Σ_cov = ½ I, and the longest contrast has length 2.
    assert centered_xy(circle, circle[::100]).value == pytest.approx(8, rel=1e-3)
    assert centered_g(circle).value == pytest.approx(2, rel=1e-3)


def test_pairs_are_never_materialised() -> None:
    """3 million pairs in 10 dimensions would fill 250 MB; the matrix of all distances, 50 MB."""
    source, target = sphere(3, 200, 10), sphere(4, 2500, 10)
    tracemalloc.start()
    try:
        design = centered_xy(source, target)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert design.gap <= 1e-3
    assert peak < 40e6


# --- refusals ------------------------------------------------------------------------------------

SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


G_DESIGNS: list[Callable[..., Any]] = [linear_g, centered_g, deo]
XY_DESIGNS: list[Callable[..., Any]] = [linear_xy, centered_xy, xor]


def target_of(design: Callable[..., Any]) -> tuple[Any, ...]:
    return (SQUARE,) if design in XY_DESIGNS else ()


def refusal(design: Callable[..., Any], *args: object, **options: object) -> BestArmError:
    with pytest.raises(InvalidInputError) as caught:
        design(*args, **options)
    error = caught.value
    assert error.field
    assert "\n" not in str(error)
    assert error.message.endswith(".")
    return error


@pytest.mark.parametrize("design", [*G_DESIGNS, *XY_DESIGNS])
def test_the_source_is_a_table_of_finite_numbers(design: Callable[..., Any]) -> None:
    target = target_of(design)
    assert refusal(design, [1.0, 2.0], *target).field == "source"
    error = refusal(design, [[0.0, 1.0], [1.0, math.nan]], *target)
    assert error.field == "source"
    assert "row 1, column 1" in str(error)


@pytest.mark.parametrize("design", [*G_DESIGNS, *XY_DESIGNS])
@pytest.mark.parametrize("tol", [0.0, 1e-10, math.nan, math.inf, "small"])
def test_the_tolerance_is_one_that_can_be_certified(design: Callable[..., Any], tol: Any) -> None:
    error = refusal(design, SQUARE, *target_of(design), tol=tol)
    assert error.field == "tol"
    assert error.value is tol


@pytest.mark.parametrize("design", [deo, xor])
def test_the_anchor_is_an_arm(design: Callable[..., Any]) -> None:
    target = target_of(design)
    assert design(SQUARE, *target, anchor=np.int64(3)).anchor == 3
    for anchor in (-1, 4, 1.0):
        error = refusal(design, SQUARE, *target, anchor=anchor)
        assert error.field == "anchor"
        assert "whole number from 0 to 3" in str(error)


@pytest.mark.parametrize("design", [centered_g, centered_xy, deo, xor])
@pytest.mark.parametrize("offset", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("arms", [1, 3])
def test_arms_that_do_not_differ_inform_about_nothing(
    design: Callable[..., Any], offset: float, arms: int
) -> None:
    source = np.tile([1.0 + offset, 2.0 + offset], (arms, 1))
    error = refusal(design, source, *target_of(design))
    assert error.field == "source"
    assert "All rows of `source` are equal" in str(error)
    assert error.remedy == "Give at least two different arms."


def test_linear_designs_of_one_arm_are_fine_unless_it_is_zero() -> None:
    assert linear_g([[3.0, 4.0]]).value == pytest.approx(1)
    assert linear_xy([[3.0, 4.0]], [[0.0, 0.0], [6.0, 8.0]]).value == pytest.approx(4)
    for design in (linear_g, linear_xy):
        assert refusal(design, np.zeros((3, 2)), *target_of(design)).field == "source"


@pytest.mark.parametrize("design", XY_DESIGNS)
def test_targets_are_two_different_rows_of_the_same_features(design: Callable[..., Any]) -> None:
    for target in ([[1.0, 0.0]], [[1.0], [2.0]], [[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]):
        error = refusal(design, SQUARE, target)
        assert (error.field, error.value) == ("target", np.shape(target))
        assert "at least two rows of 2 features" in str(error)
    assert refusal(design, SQUARE, [1.0, 2.0]).field == "target"
    assert "row 0, column 1" in str(refusal(design, SQUARE, [[0.0, math.nan], [1.0, 0.0]]))
    assert refusal(design, SQUARE, [[1.0, 0.5], [1.0, 0.5]]).field == "target"


@pytest.mark.parametrize("design", XY_DESIGNS)
def test_targets_off_the_span_are_named(design: Callable[..., Any]) -> None:
    line = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    error = refusal(design, line, [[0.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    assert isinstance(error, UnidentifiableError)
    assert (error.field, error.value) == ("target", (0, 2))
    assert "Targets 0 and 2 cannot be distinguished" in str(error)
    assert "Add a source arm" in error.remedy


def test_a_constant_direction_is_hidden_from_centered_designs_only() -> None:
    source = [[1.0, 0.0], [0.0, 1.0]]
    assert linear_xy(source, SQUARE).value == pytest.approx(4, rel=1e-3)
    for design in (centered_xy, xor):
        assert isinstance(refusal(design, source, SQUARE), UnidentifiableError)
