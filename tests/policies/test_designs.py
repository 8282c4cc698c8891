"""Methods and runs on the same arms solve a design once; another's result is never taken."""

from __future__ import annotations

import numpy as np

from bestarm import RAGE, SBE, SPBAI, GOpt, Problem
from bestarm.design import Design, centered_g, centered_xy, linear_xy
from bestarm.numerics.geometry import Array
from bestarm.policies import designs
from bestarm.policies.designs import cached_design, remembered


def test_tables_of_the_same_content_share_a_design_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    first = cached_design(linear_xy, source, target, tol=1e-3)
    assert cached_design(linear_xy, source.copy(), target.copy(), tol=1e-3) is first
    np.testing.assert_array_equal(first.weights, linear_xy(source, target, tol=1e-3).weights)
    others = [
        cached_design(linear_xy, source, target, tol=1e-2),
        cached_design(centered_xy, source, target, tol=1e-3),
        cached_design(linear_xy, source[::-1], target, tol=1e-3),
        cached_design(linear_xy, np.vstack([source[:-1], 2 * source[-1:]]), target, tol=1e-3),
        cached_design(linear_xy, source, target[:4], tol=1e-3),
        cached_design(linear_xy, source, target.T[:, :3].copy(), tol=1e-3),
    ]
    assert all(other is not first for other in others)


def test_large_tables_are_not_kept() -> None:
    source = np.random.default_rng(0).normal(size=(designs._SMALL // 4 + 1, 4))
    before = remembered.cache_info().currsize
    cached_design(centered_g, source, tol=0.05)
    assert remembered.cache_info().currsize == before


def test_designs_of_a_hundred_instances_are_kept() -> None:
    """Rows of a replication come back to the same instances after a thousand other designs."""
    made = []

    def make(source: Array) -> Design:
        made.append(source)
        return Design(np.array([source[0, 0]]), 1.0, 1.0, 0.0, 0)

    remembered.cache_clear()
    tables = [np.full((2, 2), float(number)) for number in range(1500)]
    first = [cached_design(make, table) for table in tables]
    assert [float(design.weights[0]) for design in first] == list(range(1500))
    again = [cached_design(make, table) for table in tables]
    assert len(made) == 1500
    assert all(one is other for one, other in zip(first, again, strict=True))
    remembered.cache_clear()


def test_methods_of_one_instance_solve_its_designs_once() -> None:
    source = np.random.default_rng(4).normal(size=(12, 3))
    remembered.cache_clear()
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
    found = remembered.cache_info()
    assert (found.misses, found.hits) == (4, 4)  # DEO once, XOR from two anchors, RAGE once
