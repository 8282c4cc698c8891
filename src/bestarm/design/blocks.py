"""Designs over blocks of k different arms that share one baseline.

    M(q) = Σ_B q_B A_B,   A_B = Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ

It is the problem of `solver` with a block for an arm: A_B = Σ φφᵀ with k − 1 rows φ, and the score
of a block is tr(A_B G), G = Σ λ_y M⁻¹yyᵀM⁻¹. With v_i = G^½ x_i that is the dispersion of the
block's v, Σ_{i in B} ‖v_i − v̄_B‖², so the blocks that a design lacks are those whose points lie far
apart. There are too many blocks to list; they get a code when they are found.

The dispersion is 1/k times the sum of squared distances over the pairs of the block. For k = 2 the
farthest pair is found by matrix products. For larger k this is the problem of maximum dispersion,
which is hard in general: good blocks come from growing and swapping, the proof from branch and
bound (`kernels.branch_and_bound`).

The design of largest det M(q) comes from Newton's method on the central path of

    minimise  Σ q_i − log det M(q)  subject to  q ≥ 0

With s_i = tr(A_i M⁻¹) the score of a block with matrix A_i, the gradient is 1 − s_i. Under weights
p that sum to 1, Σ p_i s_i = r, the rank, so the highest score is never below r; it is r at the
optimum, where no score exceeds 1 and Σq = r (Kiefer and Wolfowitz).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from bestarm.checks import whole
from bestarm.design.criteria import check_targets, regression_features, target_contrasts
from bestarm.design.kernels import branch_and_bound, interior_point, step_length
from bestarm.design.solver import (
    LEAST_MASS,
    MOST_ROUNDS,
    SMALL_POOL,
    Codes,
    ContrastSet,
    Design,
    PairwiseContrasts,
    check_gap,
    check_tolerance,
    pivots,
)
from bestarm.numerics.blas import one_thread
from bestarm.numerics.geometry import TIE, Array, Span, farthest, lift, ranked
from bestarm.problem import as_features
from bestarm.records import Blocks

_NEGLIGIBLE = 1e-3  # times `tol`: mass, relative to the heaviest block, that may be left out
_REGULAR = 1e-9  # least scale that M must keep, relative to its largest
_MOST_SWAPS = 50
_ROWS = 512  # blocks whose distances to all points are computed at once
_CENTERINGS = 200
_MOST_BRANCHES = 2_000_000  # of the search, each looking at all points
_MOST_FOUND = 128
_MOST_STEPS = 100
_CENTER = 0.2  # what is aimed at: this part of the mean product of masses and slacks


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


@dataclass(frozen=True, eq=False)
class BlockDesign(Design):
    """A distribution over blocks of different arms, with a proof of its quality.

    `weights` has one probability per block. `value` is per round, in which all arms of a block are
    pulled, and `lower_bound` holds for designs over all blocks of this size, listed here or not.

    Attributes:
        blocks: one block per row, its arms in ascending order.
    """

    blocks: Blocks

    def __post_init__(self) -> None:
        super().__post_init__()
        self.blocks.flags.writeable = False


def blocked_xy(source: object, target: object, *, size: int, tol: float = 1e-3) -> BlockDesign:
    """Minimise max ‖u − u′‖² under M(q)⁻¹ over all pairs of targets, for blocks of `size` arms.

    Every round pulls a block of different arms that share one baseline, whatever it is;
    M(q) = Σ_B q_B Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ. After n rounds the difference of two targets
    is known with a variance of at most value/n times that of a reward within its block.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the options; the contrasts are all differences of its rows.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    points, options = as_features(source, "source"), as_features(target, "target")
    check_targets(points, options)
    span, coordinates = _block_features(points)
    check_size(size, len(points))
    rows = target_contrasts(span, options, "centered")[:, 1:]
    found = minimise_blocks(coordinates, PairwiseContrasts(rows), size, tol)
    check_gap(found.gap, tol)
    return found


def blocked_g(source: object, *, size: int, tol: float = 1e-3) -> BlockDesign:
    """Minimise the largest tr(A_B M(q)⁻¹) of a block B; the optimum is the rank of the differences.

    A_B = Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ and M(q) = Σ_B q_B A_B. It is what `centered_g` is for
    single pulls: the design that no round can throw far off, because the weights w_i of a round in
    the least squares estimate of y·θ satisfy Σ_i w_i² ≤ tr(A_B M⁻¹) ‖y‖². It also has the largest
    determinant, and ‖x_i − x_j‖² ≤ 2·rank under M⁻¹ for any two arms. (For the least value of the
    worst pair of arms, use `blocked_xy(source, source, …)`.)

    Args:
        source: features of the arms that can be pulled, one row per arm.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify.

    Reference: Kiefer and Wolfowitz (1960).
    """
    check_tolerance(tol)
    points = as_features(source, "source")
    _, coordinates = _block_features(points)
    check_size(size, len(points))
    found = d_optimal_blocks(coordinates, size, tol)
    check_gap(found.gap, tol)
    return found


