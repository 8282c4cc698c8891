"""Compiled loops: an interior-point method, and branch and bound.

Every loop has its order, so that a design has the same bits on every processor.

**The interior-point method**, for small XY-designs, is the core of the solver.

    minimise Σ q_i   subject to   h_y(q) ≥ 1 for every y in Y,  q ≥ 0,      h_y(q) = 1 / yᵀM(q)⁻¹y

is the design problem with the scale of the weights left free: p = q / Σq, and the optimal value of
max_y yᵀM(p)⁻¹y is the optimal Σq. Written with h it is easiest to solve: h_y is a
Schur complement, so it is concave, and it is homogeneous of degree one, so a Newton step sees
almost no curvature along the rays where q must travel. A primal–dual path-following method with
Mehrotra's predictor then takes about ten steps, each one Cholesky factorisation of order n.
(With the constraint written as yᵀM⁻¹y ≤ 1 the same method stalls for lack of step length.)

A mass may stand for several rows of features: M(q) = Σ_i q_i Σ_{rows φ of i} φφᵀ. For arms it is
one row; for a block of k arms, k − 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64 as _uint64
from numpy.typing import NDArray

from bestarm.compiling import compiled, tiered
from bestarm.numerics.geometry import Array
from bestarm.numerics.linalg import add_gram, cholesky, cholesky_solve, forward_solve

MOST_STEPS = 60
_CENTRAL = 1e-3  # the least that a product may be of the mean product
_MOST_CUTS = 12
_BOUNDARY = 0.95  # part of the way to the boundary that a step may go

Parts = tuple[Any, ...]  # see `compiling`
uint64: Any = _uint64


@tiered
def whiten(features: Array, contrasts: Array, q: Array) -> tuple[bool, Array, Array]:
    """U⁻ᵀΦᵀ and U⁻ᵀYᵀ with UᵀU = M(q), and whether M(q) is regular."""
    width, rank = len(features) // len(q), features.shape[1]
    scaled = np.empty(features.shape)
    for i in range(len(features)):
        root = np.sqrt(q[i // width])
        for j in range(rank):
            scaled[i, j] = root * features[i, j]
    upper = np.zeros((rank, rank))
    add_gram(scaled, upper)
    regular = cholesky(upper)
    return regular, forward_solve(upper, features), forward_solve(upper, contrasts)


@tiered
def measure(a: Array, b: Array, arms: int) -> tuple[Array, Array]:
    """w_iy = Σ (φᵀM⁻¹y)² = −∂g_y/∂q_i over the rows φ of each mass, and g_y = yᵀM⁻¹y."""
    rank, count = b.shape
    width = a.shape[1] // arms
    w, g, products = np.zeros((arms, count)), np.zeros(count), np.empty(count)
    for i in range(a.shape[1]):
        products[:] = 0.0
        for j in range(rank):
            step = a[j, i]
            for y in range(count):
                products[y] += step * b[j, y]
        for y in range(count):
            w[i // width, y] += products[y] * products[y]
    for j in range(rank):
        for y in range(count):
            g[y] += b[j, y] * b[j, y]
    return w, g


@tiered
def _hessian(a: Array, b: Array, w: Array, g: Array, primal: Array, dual: Array) -> Array:
    """−Σ mu ∇²h = 2 (ΦM⁻¹Φᵀ)∘(S diag(mu h²) Sᵀ) − 2 W diag(mu h³) Wᵀ, plus the barrier terms.

    S diag(mu h²) Sᵀ is Aᵀ(B diag(mu h²) Bᵀ)A with S = AᵀB. The negative part outweighs its barrier
    only where a contrast is far from active, and is left out there: the rest is RRᵀ. Only the upper
    triangle is filled.
    """
    arms, (rank, rows) = len(w), a.shape
    root, rooted = np.empty((len(g), arms)), np.empty((len(g), rank))
    inner = np.zeros((rank, rank))
    count = 0
    for y in range(len(g)):
        mu, slack, h = dual[arms + y], primal[arms + y], 1 / g[y]
        share = np.sqrt(mu) * h
        for j in range(rank):
            rooted[y, j] = share * b[j, y]
        left = mu * h * h * h * (h / slack - 2)
        if left > 0:
            left = np.sqrt(left)
            for i in range(arms):
                root[count, i] = w[i, y] * left
            count += 1
    add_gram(rooted, inner)
    second = np.zeros((rank, rows))
    _add_product(inner, a, second)
    hessian = np.zeros((arms, arms))
    add_gram(root[:count], hessian)
    _add_curvature(a, second, hessian)
    for i in range(arms):
        hessian[i, i] += dual[i] / primal[i]
    return hessian


@tiered
def _add_product(upper: Array, a: Array, second: Array) -> None:
    """Add the product of a symmetric table, of which only the upper triangle counts, and `a`."""
    rank, rows = a.shape
    for j in range(rank):
        for k in range(rank):
            step = upper[min(j, k), max(j, k)]
            for i in range(rows):
                second[j, i] += step * a[k, i]


@tiered
def _add_curvature(a: Array, second: Array, hessian: Array) -> None:
    """Add 2 (AᵀA)∘(AᵀB), with rows that belong to one mass added up."""
    rank, arms, rows = a.shape[0], len(hessian), uint64(a.shape[1])
    width = rows // uint64(arms)
    one, other = np.empty(rows), np.empty(rows)
    for i in range(rows):
        here = i // width
        first = here * width
        for r in range(first, rows):
            one[r] = other[r] = 0.0
        for j in range(rank):
            x, y = 2 * a[j, i], second[j, i]
            for r in range(first, rows):
                one[r] += x * a[j, r]
                other[r] += y * a[j, r]
        if width == uint64(1):
            for r in range(first, rows):
                hessian[i, r] += one[r] * other[r]
        else:
            for r in range(first, rows):
                hessian[here, r // width] += one[r] * other[r]


@tiered
def _newton_step(newton: Parts, target: Array, primal_step: Array, dual_step: Array) -> None:
    """The step, primal and dual, after which the products are the targets; output.

    The linearised optimality conditions at one iterate, factored:

        1 − ∇h·mu − dual = 0,   h − slack = 1,   q∘dual = target,   mu∘slack = target

    What is primal, (q, slack), is one array, and what is dual, (dual, mu), another.
    """
    upper, jacobian, primal, dual, gradient, slacks = newton
    arms, count = jacobian.shape
    for i in range(len(primal)):
        dual_step[i] = target[i] / primal[i] - dual[i]
    for y in range(count):
        dual_step[arms + y] -= dual[arms + y] / primal[arms + y] * slacks[y]
    for i in range(arms):
        primal_step[i] = dual_step[i] - gradient[i]
        for y in range(count):
            primal_step[i] += jacobian[i, y] * dual_step[arms + y]
    cholesky_solve(upper, primal_step)
    primal_step[arms:] = 0.0
    for i in range(arms):
        step = primal_step[i]
        for y in range(count):
            primal_step[arms + y] += step * jacobian[i, y]
    for i in range(len(primal)):
        dual_step[i] -= dual[i] / primal[i] * primal_step[i]
    for y in range(count):
        primal_step[arms + y] += slacks[y]


@tiered
def step_length(x: Array, dx: Array) -> float:
    """The longest step in (0, 1] that keeps x well inside the positive numbers."""
    ratio = -np.inf
    for i in range(len(x)):
        ratio = max(ratio, -dx[i] / x[i])
    return 1.0 if ratio <= _BOUNDARY else _BOUNDARY / ratio


@tiered
def _complementarity(
    primal: Array, dual: Array, step: Parts, lengths: Parts
) -> tuple[float, float]:
    """The least and the mean product after a step of these lengths."""
    least, total = np.inf, 0.0
    for i in range(len(primal)):
        here = (primal[i] + lengths[0] * step[0][i]) * (dual[i] + lengths[1] * step[1][i])
        least = min(least, here)
        total += here
    return least, total / len(primal)


@tiered
def _mehrotra_step(newton: Parts, enough: float) -> tuple[Array, Array, float, float]:
    """Mehrotra's step: aim at the boundary, measure the progress, correct for the curvature.

    Products are aimed no lower than `enough`, and not lower at all while the gradient condition is
    off: its curvature is in the masses that go to zero, and must be followed, not outrun. With the
    step come its lengths, primal and dual, after which no product has fallen far behind the others:
    if few arms carry the optimum, the scores of the rest depend on the ratios of masses that all go
    to zero; off the central path these ratios freeze at wrong values.
    """
    _, _, primal, dual, gradient, _ = newton
    size = len(primal)
    primal_step, dual_step, target = np.empty(size), np.empty(size), np.zeros(size)
    _newton_step(newton, target, primal_step, dual_step)
    lengths = step_length(primal, primal_step), step_length(dual, dual_step)
    _, now = _complementarity(primal, dual, (primal_step, dual_step), (0.0, 0.0))
    _, after = _complementarity(primal, dual, (primal_step, dual_step), lengths)
    infeasible = 0.0
    for i in range(len(gradient)):
        infeasible = max(infeasible, abs(gradient[i]))
    ratio = after / now
    center = max(now * max(ratio * ratio * ratio, min(infeasible, 1.0)), enough)
    for i in range(size):
        target[i] = center - primal_step[i] * dual_step[i]
    _newton_step(newton, target, primal_step, dual_step)
    first, second = step_length(primal, primal_step), step_length(dual, dual_step)
    for _ in range(_MOST_CUTS):
        least, mean = _complementarity(primal, dual, (primal_step, dual_step), (first, second))
        if least >= _CENTRAL * mean:
            break
        first, second = 0.8 * first, 0.8 * second
    return primal_step, dual_step, first, second


@tiered
def _feasible_start(a: Array, b: Array, q: Array, mu: Array) -> tuple[Array, Array]:
    """A strictly feasible pair; scales `a` and `b` with it."""
    arms = len(q)
    w, g = measure(a, b, arms)
    # Any q becomes strictly feasible by scaling up, any mu by scaling down.
    scale = 1.1 * largest(g)
    root = np.sqrt(scale)
    for table in (a, b):
        for i in range(table.shape[0]):
            for j in range(table.shape[1]):
                table[i, j] /= root
    primal, dual = np.zeros(arms + len(mu)), np.zeros(arms + len(mu))
    for i in range(arms):
        primal[i] = q[i] * scale
        for y in range(len(mu)):
            dual[i] += w[i, y] / (g[y] * g[y]) * mu[y]
    shrunk = 0.9 / largest(dual)
    for i in range(arms):
        dual[i] = 1 - shrunk * dual[i]
    for y in range(len(mu)):
        primal[arms + y] = scale / g[y] - 1
        dual[arms + y] = shrunk * mu[y]
    return primal, dual


@tiered
def largest(values: Array) -> float:
    """The largest; NumPy's takes long to compile."""
    found = values[0]
    for i in range(1, len(values)):
        found = max(found, values[i])
    return float(found)


