"""The four exact designs: linear or centered, for all arms (G) or for target contrasts (XY)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bestarm.design.solver import (
    Design,
    ListedContrasts,
    PairwiseContrasts,
    check_tolerance,
    minimise,
)
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, Span, affine_span, lift, linear_span
from bestarm.problem import as_features, check_identifiable

Regression = Literal["linear", "centered"]


def linear_g(source: object, *, tol: float = 1e-3) -> Design:
    """Minimise max_i ‖x_i‖² under (Σ p_i x_i x_iᵀ)⁻¹; the optimum is the rank of the source.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        tol: the relative gap to certify.

    Reference: Kiefer and Wolfowitz (1960).
    """
    points = as_features(source, "source")
    _, features = regression_features(points, "linear")
    return minimise(features, ListedContrasts(features), tol)


def linear_xy(source: object, target: object, *, tol: float = 1e-3) -> Design:
    """Minimise max ‖u − u′‖² under (Σ p_i x_i x_iᵀ)⁻¹ over all pairs of targets.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the options; the contrasts are all differences of its rows.
        tol: the relative gap to certify.

    Reference: Fiez, Jain, Jamieson and Ratliff (2019).
    """
    return _xy(source, target, "linear", tol)


def centered_g(source: object, *, tol: float = 1e-3) -> Design:
    """Minimise max_i ‖x_i − x̄_p‖² under Σ_cov,p⁻¹; the optimum is the dimension of the affine span.

    On the lifted features φ = (1, x) the criterion is ‖φ_i‖² under M(p)⁻¹, less one.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    points = as_features(source, "source")
    _, features = regression_features(points, "centered")
    # (v − l)/(l − 1) ≤ tol is asked of the lifted problem, whose optimum is rank + 1 ≥ 2.
    lifted = minimise(features, ListedContrasts(features), max(tol / 2.1, 1e-9))
    value, bound = lifted.value - 1, lifted.lower_bound - 1
    return Design(lifted.weights, value, bound, value / bound - 1, lifted.iterations)


def centered_xy(source: object, target: object, *, tol: float = 1e-3) -> Design:
    """Minimise max ‖u − u′‖² under Σ_cov,p⁻¹ over all pairs of targets: V*_cov of the paper.

    The paper's Problem 1, called non-convex there. It is convex: by the Schur complement it is the
    linear XY-design on φ = (1, x) with contrasts (0, u − u′).

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the options; the contrasts are all differences of its rows.
        tol: the relative gap to certify.
    """
    return _xy(source, target, "centered", tol)


def _xy(source: object, target: object, regression: Regression, tol: float) -> Design:
    points, options = as_features(source, "source"), as_features(target, "target")
    check_targets(points, options)
    span, features = regression_features(points, regression)
    rows = target_contrasts(span, options, regression)
    return minimise(features, PairwiseContrasts(rows), tol)


def target_contrasts(span: Span, options: Array, regression: Regression) -> Array:
    """Targets less the first, as vectors of the regression; an error if they inform of nothing."""
    check_identifiable(span, options)
    # Only differences matter; subtracting a row first keeps digits when there is a large offset.
    rows = contrast_features(span, options - options[0], regression)
    if not rows.any():
        raise InvalidInputError(
            "All rows of `target` are equal, so there is no contrast to design for.",
            field="target",
            value=options.shape,
            remedy="Give at least two different options.",
        )
    return rows


def check_targets(points: Array, options: Array) -> None:
    """Raise unless there are at least two targets with as many features as the source."""
    if points.shape[1] != options.shape[1] or len(options) < 2:
        raise InvalidInputError(
            f"`target` must hold at least two rows of {points.shape[1]} features, like `source`; "
            f"got shape {options.shape}.",
            field="target",
            value=options.shape,
        )


def regression_features(points: Array, regression: Regression) -> tuple[Span, Array]:
    """The span that pulls of these arms inform about, and the regressors of the arms in it."""
    span = affine_span(points) if regression == "centered" else linear_span(points)
    if span.rank == 0:
        raise InvalidInputError(
            "All rows of `source` are equal, so pulls inform about no contrast.",
            field="source",
            value=points.shape,
            remedy="Give at least two different arms.",
        )
    coordinates = span.coordinates(points)
    return span, lift(coordinates) if regression == "centered" else coordinates


def contrast_features(span: Span, contrasts: Array, regression: Regression) -> Array:
    """Contrasts (rows) as vectors of the same regression: (0, y) if arms are (1, x)."""
    coordinates = span.contrast_coordinates(contrasts)
    return lift(coordinates, 0.0) if regression == "centered" else np.asarray(coordinates)
