"""A lower bound holds for the optimum itself, also where the solver stops far from it."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import Problem, design
from bestarm.design import centered_g, centered_xy, deo, linear_g, linear_xy, xor

COARSE, FINE = 0.5, 1e-7
POINTS = np.random.default_rng(0).normal(size=(14, 4))
SHIFTED = POINTS - POINTS[0]


def test_the_solver_does_stop_far_from_the_optimum() -> None:
    """Or the tests below would say nothing."""
    for coarse, fine in (
        (linear_xy(SHIFTED, POINTS, tol=COARSE), linear_xy(SHIFTED, POINTS, tol=FINE)),
        (linear_g(SHIFTED, tol=COARSE), linear_g(SHIFTED, tol=FINE)),
    ):
        assert coarse.value > 1.01 * fine.value


@pytest.mark.parametrize("anchored", ["xor", "deo"])
def test_the_bound_of_an_anchored_design_is_below_its_benchmark_s_optimum(anchored: str) -> None:
    if anchored == "xor":
        design, fine = xor(POINTS, POINTS, tol=COARSE), linear_xy(SHIFTED, POINTS, tol=FINE)
    else:
        design, fine = deo(POINTS, tol=COARSE), linear_g(SHIFTED, tol=FINE)
    assert design.lower_bound <= fine.value
    assert design.gap == pytest.approx(design.value / design.lower_bound - 1)


def test_the_bounds_of_exact_designs_are_below_their_optima() -> None:
    """By Kiefer and Wolfowitz the optimum of a G-design is the rank; of the others a finer one."""
    assert linear_g(POINTS, tol=COARSE).lower_bound <= 4
    assert centered_g(POINTS, tol=COARSE).lower_bound <= 4
    for make in (linear_xy, centered_xy):
        assert make(POINTS, POINTS, tol=COARSE).lower_bound <= make(POINTS, POINTS, tol=FINE).value


@pytest.mark.parametrize("kind", ["centered", "shifted", "linear", "blocked"])
def test_the_bound_of_a_complexity_is_below_it(kind: str) -> None:
    problem, theta = Problem(POINTS), POINTS[3]
    coarse, fine = (design.complexity(problem, theta, kind, tol=t) for t in (COARSE, FINE))  # type: ignore[arg-type]
    assert coarse.lower_bound <= fine.value * (1 + 1e-9)
    assert fine.lower_bound == pytest.approx(fine.value, rel=1e-6)
