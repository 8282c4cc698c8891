"""How hard it is to tell the best target, as the value of a certified design."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from bestarm.checks import choice, not_negative, vector, whole
from bestarm.design.bounded import minimise_bounded
from bestarm.design.criteria import Regression, contrast_features, regression_features
from bestarm.design.solver import Design, ListedContrasts, check_tolerance, minimise
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, lift, linear_span
from bestarm.problem import Problem, as_problem

Kind = Literal["centered", "shifted", "linear"]


def complexity(
    problem: Problem,
    theta: object,
    kind: Kind = "centered",
    *,
    anchor: int = 0,
    baseline: float | None = None,
    tol: float = 1e-3,
) -> Design:
    """min over p of max over z ≠ z* of ‖z* − z‖² / ((z* − z)·θ)², certified; +∞ if z* is tied.

    Args:
        problem: the problem.
        theta: the true parameter.
        kind: `"centered"` is τ*_cov, with the norm under Σ_cov,p⁻¹; `"shifted"` the paper's lower
            bound, τ*_lin(Z : X − x_anchor); `"linear"` is τ*_lin(Z : X), what a linear bandit
            without a moving baseline would need.
        anchor: the arm the features are shifted by, for `kind="shifted"`.
        baseline: for `kind="centered"`, a bound R on |ν|: τ(R), which lies between the linear
            complexity, at R = 0, and the centered one, which it reaches at a finite R. By default
            the baseline may be anything.
        tol: the relative gap to certify.

    Returns:
        A Design: `value` and `lower_bound` enclose the complexity, `weights` nearly attain it.
        τ*_lin(shifted) ≤ τ*_cov ≤ 4 τ*_lin(shifted) for every anchor.

    Reference: the paper's equations (1) (linear) and (8) (shifted), Propositions 1 and 2, and
    Corollary 1. The centered complexity is not in the paper.
    """
    as_problem(problem)
    choice(kind, ("centered", "shifted", "linear"), "kind")
    check_tolerance(tol)
    whole(anchor, "anchor", least=0, below=problem.arms)
    used = None  # the bound on the baseline, where it makes a difference
    if baseline is not None:
        kind, used = _with_bound(problem, kind, not_negative(baseline, "baseline"))
    contrasts, gaps = _best_contrasts(problem, theta)
    if not gaps.all():
        return Design(np.full(problem.arms, 1 / problem.arms), math.inf, math.inf, 0.0, 0)
    source = problem.source
    unit = float(gaps.max())  # whatever the size of θ, the solver sees numbers near 1
    regression: Regression = "centered" if kind == "centered" else "linear"
    if kind == "shifted":
        # In coordinates of the span: shifting a constant feature leaves nothing but rounding.
        coordinates = problem.span.coordinates(source)
        source = coordinates - coordinates[anchor]
        contrasts = problem.span.contrast_coordinates(contrasts)
    span, features = regression_features(source, regression)
    rows = contrast_features(span, contrasts, regression) / (gaps / unit)[:, None]
    if used is not None:
        origin = linear_span(source)  # that of the features, because the level is known
        features, rows = lift(origin.coordinates(source)), origin.contrast_coordinates(contrasts)
        found = minimise_bounded(features, rows, gaps / unit, used / unit, tol)
    else:
        found = minimise(features, ListedContrasts(rows), tol)
    value, bound = found.value / unit / unit, found.lower_bound / unit / unit
    return replace(found, value=value, lower_bound=bound)


def _with_bound(problem: Problem, kind: Kind, baseline: float) -> tuple[Kind, float | None]:
    """The kind of complexity with |ν| ≤ `baseline`, and that bound if it makes a difference."""
    if kind != "centered":
        raise InvalidInputError(
            f"A bound on the baseline has no part in the {kind} complexity.",
            field="baseline",
            value=baseline,
            remedy='Leave `baseline` out, or ask for kind="centered".',
        )
    if baseline == 0:
        return "linear", None
    # Where features express a level that all arms share, the weights of any contrast sum to 0.
    return kind, None if problem.expresses_level else baseline


def _best_contrasts(problem: Problem, theta: object) -> tuple[Array, Array]:
    """z* − z and its mean for every other target."""
    parameter = vector(theta, "theta")
    if parameter.shape != (problem.dimension,):
        raise InvalidInputError(
            f"`theta` must be {problem.dimension} numbers, one per feature.",
            field="theta",
            value=theta,
            remedy="Give them in the order of the features.",
        )
    # Differences first: with a large offset the means themselves round away small gaps.
    best = int(np.argmax((problem.target - problem.target[0]) @ parameter))
    contrasts = problem.target[best] - np.delete(problem.target, best, axis=0)
    gaps = contrasts @ parameter
    rounding = 1e-12 * (np.abs(contrasts) @ np.abs(parameter))
    return contrasts, np.where(gaps > rounding, gaps, 0.0)
