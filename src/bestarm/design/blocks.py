"""Designs over blocks of k different arms that share one baseline.

    M(q) = Σ_B q_B A_B,   A_B = Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ

It is the problem of `solver` with a block for an arm: A_B = Σ φφᵀ with k − 1 rows φ, and the score
of a block is tr(A_B G), G = Σ λ_y M⁻¹yyᵀM⁻¹. With v_i = G^½ x_i that is the dispersion of the
block's v, so the blocks that a design lacks are those whose points lie far apart. There are too
many blocks to list; they get a code when they are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, inf

import numpy as np

from bestarm.design import pools
from bestarm.design.contrasts import Codes, ContrastSet
from bestarm.design.determinant import maximise_determinant
from bestarm.design.dispersion import Blocks, dispersion, far_apart, prove
from bestarm.design.interior import second_moment
from bestarm.design.pools import Scores, pivots
from bestarm.design.solver import (
    Design,
    check_tolerance,
    inverse_factor,
    minimise_over,
    one_thread,
)
from bestarm.numerics.geometry import Array, lift, ranked

_TRACE = 1e-3  # times `tol`: mass, relative to the heaviest block, that may be left out
_REGULAR = 1e-9  # least scale that M must keep, relative to its largest


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


def neighbours(arms: int, size: int, step: int = 1) -> Blocks:
    """Blocks of arms that follow each other in a ring, one from every `step`-th arm on."""
    ring = (np.arange(0, arms, step)[:, None] + np.arange(size)) % arms
    return np.unique(np.sort(ring, axis=1), axis=0)


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
        self._complete = comb(len(points), size) <= pools.ALL
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
        far = far_apart(self._points, self._size)
        order = ranked(dispersion(self._points, far))[: max(4 * self._points.shape[1], pools.ALL)]
        return np.union1d(base, self.add(far[order])), base

    def _chain(self) -> Blocks:
        """Blocks that share arms one with the next, over arms that span the differences."""
        span = pivots(lift(self._points))
        others = np.setdiff1d(np.arange(len(self._points)), span)
        arms = np.concatenate([span, others[: max(self._size - len(span), 0)]])
        chain = arms[neighbours(len(arms), self._size, step=self._size - 1)]
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
        self.add(far_apart(points, self._size))
        each = dispersion(points, self.blocks)
        highest = float(each.max())
        if self._size == 2:
            return Scores(each, highest)
        if highest > enough:
            return Scores(each, inf)
        proof = prove(points, self._size, enough)
        if len(proof.blocks):
            self.add(proof.blocks)
            each = dispersion(points, self.blocks)
        return Scores(each, proof.bound)


def minimise_blocks(points: Array, contrasts: ContrastSet, size: int, tol: float) -> BlockDesign:
    """Minimise max_y yᵀM(q)⁻¹y over distributions q on all blocks of `size` different arms.

    The gap is above `tol` only where no more can be proven: see `dispersion.prove`.

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
        return _without_traces(pool, contrasts, found, tol)


def spread_blocks(points: Array, size: int, tol: float) -> BlockDesign:
    """Minimise the largest tr(A_B M(q)⁻¹) of a block B of `size` arms: see `determinant`.

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


def _without_traces(
    pool: BlockPool, contrasts: ContrastSet, found: Design, tol: float
) -> BlockDesign:
    """The design without blocks of negligible mass, unless they are needed after all."""
    weights, value, bound = found.weights, found.value, found.lower_bound
    kept = np.flatnonzero(weights > _TRACE * tol * weights.max())
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
