"""Spans, lifted features and inverse norms: the linear algebra every other module stands on.

Centering is an intercept. With φ_i = (1, x_i) and M(p) = Σ p_i φ_i φ_iᵀ, the Schur complement of
the first entry of M(p) is Σ_cov,p, the covariance of the features under p. Hence

    ‖y‖² under Σ_cov,p⁻¹           =  ‖(0, y)‖² under M(p)⁻¹
    ‖x_i − x̄_p‖² under Σ_cov,p⁻¹   =  ‖φ_i‖² under M(p)⁻¹ − 1

so that every question about the centered covariance is an ordinary linear one on φ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Span",
    "affine_span",
    "centered_diameter",
    "centered_norms",
    "covariance",
    "diameter",
    "farthest",
    "lift",
    "linear_span",
    "stability",
]

Array = NDArray[np.float64]

_RANK_SAFETY = 16.0  # multiples of the rounding level below which a singular value counts as zero
_SMALLEST = 1e-200  # the unit of a feature that is zero throughout
_OFF_SPAN = 1e-9  # relative residual above which a vector counts as outside the span


@dataclass(frozen=True, eq=False)
class Span:
    """The span of a set of points, with whitened coordinates.

    A point x has coordinates c = dualᵀ(x − origin), and origin + basis·c is its projection on the
    span; basisᵀ·dual is the identity. The coordinates of the spanning points have second moment
    K⁻¹ Σ c cᵀ = I, whatever the scale of the features, so rank decisions are made once, here.

    Attributes:
        origin: what is subtracted first: the mean for an affine span, zero for a linear one.
        basis: columns that span the differences, in feature units (d × rank).
        dual: columns that read coordinates off differences (d × rank).
        scale: one unit a feature: its range over the points, or its rounding level where it is
            constant (d).
        constant: which features are constant over the points (d).
        rounding: the size of pure rounding error in the others, in units of `scale`.
    """

    origin: Array
    basis: Array
    dual: Array
    scale: Array
    constant: NDArray[np.bool_]
    rounding: float

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return int(self.basis.shape[1])

    def coordinates(self, points: Array) -> Array:
        """Coordinates of points (rows), after subtracting the origin."""
        return np.asarray((points - self.origin) @ self.dual)

    def contrast_coordinates(self, contrasts: Array) -> Array:
        """Coordinates of differences (rows): nothing is subtracted."""
        return np.asarray(contrasts @ self.dual)

    def contains(self, contrasts: Array) -> NDArray[np.bool_]:
        """Which differences (rows) lie in the span, up to rounding."""
        residual = (contrasts - self.contrast_coordinates(contrasts) @ self.basis.T) / self.scale
        varying = np.abs(contrasts / self.scale)[:, ~self.constant]
        size = np.max(varying, axis=1, initial=0.0)
        limit = np.maximum(_OFF_SPAN * size, self.rounding)[:, None]
        return np.asarray((np.abs(residual) <= np.where(self.constant, 1.0, limit)).all(axis=1))


def _span(points: Array, origin: Array) -> Span:
    epsilon = _RANK_SAFETY * float(np.finfo(float).eps)
    shifted = points - origin
    extent = np.max(np.abs(shifted), axis=0)
    size = np.max(np.abs(points), axis=0)
    constant = extent <= epsilon * size
    scale = np.where(constant, np.maximum(epsilon * size, _SMALLEST), extent)
    # Subtracting the origin leaves an error in proportion to what was subtracted.
    rounding = epsilon * float(np.max(np.where(constant, 1.0, size / scale), initial=1.0))
    _, values, rows = np.linalg.svd(np.where(constant, 0.0, shifted / scale), full_matrices=False)
    tolerance = max(points.shape) * max(float(values[0]) * epsilon, rounding)
    rank = int(np.count_nonzero(values > tolerance))
    unit = np.sqrt(len(points))
    basis = (rows[:rank].T * (values[:rank] / unit)) * scale[:, None]
    dual = (rows[:rank].T * (unit / values[:rank])) / scale[:, None]
    # A constant feature has loading zero up to rounding; in its tiny unit that must be exact.
    basis[constant] = dual[constant] = 0.0
    return Span(origin, basis, dual, scale, constant, max(points.shape) * rounding)


def affine_span(points: Array) -> Span:
    """The affine span of points (rows): where differences of the points live."""
    return _span(points, points.mean(axis=0))


def linear_span(points: Array) -> Span:
    """The linear span of points (rows)."""
    return _span(points, np.zeros(points.shape[1]))


def lift(coordinates: Array, constant: float = 1.0) -> Array:
    """φ = (constant, x) for each row x: constant 1 for arms, 0 for contrasts."""
    return np.column_stack([np.full(len(coordinates), constant), coordinates])


def covariance(source: Array, weights: Array) -> Array:
    """Σ_cov,p = Σ p_i (x_i − x̄_p)(x_i − x̄_p)ᵀ."""
    centered = source - weights @ source
    return np.asarray(centered.T @ (weights[:, None] * centered))


def _support_factor(source: Array, weights: Array) -> tuple[Span, Array]:
    """The affine span of the pulled arms, and U with U Uᵀ = Σ_cov,p⁻¹ in its coordinates."""
    pulled = weights > 0
    span = affine_span(source[pulled])
    coordinates = span.coordinates(source[pulled])
    cov = covariance(coordinates, weights[pulled] / weights[pulled].sum())
    values, vectors = np.linalg.eigh(cov)
    return span, vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))


def centered_norms(source: Array, weights: Array, contrasts: Array) -> Array:
    """‖y‖² under Σ_cov,p⁻¹ for each contrast (row); +∞ off the column space of Σ_cov,p."""
    span, factor = _support_factor(source, weights)
    whitened = span.contrast_coordinates(contrasts) @ factor
    norms = np.einsum("ij,ij->i", whitened, whitened)
    return np.where(span.contains(contrasts), norms, np.inf)


def centered_diameter(source: Array, weights: Array, target: Array) -> float:
    """V_cov: the largest ‖u − u′‖² under Σ_cov,p⁻¹ over pairs of targets (rows); may be +∞."""
    span, factor = _support_factor(source, weights)
    contrasts = target - target[0]
    if not span.contains(contrasts).all():
        return float("inf")
    return diameter(span.contrast_coordinates(contrasts) @ factor)


def stability(source: Array, weights: Array) -> float:
    """M = max_i ‖x_i − x̄_p‖² under Σ_cov,p⁻¹ over all source arms, pulled or not."""
    return float(np.max(centered_norms(source, weights, source - weights @ source)))


def farthest(points: Array, block: int = 512) -> tuple[NDArray[np.intp], Array]:
    """For each point (row) the index of the farthest point, and its squared distance.

    Blocks of one matrix product: time O(H² r), memory O(block · H).
    """
    count = len(points)
    points = points - points[:1]  # an offset would cost digits
    # ‖u − v‖² = ‖u‖² + (‖v‖² − 2 u·v); the bracket is one product with the norms as a feature.
    norms = np.einsum("ij,ij->i", points, points)
    left = np.column_stack([-2.0 * points, np.ones(count)])
    right = np.ascontiguousarray(np.column_stack([points, norms]).T)
    index = np.empty(count, dtype=np.intp)
    distance = np.empty(count)
    for start in range(0, count, block):
        rows = slice(start, start + block)
        product = left[rows] @ right
        index[rows] = product.argmax(axis=1)
    # Once more from the differences themselves: the product loses digits to cancellation.
    difference = points - points[index]
    np.einsum("ij,ij->i", difference, difference, out=distance)
    return index, distance


def diameter(points: Array) -> float:
    """The largest squared distance between two points (rows)."""
    return float(np.max(farthest(points)[1], initial=0.0))
