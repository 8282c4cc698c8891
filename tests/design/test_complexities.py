"""Complexities in their order, in closed form, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_instances import Instance, instances, small_gap_features
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bestarm.design import complexity
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem

some = settings(max_examples=25, deadline=None, derandomize=True)
TOL = 1e-4


def with_parameter(instance: Instance) -> tuple[Problem, Array, Array]:
    """The problem, a parameter in its features, and the gaps of the targets to the best."""
    assume(len(np.unique(instance.base_target, axis=0)) == len(instance.base_target))
    # θ in base coordinates: whole numbers, so that the gaps are exact there.
    theta = instance.rng.integers(-5, 6, size=instance.rank).astype(float)
    means = instance.base_target @ theta
    gaps = means.max() - means
    assume(np.count_nonzero(gaps == 0) == 1)
    rows = instance.base_source - instance.base_source[0]
    source = instance.source - instance.source[0]
    # Any θ in feature units with the same means of differences will do; units first, for digits.
    unit = np.abs(source).max(axis=0)
    unit[unit == 0] = 1.0
    solution, *_ = np.linalg.lstsq(source / unit, rows @ theta, rcond=None)
    return Problem(instance.source, instance.target), solution / unit, np.sort(gaps)[1:]


@some
@given(instances(arms=8, targets=6))
def test_the_shifted_complexity_encloses_the_centered_one_within_4(instance: Instance) -> None:
    """τ_lin(shifted by i) ≤ τ_cov ≤ 4 τ_lin(shifted by i), so any two anchors differ by ≤ 4."""
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    centered = complexity(problem, theta, tol=TOL)
    shifted = [
        complexity(problem, theta, "shifted", anchor=i, tol=TOL) for i in range(problem.arms)
    ]
    for design in shifted:
        assert design.gap <= TOL
        assert design.lower_bound <= centered.value * (1 + 1e-6)
        assert centered.lower_bound <= 4 * design.value * (1 + 1e-6)
    assert max(d.lower_bound for d in shifted) <= 4 * min(d.value for d in shifted) * (1 + 1e-6)


@some
@given(instances(arms=8, targets=6, offsets=False))
def test_an_intercept_can_only_hurt(instance: Instance) -> None:
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    linear = complexity(problem, theta, "linear", tol=TOL)
    centered = complexity(problem, theta, tol=TOL)
    assert linear.lower_bound <= centered.value * (1 + 1e-6)


@some
@given(instances(arms=8, targets=6), st.sampled_from([1e-6, 0.5, 3.0, 1e6]))
def test_complexities_scale_with_the_parameter(instance: Instance, c: float) -> None:
    problem, theta, _ = with_parameter(instance)
    for kind in ("centered", "shifted"):
        plain = complexity(problem, theta, kind, tol=1e-6)
        scaled = complexity(problem, c * theta, kind, tol=1e-6)
        assert scaled.value * c**2 == pytest.approx(plain.value, rel=3e-6)


@some
@given(instances(arms=8, targets=6))
def test_complexities_survive_affine_maps(instance: Instance) -> None:
    problem, theta, gaps = with_parameter(instance)
    assume(gaps[0] >= 1e-3 * gaps[-1])
    base = Problem(instance.base_source, instance.base_target)
    rows = instance.base_source - instance.base_source[0]
    means = (instance.source - instance.source[0]) @ theta
    base_theta, *_ = np.linalg.lstsq(rows, means, rcond=None)
    moved = complexity(problem, theta, tol=1e-6).value
    assert moved == pytest.approx(complexity(base, base_theta, tol=1e-6).value, rel=1e-4)


def test_one_hot_complexity() -> None:
    """Two arms, gap g: variance 4 for a contrast, 4/g². Three, gaps 1 and 1: (√2 + 1)²."""
    assert complexity(Problem(np.eye(2)), [0.5, 0.0]).value == pytest.approx(16, rel=1e-3)
    # Minimise max_i (1/p_1 + 1/p_i) over p: p_1 = √2 p_i, in all 1/p_1 + 1/p_2 = 3 + 2√2.
    value = complexity(Problem(np.eye(3)), [1.0, 0.0, 0.0], tol=1e-6).value
    assert value == pytest.approx(3 + 2 * math.sqrt(2), rel=1e-6)


def test_small_gap_complexity() -> None:
    """Far above the arms that are easily told apart: the gap of the turned arm decides.

    2(1 − cos 0.2) is its gap. With half of the mass on each end of that contrast alone the
    variance is 4; the other contrasts are worth 4 at their gap of 2, and hardly cost anything.
    """
    problem = Problem(small_gap_features())
    gap = 2 * (1 - math.cos(0.2))
    value = complexity(problem, 2 * np.eye(10)[0]).value
    assert 4 / gap**2 < value < 4.3 / gap**2


@pytest.mark.parametrize("kind", ["centered", "shifted", "linear"])
@pytest.mark.parametrize("theta", [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.1 + 0.2, 0.3, 0.0]])
def test_a_tie_at_the_top_is_never_resolved(kind: str, theta: list[float]) -> None:
    design = complexity(Problem(np.eye(3)), theta, kind)  # type: ignore[arg-type]
    assert design.value == design.lower_bound == math.inf
    assert design.weights.sum() == pytest.approx(1)


def test_a_tie_below_the_top_does_no_harm() -> None:
    assert math.isfinite(complexity(Problem(np.eye(3)), [1.0, 0.0, 0.0]).value)


@pytest.mark.parametrize("offset", [2.0**10, 2.0**20, 2.0**30])
def test_an_offset_does_not_hide_the_best(offset: float) -> None:
    """x·θ rounds at the size of the offset; the gaps, which are differences, need not."""
    base = np.ldexp([[0.0, 4.0], [4.0, 0.0], [0.0, 0.0], [1.0, 1.0]], -10)
    theta = np.array([1.0, 1.0 - 1e-6]) / 3
    near = complexity(Problem(base), theta)
    far = complexity(Problem(base + offset), theta)
    assert far.value == pytest.approx(near.value, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"kind": "circular"}, "kind"),
        ({"kind": "shifted", "anchor": 3}, "anchor"),
        ({"kind": "shifted", "anchor": -1}, "anchor"),
        ({"kind": "shifted", "anchor": 0.5}, "anchor"),
        ({"tol": 0.0}, "tol"),
    ],
)
@pytest.mark.parametrize("theta", [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
def test_what_complexity_refuses(
    options: dict[str, object], field: str, theta: list[float]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        complexity(Problem(np.eye(3)), theta, **options)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("theta", [[1.0, 2.0], 1.0, [[1.0, 0.0, 0.0]], [1.0, math.nan, 0.0], "abc"])
def test_the_parameter_has_one_number_per_feature(theta: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        complexity(Problem(np.eye(3)), theta)
    assert caught.value.field == "theta"


@pytest.mark.parametrize("kind", ["centered", "shifted", "linear"])
def test_the_bound_of_a_complexity_is_below_it(kind: str) -> None:
    points = np.random.default_rng(0).normal(size=(14, 4))
    problem, theta = Problem(points), points[3]
    coarse, fine = (complexity(problem, theta, kind, tol=t) for t in (0.5, 1e-7))  # type: ignore[arg-type]
    assert coarse.lower_bound <= fine.value * (1 + 1e-9)
    assert fine.lower_bound == pytest.approx(fine.value, rel=1e-6)
