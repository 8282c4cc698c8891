"""Spans, lifted features and inverse norms: the linear algebra of every other module.

Centering is an intercept. With φ_i = (1, x_i) and M(p) = Σ p_i φ_i φ_iᵀ, the Schur complement of
the first entry of M(p) is Σ_cov,p, the covariance of the features under p. Hence

    ‖y‖² under Σ_cov,p⁻¹           =  ‖(0, y)‖² under M(p)⁻¹
    ‖x_i − x̄_p‖² under Σ_cov,p⁻¹   =  ‖φ_i‖² under M(p)⁻¹ − 1

so that every question about the centered covariance is an ordinary linear one on φ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TIE",
    "Array",
    "Span",
    "affine_span",
    "centered_diameter",
    "centered_norms",
    "covariance",
    "diameter",
    "farthest",
    "first_largest",
    "lift",
    "linear_diameter",
    "linear_norms",
    "linear_span",
    "ranked",
]

#: An array of floats.
Array = NDArray[np.float64]
#: An array of numbers of arms, targets or runs.
Indices = NDArray[np.int64]

#: Keys that differ by less than this, relative to the largest, count as equal.
TIE = 1e-9
_ROW_ROUNDING = 16 * float(np.finfo(float).eps)  # relative to the size of a feature
_NOISE = 1e-12  # relative to the numbers that keys were computed from: less is rounding

_RANK_SAFETY = 16.0  # multiples of the rounding level below which a singular value counts as zero
_SMALLEST = 1e-200  # the unit of a feature that is zero throughout
_OFF_SPAN = 1e-9  # relative residual above which a vector counts as outside the span
_SMALL = 4096  # numbers in a table up to which its span is remembered
_MANY = 256  # features from which on singular values are costly
_WELL = 1e6  # ‖R‖ ‖R⁻¹‖ up to which squaring the features loses nothing that matters
_NEGLIGIBLE = 1e-9  # a pivot, relative to the largest: more than squaring can have left of a zero


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
        scale: one unit per feature: its range over the points, or its rounding level if it is
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
    level = max(points.shape) * epsilon, max(points.shape) * rounding
    table = np.where(constant, 0.0, shifted / scale)
    quick = _pivoted_axes(table, *level) if len(table) >= table.shape[1] >= _MANY else None
    axes, readings = quick or _singular_axes(table, *level)
    basis, dual = axes * scale[:, None], readings / scale[:, None]
    # A constant feature has loading zero up to rounding; in its tiny unit that must be exact.
    basis[constant] = dual[constant] = 0.0
    return Span(origin, basis, dual, scale, constant, level[1])


def _singular_axes(table: Array, relative: float, absolute: float) -> tuple[Array, Array]:
    """B and D with table = (table·D) Bᵀ and BᵀD = I, by singular values.

    The n rows of table·D have unit second moments: (table·D)ᵀ(table·D) = nI. Values count as zero
    up to `relative` times the largest, and up to `absolute`. Stored experiments depend on the last
    digit of the result: another order of these products is another version of every policy.
    """
    _, values, rows = np.linalg.svd(table, full_matrices=False)
    rank = int(np.count_nonzero(values > max(float(values[0]) * relative, absolute)))
    axes, values, unit = rows[:rank].T, values[:rank], np.sqrt(len(table))
    return axes * (values / unit), axes * (unit / values)


def _pivoted_axes(table: Array, relative: float, absolute: float) -> tuple[Array, Array] | None:
    """The result of `_singular_axes` up to a rotation, by matrix products alone; or None.

    With X the table, pivots J and X_JᵀX_J = RᵀR, the other features are X_J W + E. The singular
    values of X up to the |J|-th are at least 1/‖R⁻¹‖, those beyond at most ‖E‖ (both Frobenius).
    None if these do not settle which of them count as zero, or if R is badly conditioned.
    """
    from scipy.linalg.lapack import dpstrf, dtrtri  # noqa: PLC0415 - heavy

    squares = np.einsum("ij,ij->j", table, table)
    least, most = float(np.sqrt(squares.max())), float(np.sqrt(squares.sum()))  # ≤ ‖X‖ ≤
    if least <= absolute:
        return None
    factor, order, rank, _ = dpstrf(table.T @ table, tol=_NEGLIGIBLE * squares.max())
    order = order - 1
    upper = np.triu(factor[:rank, :rank])
    inverse, _ = dtrtri(upper)
    size = float(np.linalg.norm(inverse))
    if most * size > _WELL or 1 / size <= 2 * max(most * relative, absolute):
        return None
    chosen, others = table[:, order[:rank]], table[:, order[rank:]]
    mixture, left = np.zeros((rank, others.shape[1])), others
    for _ in range(2):  # once, and once more for the digits lost by squaring
        mixture = mixture + inverse @ (inverse.T @ (chosen.T @ left))
        left = others - chosen @ mixture
    if np.linalg.norm(left) > max(least * relative, absolute):
        return None
    # Rows are (x_J, Wᵀx_J); D reads x_J off the nearest such row, with (I + WWᵀ)⁻¹ by Woodbury.
    inner = np.eye(others.shape[1]) + mixture.T @ mixture
    reading = inverse - mixture @ np.linalg.solve(inner, mixture.T @ inverse)
    axes, readings = np.empty((2, len(order), rank))
    axes[order] = np.vstack([upper.T, (upper @ mixture).T])
    readings[order] = np.vstack([reading, mixture.T @ reading])
    unit = np.sqrt(len(table))
    return axes / unit, readings * unit


def affine_span(points: Array) -> Span:
    """The affine span of points (rows): it contains the differences of the points."""
    return _span_of(points, affine=True)


def linear_span(points: Array) -> Span:
    """The linear span of points (rows)."""
    return _span_of(points, affine=False)


def _span_of(points: Array, *, affine: bool) -> Span:
    if points.size > _SMALL:
        return _span(points, points.mean(axis=0) if affine else np.zeros(points.shape[1]))
    return _small_span(points.tobytes(), points.shape, affine)


@lru_cache(maxsize=256)
def _small_span(content: bytes, shape: tuple[int, ...], affine: bool) -> Span:
    """The span of a small table: every phase of a run, and every run, asks for the same ones."""
    points = np.frombuffer(content).reshape(shape)
    found = _span(points, points.mean(axis=0) if affine else np.zeros(shape[1]))
    for part in (found.origin, found.basis, found.dual, found.scale, found.constant):
        part.flags.writeable = False  # they are shared
    return found


def lift(coordinates: Array, constant: Array | float = 1.0) -> Array:
    """φ = (constant, x) for each x along the last axis: constant 1 for arms, 0 for contrasts."""
    first = np.broadcast_to(constant, coordinates.shape[:-1])
    return np.concatenate([first[..., None], coordinates], axis=-1)


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
    return _diameter(*_support_factor(source, weights), target)


def _diameter(span: Span, factor: Array, target: Array) -> float:
    contrasts = target - target[0]
    if not span.contains(contrasts).all():
        return float("inf")
    return diameter(span.contrast_coordinates(contrasts) @ factor)


def _linear_factor(source: Array, weights: Array) -> tuple[Span, Array]:
    """The linear span of the pulled arms, and U with U Uᵀ = (Σ w_i x_i x_iᵀ)⁻¹ in coordinates."""
    pulled = weights > 0
    span = linear_span(source[pulled])
    regressors = span.coordinates(source[pulled]) * np.sqrt(weights[pulled])[:, None]
    values, vectors = np.linalg.eigh(regressors.T @ regressors)
    return span, vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))


def linear_norms(source: Array, weights: Array, contrasts: Array) -> Array:
    """‖y‖² under (Σ w_i x_i x_iᵀ)⁻¹ for each contrast (row); +∞ off its column space."""
    span, factor = _linear_factor(source, weights)
    norms = np.sum((span.contrast_coordinates(contrasts) @ factor) ** 2, axis=1)
    return np.where(span.contains(contrasts), norms, np.inf)


def linear_diameter(source: Array, weights: Array, target: Array) -> float:
    """The largest ‖u − u′‖² under (Σ w_i x_i x_iᵀ)⁻¹ over pairs of targets (rows); may be +∞."""
    return _diameter(*_linear_factor(source, weights), target)


def ranked(keys: Array, *, size: float = 0.0) -> NDArray[np.intp]:
    """The indices of keys from the largest to the smallest; equal keys in order of index.

    Keys that are equal on paper differ by rounding in the machine, and processors round
    differently. So neighbours in the order count as equal up to `TIE` times the largest key. (Cells
    of a fixed grid would not do: a tie may lie across the edge of two.)

    Args:
        keys: finite numbers.
        size: the size of the numbers that the keys were computed from, if much larger.
    """
    order = np.argsort(-keys, kind="stable")
    if len(order) < 2:
        return order
    falling = keys[order]
    apart = falling[:-1] - falling[1:] > _tie(keys, size)
    if apart.all():
        return order
    group = np.concatenate([[0], np.cumsum(apart)])
    return order[np.lexsort((order, group))]


def first_largest(keys: Array, *, size: float = 0.0) -> int:
    """The first index of the largest key: `ranked(keys)[0]` except for chains of near-ties."""
    return int(np.argmax(keys >= keys.max() - _tie(keys, size)))


def _tie(keys: Array, size: float) -> float:
    return max(TIE * float(np.abs(keys).max()), _NOISE * size)


def farthest(points: Array, block: int = 512) -> tuple[NDArray[np.intp], Array]:
    """For each point (row) the index of the farthest point, and its squared distance.

    Of several equally far points it is the first after the point itself, else the first of all, so
    that identical points name each other in turn.

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
    tie, columns = TIE * float(norms.max(initial=0.0)), np.arange(count)
    for start in range(0, count, block):
        rows = slice(start, start + block)
        product = left[rows] @ right
        tied = product >= product.max(axis=1, keepdims=True) - tie
        later = tied & (columns > columns[rows, None])
        index[rows] = np.where(later.any(axis=1), later.argmax(axis=1), tied.argmax(axis=1))
    # Once more from the differences themselves: the product loses digits to cancellation.
    difference = points - points[index]
    np.einsum("ij,ij->i", difference, difference, out=distance)
    return index, distance


