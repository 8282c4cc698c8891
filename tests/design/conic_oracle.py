"""The optimum of a design problem by cvxpy and Clarabel: a second-order cone program.

    minimise Σ q_i   subject to   y = Σ_i a_{y,i} φ_i   and   Σ_i a_{y,i}² / q_i ≤ 1   for every y

For fixed q the least Σ a²/q over representations of y is yᵀM(q)⁻¹y, so the optimal Σq is the
optimal value of max_y yᵀM(p)⁻¹y. Nothing is shared with the library's solver.

Several rows φ may share a mass: those of one block of arms.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from bestarm.numerics.geometry import Array

__all__ = ["block_rows", "conic_optimum", "conic_problem"]


def block_rows(source: Array, size: int) -> Array:
    """x_i − x̄_B for the arms i of every block B of `size` arms, block after block."""
    blocks = [source[list(block)] for block in combinations(range(len(source)), size)]
    return np.vstack([rows - rows.mean(axis=0) for rows in blocks])


def conic_problem(features: Array, contrasts: Array, width: int = 1) -> tuple[Any, float]:
    """The program for these φ (rows, full column rank) and y (rows), and the unit of its value.

    Every `width` rows share a mass.
    """
    import cvxpy  # noqa: PLC0415  loads slowly, and one worker in three needs it

    cp: Any = cvxpy  # its annotations stop half way
    # Only the numerics of the conic solver need this: a basis in which the features are
    # orthonormal, and contrasts scaled to a criterion of 1 under uniform weights.
    _, triangle = np.linalg.qr(features)
    phi = np.linalg.solve(triangle.T, features.T)
    y = np.linalg.solve(triangle.T, contrasts.T)
    arms, count = phi.shape[1], y.shape[1]
    unit = arms * float(np.max(np.sum(y * y, axis=0)))
    q = cp.Variable(arms // width)
    a = cp.Variable((arms, count))
    u = cp.Variable((arms, count))  # a² ≤ q u, one rotated cone each
    shared = np.kron(np.eye(arms // width), np.ones((width, 1)))
    mass = cp.vec((shared @ q)[:, None] @ np.ones((1, count)), order="F")
    bound = cp.vec(u, order="F")
    cones = cp.SOC(mass + bound, cp.vstack([2 * cp.vec(a, order="F"), mass - bound]), axis=0)
    constraints = [cones, phi @ a == y / np.sqrt(unit), cp.sum(u, axis=0) <= 1]
    return cp.Problem(cp.Minimize(cp.sum(q)), constraints), unit


def conic_optimum(features: Array, contrasts: Array, width: int = 1) -> float:
    """The optimal value, to Clarabel's default accuracy of 1e-8."""
    problem, unit = conic_problem(features, contrasts, width)
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    return unit * float(problem.value)
