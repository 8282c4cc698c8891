"""The interior-point method of `interior`, compiled.

Imported when the first design is solved: compiling takes seconds, once. Every loop has its order,
so that a design has the same bits on every processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64 as _uint64

from bestarm.compiling import tiered
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
    weighed = np.empty(features.shape)
    for i in range(len(features)):
        root = np.sqrt(q[i // width])
        for j in range(rank):
            weighed[i, j] = root * features[i, j]
    upper = np.zeros((rank, rank))
    add_gram(weighed, upper)
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
    root, turned = np.empty((len(g), arms)), np.empty((len(g), rank))
    inner = np.zeros((rank, rank))
    count = 0
    for y in range(len(g)):
        mu, slack, h = dual[arms + y], primal[arms + y], 1 / g[y]
        share = np.sqrt(mu) * h
        for j in range(rank):
            turned[y, j] = share * b[j, y]
        left = mu * h * h * h * (h / slack - 2)
        if left > 0:
            left = np.sqrt(left)
            for i in range(arms):
                root[count, i] = w[i, y] * left
            count += 1
    add_gram(turned, inner)
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
def _towards(newton: Parts, target: Array, moved: Array, turned: Array) -> None:
    """The step, primal and dual, after which the products are the targets; output.

    The linearised optimality conditions at one iterate, factored:

        1 − ∇h·mu − dual = 0,   h − slack = 1,   q∘dual = target,   mu∘slack = target

    What is primal, (q, slack), is one array, and what is dual, (dual, mu), another.
    """
    upper, jacobian, primal, dual, gradient, slacks = newton
    arms, count = jacobian.shape
    for i in range(len(primal)):
        turned[i] = target[i] / primal[i] - dual[i]
    for y in range(count):
        turned[arms + y] -= dual[arms + y] / primal[arms + y] * slacks[y]
    for i in range(arms):
        moved[i] = turned[i] - gradient[i]
        for y in range(count):
            moved[i] += jacobian[i, y] * turned[arms + y]
    cholesky_solve(upper, moved)
    moved[arms:] = 0.0
    for i in range(arms):
        step = moved[i]
        for y in range(count):
            moved[arms + y] += step * jacobian[i, y]
    for i in range(len(primal)):
        turned[i] -= dual[i] / primal[i] * moved[i]
    for y in range(count):
        moved[arms + y] += slacks[y]


@tiered
def _longest(x: Array, dx: Array) -> float:
    """The longest step in (0, 1] that keeps x well inside the positive numbers."""
    ratio = -np.inf
    for i in range(len(x)):
        ratio = max(ratio, -dx[i] / x[i])
    return 1.0 if ratio <= _BOUNDARY else _BOUNDARY / ratio


@tiered
def _products(primal: Array, dual: Array, step: Parts, lengths: Parts) -> tuple[float, float]:
    """The least and the mean product after a step of these lengths."""
    least, total = np.inf, 0.0
    for i in range(len(primal)):
        here = (primal[i] + lengths[0] * step[0][i]) * (dual[i] + lengths[1] * step[1][i])
        least = min(least, here)
        total += here
    return least, total / len(primal)


@tiered
def _step(newton: Parts, enough: float) -> tuple[Array, Array, float, float]:
    """Mehrotra's step: aim at the boundary, measure the progress, correct for the curvature.

    Products are aimed no lower than `enough`, and not lower at all while the gradient condition is
    off: its curvature is in the masses that go to zero, and must be followed, not outrun. With the
    step come its lengths, primal and dual, after which no product has fallen far behind the others:
    if few arms carry the optimum, the scores of the rest depend on the ratios of masses that all go
    to zero; off the central path these ratios freeze at wrong values.
    """
    _, _, primal, dual, gradient, _ = newton
    size = len(primal)
    moved, turned, target = np.empty(size), np.empty(size), np.zeros(size)
    _towards(newton, target, moved, turned)
    lengths = _longest(primal, moved), _longest(dual, turned)
    _, now = _products(primal, dual, (moved, turned), (0.0, 0.0))
    _, after = _products(primal, dual, (moved, turned), lengths)
    infeasible = 0.0
    for i in range(len(gradient)):
        infeasible = max(infeasible, abs(gradient[i]))
    ratio = after / now
    center = max(now * max(ratio * ratio * ratio, min(infeasible, 1.0)), enough)
    for i in range(size):
        target[i] = center - moved[i] * turned[i]
    _towards(newton, target, moved, turned)
    first, second = _longest(primal, moved), _longest(dual, turned)
    for _ in range(_MOST_CUTS):
        least, mean = _products(primal, dual, (moved, turned), (first, second))
        if least >= _CENTRAL * mean:
            break
        first, second = 0.8 * first, 0.8 * second
    return moved, turned, first, second


@tiered
def _begin(a: Array, b: Array, q: Array, mu: Array) -> tuple[Array, Array]:
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
def interior(
    features: Array, contrasts: Array, start: Parts, tol: float
) -> tuple[Array, Array, int, float]:
    """See `interior.interior_point`: masses, multipliers, the steps taken, the gap that is certain.

    `start` are masses and multipliers.
    """
    q, mu = start
    arms, count = len(q), len(mu)
    regular, a, b = whiten(features, contrasts, q)
    if not regular:
        return q, mu, 0, np.inf
    primal, dual = _begin(a, b, q, mu)
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
        moved, turned, first, second = _step(newton, 0.3 * tol * value / len(dual))
        for i in range(len(primal)):
            moved[i] = primal[i] + first * moved[i]
            turned[i] = dual[i] + second * turned[i]
        regular, a, b = whiten(features, contrasts, moved[:arms])
        if not regular:
            break
        primal, dual, ratio = moved, turned, np.inf
        steps += 1
    return primal[:arms].copy(), dual[arms:].copy(), steps, ratio - 1
