"""An interior-point method for XY-designs of few arms and contrasts, many problems at once.

    minimise Σ q_i   subject to   h_y(q) ≥ 1 for every y in Y,  q ≥ 0,      h_y(q) = 1 / yᵀM(q)⁻¹y

is the design problem with the scale of the weights left free: p = q / Σq, and the optimal value of
max_y yᵀM(p)⁻¹y is the optimal Σq. Written with h it is easiest to solve: h_y is a Schur complement,
so it is concave, and it is homogeneous of degree one, so a Newton step sees almost no curvature
along the rays where q must travel. A primal–dual path-following method with Mehrotra's predictor
then takes about ten steps, each with systems of order n. (With the constraint written as
yᵀM⁻¹y ≤ 1 the same method stalls for lack of step length.)

The first axis of every array is the problem. What is primal, x = (q, slack), is one array, and what
is dual, z = (reduced costs, multipliers), another; `Point` holds both. A problem whose matrices
become singular turns into NaN, which stops it and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from bestarm.numerics.geometry import Array

MOST_STEPS = 60
_CENTRAL = 1e-3  # the least that a product x z may be of the mean product
_MOST_CUTS = 12
_BOUNDARY = 0.95  # part of the way to the boundary that a step may go
_FEASIBLE = 1.1  # times the least scale of q at which h ≥ 1
_UNCOUNTED = 2.0  # h of a contrast that is masked out: not active, and constant
_ASIDE = 0.02  # added to a start, times its mean: from the boundary no step is long

_most, _total = np.maximum.reduce, np.add.reduce  # the methods of arrays cost more

Bools = NDArray[np.bool_]


class InteriorPoints(NamedTuple):
    """What `interior_points` found for each problem.

    Attributes:
        masses: q, of the scale at which the largest yᵀM(q)⁻¹y is near 1; (problems, arms).
        multipliers: of the contrasts, 0 for those that do not count; (problems, contrasts).
        gap: certified, relative; +∞ if matrices became singular; (problems,).
        steps: Newton steps taken; (problems,).
    """

    masses: Array
    multipliers: Array
    gap: Array
    steps: NDArray[np.int64]


class _Measures(NamedTuple):
    """What M(q) says of arms and contrasts.

    Attributes:
        arms: L⁻¹φ with LLᵀ = M(q); (problems, rank, arms).
        products: S = φᵀM⁻¹y; (problems, arms, contrasts).
        squares: of the products: W = −∂g_y/∂q_i; (problems, arms, contrasts).
        g: yᵀM⁻¹y; (problems, contrasts).
        h: 1/g, or any number for contrasts that do not count; (problems, contrasts).
    """

    arms: Array
    products: Array
    squares: Array
    g: Array
    h: Array


def interior_points(
    features: Array,
    rows: Array,
    tol: float,
    masses: Array | None = None,
    multipliers: Array | None = None,
) -> InteriorPoints:
    """Minimise Σq subject to yᵀM(q)⁻¹y ≤ 1, for each problem to a certified relative gap of `tol`.

    The caller sees to it that BLAS has one thread. Time and memory go with arms × contrasts: large
    problems are for `solver.minimise`.

    Args:
        features: φ of each arm, of full column rank and well scaled; (problems, arms, rank).
        rows: the contrasts, at least one per problem; rows of zeros do not count;
            (problems, contrasts, rank).
        tol: the gap between Σq at max g = 1 and the lower bound of the multipliers.
        masses: where to start, of any scale; 1 by default; (problems, arms).
        multipliers: where to start, of any scale; 1 by default; (problems, contrasts).
    """
    (problems, arms, _), contrasts = features.shape, rows.shape[1]
    table = np.ascontiguousarray(np.concatenate([features, rows], axis=1).swapaxes(1, 2))
    counted = np.asarray(rows.any(axis=2))
    q = np.ones((problems, arms)) if masses is None else _aside(masses)
    mu = np.ones((problems, contrasts)) if multipliers is None else _aside(multipliers)
    found = InteriorPoints(q, mu, np.full(problems, np.inf), np.zeros(problems, dtype=np.int64))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        _solve(table, counted, tol, found)
    found.multipliers[~counted] = 0.0
    return found


def _aside(start: Array) -> Array:
    return np.asarray(start + _ASIDE * start.mean(axis=1, keepdims=True))


def _solve(table: Array, counted: Bools, tol: float, found: InteriorPoints) -> None:
    """Improve what is found, the start, in place."""
    live, arms = np.arange(len(table)), found.masses.shape[1]
    point = before = _feasible_start(table, counted, found)
    for step in range(MOST_STEPS + 1):
        here = _measure(table, counted, point[0, :, :arms])
        value, ratio = _certificate(here, counted, point)
        left = (ratio > 1 + tol) & (step < MOST_STEPS)
        if not left.all():
            regular = np.isfinite(ratio)
            last = np.where(regular[:, None], point, before)
            ends = ~left & np.isfinite(last).all(axis=(0, 2))
            found.masses[live[ends]] = last[0, ends, :arms]
            found.multipliers[live[ends]] = last[1, ends, arms:]
            found.gap[live] = np.where(regular, ratio - 1, np.inf)
            found.steps[live] = step
            if not left.any():
                break
            live, table, counted, value = live[left], table[left], counted[left], value[left]
            point, here = point[:, left], _Measures(*(part[left] for part in here))
        before = point
        point = _newton_step(here, point, 0.3 * tol * value / point.shape[2])


def _measure(table: Array, counted: Bools, q: Array) -> _Measures:
    """The measures of features and contrasts, the columns of `table`; NaN if M(q) is singular."""
    count = q.shape[1]
    features = table[:, :, :count]
    whitened = _inverse_factors((features * q[:, None]) @ features.swapaxes(1, 2)) @ table
    arms, contrasts = whitened[:, :, :count], whitened[:, :, count:]
    products = arms.swapaxes(1, 2) @ contrasts
    g = np.einsum("pij,pij->pj", contrasts, contrasts)
    return _Measures(arms, products, products * products, g, np.where(counted, 1 / g, _UNCOUNTED))


def _times(matrices: Array, vectors: Array) -> Array:
    """One matrix–vector product per problem."""
    return np.asarray(np.matmul(matrices, vectors[..., None])[..., 0])


def _feasible_start(table: Array, counted: Bools, start: InteriorPoints) -> Array:
    """The start with masses scaled up and multipliers down until both are strictly feasible."""
    here = _measure(table, counted, start.masses)
    scale = _FEASIBLE * here.g.max(axis=1, keepdims=True)
    h = np.where(counted, here.h * scale, _UNCOUNTED)
    used = _times(here.squares, start.multipliers * np.square(here.h))
    shrink = 0.9 / used.max(axis=1, keepdims=True)
    primal = np.concatenate([start.masses * scale, h - 1], axis=1)
    dual = np.concatenate([1 - used * shrink, start.multipliers * shrink], axis=1)
    return np.stack([primal, dual])


def _certificate(here: _Measures, counted: Bools, point: Array) -> tuple[Array, Array]:
    """Σq at max g = 1, and its ratio to the lower bound (Cauchy–Schwarz; see `solver`)."""
    arms = here.arms.shape[2]
    mu = np.where(counted, point[1, :, arms:], 0.0)
    value = _total(point[0, :, :arms], axis=1) * _most(here.g, axis=1)
    scores = _most(_times(here.squares, mu), axis=1)
    return value, value * _total(mu, axis=1) * scores / np.square(_total(mu * here.g, axis=1))


def _newton_step(here: _Measures, point: Array, least_aim: Array) -> Array:
    """The next point: a step that Mehrotra's predictor aims, and that keeps near the central path.

    The linearised optimality conditions are, with ∇h = `jacobian`,

        1 − ∇h·mu − costs = 0,   h − slack = 1,   q∘costs = target,   mu∘slack = target
    """
    arms, size = here.arms.shape[2], point.shape[2]
    ratio = point[1] / point[0]
    jacobian = here.squares * np.square(here.h)[:, None]  # ∂h_y/∂q_i
    across = jacobian.swapaxes(1, 2)
    gradient = 1 - point[1, :, :arms] - _times(jacobian, point[1, :, arms:])
    residual = here.h - point[0, :, arms:] - 1
    solve = _solver(*_hessian(here, jacobian, point, ratio))

    def newton(target: Array | float) -> tuple[Array, Array]:
        """The step to products that are the target, and how much of it x and z can take."""
        step = np.empty_like(point)
        dx, dz = step
        np.subtract(target, point[1], out=dz)
        dz[:, arms:] -= ratio[:, arms:] * residual
        dx[:, :arms] = solve(dz[:, :arms] - gradient + _times(jacobian, dz[:, arms:]))
        dx[:, arms:] = _times(across, dx[:, :arms])
        dz -= ratio * dx
        dx[:, arms:] += residual
        away = np.minimum.reduce(step / point, axis=2, keepdims=True)
        return step, _BOUNDARY / np.maximum(-away, _BOUNDARY)

    step, length = newton(0.0)
    now = _total(point[0] * point[1], axis=1) / size
    ahead = point + length * step
    after = _total(ahead[0] * ahead[1], axis=1) / size
    far = np.minimum(_most(np.abs(gradient), axis=1), 1.0)
    aim = np.maximum(now * np.maximum((after / now) ** 3, far), least_aim)
    step, length = newton((aim[:, None] - step[0] * step[1]) / point[0])
    for _ in range(_MOST_CUTS):
        ahead = point + length * step
        products = ahead[0] * ahead[1]
        behind = np.minimum.reduce(products, axis=1) < _CENTRAL / size * _total(products, axis=1)
        if not behind.any():
            break
        length = np.where(behind[:, None], 0.8 * length, length)
    return ahead


def _hessian(here: _Measures, jacobian: Array, point: Array, ratio: Array) -> tuple[Array, Array]:
    """−Σ mu ∇²h and the barrier terms, scaled to a unit diagonal; and that scale.

    −Σ mu ∇²h = 2 (ΦM⁻¹Φᵀ)∘(S diag(mu h²) Sᵀ) − 2 W diag(mu h³) Wᵀ. The negative part outweighs its
    barrier only where a contrast is far from active, and is left out there.
    """
    arms = here.arms.shape[2]
    mu = point[1, :, arms:]
    positive = np.maximum(ratio[:, arms:] - 2 * mu * here.g, 0.0)
    root = jacobian * np.sqrt(positive)[:, None]
    hessian = root @ root.swapaxes(1, 2)
    root = here.products * (np.sqrt(2 * mu) * here.h)[:, None]
    hessian += (here.arms.swapaxes(1, 2) @ here.arms) * (root @ root.swapaxes(1, 2))
    diagonal = hessian.reshape(len(hessian), -1)[:, :: arms + 1]
    diagonal += ratio[:, :arms]
    # The barrier's terms differ by orders of magnitude: scaled, no digits are lost to that.
    unit = 1 / np.sqrt(diagonal)
    hessian *= unit[:, :, None] * unit[:, None]
    return hessian, unit


def _inverse_factors(moments: Array) -> Array:
    """L⁻¹ with LLᵀ = M for each of the moments M; NaN where M is not positive definite."""
    if _many(moments):
        return _each(np.linalg.inv, _each(np.linalg.cholesky, moments))
    found = np.full_like(moments, np.nan)
    for place, moment in enumerate(moments):
        lower, failed = dpotrf(moment, lower=1)
        if not failed:
            found[place] = dtrtri(lower, lower=1)[0]
    return found


def _solver(matrices: Array, unit: Array) -> Callable[[Array], Array]:
    """Return what solves H x = right for each problem; `matrices` are H scaled by `unit`."""
    if _many(matrices):

        def together(right: Array) -> Array:
            found = _each(np.linalg.solve, matrices, (unit * right)[..., None])
            return np.asarray(unit * found[..., 0])

        return together
    factors = [dpotrf(matrix.T, overwrite_a=1) for matrix in matrices]
    unit[[failed > 0 for _, failed in factors]] = np.nan

    def one_by_one(right: Array) -> Array:
        sides = zip(factors, unit * right, strict=True)
        found = [dpotrs(upper, side)[0] for (upper, _), side in sides]
        return np.asarray(unit * np.stack(found))

    return one_by_one


def _many(matrices: Array) -> bool:
    """Whether there are so many, so small matrices that a call of LAPACK for each costs most."""
    return bool(len(matrices) > matrices.shape[1])


def _each(operation: Callable[..., Any], *matrices: Array) -> Array:
    """The operation on the matrices of each problem; NaN where it fails."""
    with suppress(np.linalg.LinAlgError):
        return np.asarray(operation(*matrices))
    found = np.full_like(matrices[-1], np.nan)
    for place, those in enumerate(zip(*matrices, strict=True)):
        with suppress(np.linalg.LinAlgError):
            found[place] = operation(*those)
    return found
