"""Linear algebra that compiled loops share: products, rank-one updates, the Cholesky factor.

LAPACK's take many times as long to compile as these take to run on a few features. Every loop has
its order, so that results have the same bits on every processor. Matrices are C-contiguous.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import uint64 as _uint64
from numpy.typing import NDArray

from bestarm.compiling import tiered
from bestarm.numerics.geometry import Array

__all__ = [
    "add_weighted_gram",
    "cholesky",
    "dot",
    "invert",
    "log_determinant",
    "quadratic_form",
    "sherman_morrison",
    "subtract_outer",
    "weighted_sum",
]

uint64: Any = _uint64


@tiered
def dot(a: Array, b: Array) -> float:
    """Σ a_i b_i over the entries of `a`."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@tiered
def weighted_sum(rows: Array, weights: Array, out: Array) -> None:
    """out = Σ_i weights_i rows_i, and with it M v for a symmetric M.

    The inner loop runs along a row, so the compiler uses wide registers.
    """
    for j in range(len(out)):
        out[j] = 0.0
    for i in range(len(rows)):
        weight = weights[i]
        for j in range(len(out)):
            out[j] += weight * rows[i, j]


@tiered
def quadratic_form(matrix: Array, vector: Array) -> float:
    """vᵀ M v."""
    total = 0.0
    for i in range(len(vector)):
        for j in range(len(vector)):
            total += vector[i] * matrix[i, j] * vector[j]
    return total


@tiered
def subtract_outer(matrix: Array, left: Array, right: Array, factor: float) -> None:
    """Subtract factor · left · rightᵀ; what was symmetric stays so to the last bit."""
    for i in range(len(left)):
        here = left[i]
        for j in range(len(right)):
            matrix[i, j] -= here * right[j] * factor


@tiered
def sherman_morrison(inverse: Array, x: Array, gain: Array) -> float:
    """Make (A + x xᵀ)⁻¹ of A⁻¹; `gain` gets A⁻¹x of before, and 1 + xᵀA⁻¹x is returned."""
    weighted_sum(inverse, x, gain)
    scale = 1 + dot(x, gain)
    subtract_outer(inverse, gain, gain, 1 / scale)
    return scale


@tiered
def add_weighted_gram(rows: Array, weights: Array | NDArray[np.int64], table: Array) -> None:
    """Add Σ_i weights_i x_i x_iᵀ over the rows x_i to a table, both triangles."""
    rank = len(table)
    for a in range(len(weights)):
        if weights[a] != 0:
            for i in range(rank):
                weighted = weights[a] * rows[a, i]
                for j in range(rank):
                    table[i, j] += weighted * rows[a, j]


@tiered
def cholesky(table: Array) -> bool:
    """Put U with UᵀU = table, of which only the upper triangle counts, in its place.

    Returns:
        Whether the table is positive definite.
    """
    size, one, four = uint64(len(table)), uint64(1), uint64(4)
    start = uint64(0)
    while start < size:
        end = min(start + four, size)
        for k in range(start, end):
            if not table[k, k] > 0:
                return False
            pivot = np.sqrt(table[k, k])
            for j in range(k, size):
                table[k, j] /= pivot
            for i in range(k + one, end):
                x = table[k, i]
                for j in range(i, size):
                    table[i, j] -= x * table[k, j]
        if end < size:
            a, b, c, d = table[start], table[start + 1], table[start + 2], table[start + 3]
            for i in range(end, size):
                x, y, z, w = a[i], b[i], c[i], d[i]
                for j in range(i, size):
                    table[i, j] -= (x * a[j] + y * b[j]) + (z * c[j] + w * d[j])
        start = end
    return True


@tiered
def log_determinant(matrix: Array) -> float:
    """log det of a symmetric matrix, or −∞ unless it is positive definite; U takes its place."""
    if not cholesky(matrix):
        return -np.inf
    total = 0.0
    for k in range(len(matrix)):
        total += math.log(matrix[k, k])
    return 2 * total


@tiered
def invert(matrix: Array, inverse: Array) -> float:
    """Put the inverse of a positive definite matrix into `inverse`; returns log det.

    The matrix is overwritten. If it is not positive definite, `inverse` stays as it is.
    """
    log_det, rank = log_determinant(matrix), len(matrix)
    if log_det == -np.inf:
        return log_det
    for column in range(rank):  # U⁻ᵀ, in the lower triangle
        for i in range(column, rank):
            value = 1.0 if i == column else 0.0
            for k in range(column, i):
                value -= matrix[k, i] * inverse[k, column]
            inverse[i, column] = value / matrix[i, i]
    for i in range(rank):  # U⁻¹U⁻ᵀ
        for j in range(i + 1):
            total = 0.0
            for k in range(i, rank):
                total += inverse[k, i] * inverse[k, j]
            inverse[i, j] = inverse[j, i] = total  # no later row needs these
    return log_det