@tiered
def _gap(w: Array, g: Array, primal: Array, dual: Array) -> tuple[float, float]:
    """Σq at max g = 1, and its ratio to the lower bound of the multipliers."""
    arms, mu = len(w), dual[len(w) :]
    total, spread, weight, score = 0.0, 0.0, 0.0, 0.0
    for i in range(arms):
        total += primal[i]
        here = 0.0
        for y in range(len(mu)):
            here += w[i, y] * mu[y]
        score = max(score, here)
    for y in range(len(mu)):
        spread += mu[y] * g[y]
        weight += mu[y]
    value = total * largest(g)
    return value, value * weight * score / (spread * spread)


@tiered
def interior_point(
    features: Array, contrasts: Array, start: Parts, tol: float
) -> tuple[Array, Array, int, float]:
    """Improve `start` until its certified relative gap over these arms and contrasts is ≤ tol.

    Args:
        features: φ, one per row, of full column rank; the same number of rows for each mass.
        contrasts: y, one per row.
        start: positive masses and multipliers, of any scale.
        tol: the relative gap between Σq at max g = 1 and the lower bound of the multipliers.

    Returns:
        Masses, multipliers, the steps taken, and the certified gap.
    """
    q, mu = start
    arms, count = len(q), len(mu)
    regular, a, b = whiten(features, contrasts, q)
    if not regular:
        return q, mu, 0, np.inf
    primal, dual = _feasible_start(a, b, q, mu)
    steps, ratio = 0, np.inf
    while steps < MOST_STEPS:
        w, g = measure(a, b, arms)
        value, ratio = _gap(w, g, primal, dual)
        if ratio <= 1 + tol:
            break
        upper = _hessian(a, b, w, g, primal, dual)
        gradient, slacks = np.empty(arms), np.empty(count)
        for y in range(count):
            slacks[y] = 1 / g[y] - primal[arms + y] - 1
        for i in range(arms):
            gradient[i] = 1 - dual[i]
            for y in range(count):
                w[i, y] /= g[y] * g[y]  # ∂h_y/∂q_i
                gradient[i] -= w[i, y] * dual[arms + y]
        if not cholesky(upper):
            break
        newton = upper, w, primal, dual, gradient, slacks
        primal_step, dual_step, first, second = _mehrotra_step(
            newton, 0.3 * tol * value / len(dual)
        )
        for i in range(len(primal)):
            primal_step[i] = primal[i] + first * primal_step[i]
            dual_step[i] = dual[i] + second * dual_step[i]
        regular, a, b = whiten(features, contrasts, primal_step[:arms])
        if not regular:
            break
        primal, dual, ratio = primal_step, dual_step, np.inf
        steps += 1
    return primal[:arms].copy(), dual[arms:].copy(), steps, ratio - 1


