"""The one solver: minimise over the simplex  f(p) = max over y in Y of  yᵀ M(p)⁻¹ y.

Few arms and few contrasts matter at the optimum, but which ones is not known beforehand. So a small
problem is solved by the interior-point method; arms whose score exceeds those in it, and contrasts
worse than those in it, are then added from the full sets until the certificate holds over all.

The certificate: for any p and any weights λ on the contrasts, with g = Σ λ_y yᵀM⁻¹y and
w_i = Σ λ_y (φ_iᵀM⁻¹y)², the optimum is at least g² / max_i w_i (Cauchy–Schwarz). An "arm" may be a
block of arms, with several rows φ and the sum of their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs
from threadpoolctl import ThreadpoolController

from bestarm.checks import finite
from bestarm.design.contrasts import Codes, ContrastSet
from bestarm.design.interior import Point, interior_point, second_moment
from bestarm.design.pools import ALL, Arms, Pool
from bestarm.errors import DesignError, InvalidInputError
from bestarm.numerics.geometry import Array, ranked

MOST_ROUNDS = 200
LEAST_MASS = 1e-11  # relative to the heaviest arm


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
class Working:
    """The arms and contrasts of the small problem, with their masses and multipliers."""

    arms: Codes
    q: Array
    codes: Codes
    mu: Array
    base: Codes  # arms that keep M regular; never dropped

    @classmethod
    def of(cls, pool: Pool) -> Working:
        """The same mass on each of the first arms of a pool, and no contrast."""
        arms, base = pool.first()
        none = np.empty(0)
        return cls(arms, np.ones(len(arms)), none.astype(np.int64), none, base)

    def weights(self, pool: Pool) -> tuple[Array, Array]:
        """The distribution over all arms of the pool, and U with UUᵀ = M⁻¹ under it."""
        weights = np.zeros(pool.count)
        weights[self.arms] = self.q / self.q.sum()
        return weights, inverse_factor(pool.rows(self.arms), weights[self.arms])

    def start(self) -> Array:
        """Masses with a little on every arm: off the boundary, where Newton would stall."""
        return np.asarray(0.98 * self.q / self.q.sum() + 0.02 / len(self.q))


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


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread: the matrices are small, and the last bit must not depend on the cores."""
    libraries = _blas()
    if all(each.num_threads == 1 for each in libraries.lib_controllers):  # quicker than to set it
        yield
        return
    with libraries.limit(limits=1, user_api="blas"):
        yield


def minimise(features: Array, contrasts: ContrastSet, tol: float) -> Design:
    """Minimise max_y yᵀM(p)⁻¹y to a certified relative gap of at most `tol`.

    Args:
        features: φ_i, one per row, of full column rank and well scaled (see `geometry.Span`).
        contrasts: the set Y.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    with one_thread():
        found = _even(Arms(features), contrasts, tol)
    if found is None:
        found = minimise_over(Arms(features), contrasts, tol)
    check_gap(found.gap, tol)
    return found


def _even(pool: Arms, contrasts: ContrastSet, tol: float) -> Design | None:
    """The same mass on every arm, if that is certified: of symmetric problems nothing is solved."""
    if pool.count > ALL:
        return None
    weights, factor = Working.of(pool).weights(pool)
    value, worst = contrasts.violators(factor, 0.0, max(2 * len(factor), 16))
    rows = contrasts.rows(worst) @ factor
    share = np.full(len(rows), 1 / len(rows))
    square = float(share @ np.einsum("ij,ij->i", rows, rows)) ** 2
    bound = square / pool.scores(factor, rows, share, np.inf).bound
    gap = max(value / bound - 1, 0.0)
    return Design(weights, value, bound, gap, 0) if gap <= tol else None


def minimise_over(pool: Pool, contrasts: ContrastSet, tol: float) -> Design:
    """Minimise max_y yᵀM(p)⁻¹y; the gap is above `tol` only if no more could be proven.

    Args:
        pool: arms or blocks; the weights are by their codes.
        contrasts: the set Y.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    with one_thread():
        return _minimise(pool, contrasts, tol)