def check_size(size: int, arms: int) -> None:
    """Raise unless a block of this size has at least two arms and no arm twice."""
    whole(size, "size", least=2, below=arms + 1)


def _block_features(points: Array) -> tuple[Span, Array]:
    """The span of differences, and the arms' coordinates in it."""
    span, lifted = regression_features(points, "centered")
    return span, lifted[:, 1:]


def minimise_blocks(points: Array, contrasts: ContrastSet, size: int, tol: float) -> BlockDesign:
    """Minimise max_y yᵀM(q)⁻¹y over distributions q on all blocks of `size` different arms.

    The gap is above `tol` only where no more can be proven: see `bound_dispersion`.

    Args:
        points: features of the arms (rows), well scaled; only differences matter, and these have
            full column rank.
        contrasts: the set Y.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify.
    """
    pool = BlockPool(points - points.mean(axis=0), size)
    found = minimise_over(pool, contrasts, tol)
    with one_thread():
        return _pruned(pool, contrasts, found, tol)


def d_optimal_blocks(points: Array, size: int, tol: float) -> BlockDesign:
    """Minimise the largest tr(A_B M(q)⁻¹) of a block B of `size` arms: see `maximise_determinant`.

    Args:
        points: as for `minimise_blocks`.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify; it is above only as for `minimise_blocks`.
    """
    check_tolerance(tol)
    with one_thread():
        pool = BlockPool(points - points.mean(axis=0), size)
        found = maximise_determinant(pool, tol)
    kept = np.flatnonzero(found.weights)
    return BlockDesign(
        found.weights[kept],
        found.value,
        found.lower_bound,
        found.gap,
        found.iterations,
        pool.blocks[kept],
    )


def _pruned(pool: BlockPool, contrasts: ContrastSet, found: Design, tol: float) -> BlockDesign:
    """The design without blocks of negligible mass, unless they are needed after all."""
    weights, value, bound = found.weights, found.value, found.lower_bound
    kept = np.flatnonzero(weights > _NEGLIGIBLE * tol * weights.max())
    share = weights[kept] / weights[kept].sum()
    rows = pool.rows(kept)
    scales = np.linalg.eigvalsh(second_moment(rows, share))
    if scales[0] > _REGULAR * scales[-1]:
        shorter, _ = contrasts.violators(inverse_factor(rows, share), 0.0, 0)
        if shorter <= bound * (1 + max(tol, found.gap)):
            gap = max(shorter / bound - 1, 0.0)
            return BlockDesign(share, shorter, bound, gap, found.iterations, pool.blocks[kept])
    kept = np.flatnonzero(weights)
    return BlockDesign(weights[kept], value, bound, found.gap, found.iterations, pool.blocks[kept])


def maximise_determinant(pool: Pool, tol: float) -> Design:
    """Minimise the highest score tr(A_i M(q)⁻¹), to a certified relative gap of at most `tol`."""
    work = WorkingSet.of(pool)
    best_weights, best_value, iterations = work.q, np.inf, 0
    for _ in range(MOST_ROUNDS):
        weights, factor = work.weights(pool)
        rank = len(factor)
        enough = rank * (1 + tol)
        scores = pool.scores(factor, np.eye(rank), np.ones(rank), enough)
        if scores.bound < best_value:
            best_value, best_weights = scores.bound, weights
        if best_value <= enough or scores.cut_short(enough):
            break
        away = float(scores.each.max()) / rank - 1
        exchange_arms(work, scores.each, max(2 * rank, 16), tol)
        inner = max(tol / 4, min(0.05, away / 10))
        work.q, steps = _central_path(pool.rows(work.arms), rank * work.start(), inner)
        work.q = np.maximum(work.q, LEAST_MASS * work.q.max())
        iterations += steps
    gap = max(best_value / rank - 1, 0.0)
    return Design(best_weights, best_value, float(rank), gap, iterations)


