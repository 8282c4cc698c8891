"""Linear algebra of compiled loops against NumPy's, and as Python code against compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import compiling
from bestarm.numerics import linalg
from bestarm.numerics.geometry import Array

RNG = np.random.default_rng(3)
SIZES = (1, 2, 3, 4, 5, 8, 11)  # with and without a rest after blocks of four


def positive_definite(size: int) -> Array:
    rows = RNG.normal(size=(size + 2, size))
    return rows.T @ rows


def test_products() -> None:
    rows, weights, vector = RNG.normal(size=(5, 3)), RNG.normal(size=5), RNG.normal(size=3)
    assert linalg.dot(weights, np.append(rows[:, 0], 7.0)) == pytest.approx(weights @ rows[:, 0])
    out = np.full(3, np.nan)
    linalg.weighted_sum(rows, weights, out)
    np.testing.assert_allclose(out, weights @ rows)
    square = rows[:3]
    assert linalg.quadratic_form(square, vector) == pytest.approx(vector @ square @ vector)
    found = rows.copy()
    linalg.subtract_outer(found, weights, vector, 0.7)
    np.testing.assert_allclose(found, rows - 0.7 * np.outer(weights, vector))


def test_a_weighted_gram_is_added() -> None:
    rows, weights = RNG.normal(size=(4, 3)), RNG.uniform(size=4)
    table = np.ones((3, 3))
    linalg.add_weighted_gram(rows, weights, table)
    np.testing.assert_allclose(table, 1 + (rows.T * weights) @ rows)


@pytest.mark.parametrize("size", SIZES)
def test_a_factor_is_cholesky_s(size: int) -> None:
    matrix = positive_definite(size)
    upper = np.triu(matrix)  # the lower triangle does not count
    assert linalg.cholesky(upper)
    np.testing.assert_allclose(upper, np.linalg.cholesky(matrix).T, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_inverses_and_determinants(size: int) -> None:
    matrix, x = positive_definite(size), RNG.normal(size=size)
    inverse, gain = np.empty((size, size)), np.empty(size)
    log_det = linalg.invert(matrix.copy(), inverse)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-12)
    assert linalg.log_determinant(matrix.copy()) == log_det
    np.testing.assert_allclose(inverse @ matrix, np.eye(size), atol=1e-9)
    scale = linalg.sherman_morrison(inverse, x, gain)
    np.testing.assert_allclose(inverse @ (matrix + np.outer(x, x)), np.eye(size), atol=1e-9)
    assert np.array_equal(inverse, inverse.T)
    np.testing.assert_allclose(matrix @ gain, x, atol=1e-9)
    assert scale == pytest.approx(1 + x @ gain)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(size: int) -> None:
    matrix, inverse = positive_definite(size), np.full((size, size), 0.5)
    matrix[-1, -1] = -1.0
    assert not linalg.cholesky(matrix.copy())
    assert linalg.log_determinant(matrix.copy()) == -np.inf
    assert linalg.invert(matrix.copy(), inverse) == -np.inf
    assert np.array_equal(inverse, np.full((size, size), 0.5))


def test_python_code_and_compiled_code_agree_to_the_last_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def results() -> list[Array]:
        matrix, x = start.copy(), np.ones(6)
        inverse, gain = np.zeros((6, 6)), np.zeros(6)
        log_det = linalg.invert(matrix, inverse)
        scale = linalg.sherman_morrison(inverse, x, gain)
        form = linalg.quadratic_form(inverse, x)
        numbers = np.array([log_det, scale, form])
        return [inverse, gain, numbers]

    start = positive_definite(6)
    monkeypatch.setattr(compiling._Tiered, "python_seconds", 0.0)
    fast = results()
    monkeypatch.setattr(compiling._Tiered, "__call__", lambda self, *each: self.py_func(*each))
    for one, other in zip(fast, results(), strict=True):
        assert one.tobytes() == other.tobytes()
