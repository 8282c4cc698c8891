"""The one solver: minimise over the simplex  f(p) = max over y in Y of  yᵀ M(p)⁻¹ y.

Few arms and few contrasts matter at the optimum, but which ones is not known beforehand. So a small
problem is solved by the interior-point method; arms whose score exceeds those in it, and contrasts
worse than those in it, are then added from the full sets until the certificate holds over all.

The certificate: for any p and any weights λ on the contrasts, with g = Σ λ_y yᵀM⁻¹y and
w_i = Σ λ_y (φ_iᵀM⁻¹y)², the optimum is at least g² / max_i w_i (Cauchy–Schwarz).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from bestarm.checks import finite
from bestarm.design.contrasts import Codes, ContrastSet
from bestarm.design.interior import Point, interior_point
from bestarm.errors import DesignError, InvalidInputError
from bestarm.geometry import Array, first_largest, ranked

_MOST_ROUNDS = 200
_LEAST_MASS = 1e-11  # relative to the heaviest arm
_ALL_ARMS = 256  # up to this many arms the interior-point method takes all of them


@dataclass(frozen=True, eq=False)
class Design:
    """A distribution over source arms, with a proof of its quality.

    Attributes:
        weights: the distribution.
        value: the criterion at `weights`.
        lower_bound: a bound on the criterion of every design.
        gap: value / lower_bound − 1.
        iterations: interior-point steps taken.
    """

    weights: Array
    value: float
    lower_bound: float
    gap: float
    iterations: int

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False


@dataclass
class _Working:
    """The arms and contrasts of the small problem, with their masses and multipliers."""

    arms: NDArray[np.int64]
    q: Array
    codes: Codes
    mu: Array
    base: NDArray[np.int64]  # arms that keep M regular; never dropped


def check_tolerance(tol: float) -> None:
    """Raise unless tol is a relative gap that double precision can certify."""
    if not finite(tol, "tol") >= 1e-9:
        raise InvalidInputError(
            f"`tol` must be a relative gap of at least 1e-9; got {tol!r}.",
            field="tol",
            value=tol,
            remedy="The default, 1e-3, is ample for sampling.",
        )


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def minimise(features: Array, contrasts: ContrastSet, tol: float) -> Design:
    """Minimise max_y yᵀM(p)⁻¹y to a certified relative gap of at most `tol`.

    Args:
        features: φ_i, one per row, of full column rank and well scaled (see `geometry.Span`).
        contrasts: the set Y.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    # One thread: the matrices are small, and the last bit must not depend on the number of cores.
    libraries = _blas()
    if all(each.num_threads == 1 for each in libraries.lib_controllers):  # quicker than to set it
        return _minimise(features, contrasts, tol)
    with libraries.limit(limits=1, user_api="blas"):
        return _minimise(features, contrasts, tol)


def _minimise(features: Array, contrasts: ContrastSet, tol: float) -> Design:
    work = _first_working_set(features)
    most = max(2 * features.shape[1], 16)
    best_weights, best_value, best_bound = np.empty(0), np.inf, 0.0
    iterations = 0
    for _ in range(_MOST_ROUNDS):
        weights = np.zeros(len(features))
        weights[work.arms] = work.q / work.q.sum()
        factor = _inverse_factor(features[work.arms], weights[work.arms])
        level = 0.0
        if work.codes.size:
            rows = contrasts.rows(work.codes) @ factor
            values = np.einsum("ij,ij->i", rows, rows)
            level = float(values.max())
            share = work.mu / work.mu.sum()
            scores = np.square((features @ factor) @ rows.T) @ share
            best_bound = max(best_bound, float(share @ values) ** 2 / float(scores.max()))
        value, found = contrasts.violators(factor, level, most)
        if value < best_value:
            best_value, best_weights = value, weights
        gap = best_value / best_bound - 1 if best_bound else np.inf
        if gap <= tol:
            return Design(best_weights, best_value, best_bound, max(gap, 0.0), iterations)
        if work.codes.size:
            _trade_arms(work, scores, most, tol)
            keep = share > 1e-7 / len(share)
            work.codes, work.mu = work.codes[keep], work.mu[keep]
        new = found[~np.isin(found, work.codes)]
        work.codes = np.concatenate([work.codes, new])
        work.mu = np.concatenate([work.mu, np.zeros(len(new))])
        # A little mass on everything takes the start off the boundary, where Newton would stall.
        mu = work.mu + (0.02 * work.mu.mean() or 1.0)
        q = 0.98 * work.q / work.q.sum() + 0.02 / len(work.q)
        inner = max(tol / 4, min(0.05, gap / 10))
        point = interior_point(
            features[work.arms], contrasts.rows(work.codes), Point(q, mu, 0), inner
        )
        # An optimum may need fewer arms than span the features; M must still stay regular.
        work.q, work.mu = np.maximum(point.q, _LEAST_MASS * point.q.max()), point.mu
        iterations += point.steps
    raise DesignError(
        f"The design could not be certified to a relative gap of {tol:g}; the gap is {gap:.2g}.",
        field="tol",
        value=tol,
        remedy="Use a larger `tol`, or look for features that differ only by rounding.",
    )


def _first_working_set(features: Array) -> _Working:
    count, rank = features.shape
    if count <= _ALL_ARMS:
        arms = base = np.arange(count)
    else:
        # Pivoting picks arms that span well; long features are likely support of the optimum.
        base = _pivots(features)
        lengths = np.einsum("ij,ij->i", features, features)
        arms = np.union1d(base, ranked(lengths)[: 4 * rank])
    none = np.empty(0)
    return _Working(arms, np.ones(len(arms)), none.astype(np.int64), none, base)


def _pivots(features: Array) -> NDArray[np.int64]:
    """Arms that span the features: each the farthest from the span of those before it.

    The pivots of LAPACK's QR, except that ties are broken by index and not by rounding.
    """
    left = features.copy()
    chosen: list[int] = []
    for _ in range(features.shape[1]):
        squares = np.einsum("ij,ij->i", left, left)
        squares[chosen] = 0.0
        chosen.append(first_largest(squares))
        direction = left[chosen[-1]] / np.sqrt(squares[chosen[-1]])
        left -= np.outer(left @ direction, direction)
    return np.array(chosen)


def _inverse_factor(features: Array, weights: Array) -> Array:
    """U with UUᵀ = M(p)⁻¹."""
    moment = features.T @ (weights[:, None] * features)
    lower = np.linalg.cholesky(moment)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True, check_finite=False)
    return np.asarray(inverse.T)


def _trade_arms(work: _Working, scores: Array, most: int, tol: float) -> None:
    """Drop arms with neither mass nor a high score; add arms that score above all in the set."""
    inside = scores[work.arms]
    best = float(inside.max())
    keep = (work.q > 1e-6 * work.q.max()) | (inside > 0.7 * best) | np.isin(work.arms, work.base)
    outside = scores.copy()
    outside[work.arms] = 0.0
    order = ranked(outside)[: max(most, 32)]
    added = order[outside[order] > best * (1 + tol / 10)]
    work.arms = np.concatenate([work.arms[keep], added])
    work.q = np.concatenate([work.q[keep], np.full(len(added), 0.01 * work.q.mean())])
