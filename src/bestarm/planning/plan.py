"""Simulate an experiment before it is run, under stated assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor

from bestarm.errors import InvalidInputError
from bestarm.planning.forecasts import ExperimentPlan, forecast, plan_warnings
from bestarm.planning.request import PlanRequest
from bestarm.planning.simulating import (
    MOST_PULLS,
    Job,
    Simulator,
    batches,
    capped,
)
from bestarm.planning.worlds import AssumedWorld, PlannedWorld
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Results

_CAP, _LEAST_CAP = 100, 1_000_000  # a run is cut at 100 times bound and delay, or later


def plan_experiment(
    request: PlanRequest,
    *,
    seconds: float | None = None,
    executor: Executor | None = None,
    progress: Progress = False,
) -> ExperimentPlan:
    """Estimate how many outcomes and rounds an experiment will take, by simulating it many times.

    Every policy is simulated under every drift a few times first, then more often: a plan that is
    stopped early has figures of all of them, from fewer runs.

    Args:
        request: the problem, the assumptions, the policies and the size of the simulation.
        seconds: the time limit, after which the figures known by then are returned; None for none.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: True shows a bar; a function is called with (runs done, runs in total), the first
            time before any run. If it raises KeyboardInterrupt, or Ctrl-C is pressed, the figures
            known by then are returned.

    Raises:
        InvalidInputError: the request is invalid, means would leave the bounds, there would be too
            many pulls to simulate, or the time was up before there was any figure.
        KeyboardInterrupt: it was interrupted before there was any figure.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.planning import PlanRequest, plan_experiment
        >>> request = PlanRequest(Problem(np.eye(3)), gap=0.5, policies=["sp-bai"], runs=20)
        >>> plan_experiment(request).forecasts[0].wrong
        0
    """
    jobs = _jobs(request)
    worlds = tuple({job.assumed.scenario: job.assumed for job in jobs}.values())
    _check_pulls(worlds, request, policies=len(jobs) // len(worlds))
    found: dict[Job, Results] = {}
    simulator = Simulator(request, seconds, executor)
    with simulator.running(progress, request.runs * len(jobs)):
        for runs in batches(request.runs):
            for job in jobs:
                found[job] = simulator.simulate(job, runs, found.get(job))
    simulator.check_found(found, worlds)
    forecasts = tuple(
        forecast(results, policy=job.policy, block=request.block, assumed=job.assumed)
        for job, results in found.items()
    )
    fewest = min(each.runs for each in found.values()) if len(found) == len(jobs) else 0
    problem = request.problem
    return ExperimentPlan(
        arms=problem.arms,
        targets=problem.targets,
        delta=problem.delta,
        drifts=problem.drifts,
        bounds=request.bounds,
        block=request.block,
        per_day=request.per_day,
        window=None if request.window is None else float(request.window),
        delay=request.delay,
        runs=request.runs,
        seed=request.seed,
        scenarios=worlds,
        forecasts=forecasts,
        interrupted=simulator.interrupted,
        timed_out=simulator.timed_out,
        warnings=(*simulator.describe_end(fewest), *plan_warnings(request, worlds, forecasts)),
    )


def _jobs(request: PlanRequest) -> list[Job]:
    """Every policy in the world of every drift."""
    if request.gap is None:
        what = "A plan needs the smallest lead worth finding."
        remedy = "For example gap=0.002, in units of rewards, or gap='+10 %' of a base rate."
        raise InvalidInputError(what, field="gap", remedy=remedy)
    methods, jobs = request.methods(), []
    for drift in request.drifts:
        environment, assumed = PlannedWorld(request, drift, float(request.gap)).make()
        far = math.ceil(_CAP * (assumed.lower_bound + request.delay))
        cap = request.max_pulls or max(_LEAST_CAP, far)
        for name, method in methods.items():
            jobs.append(Job(name, capped(method, request, cap=cap), environment, assumed))
    return jobs


def _check_pulls(worlds: Sequence[AssumedWorld], request: PlanRequest, *, policies: int) -> None:
    """Refuse a plan that would not end: no rule takes fewer pulls than the lower bound."""
    runs = request.runs
    most = math.inf if request.max_pulls is None else request.max_pulls
    least = runs * policies * sum(min(each.lower_bound, most) for each in worlds)
    if least <= MOST_PULLS:
        return
    assumed = max(worlds, key=lambda each: each.lower_bound)
    raise InvalidInputError(
        f"Finding a lead of {assumed.gap:.3g} takes at least {assumed.lower_bound:.2g} outcomes by "
        f"any rule ({assumed.scenario!r}). Simulating {runs:,} experiments per policy would take "
        f"at least {least:.2g} pulls; the limit is {MOST_PULLS:.0g}.",
        field="gap",
        value=assumed.gap,
        remedy="Plan for a larger gap, tighter bounds or fewer runs, or cut the experiments with "
        "`max_pulls`.",
    )
