"""Designs for the Gaussian width of a set of targets: the expected range of what they seem to be.

Under a design λ, estimates of z·θ from n pulls have errors z·w/√n, where w ~ N(0, A(λ)⁻¹) and
A(λ) = Σ λ_x x xᵀ. The width is g(λ) = E max_{z,z′} (z − z′)·w, the expected range of these errors.

It is convex in λ. For two designs choose a basis in which both covariances are diagonal, 1 and
D, and draw (w₁, w₂) = (ξ, √D ξ): the mean of the two has variances ((1 + √D)/2)², which is at least
their harmonic mean, and so at least the variances under the mean of the designs. A larger
covariance has a larger expected range, and the range is convex.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bestarm.numerics.geometry import Array, linear_span

_DRAWS = 2048
_ROUNDS = 2000
_DUST = 1e-3  # times the mean weight: not worth a pull
_FLOOR = 1e-8  # times the mean weight: less would make A(λ) singular


class WidthDesign(NamedTuple):
    """A design, with what it achieves.

    Attributes:
        weights: one per source arm, read-only.
        width: γ = g(λ)², estimated from draws.
        variance: ρ, the largest ‖z − z′‖² under A(λ)⁻¹.
        value: γ + penalty·ρ.
        gap: how far the value is above the least possible, at most, relative to it; apart from
            the error of the draws, about 1 %.
    """

    weights: Array
    width: float
    variance: float
    value: float
    gap: float


def width_design(
    source: Array, target: Array, *, penalty: float = 0.0, tol: float = 0.02
) -> WidthDesign:
    """Minimise g(λ)² + penalty·ρ(λ), by multiplicative updates on fixed draws.

    Gradients are exact for the draws. With −2∂g/∂λ_x = x·A⁻¹ E[(z⁺ − z⁻) wᵀ] x, where z⁺ and z⁻
    are the targets at the ends of the range, λ_x is multiplied by the root of −∂F/∂λ_x, which is F
    on average and nowhere more than F at the optimum. F is convex and F(tλ) = F(λ)/t, so that the
    optimum is at least F²/max_x (−∂F/∂λ_x).

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the targets, one row per target, at least two.
        penalty: the weight of the largest variance.
        tol: the relative gap at which to stop.

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020).
    """
    span = linear_span(source)
    arms = span.coordinates(source)
    points = span.contrast_coordinates(target - target[0])
    first, second = np.triu_indices(len(points), 1)
    contrasts = points[first] - points[second]
    draws = _draws(span.rank)
    weights = np.full(len(arms), 1 / len(arms))
    shares = np.full(len(contrasts), 1 / len(contrasts))
    best: WidthDesign | None = None
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh((arms.T * weights) @ arms)
        root = vectors / np.sqrt(values)  # A⁻¹ = root·rootᵀ
        errors = draws @ (root @ vectors.T)  # w = A^(−1/2) η
        seemings = errors @ points.T
        ends = points[seemings.argmax(axis=1)] - points[seemings.argmin(axis=1)]
        width = float(np.einsum("ij,ij->", ends, errors)) / len(draws)
        turn = root @ root.T @ (ends.T @ errors) / len(draws)
        falls = width * np.einsum("ij,jk,ik->i", arms, turn, arms)
        shadows = contrasts @ root
        squares = np.einsum("ij,ij->i", shadows, shadows)
        variance = float(squares.max())
        smooth = width**2
        if penalty > 0:
            shares = shares * (squares / variance)
            shares = shares / shares.sum()
            falls = falls + penalty * ((arms @ root @ shadows.T) ** 2 @ shares)
            smooth += penalty * float(shares @ squares)
        value = width**2 + penalty * variance
        gap = value * float(falls.max()) / smooth**2 - 1
        if best is None or gap < best.gap:
            best = WidthDesign(weights, width**2, variance, value, gap)
        if gap <= tol:
            break
        weights = weights * np.sqrt(np.maximum(falls, 0.0))
        weights = np.maximum(weights / weights.sum(), _FLOOR / len(weights))
    assert best is not None
    weights = np.where(best.weights > _DUST / len(arms), best.weights, 0.0)
    weights /= weights.sum()
    weights.flags.writeable = False
    return best._replace(weights=weights)


def _draws(size: int) -> Array:
    """The draws of η, with mean zero by symmetry and unit covariance."""
    draws = np.random.default_rng(0).standard_normal((_DRAWS, size))
    values, vectors = np.linalg.eigh(draws.T @ draws / _DRAWS)
    return np.asarray(draws @ (vectors / np.sqrt(values)) @ vectors.T)
