"""The semiparametric world: its truth, what policies are told, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bestarm.environments import (
    Semiparametric,
    baselines,
    small_gap,
    uniform_sphere,
)
from bestarm.errors import InvalidInputError

SOURCE = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def test_truth_and_what_policies_are_told() -> None:
    world = Semiparametric(
        SOURCE,
        [1.0, 0.25],
        target=[[2.0, 0.0], [0.0, 4.0], [3.0, 0.0]],
        baseline=baselines.switches([-3.0, 1.0]),
        noise=0.5,
        target_labels=["a", "b", "c"],
    )
    assert (world.best, world.gap) == (2, 1.0)
    problem = world.problem(0.05)
    assert (problem.delta, problem.noise, problem.baseline) == (0.05, 0.5, 3.0)
    assert problem.target_labels == ("a", "b", "c")


def test_declared_scales_replace_the_true_ones_in_the_problem_only() -> None:
    world = Semiparametric(
        SOURCE, [1.0, 0.5], baseline=np.sin, noise=2.0, declared_noise=1.0, declared_baseline=7.0
    )
    assert (world.problem(0.1).noise, world.problem(0.1).baseline) == (1.0, 7.0)
    assert world.noise == 2.0
    unknown = Semiparametric(SOURCE, [1.0, 0.5], baseline=np.sin)
    assert unknown.problem(0.1).baseline == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Semiparametric(SOURCE, [1.0]), r"`theta` has shape \(1,\); the arms have 2"),
        (lambda: Semiparametric(SOURCE, [1.0, math.nan]), "`theta` is nan at 1"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.0]), "'0' and '2' are equally good"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], noise=-1), "`noise` must not be negative"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], declared_baseline=-1), "`baseline` must"),
        (lambda: Semiparametric(SOURCE, [1.0, 0.5], source_labels=["a"]), "1 labels for 3 rows"),
        (lambda: small_gap(1), "`dimension` must be a whole number of at least 2; got 1"),
        (lambda: small_gap(angle=0.0), "identical features"),
        (lambda: small_gap(angle=math.nan), "`angle` must be a finite number"),
        (lambda: uniform_sphere(1), "`arms` must be a whole number of at least 2"),
        (lambda: uniform_sphere(dimension=2.5), "`dimension` must be a whole number"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()
