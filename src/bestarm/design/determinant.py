"""The design of largest det M(q), by Newton's method on the central path.

    minimise  Σ q_i − log det M(q)  subject to  q ≥ 0

With s_i = tr(A_i M⁻¹) the score of an arm or block with matrix A_i, the gradient is 1 − s_i. Under
weights p that sum to 1, Σ p_i s_i = r, the rank, so the highest score is never below r; it is r at
the optimum, where no score exceeds 1 and Σq = r (Kiefer and Wolfowitz).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from bestarm.design.interior import add_rows, longest, second_moment
from bestarm.design.pools import Pool
from bestarm.design.solver import LEAST_MASS, MOST_ROUNDS, Design, Working, trade_arms
from bestarm.numerics.geometry import Array

_MOST_STEPS = 100
_CENTER = 0.2  # what is aimed at: this part of the mean product of masses and slacks


def maximise_determinant(pool: Pool, tol: float) -> Design:
    """Minimise the highest score tr(A_i M(q)⁻¹), to a certified relative gap of at most `tol`."""
    work = Working.of(pool)
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
        trade_arms(work, scores.each, max(2 * rank, 16), tol)
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
        q = q + longest(q, move) * move
        slack = slack + longest(slack, turn) * turn
    return q, _MOST_STEPS
