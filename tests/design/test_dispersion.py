"""Blocks that lie far apart: what is found, and what is proven, beside a loop over all blocks."""

from __future__ import annotations

from itertools import combinations
from math import inf
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import blocks as module
from bestarm.design.blocks import bound_dispersion, dispersed_blocks, dispersion
from bestarm.numerics.geometry import Array

often = settings(max_examples=60, deadline=None, derandomize=True)


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


@often
@given(clouds())
def test_the_dispersion_is_that_of_the_pairs(cloud: tuple[Array, int]) -> None:
    points, size = cloud
    every = every_block(points, size)
    found = dispersion(points, np.array(list(every)))
    np.testing.assert_allclose(found, list(every.values()), atol=1e-9)


@often
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


@often
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


@often
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
