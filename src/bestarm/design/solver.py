"""The one solver: minimise over the simplex  f(p) = max over y in Y of  yᵀ M(p)⁻¹ y.

Few arms and few contrasts matter at the optimum, but which ones is not known beforehand. So the
interior-point method of `kernels` solves the problem of a working set; arms whose score exceeds
those in it, and contrasts worse than those in it, are then added from the full sets until the
certificate holds over all.

The certificate: for any p and any weights λ on the contrasts, with g = Σ λ_y yᵀM⁻¹y and
w_i = Σ λ_y (φ_iᵀM⁻¹y)², the optimum is at least g² / max_i w_i (Cauchy–Schwarz). An "arm" may be a
block of arms, with several rows φ and the sum of their scores: see `blocks`.

The solver only ever asks a set for the contrasts whose value exceeds a level, so all H² pairwise
differences of H targets are never formed: the worst is a diameter, found by matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs
from threadpoolctl import ThreadpoolController

from bestarm.checks import finite
from bestarm.design.kernels import interior_point, worst_pairs
from bestarm.errors import DesignError, InvalidInputError
from bestarm.numerics.geometry import TIE, Array, farthest, first_largest, ranked

Codes = NDArray[np.int64]

SMALL_POOL = 256  # up to this many arms, or blocks, all are in the working set
MOST_ROUNDS = 200
LEAST_MASS = 1e-11  # relative to the heaviest arm
_FEW_POINTS = 256  # up to which all distances are computed one by one


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


class ContrastSet(Protocol):
    """A finite set of vectors y, each with a whole number as its code."""

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """The largest ‖y‖² := |factorᵀ y|² in the set, and the contrasts that exceed `level`.

        Up to `most` codes of contrasts clearly above `level` are returned, the worst first and
        ties by code. The largest value is exact if it exceeds `level`; otherwise it is `level`.
        """
        ...

    def rows(self, codes: Codes) -> Array:
        """The contrasts with these codes, one per row."""
        ...


class ListedContrasts:
    """The rows of a table."""

    def __init__(self, vectors: Array) -> None:
        self._vectors = vectors

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """See `ContrastSet.violators`."""
        whitened = self._vectors @ factor
        values = np.einsum("ij,ij->i", whitened, whitened)
        above = np.flatnonzero(values > level * (1 + TIE))
        order = above[ranked(values[above])[:most]]
        return max(level, float(values.max())), order.astype(np.int64)

    def rows(self, codes: Codes) -> Array:
        """See `ContrastSet.rows`."""
        return np.asarray(self._vectors[codes])


class PairwiseContrasts:
    """All differences of two rows of a table of H points; the pair (i, j) has code i·H + j."""

    def __init__(self, points: Array) -> None:
        self._points = points - points.mean(axis=0)

    def violators(self, factor: Array, level: float, most: int) -> tuple[float, Codes]:
        """See `ContrastSet.violators`."""
        whitened = self._points @ factor
        if len(whitened) <= _FEW_POINTS:
            return worst_pairs(whitened, level, most)
        norms = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        # ‖u − v‖ ≤ ‖u‖ + ‖v‖: a point this short cannot be an end of a pair above the level.
        near = np.flatnonzero(norms + norms.max() >= np.sqrt(level) * (1 - 1e-12))
        index, distance = farthest(whitened[near])
        above = np.flatnonzero(distance > level * (1 + TIE))
        order = above[ranked(distance[above])]
        first, second = near[order], near[index[order]]
        codes = np.minimum(first, second) * len(norms) + np.maximum(first, second)
        _, kept = np.unique(codes, return_index=True)  # both ends may name the same pair
        codes = codes[np.sort(kept)[:most]].astype(np.int64)
        return max(level, float(distance.max(initial=0.0))), codes

    def rows(self, codes: Codes) -> Array:
        """See `ContrastSet.rows`."""
        first, second = np.divmod(codes, len(self._points))
        return np.asarray(self._points[first] - self._points[second])


class Scores(NamedTuple):
    """The score of each code, and a bound on the score of every arm or block there is."""

    each: Array
    bound: float

    def cut_short(self, enough: float) -> bool:
        """Whether no code scores above `enough`, and yet this could not be shown for all."""
        return float(self.each.max()) <= enough < self.bound


class Pool(Protocol):
    """Arms, or blocks of arms; each has a whole number as its code, and rows of features φ."""

    @property
    def count(self) -> int:
        """How many codes there are so far."""
        ...

    def first(self) -> tuple[Codes, Codes]:
        """The codes to begin with, and those that keep M regular and are never dropped."""
        ...

    def rows(self, codes: Codes) -> Array:
        """The rows φ of these codes, the same number for each."""
        ...

    def scores(self, factor: Array, rows: Array, share: Array, enough: float) -> Scores:
        """The score Σ_φ Σ_y share_y ((φ·factor)·row_y)² of each code, and a bound for all.

        Blocks that score high may get a code. The bound holds for blocks without a code too; it may
        be +∞ if some score is above `enough`.
        """
        ...


class Arms:
    """Single arms: one row of features each."""

    def __init__(self, features: Array) -> None:
        self._features = features

    @property
    def count(self) -> int:
        """See `Pool.count`."""
        return len(self._features)

    def first(self) -> tuple[Codes, Codes]:
        """See `Pool.first`."""
        count, rank = self._features.shape
        if count <= SMALL_POOL:
            return np.arange(count), np.arange(count)
        # Pivoting picks arms that span well; long features are likely support of the optimum.
        base = pivots(self._features)
        lengths = np.einsum("ij,ij->i", self._features, self._features)
        return np.union1d(base, ranked(lengths)[: 4 * rank]), base

    def rows(self, codes: Codes) -> Array:
        """See `Pool.rows`."""
        return np.asarray(self._features[codes])

    def scores(
        self,
        factor: Array,
        rows: Array,
        share: Array,
        enough: float,  # noqa: ARG002 - all arms have codes
    ) -> Scores:
        """See `Pool.scores`."""
        each = np.square((self._features @ factor) @ rows.T) @ share
        return Scores(each, float(each.max()))


def pivots(features: Array) -> Codes:
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


def inverse_factor(features: Array, weights: Array) -> Array:
    """U with UUᵀ = M(p)⁻¹."""
    lower = np.linalg.cholesky(second_moment(features, weights))
    inverse, _ = dtrtrs(lower.T, np.eye(len(lower)), trans=1)
    return np.asarray(inverse.T)


@dataclass
class WorkingSet:
    """The arms and contrasts of the small problem, with their masses and multipliers."""

    arms: Codes
    q: Array
    codes: Codes
    mu: Array
    base: Codes  # arms that keep M regular; never dropped

    @classmethod
    def of(cls, pool: Pool) -> WorkingSet:
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
        found = _uniform(Arms(features), contrasts, tol)
    if found is None:
        found = minimise_over(Arms(features), contrasts, tol)
    check_gap(found.gap, tol)
    return found


def _uniform(pool: Arms, contrasts: ContrastSet, tol: float) -> Design | None:
    """The same mass on every arm, if that is certified: of symmetric problems nothing is solved."""
    if pool.count > SMALL_POOL:
        return None
    weights, factor = WorkingSet.of(pool).weights(pool)
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
    work = WorkingSet.of(pool)
    best_weights, best_value, best_bound = work.q, np.inf, 0.0
    tentative = 0.0  # the lower bound, if no block scores above those that have a code
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
            tentative = max(tentative, square / float(scores.each.max()))
        gap = best_value / best_bound - 1 if best_bound else np.inf
        if gap <= tol or (work.codes.size and scores.cut_short(enough)):
            break
        if work.codes.size:
            if len(work.base) < pool.count:  # otherwise all arms are in, and stay
                exchange_arms(work, scores.each, most, tol)
            keep = share > 1e-7 / len(share)
            work.codes, work.mu = work.codes[keep], work.mu[keep]
        new = found[~among(found, work.codes)]
        work.codes = np.concatenate([work.codes, new])
        work.mu = np.concatenate([work.mu, np.zeros(len(new))])
        mu = work.mu + (0.02 * work.mu.mean() or 1.0)
        away = best_value / tentative - 1 if tentative else np.inf
        inner = max(tol / 4, min(0.05, away / 10))
        features = np.ascontiguousarray(pool.rows(work.arms))
        listed = np.ascontiguousarray(contrasts.rows(work.codes))
        q, work.mu, steps, _ = interior_point(features, listed, (work.start(), mu), inner)
        # An optimum may need fewer arms than span the features; M must still stay regular.
        work.q = np.maximum(q, LEAST_MASS * q.max())
        iterations += steps
    return Design(best_weights, best_value, best_bound, max(gap, 0.0), iterations)


def among(some: Codes, codes: Codes) -> NDArray[np.bool_]:
    """Which of some codes are among few others; NumPy's takes ten times as long."""
    return np.asarray((some[:, None] == codes).any(axis=1))


def exchange_arms(work: WorkingSet, scores: Array, most: int, tol: float) -> None:
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
