"""Designs for a small declared baseline: between linear and centered ones.

With |ν| ≤ R, weights of a contrast y may sum to s ≠ 0 at a charge of |s|R (docs/anytime.md, Lemma
5). For a parameter whose best target is z*, the complexity is

    τ(R) = min over p of max over z of min over s of ‖(s, y)‖² / (y·θ − |s|R)²,   y = z* − z,

with the norm under M(p)⁻¹ on φ = (1, x). The inner minimum is, by duality, one over the least
information on an alternative: the least hᵀM(p)h of all h = (h_ν, h_θ) with y·h_θ ≥ y·θ and
|h_ν| ≤ R. So 1/τ(R) is the maximum over p of a minimum of functions that are linear in p, and
every finite set of alternatives bounds τ(R) from below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from bestarm.design.solver import Design, ListedContrasts, check_gap, minimise, second_moment
from bestarm.numerics.geometry import Array, lift, ranked

_ROUNDS = 200  # few are needed; more than this cannot be certified
_BINDING = 1e-9  # the share of a mixture from which on an alternative is kept


def minimise_bounded(features: Array, rows: Array, gaps: Array, bound: float, tol: float) -> Design:
    """τ(R), to a certified relative gap of at most `tol`.

    Args:
        features: φ = (1, x) of every arm.
        rows: the contrasts y.
        gaps: y·θ of each, above 0.
        bound: R.
        tol: the relative gap to certify.
    """
    # Without sums first: where R is large, that is the answer.
    centered = lift(rows / gaps[:, None], 0.0)
    found = minimise(features, ListedContrasts(centered), tol / 4)
    best, best_value, lower, iterations = found.weights, np.inf, 0.0, found.iterations
    weights, cuts = best, np.empty((0, len(features)))
    for _ in range(_ROUNDS):
        moment = second_moment(features, weights)
        sums, values = best_sums(np.asarray(np.linalg.inv(moment)), rows, gaps, bound)
        if values.max() < best_value:
            best, best_value = weights, float(values.max())
        hard = ranked(values)[: max(2 * features.shape[1], 16)]  # the others hardly ever bind
        near = _alternatives(features, moment, rows[hard], gaps[hard], sums[hard], bound)
        least, allowed, binding = _hardest_mixture(np.vstack([cuts, near]))
        cuts = np.vstack([cuts, near])[binding]
        lower = max(lower, 1 / least)
        if best_value / lower - 1 <= tol:
            break
        # A step from either side: the design for these sums, and the best for the alternatives.
        tilted = np.column_stack([sums, rows]) / (gaps - np.abs(sums) * bound)[:, None]
        found = minimise(features, ListedContrasts(tilted / np.abs(tilted).max()), tol / 4)
        weights, iterations = (found.weights + allowed) / 2, iterations + found.iterations
    gap = max(best_value / lower - 1, 0.0)
    check_gap(gap, tol)
    return Design(best.copy(), best_value, lower, gap, iterations)


def best_sums(
    inverse: Array,
    rows: Array,
    gaps: Array,
    bound: float,
    *,
    level: Array | float = 0.0,
    worth: float = 1.0,
) -> tuple[Array, Array]:
    """s that minimises ‖(s, y)‖² / (y·θ + s ν − |s|R)² for each contrast, and that minimum; or 0.

    A ratio of a norm to a linear function on either side of 0: each has one stationary point.
    Leading axes, of problems, are those of every array.

    Args:
        inverse: M⁻¹; (…, 1 + rank, 1 + rank).
        rows: the contrasts; (…, contrasts, rank).
        gaps: y·θ of each, above 0; (…, contrasts).
        bound: R.
        level: ν, as far as it is known; (…).
        worth: the share of the value at 0 that another must stay below.

    Returns:
        The sums and the minima, each (…, contrasts).
    """
    # The norm is m s² + 2 b s + c.
    m = inverse[..., :1, 0]
    b = np.matmul(rows, inverse[..., 1:, :1])[..., 0]
    c = np.sum((rows @ inverse[..., 1:, 1:]) * rows, axis=-1)
    sums, least = np.zeros(gaps.shape), worth * c / np.square(gaps)
    for side in (-1.0, 1.0):
        slope = (np.asarray(level) - side * bound)[..., None]
        below = m * gaps - b * slope
        s = (c * slope - b * gaps) / np.where(below > 0, below, 1.0)
        signal = gaps + s * slope
        there = (below > 0) & (s * side > 0) & (signal > 0)
        value = (m * s * s + 2 * b * s + c) / np.square(np.where(there, signal, 1.0))
        there &= value < least
        sums, least = np.where(there, s, sums), np.where(there, value, least)
    return sums, least


def _alternatives(
    features: Array, moment: Array, rows: Array, gaps: Array, sums: Array, bound: float
) -> Array:
    """(φ_a·h)² of every arm, for the alternative h to each contrast on which M(p) informs least."""
    tilted = np.column_stack([sums, rows])
    found = np.linalg.solve(moment, tilted.T).T
    found *= ((gaps - np.abs(sums) * bound) / np.einsum("ij,ij->i", found, tilted))[:, None]
    # After rounding too, |h_ν| ≤ R and y·h_θ = y·θ.
    found[:, 0] = np.clip(found[:, 0], -bound, bound)
    found[:, 1:] *= (gaps / np.einsum("ij,ij->i", found[:, 1:], rows))[:, None]
    return np.asarray(np.square(found @ features.T))


def _hardest_mixture(cuts: Array) -> tuple[float, Array, NDArray[np.bool_]]:
    """A mixture of alternatives on which the best arm informs least: how much, a design, and which.

    The information bounds 1/τ(R) from above whatever the linear program's accuracy is; the design
    is that of its dual, which maximises the least information on any of the alternatives.
    """
    count, arms = cuts.shape
    table = np.column_stack([cuts.T / cuts.max(), -np.ones(arms)])
    one = np.append(np.ones(count), 0.0)[None]
    found = linprog(np.append(np.zeros(count), 1.0), table, np.zeros(arms), one, np.ones(1))
    if found.x is None:
        uniform = np.full(count, 1 / count)
        return float((uniform @ cuts).max()), np.full(arms, 1 / arms), uniform > 0
    mixture, design = np.maximum(found.x[:count], 0.0), np.maximum(-found.ineqlin.marginals, 0.0)
    mixture /= mixture.sum()
    return float((mixture @ cuts).max()), design / design.sum(), mixture > _BINDING
