"""The one solver: minimise over the simplex  f(p) = max over y in Y of  yᵀ M(p)⁻¹ y.

Here p_i is the share of pulls of arm i, φ_i its regressor, M(p) = Σ p_i φ_i φ_iᵀ, and yᵀM(p)⁻¹y the
variance of the estimated contrast y, per pull. `criteria` and `anchored` pose such problems.

Few arms and few contrasts matter at the optimum, but which ones is not known beforehand. So
`interior_points` solves the problem of a working set; arms whose score exceeds those in it, and
contrasts worse than those in it, are then added from the full sets until the certificate holds over
all.

The certificate: for any p and any weights λ on the contrasts, with g = Σ λ_y yᵀM⁻¹y and
w_i = Σ λ_y (φ_iᵀM⁻¹y)², the optimum is at least g² / max_i w_i (Cauchy–Schwarz).

The solver only ever asks a set for the contrasts whose value exceeds a level, so all H² pairwise
differences of H targets are never formed: the worst is a diameter, found by matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from bestarm.checks import finite
from bestarm.design.interior_point import interior_points
from bestarm.errors import DesignError, InvalidInputError
from bestarm.numerics.blas import one_thread
from bestarm.numerics.geometry import TIE, Array, Indices, farthest, first_largest, ranked

Codes = NDArray[np.int64]  # of contrasts: see `ContrastSet`

SMALL_POOL = 256  # up to this many arms all are in the working set
MOST_ROUNDS = 200
LEAST_MASS = 1e-11  # relative to the heaviest arm
_DROPPED = 1e-3  # mass, relative to the heaviest arm, at which an arm may leave the working set, …
_NEAR = 0.95  # … unless its score is above this part of the best
_DROPPED_CONTRAST = 1e-2  # multiplier, relative to the mean, at which a contrast leaves


@dataclass(frozen=True, eq=False)
class Design:
    """A distribution over source arms, with a proof of its quality.

    Attributes:
        weights: p; (arms,).
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

        With factor = U, where UUᵀ = M(p)⁻¹, ‖y‖² is yᵀM(p)⁻¹y. Up to `most` codes of contrasts
        clearly above `level` are returned, the worst first and ties by code. The largest value is
        exact if it exceeds `level`; otherwise it is `level`.
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


def pivots(features: Array) -> Indices:
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
    """M(q) = Σ q_i φ_i φ_iᵀ."""
    return np.asarray(features.T @ (q[:, None] * features))


def inverse_factor(features: Array, weights: Array) -> Array:
    """U with UUᵀ = M(p)⁻¹."""
    lower = np.linalg.cholesky(second_moment(features, weights))
    inverse, _ = dtrtrs(lower.T, np.eye(len(lower)), trans=1)
    return np.asarray(inverse.T)


def check_tolerance(tol: float) -> None:
    """Raise unless tol is a relative gap that double precision can certify."""
    if not finite(tol, "tol") >= 1e-9:
        raise InvalidInputError(
            f"`tol` must be a relative gap of at least 1e-9; got {tol!r}.",
            field="tol",
            value=tol,
            remedy="The default, 1e-3, is ample for sampling.",
        )


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


def minimise(
    features: Array, contrasts: ContrastSet, tol: float, start: Array | None = None
) -> Design:
    """Minimise max_y yᵀM(p)⁻¹y to a certified relative gap of at most `tol`.

    Args:
        features: φ_i, one per row, of full column rank and well scaled (see `geometry.Span`).
        contrasts: the set Y.
        tol: the relative gap to certify.
        start: the weights of a similar problem, to begin with.
    """
    check_tolerance(tol)
    with one_thread():
        found = _minimise(features, contrasts, tol, start)
    check_gap(found.gap, tol)
    return found


def _minimise(features: Array, contrasts: ContrastSet, tol: float, start: Array | None) -> Design:
    """Minimise over working sets of arms and contrasts, until the certificate holds over all."""
    work = WorkingSet(features, start)
    most = max(2 * features.shape[1], 16)
    best_weights, best_value, best_bound = np.empty(0), np.inf, 0.0
    iterations = 0
    for _ in range(MOST_ROUNDS):
        # The value of the current weights, by the worst contrast of the full set.
        weights, factor = work.weights()
        rows = contrasts.rows(work.codes) @ factor
        values = np.einsum("ij,ij->i", rows, rows)
        value, found = contrasts.violators(factor, float(values.max(initial=0.0)), most)
        if not work.codes.size:
            work.add_contrasts(found)
            rows = contrasts.rows(found) @ factor
            values = np.einsum("ij,ij->i", rows, rows)
        if value < best_value:
            best_value, best_weights = value, weights
        # A bound on the optimum, by the scores of all arms.
        share = work.mu / work.mu.sum()
        scores = np.square((features @ factor) @ rows.T) @ share
        bound = float(share @ values) ** 2 / float(scores.max())
        grown = bound > best_bound * (1 + tol)
        best_bound = max(best_bound, bound)
        gap = best_value / best_bound - 1
        if gap <= tol:
            break
        # Neither set is large enough yet, or the small problem not solved well enough.
        work.exchange_arms(scores, max(most, 32), tol)
        if grown:
            work.drop_contrasts()
        work.add_contrasts(found)
        inner = max(tol / 4, min(0.05, gap / 10))
        iterations += work.solve(contrasts, inner)
    return Design(best_weights, best_value, best_bound, max(gap, 0.0), iterations)


