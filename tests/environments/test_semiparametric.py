"""The semiparametric world: its truth, and what policies are told."""

from __future__ import annotations

import numpy as np

from bestarm.environments import Semiparametric, baselines

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