def check_gap(gap: float, tol: float) -> None:
    """Raise unless the gap is the one that was asked for."""
    if not gap <= tol:
        raise DesignError(
            f"The design could not be certified to a relative gap of {tol:g}; "
            f"the gap is {gap:.2g}.",
            field="tol",
            value=tol,
            remedy="Use a larger `tol`, or look for features that differ only by rounding.",
        )


def _minimise(pool: Pool, contrasts: ContrastSet, tol: float) -> Design:
    work = Working.of(pool)
    best_weights, best_value, best_bound = work.q, np.inf, 0.0
    promise = 0.0  # the bound, if no block scores above those that have a code
    iterations = 0
    for _ in range(MOST_ROUNDS):
        weights, factor = work.weights(pool)
        most = max(2 * len(factor), 16)
        level = 0.0
        if work.codes.size:
            rows = contrasts.rows(work.codes) @ factor
            values = np.einsum("ij,ij->i", rows, rows)
            level = float(values.max())
            share = work.mu / work.mu.sum()
        value, found = contrasts.violators(factor, level, most)
        if value < best_value:
            best_value, best_weights = value, weights
        if work.codes.size:
            square = float(share @ values) ** 2
            enough = square * (1 + tol) / best_value
            scores = pool.scores(factor, rows, share, enough)
            best_bound = max(best_bound, square / scores.bound)
            promise = max(promise, square / float(scores.each.max()))
        gap = best_value / best_bound - 1 if best_bound else np.inf
        if gap <= tol or (work.codes.size and scores.cut_short(enough)):
            break
        if work.codes.size:
            if len(work.base) < pool.count:  # otherwise all arms are in, and stay
                trade_arms(work, scores.each, most, tol)
            keep = share > 1e-7 / len(share)
            work.codes, work.mu = work.codes[keep], work.mu[keep]
        new = found[~among(found, work.codes)]
        work.codes = np.concatenate([work.codes, new])
        work.mu = np.concatenate([work.mu, np.zeros(len(new))])
        mu = work.mu + (0.02 * work.mu.mean() or 1.0)
        away = best_value / promise - 1 if promise else np.inf
        inner = max(tol / 4, min(0.05, away / 10))
        point = interior_point(
            pool.rows(work.arms), contrasts.rows(work.codes), Point(work.start(), mu, 0), inner
        )
        # An optimum may need fewer arms than span the features; M must still stay regular.
        work.q, work.mu = np.maximum(point.q, LEAST_MASS * point.q.max()), point.mu
        iterations += point.steps
    return Design(best_weights, best_value, best_bound, max(gap, 0.0), iterations)


def inverse_factor(features: Array, weights: Array) -> Array:
    """U with UUᵀ = M(p)⁻¹."""
    lower = np.linalg.cholesky(second_moment(features, weights))
    inverse, _ = dtrtrs(lower.T, np.eye(len(lower)), trans=1)
    return np.asarray(inverse.T)


def among(some: Codes, codes: Codes) -> NDArray[np.bool_]:
    """Which of some codes are among few others; NumPy's takes ten times as long."""
    return np.asarray((some[:, None] == codes).any(axis=1))


def trade_arms(work: Working, scores: Array, most: int, tol: float) -> None:
    """Drop arms with neither mass nor a high score; add arms that score above all in the set."""
    inside = scores[work.arms]
    best = float(inside.max())
    keep = (work.q > 1e-6 * work.q.max()) | (inside > 0.7 * best) | among(work.arms, work.base)
    outside = scores.copy()
    outside[work.arms] = 0.0
    order = ranked(outside)[: max(most, 32)]
    added = order[outside[order] > best * (1 + tol / 10)]
    work.arms = np.concatenate([work.arms[keep], added])
    work.q = np.concatenate([work.q[keep], np.full(len(added), 0.01 * work.q.mean())])