class WorkingSet:
    """The arms and contrasts of the small problem, with their masses and multipliers.

    Attributes:
        arms: the numbers of the arms in the set.
        q: their masses: p of any scale.
        codes: the contrasts in the set.
        mu: their multipliers: the λ of the certificate, of any scale.

    Args:
        features: φ of all arms; (arms, rank).
        start: weights of all arms to begin with, or None.
    """

    def __init__(self, features: Array, start: Array | None) -> None:
        self._features = features
        arms, rank = features.shape
        self._all = arms <= SMALL_POOL
        self._base = np.arange(arms) if self._all else pivots(features)  # keep M regular; they stay
        if self._all:
            self.arms = self._base
        elif start is not None:
            self.arms = np.union1d(self._base, np.flatnonzero(start > _DROPPED * start.max()))
        else:  # long features are likely support of the optimum
            lengths = np.einsum("ij,ij->i", features, features)
            self.arms = np.union1d(self._base, ranked(lengths)[: 4 * rank])
        self.q = np.ones(len(self.arms)) if start is None else start[self.arms]
        self._keep_regular()
        self.codes, self.mu = np.empty(0, dtype=np.int64), np.empty(0)

    def weights(self) -> tuple[Array, Array]:
        """The distribution over all arms, and U with UUᵀ = M⁻¹ under it."""
        weights = np.zeros(len(self._features))
        weights[self.arms] = self.q / self.q.sum()
        return weights, inverse_factor(self._features[self.arms], weights[self.arms])

    def exchange_arms(self, scores: Array, most: int, tol: float) -> None:
        """Drop arms with neither mass nor a high score; add arms that score above all in the set.

        Args:
            scores: of all arms.
            most: how many to add at most.
            tol: the relative gap to certify.
        """
        if self._all:
            return
        inside = scores[self.arms]
        best = float(inside.max())
        keep = (self.q > _DROPPED * self.q.max()) | (inside > _NEAR * best)
        keep |= _among(self.arms, self._base)
        outside = scores.copy()
        outside[self.arms] = 0.0
        order = ranked(outside)[:most]
        added = order[outside[order] > best * (1 + tol / 10)]
        self.arms = np.concatenate([self.arms[keep], added])
        self.q = np.concatenate([self.q[keep], np.full(len(added), 0.01 * self.q.mean())])

    def drop_contrasts(self) -> None:
        """Drop contrasts with hardly a multiplier."""
        keep = self.mu > _DROPPED_CONTRAST * self.mu.mean()
        self.codes, self.mu = self.codes[keep], self.mu[keep]

    def add_contrasts(self, codes: Codes) -> None:
        """Add those of these contrasts that are not in the set."""
        new = codes[~_among(codes, self.codes)]
        least = 0.02 * self.mu.mean() if len(self.mu) else 1.0
        self.codes = np.concatenate([self.codes, new])
        self.mu = np.concatenate([self.mu, np.full(len(new), least)])

    def solve(self, contrasts: ContrastSet, tol: float) -> int:
        """Solve the small problem; the steps taken."""
        features, rows = self._features[self.arms], contrasts.rows(self.codes)
        found = interior_points(features[None], rows[None], tol, self.q[None], self.mu[None])
        self.q, self.mu = found.masses[0], found.multipliers[0]
        self._keep_regular()
        return int(found.steps[0])

    def _keep_regular(self) -> None:
        """An optimum may need fewer arms than span the features; M must still stay regular."""
        self.q = np.maximum(self.q, LEAST_MASS * self.q.max())


def _among(some: Indices, others: Indices) -> NDArray[np.bool_]:
    """Which of some numbers are among few others; NumPy's `isin` takes ten times as long."""
    return np.asarray((some[:, None] == others).any(axis=1))