def diameter(points: Array) -> float:
    """The largest squared distance between two points (rows)."""
    return float(np.max(farthest(points)[1], initial=0.0))


def identical_rows(span: Span, target: Array) -> tuple[int, int] | None:
    """Two rows that are equal, or differ only by rounding in every feature; or None."""
    shifted = target - target[0]
    size = np.maximum(np.max(np.abs(target), axis=0), np.max(np.abs(shifted), axis=0))
    rounding = np.where(span.constant, 1.0, span.rounding)
    limit = np.maximum(span.scale * rounding, _ROW_ROUNDING * size)
    units = shifted / limit
    # Such rows are neighbours along every line. Along a random line, few other points are.
    line = np.random.default_rng(0).uniform(0.5, 1.0, units.shape[1])
    places = units @ line
    order = np.argsort(places, kind="stable")
    places, units = places[order], units[order]
    near = line.sum() + _ROW_ROUNDING * len(line) * float(np.max(np.abs(units) @ line))
    for step in range(1, len(units)):
        close = np.flatnonzero(places[step:] - places[:-step] <= near)
        if not close.size:
            return None
        alike = (np.abs(units[close + step] - units[close]) <= 1).all(axis=1)
        if alike.any():
            found = close[int(np.argmax(alike))]
            first, second = sorted((int(order[found]), int(order[found + step])))
            return first, second
    return None
