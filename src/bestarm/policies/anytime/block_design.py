"""Which blocks to draw next: a distribution over blocks for contrasts that want evidence.

`design.minimise_blocks` certifies such designs, in seconds where there are a hundred arms. A rule
that designs dozens of times within a run needs them quickly, and no certificate. Two draws
from a design for single pulls differ as M does: E (x − x′)(x − x′)ᵀ/2 = Σ_cov,p. So blocks of arms
drawn from it independently are a good beginning, and a few steps that multiply the probability of a
block by its score improve on it.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from math import comb

import numpy as np

from bestarm.design import centered_g
from bestarm.design.solver import ListedContrasts, minimise
from bestarm.numerics.geometry import Array, affine_span, lift
from bestarm.records import Blocks

_ALL = 5000  # up to this many blocks, all of them are candidates
_ORDERS = 8  # orders of the arms that blocks are picked along, if they are more
_STEPS = 24  # of the multiplicative kind; most of what can be gained is gained by then
_SHARE = 0.02  # of blocks from the G-design: it keeps every contrast within reach
_TOL = 0.05  # how far from its optimum the design for single pulls may be
_TRACE = 0.01  # blocks are left out that are rarer, relative to the likeliest of each arm


def candidates(shares: Array, size: int) -> tuple[Blocks, Array]:
    """Blocks of different arms, with about these shares of the arms among the pulls.

    All blocks if they are few, with the probabilities of independent draws that happen to differ.
    If not, blocks picked at even distances along arms that are laid end to end in several orders,
    each as long as its share: so an arm is in a block with exactly its share, at most once.
    """
    arms = len(shares)
    if comb(arms, size) <= _ALL:
        blocks = np.array(list(combinations(range(arms), size)), dtype=np.int64)
        chances = np.prod(shares[blocks] / shares.max(), axis=1) + 1e-9
        return blocks, chances / chances.sum()
    lengths = _inclusion(shares, size)
    found: dict[tuple[int, ...], float] = {}
    rng = np.random.default_rng(0)
    for _ in range(_ORDERS):
        order = rng.permutation(arms)
        ends = np.cumsum(lengths[order])
        ends *= size / ends[-1]
        starts = np.unique(np.concatenate([[0.0, 1.0], ends - np.floor(ends)]))
        starts = starts[np.concatenate([np.diff(starts) > 1e-9, [True]])]
        for low, high in pairwise(starts):
            places = np.searchsorted(ends, (low + high) / 2 + np.arange(size))
            block = tuple(sorted(order[np.minimum(places, arms - 1)].tolist()))
            if len(set(block)) == size:
                found[block] = found.get(block, 0.0) + high - low
    chances = np.array(list(found.values()))
    return np.array(list(found), dtype=np.int64), chances / chances.sum()


def _inclusion(shares: Array, size: int) -> Array:
    """The probability of each arm to be in a block: `size` times its share, but at most 1."""
    chances = size * (shares + 1e-9) / (shares + 1e-9).sum()
    while (chances > 1).any():
        chances = np.minimum(chances, 1.0)
        free = chances < 1
        chances[free] *= (size - np.count_nonzero(~free)) / chances[free].sum()
    return np.asarray(chances)


def design_blocks(points: Array, size: int, rows: Array | None) -> tuple[Blocks, Array]:
    """Blocks and their probabilities, for contrasts of about equal weight.

    Args:
        points: the arms, in any coordinates.
        size: arms in a block.
        rows: the contrasts, each divided by what it may be off; None while nothing is known.
    """
    if len(points) == size:
        return np.arange(size, dtype=np.int64)[None], np.ones(1)
    span = affine_span(points)
    inner = span.coordinates(points)
    spread = np.asarray(centered_g(inner, tol=_TOL).weights)
    if rows is None:
        return _without_traces(*candidates(spread, size))
    wanted = span.contrast_coordinates(rows)
    wanted = wanted / np.abs(wanted).max()
    single = minimise(lift(inner), ListedContrasts(lift(wanted, 0.0)), _TOL).weights
    blocks, chances = candidates((1 - _SHARE) * single + _SHARE * spread, size)
    return _without_traces(blocks, _balance(inner, blocks, chances, wanted))


def laplacian(blocks: Blocks, masses: Array, arms: int) -> Array:
    """Σ mass (I_B − 1_B 1_Bᵀ/k) over blocks: XᵀLX is Σ mass A_B."""
    from bestarm.policies.anytime.block_kernels import add_laplacian  # noqa: PLC0415 - compiles

    matrix = np.zeros((arms, arms))
    add_laplacian(blocks, np.array(masses), matrix)  # a copy: some are read-only, another type
    return matrix


def _balance(points: Array, blocks: Blocks, chances: Array, rows: Array) -> Array:
    """Multiply probabilities by scores tr(A_B G)^½, G = Σ μ_y M⁻¹yyᵀM⁻¹, and μ_y by its value.

    The best probabilities met are kept, with a share of those it began with.
    """
    from bestarm.policies.anytime.block_kernels import disperse  # noqa: PLC0415 - compiles

    began, best, least, scores = chances, chances, np.inf, np.empty(len(blocks))
    worst = np.full(len(rows), 1 / len(rows))
    for _ in range(_STEPS):
        moment = points.T @ laplacian(blocks, chances, len(points)) @ points
        reads = np.linalg.solve(moment, rows.T).T
        values = np.einsum("ij,ij->i", reads, rows)
        if values.max() < least:
            best, least = chances, float(values.max())
        worst = worst * np.sqrt(values / values.max())
        worst /= worst.sum()
        images = (points @ reads.T) * np.sqrt(worst)
        products = images @ images.T
        disperse(products, blocks, scores)
        chances = chances * np.sqrt(scores / (chances @ scores))
        chances = (1 - _SHARE) * chances / chances.sum() + _SHARE * began
    return best


def _without_traces(blocks: Blocks, chances: Array) -> tuple[Blocks, Array]:
    """Without blocks that are rare for each of their arms."""
    strongest = np.zeros(int(blocks.max()) + 1)
    np.maximum.at(strongest, blocks, chances[:, None])
    kept = chances >= _TRACE * strongest[blocks].min(axis=1)
    return blocks[kept], chances[kept] / chances[kept].sum()
