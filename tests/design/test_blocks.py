"""Designs over blocks: certificates against a conic solver that lists every block, closed forms.

Blocks that lie far apart: what is found, and what is proven, beside a loop over all blocks.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, inf
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
    sphere,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import BlockDesign, blocked_g, blocked_xy, centered_xy, linear_xy
from bestarm.design import blocks as module
from bestarm.design.blocks import (
    BlockPool,
    bound_dispersion,
    d_optimal_blocks,
    dispersed_blocks,
    dispersion,
    minimise_blocks,
    ring_blocks,
)
from bestarm.design.solver import SMALL_POOL, ListedContrasts
from bestarm.errors import DesignError
from bestarm.numerics.geometry import Array, centered_diameter

ORACLE = 1e-6  # relative accuracy credited to the conic solver, whose own tolerance is 1e-8

some = settings(max_examples=20, deadline=None, derandomize=True)
often = settings(max_examples=25, deadline=None, derandomize=True)
tolerances = st.sampled_from([1e-2, 1e-3, 1e-6])
sizes = st.integers(2, 4)
listed = pytest.mark.parametrize("most", [0, SMALL_POOL], ids=["generated", "listed"])
most_often = settings(max_examples=60, deadline=None, derandomize=True)
POINTS = np.random.default_rng(0).normal(size=(30, 4))


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


@pytest.mark.parametrize(
    ("arms", "dimension", "size", "offset"),
    [(100, 10, 2, 1e6), (40, 5, 4, 0.0), (300, 10, 2, 0.0), (60, 4, 3, 1e6)],
)
def test_more_blocks_than_can_be_listed(
    arms: int, dimension: int, size: int, offset: float
) -> None:
    assert comb(arms, size) > SMALL_POOL
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


# --- the pool of blocks, and contrasts of the caller ---------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_rows_of_a_block_sum_to_its_matrix(size: int) -> None:
    pool = BlockPool(POINTS, size)
    blocks = np.array(list(combinations(range(7), size)))
    rows = pool.rows(pool.add(blocks)).reshape(len(blocks), size - 1, 4)
    for block, found in zip(blocks, rows, strict=True):
        centered = POINTS[block] - POINTS[block].mean(axis=0)
        np.testing.assert_allclose(found.T @ found, centered.T @ centered, atol=1e-12)


def test_a_block_has_one_code() -> None:
    pool = BlockPool(POINTS, 3)
    assert pool.add(np.array([[0, 1, 2], [0, 1, 3], [0, 1, 2]])).tolist() == [0, 1, 0]
    assert pool.add(np.array([[4, 5, 6], [0, 1, 3]])).tolist() == [2, 1]
    assert pool.blocks.tolist() == [[0, 1, 2], [0, 1, 3], [4, 5, 6]]
    assert pool.count == 3


@pytest.mark.parametrize("size", [2, 3, 5, 30])
def test_the_first_blocks_inform_about_everything(size: int) -> None:
    pool = BlockPool(POINTS, size)
    codes, base = pool.first()
    assert np.isin(base, codes).all()
    assert np.linalg.matrix_rank(pool.rows(base)) == 4


def test_neighbours_in_a_ring() -> None:
    assert ring_blocks(4, 2).tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert ring_blocks(5, 3, step=2).tolist() == [[0, 1, 2], [0, 1, 4], [2, 3, 4]]
    assert ring_blocks(3, 3).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_contrasts_of_the_caller_s_own(size: int, count: int) -> None:
    """Scaled differences, fewer than span the features among them; against the conic solver."""
    points, rng = POINTS[:9], np.random.default_rng(count)
    contrasts = rng.normal(size=(count, 4)) * 10.0 ** rng.uniform(-1, 1, size=(count, 1))
    design = minimise_blocks(points + 1e3, ListedContrasts(contrasts), size, 1e-4)
    optimum = conic_optimum(block_rows(points, size), contrasts, size)
    assert design.gap <= 1e-4
    assert design.lower_bound <= optimum * (1 + 1e-6)
    assert optimum <= design.value * (1 + 1e-6)


def test_a_proof_that_is_cut_short_is_reported() -> None:
    """The design is found all the same; its bound is lower, but still one, and the gap says so."""
    contrasts = ListedContrasts(POINTS[1:] - POINTS[0])
    full = minimise_blocks(POINTS, contrasts, 4, 1e-3)
    assert full.gap <= 1e-3
    with mock.patch.object(module, "_MOST_BRANCHES", 0):
        short = minimise_blocks(POINTS, contrasts, 4, 1e-3)
        assert 1e-3 < short.gap < 0.5
        assert short.gap == pytest.approx(short.value / short.lower_bound - 1)
        assert short.lower_bound <= full.value
        assert short.value <= full.value * 1.003
        spread = d_optimal_blocks(POINTS, 4, 1e-3)
        assert spread.value > 4 * 1.001
        assert spread.lower_bound == 4
        text = r"to a relative gap of 0\.001; the gap is 0\."
        with pytest.raises(DesignError, match=text):
            blocked_xy(POINTS, POINTS, size=4)
        with pytest.raises(DesignError, match=text):
            blocked_g(POINTS, size=4)


# --- dispersion ----------------------------------------------------------------------------------


@st.composite
def clouds(draw: st.DrawFn) -> tuple[Array, int]:
    """Points, some of them alike, on a sphere, in a corner or one-hot; and a size of blocks."""
    count, dimension = draw(st.integers(3, 12)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["ball", "sphere", "one-hot"]))
    points = np.eye(count) if kind == "one-hot" else rng.normal(size=(count, dimension))
    if kind == "sphere":
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    if draw(st.booleans()):
        points[: count // 2] = points[rng.integers(0, count, size=count // 2)]
    return points + draw(st.sampled_from([0.0, 1e3])), draw(st.integers(2, min(count, 6)))


def every_block(points: Array, size: int) -> dict[tuple[int, ...], float]:
    """1/k times the sum of squared distances over the pairs, block by block."""
    count = len(points)
    apart = {
        (i, j): float(np.sum((points[i] - points[j]) ** 2))
        for i, j in combinations(range(count), 2)
    }
    return {
        block: sum(apart[pair] for pair in combinations(block, 2)) / size
        for block in combinations(range(count), size)
    }


@most_often
@given(clouds())
def test_the_dispersion_is_that_of_the_pairs(cloud: tuple[Array, int]) -> None:
    points, size = cloud
    every = every_block(points, size)
    found = dispersion(points, np.array(list(every)))
    np.testing.assert_allclose(found, list(every.values()), atol=1e-9)


@most_often
@given(clouds())
def test_no_swap_improves_a_block(cloud: tuple[Array, int]) -> None:
    points, size = cloud
    every = every_block(points, size)
    found = dispersed_blocks(points, size)
    assert len(np.unique(found, axis=0)) == len(found) <= len(points)
    tie = 1e-7 * max(1.0, *every.values())
    for block in map(tuple, found.tolist()):
        for new in set(range(len(points))) - set(block):
            for old in block if size > 2 else block[:0]:
                swapped = tuple(sorted({*block, new} - {old}))
                assert every[swapped] <= every[block] + tie
    if size == 2:
        best = max(every[block] for block in map(tuple, found.tolist()))
        assert best == pytest.approx(max(every.values()), abs=tie)


@most_often
@given(clouds(), st.sampled_from([0.0, 0.5, 0.999, 1.001, 1.5]))
def test_a_proof_holds_for_every_block(cloud: tuple[Array, int], part: float) -> None:
    points, size = cloud[0], max(cloud[1], 3)
    points = points - points.mean(axis=0)  # distances are compared to 1e-9 below
    every = every_block(points, size)
    largest = max(every.values())
    proof = bound_dispersion(points, size, part * largest)
    assert proof.bound >= largest * (1 - 1e-9)
    assert len(np.unique(proof.blocks, axis=0)) == len(proof.blocks)
    for block in map(tuple, proof.blocks.tolist()):
        assert every[block] > part * largest * (1 - 1e-9)
    if part > 1:
        assert not len(proof.blocks)
        assert proof.bound <= part * largest * (1 + 1e-9)
    elif part < 0.9 and largest > 0:
        assert len(proof.blocks)
        assert proof.bound in (inf, pytest.approx(largest, rel=1e-9))


@most_often
@given(clouds(), st.integers(0, 10))
def test_a_search_that_is_cut_short_still_gives_a_bound(
    cloud: tuple[Array, int], nodes: int
) -> None:
    points, size = cloud[0], max(cloud[1], 3)
    points = points - points.mean(axis=0)
    largest = max(every_block(points, size).values())
    with mock.patch.object(module, "_MOST_BRANCHES", nodes):
        proof = bound_dispersion(points, size, 0.99 * largest)
    assert largest * (1 - 1e-9) <= proof.bound < inf
    distances = np.sum((points[:, None] - points) ** 2, axis=2)
    assert proof.bound <= (size - 1) / 2 * distances.max() * (1 + 1e-9)


def test_the_bound_of_a_ball_needs_no_search() -> None:
    """Around the centre of a regular figure the farthest points are a block: nothing is lost."""
    angle = 2 * np.pi * np.arange(60) / 60
    circle = np.column_stack([np.cos(angle), np.sin(angle)]) + 5
    with mock.patch.object(module, "_MOST_BRANCHES", 0):
        assert bound_dispersion(circle, 4, 4.001).bound == pytest.approx(4, rel=1e-3)


def test_ties_go_to_the_first() -> None:
    """All blocks of one-hot points are alike; so are rounding errors, which must not choose."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    assert (dispersed_blocks(np.eye(9), 4) == dispersed_blocks(turned, 4)).all()
