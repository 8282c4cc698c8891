"""Small matrix games, solved by the simplex method, compiled."""

from __future__ import annotations

import numpy as np

from bestarm.compiling import compiled
from bestarm.geometry import Array

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
    low, size = payoffs.min(), payoffs.max() - payoffs.min()
    if size <= 0:
        return np.full(rows, 1 / rows)
    table = np.zeros((rows + 1, columns + 1))
    table[:rows, :columns] = (payoffs - low) / size + 1
    table[:rows, columns] = 1
    table[rows, :columns] = -1
    inside = np.arange(columns, columns + rows)  # what each row holds: columns first, then slacks
    outside = np.arange(columns)
    for _ in range(_MOST):
        enter = -1
        for j in range(columns):
            if table[rows, j] < -_ZERO and (enter < 0 or outside[j] < outside[enter]):
                enter = j
        if enter < 0:
            break
        leave = -1
        for i in range(rows):
            if table[i, enter] > _ZERO:
                if leave < 0:
                    leave = i
                    continue
                here = table[i, columns] * table[leave, enter]
                best = table[leave, columns] * table[i, enter]
                if here < best or (here == best and inside[i] < inside[leave]):
                    leave = i
        _exchange(table, leave, enter)
        inside[leave], outside[enter] = outside[enter], inside[leave]
    weights = np.zeros(rows)
    for j in range(columns):
        if outside[j] >= columns:
            weights[outside[j] - columns] = max(table[rows, j], 0.0)
    return np.asarray(weights / weights.sum())


@compiled
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
