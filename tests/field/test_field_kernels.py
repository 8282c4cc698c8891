"""How loops are compiled; their linear algebra against NumPy's; and what is said without Numba."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bestarm.field import kernels
from bestarm.numerics.geometry import Array

RNG = np.random.default_rng(3)
SIZES = (1, 2, 3, 5, 8)


def run(script: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_without_numba_a_method_says_what_to_install() -> None:
    """Methods that need no kernel work all the same; those that do are in the catalog."""
    printed = run("""
        import sys
        from bestarm import Problem
        from bestarm.cli.research.methods import read_method
        from bestarm.errors import MissingDependencyError
        from bestarm.policies.registry import policies

        sys.modules["numba"] = None  # as if it were not installed
        print(policies()["alba"].method(Problem(["a", "b"])).plan().phase)
        print(policies()["lingape"].name)
        for make in (lambda: policies()["lingape"].method, lambda: read_method("kl-lucb")):
            try:
                make()
            except MissingDependencyError as error:
                print(error.field, error.remedy, error, sep="|")
    """).splitlines()
    assert printed[:2] == ["1", "lingape"]
    remedy = "Install it with pip install 'bestarmid[field]'."
    said = f"numba|{remedy}|This method needs numba, which is not installed. {remedy}"
    assert printed[2:] == [said, said]


def test_without_numba_the_leaderboard_says_what_to_install() -> None:
    printed = run("""
        import sys
        from bestarm.cli import main

        sys.modules["numba"] = None

        sys.argv = ["bestarm", "leaderboard", "--runs", "2", "--only", "lucb"]
        sys.stderr = sys.stdout
        try:
            main()
        except SystemExit as stop:
            print(stop.code)
    """)
    assert "needs numba" in printed
    assert "pip install 'bestarmid[field]'" in printed
    assert printed.split()[-1] != "0"


def test_a_function_is_compiled_where_nothing_can_be_cached() -> None:
    """As Numba does where neither the folder of a module nor the user's cache can be written."""
    printed = run("""
        import numba.core.caching as caching
        caching.CacheImpl._locator_classes = []
        from bestarm.field.kernels import compiled

        @compiled
        def half(x):
            return 1 / x

        print(half(2.0), half(0.0), half.stats.cache_path)
    """)
    assert printed.split() == ["0.5", "inf", "None"]


def positive_definite(size: int) -> Array:
    rows = RNG.normal(size=(size + 2, size))
    return rows.T @ rows


def test_a_reward_is_its_arms_and_what_all_share() -> None:
    table, rows, common = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]), np.array([10, 20.0])
    assert kernels.reward_at((table, rows, common), 0, 1) == 14
    assert kernels.reward_at((table, rows, common), 1, 0) == 21


def test_products() -> None:
    rows, weights, vector = RNG.normal(size=(5, 3)), RNG.normal(size=5), RNG.normal(size=3)
    assert kernels.dot(weights, np.append(rows[:, 0], 7.0)) == pytest.approx(weights @ rows[:, 0])
    out = np.full(3, np.nan)
    kernels.weighted_sum(rows, weights, out)
    np.testing.assert_allclose(out, weights @ rows)
    square = rows[:3]
    assert kernels.quadratic_form(square, vector) == pytest.approx(vector @ square @ vector)
    table = np.ones((3, 3))
    kernels.add_weighted_gram(rows, weights, table)
    np.testing.assert_allclose(table, 1 + (rows.T * weights) @ rows)


@pytest.mark.parametrize("size", SIZES)
def test_inverses_and_determinants(size: int) -> None:
    matrix, x = positive_definite(size), RNG.normal(size=size)
    upper = np.triu(matrix)  # the lower triangle does not count
    assert kernels.cholesky(upper)
    np.testing.assert_allclose(upper, np.linalg.cholesky(matrix).T, atol=1e-12)
    inverse, gain = np.empty((size, size)), np.empty(size)
    log_det = kernels.invert(matrix.copy(), inverse)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-12)
    assert kernels.log_determinant(matrix.copy()) == log_det
    np.testing.assert_allclose(inverse @ matrix, np.eye(size), atol=1e-9)
    scale = kernels.sherman_morrison(inverse, x, gain)
    np.testing.assert_allclose(inverse @ (matrix + np.outer(x, x)), np.eye(size), atol=1e-9)
    assert np.array_equal(inverse, inverse.T)
    np.testing.assert_allclose(matrix @ gain, x, atol=1e-9)
    assert scale == pytest.approx(1 + x @ gain)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(size: int) -> None:
    matrix, inverse = positive_definite(size), np.full((size, size), 0.5)
    matrix[-1, -1] = -1.0
    assert not kernels.cholesky(matrix.copy())
    assert kernels.log_determinant(matrix.copy()) == -np.inf
    assert kernels.invert(matrix.copy(), inverse) == -np.inf
    assert np.array_equal(inverse, np.full((size, size), 0.5))
