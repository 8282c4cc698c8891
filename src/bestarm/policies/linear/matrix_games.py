"""Small matrix games, solved by the simplex method, compiled."""

from __future__ import annotations

import math

import numpy as np

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.stepwise import Indices

_ZERO = 1e-12  # relative to the largest entry
_MOST = 10_000  # exchanges; the rule of Bland never cycles on paper


@compiled
def solve(payoffs: Array) -> Array:
    """The weights of rows that make the least expected payoff over columns as large as possible.

    Payoffs shifted to lie between 1 and 2 have a positive value v. The column player's programme,
    max Σ q subject to M q ≤ 1 and q ≥ 0, starts from q = 0; at the optimum Σ q = 1/v, and the
    prices of its rows are the row player's weights, divided by v. Rows enter by the rule of Bland.
    """
    rows, columns = payoffs.shape
    low, high = math.inf, -math.inf
    for i in range(rows):  # NumPy's extremes take long to compile
        for j in range(columns):
            low, high = min(low, payoffs[i, j]), max(high, payoffs[i, j])
    table = np.zeros((rows + 1, columns + 1))
    inside = np.zeros(rows, dtype=np.int64)  # what each row holds: columns first, then slacks
    outside = np.zeros(columns, dtype=np.int64)
    for j in range(columns):
        table[rows, j] = -1
        outside[j] = j
        for i in range(rows):
            table[i, j] = (payoffs[i, j] - low) / max(high - low, 1e-300) + 1
    for i in range(rows):
        table[i, columns] = 1
        inside[i] = columns + i
    for _ in range(_MOST):
        enter = -1
        for j in range(columns):
            if table[rows, j] < -_ZERO and (enter < 0 or outside[j] < outside[enter]):
                enter = j
        if enter < 0:
            break
        leave = _leaving(table, inside, enter)
        _exchange(table, leave, enter)
        inside[leave], outside[enter] = outside[enter], inside[leave]
    weights, total = np.zeros(rows), 0.0
    for j in range(columns):
        if outside[j] >= columns:
            weights[outside[j] - columns] = max(table[rows, j], 0.0)
            total += weights[outside[j] - columns]
    for i in range(rows):
        weights[i] /= total
    return weights


@inlined
def _leaving(table: Array, inside: Indices, enter: int) -> int:
    """The row that limits the entering column first; of equals, the one that holds the first."""
    rows, columns = table.shape[0] - 1, table.shape[1] - 1
    leave = -1
    for i in range(rows):
        if table[i, enter] <= _ZERO:
            continue
        if leave < 0:
            leave = i
            continue
        here = table[i, columns] * table[leave, enter]
        best = table[leave, columns] * table[i, enter]
        if here < best or (here == best and inside[i] < inside[leave]):
            leave = i
    return leave


@inlined
def _exchange(table: Array, row: int, column: int) -> None:
    """Exchange a variable inside with one outside, in the condensed table."""
    pivot = table[row, column]
    for i in range(table.shape[0]):
        if i != row:
            factor = table[i, column] / pivot
            for j in range(table.shape[1]):
                if j != column:
                    table[i, j] -= factor * table[row, j]
            table[i, column] = -factor
    for j in range(table.shape[1]):
        if j != column:
            table[row, j] /= pivot
    table[row, column] = 1 / pivot
