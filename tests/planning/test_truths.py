"""Parameters of a plan lead by exactly the gap, and the hardest one is the hardest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bestarm import Problem, design
from bestarm.errors import InvalidInputError
from bestarm.planning.worlds import closest, typical


def gaps(problem: Problem, theta: np.ndarray) -> np.ndarray:
    values = problem.target @ theta
    return np.sort(values.max() - np.delete(values, values.argmax()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [closest, lambda p, g: typical(p, g, widest=np.inf)])
def test_the_lead_is_exactly_the_gap(seed: int, shape) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    problem = Problem(rng.normal(size=(9, 3)) + 4, rng.normal(size=(7, 3)))
    assert gaps(problem, shape(problem, 0.03))[0] == pytest.approx(0.03, rel=1e-9)


def test_unrelated_options_are_all_as_close_as_the_gap() -> None:
    theta = closest(Problem(np.eye(6)), 0.2)
    assert gaps(Problem(np.eye(6)), theta) == pytest.approx(np.full(5, 0.2))
    assert theta.argmax() == 0  # all are equally hard, so the first


def test_the_others_are_as_close_as_a_general_solver_brings_them() -> None:
    import cvxpy  # noqa: PLC0415  loads slowly

    cp: Any = cvxpy  # its annotations stop half way
    rng = np.random.default_rng(3)
    problem = Problem(rng.normal(size=(8, 3)))
    theta = closest(problem, 1.0)
    best = int((problem.target @ theta).argmax())
    contrasts = problem.target[best] - np.delete(problem.target, best, axis=0)
    free = cp.Variable(3)
    objective = cp.Minimize(cp.sum_squares(contrasts @ free))
    least = cp.Problem(objective, [contrasts @ free >= 1]).solve(solver="CLARABEL")
    assert np.sum((contrasts @ theta) ** 2) == pytest.approx(least, rel=1e-5)


def test_of_all_that_can_be_the_best_the_hardest_is() -> None:
    # On a line only the ends can lead; the lonely one leads by the gap with the flatter slope.
    problem = Problem([[0.0], [1.0], [5.0], [9.0]])
    theta = closest(problem, 0.5)
    assert theta == pytest.approx([0.5 / 4])
    other = -theta * 0.5 / gaps(problem, -theta)[0]
    assert design.complexity(problem, theta).value > design.complexity(problem, other).value


def test_how_features_are_written_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    features, mix = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    first, second = Problem(features), Problem(features @ mix + [3, -2, 50])
    one, two = closest(first, 0.1), closest(second, 0.1)
    assert gaps(second, two) == pytest.approx(gaps(first, one), rel=1e-6)


def test_many_targets_are_planned_for_as_well() -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(10, 4)), rng.normal(size=(300, 4)))
    assert gaps(problem, closest(problem, 0.1))[0] == pytest.approx(0.1)


def test_a_typical_parameter_is_easier_than_the_hardest_and_fits() -> None:
    problem = Problem(np.eye(5))
    hard, usual = closest(problem, 0.05), typical(problem, 0.05, widest=2.0)
    assert np.ptp(usual) <= 2.0
    assert design.complexity(problem, usual).value < design.complexity(problem, hard).value
    with pytest.raises(InvalidInputError, match="smaller gap"):
        typical(problem, 0.5, widest=0.6)
