"""An interior-point method for small XY-designs: the core of the solver.

    minimise Σ q_i   subject to   h_y(q) ≥ 1 for every y in Y,  q ≥ 0,      h_y(q) = 1 / yᵀM(q)⁻¹y

is the design problem with the scale of the weights left free: p = q / Σq, and the optimal value of
max_y yᵀM(p)⁻¹y is the optimal Σq. Written with h it is easiest to solve: h_y is a
Schur complement, so it is concave, and it is homogeneous of degree one, so a Newton step sees
almost no curvature along the rays where q must travel. A primal–dual path-following method with
Mehrotra's predictor then takes about ten steps, each one Cholesky factorisation of order n.
(With the constraint written as yᵀM⁻¹y ≤ 1 the same method stalls for lack of step length.)

A mass may stand for several rows of features: M(q) = Σ_i q_i Σ_{rows φ of i} φφᵀ. For arms it is
one row; for a block of k arms, k − 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bestarm.numerics.geometry import Array

_BOUNDARY = 0.95  # part of the way to the boundary that a step may go


@dataclass(frozen=True, eq=False)
class Point:
    """A primal–dual pair: masses `q`, contrast multipliers `mu`, and the steps it took."""

    q: Array
    mu: Array
    steps: int


def second_moment(features: Array, q: Array) -> Array:
    """M(q) = Σ q_i φφᵀ; each mass has as many rows φ as the next, one after the other."""
    width = len(features) // len(q)
    mass = q if width == 1 else np.repeat(q, width)
    return np.asarray(features.T @ (mass[:, None] * features))


def add_rows(table: Array, count: int) -> Array:
    """The sum of the rows that belong to each of `count` masses."""
    if len(table) == count:
        return table
    return np.asarray(table.reshape(count, -1, table.shape[1]).sum(axis=1))


def longest(x: Array, dx: Array) -> float:
    """The longest step in (0, 1] that keeps x well inside the positive numbers."""
    ratio = float((-dx / x).max())
    return 1.0 if ratio <= _BOUNDARY else _BOUNDARY / ratio


def interior_point(features: Array, contrasts: Array, start: Point, tol: float) -> Point:
    """Improve `start` until its certified relative gap over these arms and contrasts is ≤ tol.

    Args:
        features: φ, one per row, of full column rank; the same number of rows for each mass.
        contrasts: y, one per row.
        start: positive masses and multipliers, of any scale.
        tol: the relative gap between Σq at max g = 1 and the lower bound of the multipliers.
    """
    from bestarm.design.kernels import interior  # noqa: PLC0415 - compiles

    tables = np.ascontiguousarray(features), np.ascontiguousarray(contrasts)
    q, mu, steps, _ = interior(*tables, (start.q, start.mu), tol)
    return Point(q, mu, steps)