def _central_path(features: Array, q: Array, tol: float) -> tuple[Array, int]:
    """Improve masses until no score, under weights that sum to 1, exceeds rank·(1 + tol)."""
    count, rank = len(q), features.shape[1]
    slack = np.ones(count)
    for step in range(_MOST_STEPS):
        lower, failed = dpotrf(second_moment(features, q), lower=1)
        if failed:
            break
        a, _ = dtrtrs(lower, features.T, lower=1)
        products = np.square(a.T @ a)
        scores = add_rows(np.square(a).T, count).sum(axis=1)
        if float(q.sum() * scores.max()) <= rank * (1 + tol):
            return q, step
        hessian = add_rows(add_rows(products, count).T, count)
        hessian.flat[:: count + 1] += slack / q
        factor, failed = dpotrf(hessian, lower=1)
        if failed:
            break
        target = _CENTER * float(q @ slack) / count
        move, _ = dpotrs(factor, scores - 1 + target / q, lower=1)
        turn = (target - slack * move) / q - slack
        q = q + step_length(q, move) * move
        slack = slack + step_length(slack, turn) * turn
    return q, _MOST_STEPS


class BlockPool:
    """All blocks of `size` arms. Those found so far have codes.

    Args:
        points: features of the arms (rows), whose differences have full column rank.
        size: arms in a block.
    """

    def __init__(self, points: Array, size: int) -> None:
        self._points = points
        self._size = size
        self._code: dict[bytes, int] = {}
        self.blocks: Blocks = np.empty((0, size), dtype=np.int64)
        self._complete = comb(len(points), size) <= SMALL_POOL
        # Row j is the mean of the first j arms less the next, of length 1: φφᵀ sum to A_B.
        helmert = np.tril(np.ones((size, size)))[:-1]
        step = np.arange(1, size)
        helmert[step - 1, step] = -step
        self._helmert = helmert / np.sqrt(step * (step + 1))[:, None]

    @property
    def count(self) -> int:
        """See `Pool.count`."""
        return len(self.blocks)

    def add(self, blocks: Blocks) -> Codes:
        """The codes of these blocks, which get one if they have none."""
        new = []
        codes = np.empty(len(blocks), dtype=np.int64)
        for place, block in enumerate(blocks):
            key = block.tobytes()
            if key not in self._code:
                self._code[key] = len(self._code)
                new.append(block)
            codes[place] = self._code[key]
        if new:
            self.blocks = np.vstack([self.blocks, new])
        return codes

    def first(self) -> tuple[Codes, Codes]:
        """See `Pool.first`."""
        if self._complete:
            every = combinations(range(len(self._points)), self._size)
            codes = self.add(np.array(list(every), dtype=np.int64))
            return codes, codes
        base = self.add(self._chain())
        far = dispersed_blocks(self._points, self._size)
        order = ranked(dispersion(self._points, far))[: max(4 * self._points.shape[1], SMALL_POOL)]
        return np.union1d(base, self.add(far[order])), base

    def _chain(self) -> Blocks:
        """Blocks that share arms one with the next, over arms that span the differences."""
        span = pivots(lift(self._points))
        others = np.setdiff1d(np.arange(len(self._points)), span)
        arms = np.concatenate([span, others[: max(self._size - len(span), 0)]])
        chain = arms[ring_blocks(len(arms), self._size, step=self._size - 1)]
        return np.unique(np.sort(chain, axis=1), axis=0)

    def rows(self, codes: Codes) -> Array:
        """See `Pool.rows`."""
        rows = self._helmert @ self._points[self.blocks[codes]]
        return np.asarray(rows.reshape(-1, self._points.shape[1]))

    def scores(self, factor: Array, rows: Array, share: Array, enough: float) -> Scores:
        """See `Pool.scores`."""
        root = rows * np.sqrt(share)[:, None]
        if len(root) > root.shape[1]:
            root = np.asarray(np.linalg.qr(root, mode="r"))
        points = (self._points @ factor) @ root.T
        if self._complete:
            each = dispersion(points, self.blocks)
            return Scores(each, float(each.max()))
        self.add(dispersed_blocks(points, self._size))
        each = dispersion(points, self.blocks)
        highest = float(each.max())
        if self._size == 2:
            return Scores(each, highest)
        if highest > enough:
            return Scores(each, inf)
        proof = bound_dispersion(points, self._size, enough)
        if len(proof.blocks):
            self.add(proof.blocks)
            each = dispersion(points, self.blocks)
        return Scores(each, proof.bound)


def ring_blocks(arms: int, size: int, step: int = 1) -> Blocks:
    """Blocks of arms that follow each other in a ring, one from every `step`-th arm on."""
    ring = (np.arange(0, arms, step)[:, None] + np.arange(size)) % arms
    return np.unique(np.sort(ring, axis=1), axis=0)


class DispersionBound(NamedTuple):
    """A bound on the dispersion of every block, and blocks above what was enough."""

    bound: float
    blocks: Blocks


