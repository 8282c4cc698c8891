"""Methods and runs on the same arms solve a design once; another's result is never taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bestarm import RAGE, SBE, SPBAI, GOpt, Problem
from bestarm.design import centered_xy, deo, linear_xy, memo, xor
from bestarm.design.memo import recall
from bestarm.numerics.geometry import Array


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    memo.forget()
    yield
    memo.forget()


def test_tables_of_the_same_content_share_a_design_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    first = recall(linear_xy, source, target, tol=1e-3)
    assert recall(linear_xy, source.copy(), target.copy(), tol=1e-3) is first
    assert recall(linear_xy, np.asfortranarray(source), target, tol=1e-3) is first
    np.testing.assert_array_equal(first.weights, linear_xy(source, target, tol=1e-3).weights)
    others = [
        recall(linear_xy, source, target, tol=1e-2),
        recall(linear_xy, source, target),
        recall(centered_xy, source, target, tol=1e-3),
        recall(linear_xy, source[::-1], target, tol=1e-3),
        recall(linear_xy, np.vstack([source[:-1], 2 * source[-1:]]), target, tol=1e-3),
        recall(linear_xy, source, target[:4], tol=1e-3),
        recall(linear_xy, source, target.T[:, :3].copy(), tol=1e-3),
    ]
    assert all(other is not first for other in others)


def test_arrays_that_are_shared_cannot_be_changed() -> None:
    doubled = recall(np.multiply, np.ones(3), 2.0)
    assert doubled.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="read-only"):
        doubled[0] = 1.0


def test_designs_of_a_hundred_instances_are_kept() -> None:
    """Rows of a replication come back to the same instances after a thousand other designs."""
    made = []

    def make(source: Array) -> float:
        made.append(source)
        return float(source[0, 0])

    tables = [np.full((2, 2), float(number)) for number in range(1500)]
    for _ in range(2):
        assert [recall(make, table) for table in tables] == list(range(1500))
        assert len(made) == 1500


def test_methods_of_one_instance_solve_its_designs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(4).normal(size=(12, 3))
    solved: list[Callable[..., object]] = []
    slot = memo._slot

    def watched(compute: Callable[..., object], *key: object) -> list[object]:
        found = slot(compute, *key)
        if not found:
            solved.append(compute)
        return found

    monkeypatch.setattr(memo, "_slot", watched)
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
    # DEO once, XOR from two anchors, RAGE's design once.
    assert [solved.count(each) for each in (deo, xor, linear_xy)] == [1, 2, 1]
