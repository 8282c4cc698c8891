"""The pool of blocks, and the entry for contrasts of the caller's own."""

from __future__ import annotations

from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from conic_oracle import block_rows, conic_optimum

from bestarm.design import blocked_g, blocked_xy
from bestarm.design import blocks as module
from bestarm.design.blocks import BlockPool, d_optimal_blocks, minimise_blocks, ring_blocks
from bestarm.design.solver import ListedContrasts
from bestarm.errors import DesignError

POINTS = np.random.default_rng(0).normal(size=(30, 4))


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
