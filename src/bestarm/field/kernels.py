"""What compiled loops share: how they are compiled, rewards of pulls, and linear algebra.

LAPACK's functions take many times as long to compile as these take to run on a few features.
Matrices are C-contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import MissingDependencyError
from bestarm.numerics.geometry import Array

try:
    import numba
except ImportError:
    raise MissingDependencyError.of("This method", "numba", extra="field") from None

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function to machine code at its first call, cached on disk where possible.

    The compiled function releases the interpreter lock and divides by zero as NumPy does. Give it
    positional arguments, and plain tuples, never named ones: the cache stores the class of each
    argument by name, and cannot be read once a class was renamed or moved.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        made = numba.njit(**options)(function)
    return cast(Callable[P, T], made)


@compiled
def reward_at(rewards: tuple[Any, ...], i: int, arm: int) -> float:
    """The reward of `arm` as the i-th pull to come, of `pull_by_pull.Rewards`."""
    table, rows, common = rewards
    return float(table[rows[i], arm] + common[i])


@compiled
def dot(a: Array, b: Array) -> float:
    """Σ a_i b_i over the entries of `a`."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def weighted_sum(rows: Array, weights: Array, out: Array) -> None:
    """out = Σ_i weights_i rows_i, and with it M v for a symmetric M."""
    for j in range(len(out)):
        out[j] = 0.0
    for i in range(len(rows)):
        for j in range(len(out)):
            out[j] += weights[i] * rows[i, j]


@compiled
def quadratic_form(matrix: Array, vector: Array) -> float:
    """vᵀ M v."""
    total = 0.0
    for i in range(len(vector)):
        for j in range(len(vector)):
            total += vector[i] * matrix[i, j] * vector[j]
    return total


@compiled
def sherman_morrison(inverse: Array, x: Array, gain: Array) -> float:
    """Make (A + x xᵀ)⁻¹ of A⁻¹; `gain` gets A⁻¹x of before, and 1 + xᵀA⁻¹x is returned."""
    weighted_sum(inverse, x, gain)
    scale = 1 + dot(x, gain)
    for i in range(len(gain)):
        for j in range(len(gain)):
            inverse[i, j] -= gain[i] * gain[j] / scale
    return scale


@compiled
def add_weighted_gram(rows: Array, weights: Array | NDArray[np.int64], table: Array) -> None:
    """Add Σ_i weights_i x_i x_iᵀ over the rows x_i to a table."""
    for a in range(len(weights)):
        for i in range(len(table)):
            for j in range(len(table)):
                table[i, j] += weights[a] * rows[a, i] * rows[a, j]


@compiled
def cholesky(table: Array) -> bool:
    """Put U with UᵀU = table, of which only the upper triangle counts, in its place.

    Returns:
        Whether the table is positive definite.
    """
    size = len(table)
    for k in range(size):
        if not table[k, k] > 0:
            return False
        pivot = math.sqrt(table[k, k])
        for j in range(k, size):
            table[k, j] /= pivot
        for i in range(k + 1, size):
            for j in range(i, size):
                table[i, j] -= table[k, i] * table[k, j]
    return True


@compiled
def log_determinant(matrix: Array) -> float:
    """log det of a symmetric matrix, or −∞ unless it is positive definite; U takes its place."""
    if not cholesky(matrix):
        return -math.inf
    total = 0.0
    for k in range(len(matrix)):
        total += math.log(matrix[k, k])
    return 2 * total


@compiled
def invert(matrix: Array, inverse: Array) -> float:
    """Put the inverse of a positive definite matrix into `inverse`; returns log det.

    The matrix is overwritten. If it is not positive definite, `inverse` stays as it is.
    """
    log_det, rank = log_determinant(matrix), len(matrix)
    if log_det == -math.inf:
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
