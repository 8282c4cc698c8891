"""An interior-point method for small XY-designs: the core of the solver.

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

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from bestarm.geometry import Array

_MOST_STEPS = 60
_CENTRAL = 1e-3  # the least that a product may be of the mean product
_MOST_CUTS = 12
_BOUNDARY = 0.95  # part of the way to the boundary that a step may go


@dataclass(frozen=True, eq=False)
class Point:
    """A primal–dual pair: masses `q`, contrast multipliers `mu`, and the steps it took."""

    q: Array
    mu: Array
    steps: int


@dataclass(frozen=True, eq=False)
class _State:
    """Computed from q: A = L⁻¹Φᵀ, B = L⁻¹Yᵀ and S = AᵀB, with M = LLᵀ; values g = yᵀM⁻¹y."""

    a: Array
    b: Array
    s: Array
    g: Array


def _factor(features: Array, contrasts: Array, q: Array) -> _State | None:
    lower, failed = dpotrf(second_moment(features, q), lower=1)
    if failed:
        return None
    b, _ = dtrtrs(lower, contrasts.T, lower=1)
    a, _ = dtrtrs(lower, features.T, lower=1)
    return _State(a, b, a.T @ b, np.einsum("ij,ij->j", b, b))


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


def longest(x: Array, dx: Array) -> float:
    """The longest step in (0, 1] that keeps x well inside the positive numbers."""
    ratio = float((-dx / x).max())
    return 1.0 if ratio <= _BOUNDARY else _BOUNDARY / ratio


@dataclass(frozen=True, eq=False)
class _Newton:
    """The linearised optimality conditions at one iterate, factored.

    1 − ∇h·mu − dual = 0,   h − slack = 1,   q∘dual = target,   mu∘slack = target

    What is primal, (q, slack), is one array, and what is dual, (dual, mu), another: their products
    are the targets.
    """

    factor: Array
    jacobian: Array
    arms: int
    primal: Array
    dual: Array
    gradient_residual: Array
    slack_residual: Array

    def towards(self, target: Array | float) -> _Step:
        n = self.arms
        push = target / self.primal - self.dual
        ratio = self.dual / self.primal
        push[n:] -= ratio[n:] * self.slack_residual
        rhs = self.jacobian @ push[n:] + push[:n] - self.gradient_residual
        dq, _ = dpotrs(self.factor, rhs, lower=1)
        moved = np.concatenate([dq, dq @ self.jacobian])
        dual = push - ratio * moved
        moved[n:] += self.slack_residual
        return _Step(moved, dual)

    def lengths(self, step: _Step) -> tuple[float, float]:
        """Primal and dual step lengths."""
        return longest(self.primal, step.primal), longest(self.dual, step.dual)

    def centered_lengths(self, step: _Step) -> tuple[float, float]:
        """Step lengths after which no product has fallen far behind the others.

        If few arms carry the optimum, the scores of the rest depend on the ratios of masses that
        all go to zero; off the central path these ratios freeze at wrong values.
        """
        primal, dual = self.lengths(step)
        for _ in range(_MOST_CUTS):
            products = (self.primal + primal * step.primal) * (self.dual + dual * step.dual)
            if products.min() >= _CENTRAL * products.mean():
                break
            primal, dual = 0.8 * primal, 0.8 * dual
        return primal, dual

    def _mean_product(self, primal: Array, dual: Array) -> float:
        n = self.arms
        return float(primal[:n] @ dual[:n] + dual[n:] @ primal[n:]) / len(dual)

    def predicted(self, enough: float) -> _Step:
        """Mehrotra's step: aim at the boundary, measure the progress, correct for the curvature.

        Products are aimed no lower than `enough`, and not lower at all while the gradient condition
        is off: its curvature is in the masses that go to zero, and must be followed, not outrun.
        """
        aim = self.towards(0.0)
        primal, dual = self.lengths(aim)
        now = self._mean_product(self.primal, self.dual)
        after = self._mean_product(self.primal + primal * aim.primal, self.dual + dual * aim.dual)
        infeasible = min(1.0, float(np.abs(self.gradient_residual).max()))
        center = max(now * max((after / now) ** 3, infeasible), enough)
        return self.towards(center - aim.primal * aim.dual)


@dataclass(frozen=True, eq=False)
class _Step:
    primal: Array
    dual: Array


def interior_point(features: Array, contrasts: Array, start: Point, tol: float) -> Point:
    """Improve `start` until its certified relative gap over these arms and contrasts is ≤ tol.

    Args:
        features: φ, one per row, of full column rank; the same number of rows for each mass.
        contrasts: y, one per row.
        start: positive masses and multipliers, of any scale.
        tol: the relative gap between Σq at max g = 1 and the lower bound of the multipliers.
    """
    q, mu = start.q, start.mu
    state = _factor(features, contrasts, q)
    if state is None:
        return start
    # Any q becomes strictly feasible by scaling up, any mu by scaling down.
    scale = 1.1 * float(state.g.max())
    q = q * scale
    root = np.sqrt(scale)
    state = _State(state.a / root, state.b / root, state.s / scale, state.g / scale)
    arms = len(q)
    mu = mu * (0.9 / float((add_rows(np.square(state.s / state.g), arms) @ mu).max()))
    primal = np.concatenate([q, 1 / state.g - 1])
    dual = np.concatenate([1 - add_rows(np.square(state.s / state.g), arms) @ mu, mu])
    steps = 0
    while steps < _MOST_STEPS:
        q, slack, reduced, mu = primal[:arms], primal[arms:], dual[:arms], dual[arms:]
        w = add_rows(np.square(state.s), arms)  # w_iy = Σ (φᵀM⁻¹y)² = −∂g_y/∂q_i
        h = 1 / state.g
        value = float(q.sum() * state.g.max())
        bound = float(mu @ state.g) ** 2 / float(mu.sum() * (w @ mu).max())
        if value <= bound * (1 + tol):
            break
        jacobian = w * (h * h)  # ∂h_y/∂q_i
        # −Σ mu ∇²h = 2 (ΦM⁻¹Φᵀ)∘(S diag(mu h²) Sᵀ) − 2 W diag(mu h³) Wᵀ, plus the barrier terms.
        # The negative part outweighs its barrier only where a contrast is far from active, and is
        # left out there: both products are then of the form RRᵀ, at half the price.
        root = state.s * (np.sqrt(mu) * h)
        if len(root) > arms:  # many rows: as many columns as features will do
            upper = np.asarray(np.linalg.qr((state.b * (np.sqrt(mu) * h)).T, mode="r"))
            root = state.a.T @ upper.T
        hessian = (2 * (state.a.T @ state.a)) * (root @ root.T)
        if len(hessian) > arms:
            hessian = add_rows(add_rows(hessian, arms).T, arms)
        root = w * np.sqrt(np.maximum(mu / slack * h**4 - 2 * mu * h**3, 0.0))
        hessian += root @ root.T
        hessian.flat[:: arms + 1] += reduced / q
        factor, failed = dpotrf(hessian, lower=1)
        if failed:
            break
        newton = _Newton(
            factor, jacobian, arms, primal, dual, 1 - jacobian @ mu - reduced, h - slack - 1
        )
        step = newton.predicted(0.3 * tol * value / len(dual))
        primal_length, dual_length = newton.centered_lengths(step)
        moved = _factor(features, contrasts, q + primal_length * step.primal[:arms])
        if moved is None:
            break
        state = moved
        primal = primal + primal_length * step.primal
        dual = dual + dual_length * step.dual
        steps += 1
    return Point(primal[:arms], dual[arms:], steps)
