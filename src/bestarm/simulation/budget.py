"""Estimate how often a method would be wrong in an assumed world."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bestarm.environments import Semiparametric
from bestarm.problem import Problem, as_problem
from bestarm.simulation.engine import simulate
from bestarm.simulation.results import Results

if TYPE_CHECKING:
    from bestarm.policies.policy import Method


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """How often a method named a wrong target in simulated runs of an assumed world.

    Attributes:
        assumed: the world, in words.
        results: the runs, with their `error_rate` and `error_interval()`.
    """

    assumed: str
    results: Results

    def __str__(self) -> str:
        runs, (low, high) = self.results, self.results.error_interval()
        return (
            f"wrong in {runs.error_rate:.1%} of {runs.runs:,} simulated runs (95% in {low:.1%} to "
            f"{high:.1%}) after {runs.mean_pulls:,.0f} pulls on average, if {self.assumed}. An "
            "estimate under these assumptions, not a guarantee."
        )


def estimate_error(
    method: Method,
    problem: Problem,
    theta: object,
    *,
    runs: int = 1000,
    seed: int = 0,
    noise: float | None = None,
    baseline: object = 0.0,
    executor: Executor | None = None,
) -> ErrorEstimate:
    """Estimate how often a method would err on a problem, for an assumed θ, noise and baseline.

    It answers "is this budget enough?" before an experiment: assume the smallest gap worth finding.
    With an *estimated* θ it is usually too optimistic, because the leader of an estimate leads by
    chance as well as by merit.

    Args:
        method: makes the policy: a policy class with its budget bound by `functools.partial`.
        problem: the problem.
        theta: the assumed or estimated parameter, one number per feature.
        runs: the number of simulated runs.
        seed: the estimate depends only on it and on the other arguments.
        noise: the standard deviation of Gaussian noise; by default that of the problem.
        baseline: how the baseline moves, as for `environments.Semiparametric`; by default it does
            not move.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.

    Example:
        >>> from functools import partial
        >>> import numpy as np
        >>> from bestarm import Problem, SequentialHalving
        >>> from bestarm.simulation import estimate_error
        >>> method = partial(SequentialHalving, budget=200)
        >>> estimate_error(method, Problem(np.eye(3)), [1, 0, 0], runs=100).results.error_rate
        0.0
    """
    as_problem(problem)
    noise = problem.noise if noise is None else noise
    world = Semiparametric.for_problem(
        problem, theta, baseline=baseline, noise=noise, name="as assumed"
    )
    results = simulate(method, world, runs=runs, seed=seed, delta=problem.delta, executor=executor)
    assumed = (
        f"target {problem.target_labels[world.best]!r} is the best by {world.gap:.3g}, noise is "
        f"Gaussian with standard deviation {world.noise:.3g}, and the baseline is "
        f"{world.baseline!r}"
    )
    return ErrorEstimate(assumed, results)
