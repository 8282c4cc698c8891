"""Figures from many runs: how often a method would err in an assumed world, and its regret."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bestarm.defaults import DELTA
from bestarm.environments import Environment, Semiparametric, Stream
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_problem
from bestarm.records import Plan, Summary
from bestarm.simulation.engine import Simulation, carry_out, one_thread, simulate
from bestarm.simulation.methods import Oracle
from bestarm.simulation.results import Results, run_count

if TYPE_CHECKING:
    from bestarm.policies.policy import Method


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """How often a method named a wrong target in simulated runs of an assumed world."""

    assumed: str  # the world, in words
    results: Results  # the runs, with their `error_rate` and `error_interval()`

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


def regret(
    method: Method | Oracle,
    environment: Environment,
    *,
    runs: int,
    seed: int = 0,
    delta: float = DELTA,
) -> Array:
    """Σ_t (max_a x_a·θ − x_{a_t}·θ) over the pulls of each run, of a policy that stops.

    Run i is that of `simulate` with the same seed, for policies that make plans. It needs no more
    of a policy than its plans, so it says of every method what it costs to learn.

    Arguments are those of `simulate`; the worlds of the environment must know their θ.

    Raises:
        InvalidInputError: the arm means of a world are not known.
    """
    work = Simulation(method, environment, delta=delta, seed=seed)
    costs = np.zeros(run_count(runs))
    with one_thread():
        for run in range(len(costs)):
            policy, stream, world = work.begin(run)
            if not isinstance(world, Semiparametric):
                what = f"The means of the arms of {environment.name!r} are not known."
                remedy = "Regret can be had in worlds with a θ, such as Semiparametric."
                raise InvalidInputError(what, field="environment", value=environment, remedy=remedy)
            counted = _Counted(stream, policy.problem.arms)
            carry_out(policy, counted)
            means = policy.problem.source @ world.theta
            costs[run] = counted.counts @ (means.max() - means)
    return costs


class _Counted(Stream):
    """A run that counts the pulls of every arm."""

    def __init__(self, stream: Stream, arms: int) -> None:
        self._stream = stream
        self.counts = np.zeros(arms, dtype=np.int64)

    def pull(self, plan: Plan) -> Summary:
        """Carry out a plan and return its totals."""
        summary = self._stream.pull(plan)
        self.counts += summary.counts
        return summary
