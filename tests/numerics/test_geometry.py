"""Spans, centered norms and diameters, against exact arithmetic and plain loops over pairs."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from exact_instances import (
    Instance,
    contrasts_of,
    exact_rank,
    fractions,
    instances,
    inverse_norms,
    lifted_norms,
    random_weights,
    second_moment,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.numerics import geometry
from bestarm.numerics.geometry import (
    Array,
    affine_span,
    centered_diameter,
    centered_norms,
    covariance,
    diameter,
    farthest,
    first_largest,
    lift,
    linear_diameter,
    linear_span,
    ranked,
)

often = settings(max_examples=50, deadline=None, derandomize=True)


def brute_distances(points: Array) -> Array:
    """Squared distances of all pairs, one at a time, from differences."""
    count = len(points)
    table = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            difference = points[i] - points[j]
            table[i, j] = difference @ difference
    return table


# --- spans ---------------------------------------------------------------------------------------


# From how many features on singular values are avoided: at the size that it is made for, exact
# answers are not to be had, so it is tried on every size.
both_ways = pytest.mark.parametrize("many", [geometry._MANY, 1])


@both_ways
@often
@given(instance=instances())
def test_a_span_has_the_exact_rank_and_loses_nothing(instance: Instance, many: int) -> None:
    source = instance.source
    with patch.object(geometry, "_MANY", many), patch.object(geometry, "_SMALL", 0):
        span = affine_span(source)
    assert span.rank == exact_rank(source[1:] - source[0]) == instance.rank
    coordinates = span.coordinates(source)
    moment = coordinates.T @ coordinates / len(coordinates)
    np.testing.assert_allclose(moment, np.eye(span.rank), atol=1e-6)
    np.testing.assert_allclose(span.basis.T @ span.dual, np.eye(span.rank), atol=1e-6)
    back = span.origin + coordinates @ span.basis.T
    assert (np.abs(back - source) / span.scale <= 1e-12 + span.rounding).all()
    contrasts = contrasts_of(instance.target)
    assert span.contains(contrasts).all()
    # Off the span by a thousandth of its own length, or by much more than rounding where that is
    # more; the unit of a constant feature is what rounding can do to it.
    length = np.abs(contrasts / span.scale)[:, ~span.constant].max(axis=1, initial=1.0)
    step = 1e-3 * length + 1e3 * span.rounding
    step = np.where(span.constant, 1e6, step[:, None]) * span.scale
    outside = contrasts + step * instance.rng.normal(size=contrasts.shape)
    expected = source.shape[1] == instance.rank
    assert (span.contains(outside) == expected).all()


@both_ways
@often
@given(instance=instances(offsets=False))
def test_the_rank_of_a_linear_span_is_the_exact_one(instance: Instance, many: int) -> None:
    with patch.object(geometry, "_MANY", many), patch.object(geometry, "_SMALL", 0):
        rank = linear_span(instance.source).rank
    assert rank == exact_rank(instance.source)


def no_singular_values(*_: object, **__: object) -> None:
    raise AssertionError("singular values of a large table")


@pytest.mark.parametrize("kind", ["one-hot", "shifted", "tall", "deficient"])
def test_a_large_table_needs_no_singular_values(kind: str) -> None:
    """They would take half a minute for two thousand one-hot features on a busy machine."""
    rng = np.random.default_rng(4)
    size = geometry._MANY + 20
    table = {
        "one-hot": np.eye(size),
        "shifted": 1e3 * rng.uniform(1, 2, size) + np.eye(size) * rng.uniform(1e-3, 1e3, size),
        "tall": rng.normal(size=(2 * size, size)),
        "deficient": rng.normal(size=(2 * size, 30)) @ rng.normal(size=(30, size)),
    }[kind]
    with patch.object(np.linalg, "svd", no_singular_values):
        quick = affine_span(table)
    with patch.object(geometry, "_MANY", 10**9):
        exact = affine_span(table)
    assert quick.rank == exact.rank == {"tall": size, "deficient": 30}.get(kind, size - 1)
    np.testing.assert_allclose(quick.basis.T @ quick.dual, np.eye(quick.rank), atol=1e-9)
    # Coordinates may be rotated; the projection and the lengths may not.
    unit = exact.scale
    one, other = ((s.dual @ s.basis.T) * unit[:, None] / unit for s in (quick, exact))
    np.testing.assert_allclose(one, other, atol=1e-8)
    differences = table[1:] - table[:-1]
    one, other = (s.contrast_coordinates(differences) for s in (quick, exact))
    np.testing.assert_allclose(np.square(one).sum(axis=1), np.square(other).sum(axis=1), rtol=1e-8)
    off = differences + 1e-6 * unit * rng.normal(size=differences.shape)
    assert quick.contains(differences).all()
    assert quick.contains(off).all() == (kind == "tall")


@pytest.mark.parametrize("off", [1e-4, 1e-7, 1e-10, 1e-13])
def test_where_a_large_table_is_nearly_flat_singular_values_decide(off: float) -> None:
    rng = np.random.default_rng(5)
    size = geometry._MANY
    table = rng.normal(size=(2 * size, size))
    table[:, 7] = table[:, :5].sum(axis=1) + off * rng.normal(size=len(table))
    with patch.object(geometry, "_MANY", 10**9):
        exact = affine_span(table)
    quick = affine_span(table)
    assert quick.rank == exact.rank == (size if off > 1e-12 else size - 1)
    differences = table[1:] - table[:-1]
    assert quick.contains(differences).all()


# --- centering is an intercept -------------------------------------------------------------------


@often
@given(instances())
def test_centered_norms_are_lifted_norms(instance: Instance) -> None:
    """‖y‖² under Σ_cov,p⁻¹ = ‖(0, y)‖² under M(p)⁻¹, +∞ off the column space."""
    source, target = instance.source, instance.target
    contrasts, weights = contrasts_of(target), random_weights(instance.rng, len(source))
    norms = lifted_norms(source, weights, contrasts, 0)
    np.testing.assert_allclose(centered_norms(source, weights, contrasts), norms, rtol=1e-5)
    value = centered_diameter(source, weights, target)
    np.testing.assert_allclose(value, norms.max(), rtol=1e-5)


@often
@given(instances(offsets=False, units=False))
def test_the_covariance_is_the_schur_complement_of_the_lifted_moment(instance: Instance) -> None:
    weights = random_weights(instance.rng, len(instance.source))
    mass = fractions(weights)
    mass = [w / sum(mass) for w in mass]
    moment = second_moment([[Fraction(1), *fractions(x)] for x in instance.source], mass)
    size = len(moment)
    schur = [
        [float(moment[i][j] - moment[i][0] * moment[0][j] / moment[0][0]) for j in range(1, size)]
        for i in range(1, size)
    ]
    ours = covariance(instance.source, weights)
    np.testing.assert_allclose(ours, schur, atol=1e-12 * np.abs(instance.source).max() ** 2)


def test_lifting_adds_the_constant() -> None:
    assert lift(np.eye(2)).tolist() == [[1, 1, 0], [1, 0, 1]]
    assert lift(np.eye(2), 0.0).tolist() == [[0, 1, 0], [0, 0, 1]]


def test_weights_on_one_arm_inform_about_nothing() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    weights = np.array([0.0, 1.0, 0.0])
    assert centered_norms(square, weights, np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [
        np.inf,
        0.0,
    ]
    assert centered_diameter(square, weights, square) == np.inf
    assert centered_diameter(square, weights, square[[1, 1]]) == 0.0


def test_weights_on_two_arms_inform_about_their_line() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    # Mass p and 1 − p a unit apart: variance p(1 − p).
    norms = centered_norms(square, np.array([0.3, 0.7, 0.0]), contrasts_of(square))
    np.testing.assert_allclose(norms, [1 / 0.21, np.inf, np.inf])


# --- diameters -----------------------------------------------------------------------------------


def clouds(draw: st.DrawFn) -> Array:
    count, dimension = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.normal(size=(count, dimension)) * 10.0 ** draw(st.sampled_from([-6, 0, 6]))
    duplicates = rng.integers(0, count, size=count // 3)
    points[: len(duplicates)] = points[duplicates] * (1 + 1e-6)
    offset = draw(st.sampled_from([0.0, 1e3, 1e6]))
    return np.asarray(points + offset * np.abs(points).max() * rng.choice([-1, 1], size=dimension))


@often
@given(st.composite(clouds)(), st.integers(1, 50))
def test_the_farthest_point_is_the_farthest(points: Array, block: int) -> None:
    table = brute_distances(points)
    index, distance = farthest(points, block=block)
    np.testing.assert_allclose(distance, table.max(axis=1), rtol=1e-9)
    # The distance returned is that of the point named.
    np.testing.assert_allclose(distance, table[np.arange(len(points)), index], rtol=1e-12)
    np.testing.assert_allclose(diameter(points), table.max(), rtol=1e-9)


def test_the_diameter_of_one_point_or_none_is_zero() -> None:
    assert diameter(np.ones((1, 3))) == 0.0
    assert diameter(np.empty((0, 3))) == 0.0


@pytest.mark.parametrize("count", [511, 512, 513, 1100])
def test_blocks_cover_every_point(count: int) -> None:
    points = np.zeros((count, 2))
    points[-1] = [3.0, 4.0]
    index, distance = farthest(points)
    assert (index[:-1] == count - 1).all()
    assert distance.tolist() == [25.0] * count


# The reference itself, on a case one can do by hand.


def test_exact_inverse_norms_by_hand() -> None:
    matrix = [[Fraction(2), Fraction(0)], [Fraction(0), Fraction(0)]]
    vectors = [[Fraction(3), Fraction(0)], [Fraction(3), Fraction(1)]]
    assert inverse_norms(matrix, vectors).tolist() == [4.5, np.inf]


# --- ties --------------------------------------------------------------------------------------


@given(
    values=st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    scale=st.sampled_from([1e-12, 0.3, 7.0, 1e9]),
    seed=st.integers(0, 999),
)
@often
def test_rounding_has_no_say_in_an_order(values: list[int], scale: float, seed: int) -> None:
    """Keys that are equal on paper keep their order, however rounding disturbs them."""
    exact = np.array(values, dtype=float)
    noise = 1 + 1e-13 * np.random.default_rng(seed).uniform(-1, 1, size=len(values))
    keys = scale * exact / 3 * noise
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert ranked(keys).tolist() == expected
    assert first_largest(keys) == expected[0]


def test_keys_that_cancelled_are_compared_by_what_they_were_made_from() -> None:
    keys = np.array([1e-16, 3e-16, -2e-16])
    assert first_largest(keys) == 1
    assert first_largest(keys, size=0.5) == 0
    assert ranked(keys, size=0.5).tolist() == [0, 1, 2]
    assert ranked(np.array([0.1, 0.2]), size=0.5).tolist() == [1, 0]


def test_of_points_equally_far_the_next_one_is_named() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
        index, distance = farthest(np.eye(6) @ rotation, block=4)
        assert index.tolist() == [1, 2, 3, 4, 5, 0]
        np.testing.assert_allclose(distance, 2)


def test_the_linear_diameter_is_the_largest_norm_of_a_difference() -> None:
    rng = np.random.default_rng(2)
    source, target = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    weights = rng.dirichlet(np.ones(7))
    inverse = np.linalg.inv(source.T @ (weights[:, None] * source))
    norms = [(u - v) @ inverse @ (u - v) for u in target for v in target]
    assert linear_diameter(source, weights, target) == pytest.approx(max(norms))
    few = np.array([0.5, 0.5, 0, 0, 0, 0, 0])
    assert linear_diameter(source, few, target) == np.inf