def dispersion(points: Array, blocks: Blocks) -> Array:
    """Σ_{i in B} ‖v_i − v̄_B‖² for each block B (row)."""
    members = points[blocks]
    members = members - members.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("bij,bij->b", members, members))


def dispersed_blocks(points: Array, size: int) -> Blocks:
    """Up to one block per point, of `size` ≥ 2 different points: none is improved by one swap.

    For size 2 each is a point with the one farthest from it, so the farthest pair is among them.
    """
    points = points - points.mean(axis=0)
    index, _ = farthest(points)
    blocks = _distinct(np.column_stack([np.arange(len(points)), index]))
    for _ in range(size - 2):
        blocks = _distinct(np.column_stack([blocks, _farthest_outside(points, blocks)]))
    if size > 2:
        blocks = _swap(points, blocks)
    return blocks


def _distinct(blocks: Blocks) -> Blocks:
    return np.unique(np.sort(blocks, axis=1), axis=0)


def _farthest_outside(points: Array, blocks: Blocks) -> NDArray[np.int64]:
    """For each block the point outside that is farthest from its mean.

    Of several it is the first after the block's first point, else the first of all, so that points
    that are all alike form different blocks.
    """
    norms = np.einsum("ij,ij->i", points, points)
    tie, columns = TIE * float(norms.max()), np.arange(len(points))
    means = points[blocks].mean(axis=1)
    found = np.empty(len(blocks), dtype=np.int64)
    for start in range(0, len(blocks), _ROWS):
        rows = slice(start, start + _ROWS)
        keys = norms - 2 * (means[rows] @ points.T)  # ‖v − mean‖² − ‖mean‖²
        np.put_along_axis(keys, blocks[rows], -np.inf, axis=1)
        tied = keys >= keys.max(axis=1, keepdims=True) - tie
        later = tied & (columns > blocks[rows, :1])
        found[rows] = np.where(later.any(axis=1), later.argmax(axis=1), tied.argmax(axis=1))
    return found


def _swap(points: Array, blocks: Blocks) -> Blocks:
    """Exchange one point of each block for one outside, the best such exchange, while it gains."""
    size = blocks.shape[1]
    done = np.empty((0, size), dtype=np.int64)
    for _ in range(_MOST_SWAPS):
        values = dispersion(points, blocks)
        options = []
        for place in range(size):
            rest = np.delete(blocks, place, axis=1)
            options.append(np.column_stack([rest, _farthest_outside(points, rest)]))
        gains = np.column_stack([dispersion(points, option) for option in options])
        best = (gains >= gains.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
        better = gains.max(axis=1) > values * (1 + TIE)
        done = np.vstack([done, blocks[~better]])
        if not better.any():
            break
        blocks = _distinct(np.stack(options)[best, np.arange(len(blocks))][better])
    else:
        done = np.vstack([done, blocks])
    return _distinct(done)


def bound_dispersion(points: Array, size: int, enough: float) -> DispersionBound:
    """Show that no block of `size` ≥ 3 points has a dispersion above `enough`, or find some.

    The bound is above `enough` if there are such blocks, and if the search had to be cut short.
    """
    shifted = points - _center(points, size)
    norms = np.einsum("ij,ij->i", shifted, shifted)
    order = ranked(norms)
    shifted, norms = shifted[order], norms[order]
    found = np.empty((_MOST_FOUND, size), dtype=np.int64)
    bound = float(norms[:size].sum())  # Σ‖v − v̄‖² ≤ Σ‖v − c‖² for every c
    if bound <= enough:
        return DispersionBound(bound, found[:0])
    distances = np.maximum(norms[:, None] + norms - 2 * (shifted @ shifted.T), 0.0)
    tops = np.vstack([np.zeros(len(norms)), np.cumsum(-np.sort(-distances)[:, :size], axis=1).T])
    total, filled = branch_and_bound(distances, norms, tops, size * enough, found, _MOST_BRANCHES)
    return DispersionBound(total / size * (1 + 1e-12), np.sort(order[found[:filled]], axis=1))


def _center(points: Array, size: int) -> Array:
    """A point c that makes the sum of the `size` largest ‖v − c‖² small.

    The mean of the fractional block, 0 ≤ π ≤ 1 and Σπ = size, of largest dispersion, by the method
    of Frank and Wolfe.
    """
    center = best = points.mean(axis=0)
    least = np.inf
    for step in range(_CENTERINGS):
        squares = np.square(points - center).sum(axis=1)
        far = ranked(squares)[:size]
        if squares[far].sum() < least * (1 - TIE):
            least, best = float(squares[far].sum()), center
        center = center + (points[far].mean(axis=0) - center) / (step + 2)
    return np.asarray(best)
