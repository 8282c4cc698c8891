"""Designs over blocks: certificates against a conic solver that lists every block, closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from unittest import mock

import numpy as np
import pytest
from conic_oracle import block_rows, conic_optimum
from exact_instances import (
    Instance,
    contrasts_of,
    fractions,
    instances,
    inverse_norms,
    second_moment,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import BlockDesign, blocked_g, blocked_xy, centered_xy, linear_xy
from bestarm.design import blocks as module
from bestarm.numerics.geometry import Array, centered_diameter

ORACLE = 1e-6  # relative accuracy credited to the conic solver, whose own tolerance is 1e-8

some = settings(max_examples=20, deadline=None, derandomize=True)
often = settings(max_examples=25, deadline=None, derandomize=True)
tolerances = st.sampled_from([1e-2, 1e-3, 1e-6])
sizes = st.integers(2, 4)
listed = pytest.mark.parametrize("most", [0, module.SMALL_POOL], ids=["generated", "listed"])


def block_norms(source: Array, design: BlockDesign, vectors: Array) -> Array:
    """yᵀM(q)⁻¹y in exact arithmetic."""
    arms = [fractions(x) for x in source]
    rows, mass = [], []
    for block, weight in zip(design.blocks, design.weights, strict=True):
        members = [arms[i] for i in block]
        mean = [sum(column, Fraction(0)) / len(block) for column in zip(*members, strict=True)]
        rows += [[x - m for x, m in zip(member, mean, strict=True)] for member in members]
        mass += [Fraction(float(weight))] * len(block)
    total = sum(fractions(design.weights))
    moment = second_moment(rows, [w / total for w in mass])
    return inverse_norms(moment, [fractions(y) for y in vectors])


def check_blocks(design: BlockDesign, arms: int, size: int) -> None:
    """Weights are a distribution over different blocks of different arms."""
    assert design.blocks.shape == (len(design.weights), size)
    assert design.blocks.dtype == np.int64
    assert (np.diff(design.blocks, axis=1) > 0).all()
    assert design.blocks.min() >= 0
    assert design.blocks.max() < arms
    assert len(np.unique(design.blocks, axis=0)) == len(design.blocks)
    assert (design.weights > 0).all()
    assert abs(design.weights.sum() - 1) <= 1e-12


@listed
@some
@given(instances(arms=7, targets=5), sizes, tolerances)
def test_blocked_xy_is_certified(most: int, instance: Instance, size: int, tol: float) -> None:
    source, size = instance.source, min(size, len(instance.source))
    with mock.patch.object(module, "SMALL_POOL", most):
        design = blocked_xy(source, instance.target, size=size, tol=tol)
    check_blocks(design, len(source), size)
    contrasts = contrasts_of(instance.base_target)
    optimum = conic_optimum(block_rows(instance.base_source, size), contrasts, size)
    value = block_norms(source, design, contrasts_of(instance.target)).max()
    assert design.value == pytest.approx(value, rel=1e-7)
    assert 0 <= design.gap <= tol
    assert design.gap == pytest.approx(design.value / design.lower_bound - 1, abs=1e-12)
    assert design.lower_bound <= optimum * (1 + ORACLE)
    assert optimum <= design.value * (1 + ORACLE)


@listed
@some
@given(instances(arms=7), sizes, tolerances)
def test_blocked_g_is_certified_and_reaches_the_rank(
    most: int, instance: Instance, size: int, tol: float
) -> None:
    """The largest tr(A_B M⁻¹) over all blocks, listed one by one, is within tol of the rank."""
    source, size = instance.source, min(size, len(instance.source))
    with mock.patch.object(module, "SMALL_POOL", most):
        design = blocked_g(source, size=size, tol=tol)
    check_blocks(design, len(source), size)
    norms = block_norms(instance.base_source, design, block_rows(instance.base_source, size))
    largest = norms.reshape(-1, size).sum(axis=1).max()
    assert instance.rank * (1 - 1e-9) <= largest <= design.value * (1 + 1e-7)
    assert design.lower_bound == instance.rank
    assert design.value <= instance.rank * (1 + tol)
    assert design.gap == pytest.approx(design.value / instance.rank - 1, abs=1e-12)
    # ‖x_i − x_j‖² ≤ 2 tr(A_B M⁻¹) for any block with both
    pairs = block_norms(instance.base_source, design, contrasts_of(instance.base_source))
    assert pairs.max() <= 2 * design.value * (1 + 1e-7)


# --- other designs -------------------------------------------------------------------------------


@some
@given(instances(arms=8, units=False))
def test_pairs_are_a_linear_design_on_differences(instance: Instance) -> None:
    """A_B of a pair is half the square of its difference."""
    differences = contrasts_of(instance.source) / np.sqrt(2)
    paired = blocked_xy(instance.source, instance.target, size=2, tol=1e-6)
    linear = linear_xy(differences, instance.target, tol=1e-6)
    assert paired.value == pytest.approx(linear.value, rel=2e-6)


@often
@given(instances(arms=9))
def test_larger_blocks_never_need_more_rounds(instance: Instance) -> None:
    """From larger blocks, smaller ones can be read off; and centering is the limit, by Jensen."""
    count = len(instance.source)
    found = [blocked_xy(instance.source, instance.target, size=k) for k in range(2, count + 1)]
    for smaller, larger in pairwise(found):
        assert larger.lower_bound <= smaller.value
    centered = centered_xy(instance.source, instance.target)
    for k, design in enumerate(found, start=2):
        assert centered.lower_bound <= k * design.value


@often
@given(instances(arms=9))
def test_one_block_of_all_arms(instance: Instance) -> None:
    count = len(instance.source)
    design = blocked_xy(instance.source, instance.target, size=count)
    assert design.blocks.tolist() == [list(range(count))]
    assert design.weights.tolist() == [1.0]
    uniform = np.full(count, 1 / count)
    value = centered_diameter(instance.source, uniform, instance.target) / count
    assert design.value == pytest.approx(value, rel=1e-6)
    assert design.lower_bound == pytest.approx(value, rel=1e-3)
    assert blocked_g(instance.source, size=count).value == pytest.approx(instance.rank, rel=1e-9)


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("arms", [6, 9, 12])
def test_one_hot_arms(arms: int, size: int) -> None:
    """By symmetry all blocks are equally likely: M = (k − 1)/(K − 1) on differences."""
    eye = np.eye(arms)
    value = 2 * (arms - 1) / (size - 1)
    assert blocked_xy(eye, eye, size=size, tol=1e-3).value == pytest.approx(value, rel=1e-3)
    assert blocked_g(eye, size=size, tol=1e-3).value == pytest.approx(arms - 1, rel=1e-3)


@pytest.mark.parametrize("size", [2, 4, 6])
def test_points_on_a_line(size: int) -> None:
    """The ends, half of the block at each: A_B = k/4 of the squared length."""
    line = np.repeat(np.linspace(0, 1, 7), 3)[:, None]
    design = blocked_xy(line, line, size=size, tol=1e-6)
    assert design.value == pytest.approx(4 / size, rel=1e-6)
    heavy = design.blocks[design.weights > 0.01]
    assert np.isin(line[heavy[:, : size // 2], 0], 0.0).all()
    assert np.isin(line[heavy[:, size // 2 :], 0], 1.0).all()


def test_one_blocks_mean_may_lie_off_another_s() -> None:
    """Three arms in one block: the mean is off the middle, and the block is worth 2/3, not 3/4."""
    line = np.array([[0.0], [0.0], [1.0], [1.0]])
    assert blocked_xy(line, line, size=3, tol=1e-6).value == pytest.approx(3 / 2, rel=1e-6)


# --- the bound -----------------------------------------------------------------------------------


@often
@given(instances(arms=9), sizes, st.integers(0, 2**32 - 1))
def test_no_design_of_random_blocks_is_below_the_bound(
    instance: Instance, size: int, seed: int
) -> None:
    source, size = instance.base_source, min(size, len(instance.base_source))
    with mock.patch.object(module, "SMALL_POOL", 0):
        bound = blocked_xy(source, instance.base_target, size=size, tol=0.3).lower_bound
    rng = np.random.default_rng(seed)
    table = np.array(list(combinations(range(len(source)), size)))
    contrasts = contrasts_of(instance.base_target)
    for _ in range(20):
        weights = rng.dirichlet(np.full(len(table), rng.choice([0.05, 1.0])))
        rows = source[table] - source[table].mean(axis=1, keepdims=True)
        moment = np.einsum("b,bij,bik->jk", weights, rows, rows)
        if np.linalg.cond(moment) < 1e10:
            value = np.einsum("ij,ij->i", contrasts @ np.linalg.inv(moment), contrasts).max()
            assert value >= bound * (1 - 1e-6)


# --- invariance ----------------------------------------------------------------------------------


@often
@given(instances(arms=9), sizes)
def test_values_survive_affine_maps(instance: Instance, size: int) -> None:
    size = min(size, len(instance.source))
    moved = blocked_xy(instance.source, instance.target, size=size, tol=1e-6)
    plain = blocked_xy(instance.base_source, instance.base_target, size=size, tol=1e-6)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)


@often
@given(instances(arms=9, units=False), sizes, st.integers(0, 2**32 - 1))
def test_the_order_of_arms_does_not_matter(instance: Instance, size: int, seed: int) -> None:
    size = min(size, len(instance.source))
    order = np.random.default_rng(seed).permutation(len(instance.source))
    moved = blocked_xy(instance.source[order], instance.target[::-1], size=size, tol=1e-6)
    plain = blocked_xy(instance.source, instance.target, size=size, tol=1e-6)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)


@often
@given(instances(arms=9), sizes)
def test_the_same_question_has_the_same_answer(instance: Instance, size: int) -> None:
    size = min(size, len(instance.source))
    first = blocked_xy(instance.source, instance.target, size=size)
    second = blocked_xy(np.asfortranarray(instance.source), instance.target.copy(), size=size)
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.blocks.tobytes() == second.blocks.tobytes()
    assert (first.value, first.lower_bound) == (second.value, second.lower_bound)


# --- sizes ---------------------------------------------------------------------------------------


def sphere(seed: int, count: int, dimension: int) -> Array:
    points = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("arms", "dimension", "size", "offset"),
    [(100, 10, 2, 1e6), (40, 5, 4, 0.0), (300, 10, 2, 0.0), (60, 4, 3, 1e6)],
)
def test_more_blocks_than_can_be_listed(
    arms: int, dimension: int, size: int, offset: float
) -> None:
    assert comb(arms, size) > module.SMALL_POOL
    source = sphere(1, arms, dimension) + offset
    design = blocked_xy(source, source, size=size)
    check_blocks(design, arms, size)
    assert design.gap <= 1e-3
    rows = source[design.blocks] - source[design.blocks].mean(axis=1, keepdims=True)
    moment = np.einsum("b,bij,bik->jk", design.weights, rows, rows)
    contrasts = contrasts_of(source)
    value = np.einsum("ij,ij->i", contrasts @ np.linalg.inv(moment), contrasts).max()
    assert design.value == pytest.approx(value, rel=1e-6)
    assert len(design.blocks) < 400  # the few that matter
    spread = blocked_g(source, size=size)
    check_blocks(spread, arms, size)
    assert spread.value == pytest.approx(dimension, rel=1e-3)


def test_arrays_are_read_only() -> None:
    design = blocked_g(np.eye(3), size=2)
    with pytest.raises(ValueError, match="read-only"):
        design.blocks[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        design.weights[0] = 1.0
