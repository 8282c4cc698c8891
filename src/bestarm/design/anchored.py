"""The paper's constructions: half the mass on an anchor, half on a linear design shifted by it.

They approximate the centered designs of `criteria` within a factor 4. The paper's algorithm and
tables use them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bestarm.checks import whole
from bestarm.design.criteria import (
    check_targets,
    linear_g,
    linear_xy,
    regression_features,
)
from bestarm.design.solver import Design
from bestarm.numerics.geometry import Array, Span, centered_diameter, centered_norms
from bestarm.problem import as_features, check_identifiable


@dataclass(frozen=True, eq=False)
class AnchoredDesign(Design):
    """A design around an anchor, judged under the centered covariance.

    `value` is the criterion under Σ_cov,p⁻¹. `lower_bound` is the benchmark's: because
    Σ_cov,p ⪯ Σ p_i (x_i − x_anchor)(x_i − x_anchor)ᵀ, the matrix of the paper's Definition 1, no
    centered design beats the shifted linear optimum.

    Attributes:
        anchor: the arm with half the mass.
        benchmark: the shifted linear design it is built from; `value` ≤ 4 `benchmark.value`.
    """

    anchor: int
    benchmark: Design


def deo(source: object, *, anchor: int = 0, tol: float = 1e-3) -> AnchoredDesign:
    """DEO: half on the anchor, half on the linear G-design of the source shifted by the anchor.

    `value` is max_i ‖x_i − x_anchor‖² under Σ_cov,p⁻¹, at most 4·rank. (For raw features x_i the
    paper's 4 d need not hold, and the norm is infinite where x_i is off the span of differences.)

    Args:
        source: features of the arms that can be pulled, one row per arm.
        anchor: the index of the anchor.
        tol: the relative gap to certify for the shifted linear design.

    Reference: Kim, Kim and Oh (2025), as used in the paper's equation (6) for p_G.
    """
    points = as_features(source, "source")
    _, shifted = _shift(points, anchor)
    benchmark = linear_g(shifted, tol=tol)
    weights = _half_on_anchor(benchmark, anchor)
    value = float(np.max(centered_norms(shifted, weights, shifted)))
    return _anchored(weights, value, anchor, benchmark)


def xor(source: object, target: object, *, anchor: int = 0, tol: float = 1e-3) -> AnchoredDesign:
    """XOR: half on the anchor, half on the linear XY-design of the source shifted by the anchor.

    `value` is max ‖u − u′‖² under Σ_cov,p⁻¹ over pairs of targets, within a factor 4 of the shifted
    linear benchmark.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the options; the contrasts are all differences of its rows.
        anchor: the index of the anchor.
        tol: the relative gap to certify for the shifted linear design.

    Reference: the paper's Algorithm 1 and Proposition 3.
    """
    points = as_features(source, "source")
    options = as_features(target, "target")
    check_targets(points, options)
    # In coordinates of the span, which leave constant features out: shifting would turn those into
    # rounding errors.
    span, shifted = _shift(points, anchor)
    check_identifiable(span, options)
    contrasts = span.contrast_coordinates(options - options[0])
    benchmark = linear_xy(shifted, contrasts, tol=tol)
    weights = _half_on_anchor(benchmark, anchor)
    return _anchored(weights, centered_diameter(shifted, weights, contrasts), anchor, benchmark)


def _shift(points: Array, anchor: int) -> tuple[Span, Array]:
    """The affine span, and the arms' coordinates in it with the anchor at zero."""
    span, lifted = regression_features(points, "centered")
    coordinates = lifted[:, 1:]
    row = coordinates[whole(anchor, "anchor", least=0, below=len(points))]
    return span, np.asarray(coordinates - row)


def _half_on_anchor(benchmark: Design, anchor: int) -> Array:
    weights = benchmark.weights.copy()
    weights[anchor] = 0.0  # its shifted feature is zero, so mass there gives no information
    weights /= 2 * weights.sum()
    weights[anchor] = 0.5
    return weights


def _anchored(weights: Array, value: float, anchor: int, benchmark: Design) -> AnchoredDesign:
    bound = benchmark.lower_bound
    gap = value / bound - 1
    return AnchoredDesign(
        weights, value, bound, gap, benchmark.iterations, anchor=anchor, benchmark=benchmark
    )