@compiled
def branch_and_bound(
    distances: Array, norms: Array, tops: Array, enough: float, found: NDArray[np.int64], most: int
) -> tuple[float, int]:
    """A bound on the sum of distances over the pairs of a block, and blocks above `enough`.

    Points are added in order of index. With S chosen, m points J to come, and T_j the distances
    from j to S, the pairs of S and J sum to Σ_J T_j, and those of J to at most

        m Σ_J ‖v_j‖²   and to at most   ½ Σ_J (the m − 1 largest distances from j),

    so the m largest of T_j plus either bound what the block can still gain. A branch is left if it
    cannot exceed `enough`, and after `most` branches in any case.

    Args:
        distances: squared distances of all pairs.
        norms: ‖v_j‖² with any origin; the points are sorted by them, the largest first.
        tops: in row m, the sum of the m largest distances from each point.
        enough: what the sums should not exceed.
        found: one row of at least 3 columns per block to find; filled from the top.
        most: how many branches to follow.

    Returns:
        The bound, +∞ if all rows are filled; and how many rows are.
    """
    count, (room, size) = len(distances), found.shape
    reach = np.zeros((size, count))  # T_j after 0, 1, … points
    within = np.zeros(size)
    chosen = np.full(size, -1)
    high = np.empty((2, size))
    bound, filled, depth, branches = 0.0, 0, 0, 0
    while depth >= 0:
        chosen[depth] += 1
        new = chosen[depth]
        left = size - depth - 1
        if new > count - 1 - left:
            depth -= 1
            continue
        total = within[depth] + reach[depth, new]
        high[:, :left] = -1.0
        last = -1
        for j in range(new + 1, count):  # only these are read: the points to come
            here = reach[depth, j] + distances[new, j]
            reach[depth + 1, j] = here
            if here + left * norms[j] > high[0, left - 1]:
                _insert(high[0], left, here + left * norms[j])
            if here + tops[left - 1, j] / 2 > high[1, left - 1]:
                last = j
                _insert(high[1], left, here + tops[left - 1, j] / 2)
        if left == 1:
            bound = max(bound, total + high[1, 0])  # it is exact: no pair is left to bound
            if total + high[1, 0] > enough:
                if filled == room:
                    return np.inf, filled
                for k in range(size - 1):  # slices of arrays take seconds longer to compile
                    found[filled, k] = chosen[k]
                found[filled, -1] = last
                filled += 1
            continue
        by_norms, by_distances = 0.0, 0.0
        for k in range(left):
            by_norms += high[0, k]
            by_distances += high[1, k]
        limit = total + min(by_norms, by_distances)
        if limit <= enough or branches >= most:
            bound = max(bound, limit)
            continue
        branches += 1
        depth += 1
        within[depth] = total
        chosen[depth] = new
    return bound, filled


@compiled
def _insert(high: Array, length: int, value: float) -> None:
    """Put a value into a falling list, whose last it exceeds."""
    place = length - 1
    while place > 0 and high[place - 1] < value:
        high[place] = high[place - 1]
        place -= 1
    high[place] = value
