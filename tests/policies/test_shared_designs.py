"""Methods and runs on the same arms solve a design once; another's result is never taken."""

from __future__ import annotations

import numpy as np

from bestarm import RAGE, SBE, SPBAI, GOpt, Problem
from bestarm.design import centered_g, centered_xy, linear_xy
from bestarm.policies import designs
from bestarm.policies.designs import shared, solved


def test_tables_of_the_same_content_share_a_design_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    first = shared(linear_xy, source, target, tol=1e-3)
    assert shared(linear_xy, source.copy(), target.copy(), tol=1e-3) is first
    np.testing.assert_array_equal(first.weights, linear_xy(source, target, tol=1e-3).weights)
    others = [
        shared(linear_xy, source, target, tol=1e-2),
        shared(centered_xy, source, target, tol=1e-3),
        shared(linear_xy, source[::-1], target, tol=1e-3),
        shared(linear_xy, source, target[:4], tol=1e-3),
        shared(linear_xy, source, target.T[:, :3].copy(), tol=1e-3),
    ]
    assert all(other is not first for other in others)


def test_large_tables_are_not_kept() -> None:
    source = np.random.default_rng(0).normal(size=(designs._SMALL // 4 + 1, 4))
    before = solved.cache_info().currsize
    shared(centered_g, source, tol=0.05)
    assert solved.cache_info().currsize == before


def test_methods_of_one_instance_solve_its_designs_once() -> None:
    source = np.random.default_rng(4).normal(size=(12, 3))
    solved.cache_clear()
    policies = [
        GOpt(Problem(source, noise=2.0), gap=0.5),
        SBE(Problem(source)),
        SPBAI(Problem(source), anchor=3),
        SPBAI(Problem(source), preset="replication", seed=1),
        RAGE(Problem(source, noise=2.0), sigma=1.0),
        RAGE(Problem(source), sigma=2.0),
    ]
    for policy in policies:
        assert policy.plan() is not None
    found = solved.cache_info()
    assert (found.misses, found.hits) == (4, 4)  # DEO once, XOR from two anchors, RAGE once
