"""The mixture of a design for contrasts and a G-design that makes a phase shortest."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dsyevr, dsyevr_lwork, dtrtrs

from bestarm.numerics.geometry import Array, diameter, first_largest, lift
from bestarm.problem import Problem

Length = Callable[[float, float], int]  # of a phase, from the value of a design and its stability

_FEW = 256  # up to this many targets all pairs are formed
_LEAST_MIXTURE = 1e-4  # below this share of the G-design, M would depend on rounding


def shortest_mixture(
    problem: Problem,
    targets: Array,
    contrast: Array,
    spread: Array,
    length: Length,
) -> float:
    """The share of the G-design that makes the phase shortest.

    With M_G = LLᵀ and L⁻¹ M_XY L⁻ᵀ = Q Λ Qᵀ, the mixture's inverse is diagonal in one basis for
    every share, so trying a share costs no factorisation.

    Args:
        problem: the problem.
        targets: features of the active targets.
        contrast: the design for their contrasts.
        spread: the G-design.
        length: the length of the phase, fine enough to compare mixtures by it.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - half a second to import

    span = problem.span
    arms = lift(span.coordinates(problem.source))
    options = lift(span.contrast_coordinates(targets - targets[0]), 0.0)
    lower = _cholesky(arms.T @ (spread[:, None] * arms))
    inner, _ = dtrtrs(lower, (arms * np.sqrt(contrast)[:, None]).T, lower=1)
    eigenvalues, basis = _eigh(inner @ inner.T)
    arms = np.square(dtrtrs(lower, arms.T, lower=1)[0].T @ basis)
    options = dtrtrs(lower, options.T, lower=1)[0].T @ basis
    pairs = _squared_differences(options) if len(options) <= _FEW else None
    eigenvalues = np.maximum(eigenvalues, 0.0)

    def pulls(exponents: Array) -> Array:
        shares = np.exp(exponents)
        inverses = 1 / (np.outer(eigenvalues, 1 - shares) + shares)  # one column per share
        stabilities = (arms @ inverses).max(axis=0) - 1
        if pairs is None:
            values = np.array([diameter(options * np.sqrt(column)) for column in inverses.T])
        else:
            values = (pairs @ inverses).max(axis=0)
        found = zip(values.tolist(), stabilities.tolist(), strict=True)
        return np.array([float(length(value, m)) for value, m in found])

    grid = np.linspace(math.log(_LEAST_MIXTURE), 0.0, 13)
    lengths = pulls(grid)
    best = first_largest(-lengths)
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    refined = minimize_scalar(
        lambda exponent: float(pulls(np.array([exponent]))[0]),
        bounds=around,
        method="bounded",
        options={"xatol": 0.02},
    )
    return math.exp(refined.x if refined.fun <= lengths[best] else grid[best])


def _cholesky(matrix: Array) -> Array:
    """L with LLᵀ = matrix; at such sizes SciPy's checks take longer than the work."""
    lower, info = dpotrf(matrix, lower=1)
    if info:
        raise np.linalg.LinAlgError("The covariance of the G-design is not positive definite.")
    return np.asarray(lower)


def _eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix, as SciPy's `eigh` finds them."""
    room, whole_room, _ = dsyevr_lwork(len(matrix), lower=1)
    values, vectors, *_, info = dsyevr(matrix, lower=1, lwork=int(room), liwork=int(whole_room))
    if info:
        raise np.linalg.LinAlgError("The eigenvalues of a mixture of designs were not found.")
    return values, vectors


def _squared_differences(points: Array) -> Array:
    """(u − v)², coordinate by coordinate, of all pairs of points (rows)."""
    first, second = _pairs(len(points))
    return np.square(points[first] - points[second])


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of all pairs of so many points."""
    first, second = np.triu_indices(count, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second
