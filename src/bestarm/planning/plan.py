"""Simulate an experiment before it is run, under stated assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import product

from bestarm.errors import InvalidInputError
from bestarm.planning.effort import Effort, Job, estimate_effort
from bestarm.planning.forecasts import (
    AssumedWorld,
    ExperimentPlan,
    PolicyForecast,
    forecast,
    savings,
)
from bestarm.planning.remarks import remarks
from bestarm.planning.request import PlanRequest
from bestarm.planning.worlds import ScenarioWorld
from bestarm.policies import Method
from bestarm.policies.registry import accepted
from bestarm.simulation import simulate
from bestarm.simulation.progress import Progress, reporting

_CAP, _LEAST_CAP = 100, 1_000_000  # a run is cut at 100 times the lower bound, or later
_MOST = 10**11  # pulls of all simulated experiments together: about an hour of one core


def plan_experiment(
    request: PlanRequest,
    *,
    executor: Executor | None = None,
    progress: Progress = False,
    on_estimate: Callable[[Effort], object] | None = None,
) -> ExperimentPlan:
    """Estimate how many outcomes and rounds an experiment will take, by simulating it many times.

    Args:
        request: the problem, the assumptions, the policies and the size of the simulation.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: True shows a bar; a function is called with (runs done, runs in total), the first
            time before any run. If it raises KeyboardInterrupt later, or Ctrl-C is pressed, the
            finished runs are returned.
        on_estimate: called once, before anything is simulated, with the estimated cost. The
            estimate takes a second or two. An exception it raises ends the plan.

    Raises:
        InvalidInputError: the request is invalid, means would leave the bounds, or there would be
            too many pulls to simulate.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.planning import PlanRequest, plan_experiment
        >>> request = PlanRequest(Problem(np.eye(3)), gap=0.5, policies=["sp-bai-sharp"], runs=20)
        >>> plan_experiment(request).forecasts[0].wrong
        0
    """
    problem, bounds, per_day = request.problem, request.bounds, request.per_day
    methods = request.methods()
    worlds = [ScenarioWorld(request, each).make() for each in request.wanted_scenarios()]
    scenarios = tuple(assumed for _, assumed in worlds)
    _check_effort(scenarios, request, len(methods) * len(request.sizes))
    jobs = []
    for environment, assumed in worlds:
        cap = request.max_pulls or max(_LEAST_CAP, math.ceil(_CAP * assumed.lower_bound))
        for name, block in product(methods, request.sizes):
            plain = methods[name]
            given = accepted(plain, max_pulls=cap, bounds=bounds, block=block)
            method: Method = partial(plain, **given)
            method(problem, seed=0)  # refuses before anything is simulated
            jobs.append(Job(name, block, method, environment, assumed, cap))
    with reporting(progress, request.runs * len(jobs)) as report:
        report(0)  # before the first run, which may take long
        if on_estimate is not None:
            runs, seed = request.runs, request.seed
            on_estimate(estimate_effort(jobs, runs=runs, seed=seed, delta=problem.delta))
        found, interrupted = _simulate_jobs(jobs, request, executor, report)
    return ExperimentPlan(
        arms=problem.arms,
        targets=problem.targets,
        delta=problem.delta,
        drifts=problem.drifts,
        bounds=bounds,
        block=request.block,
        per_day=per_day,
        runs=request.runs,
        seed=request.seed,
        scenarios=scenarios,
        forecasts=tuple(found),
        savings=tuple(savings(found)),
        interrupted=interrupted,
        warnings=tuple(remarks(request, scenarios, found, partial=interrupted)),
    )


def _simulate_jobs(
    jobs: Sequence[Job],
    request: PlanRequest,
    executor: Executor | None,
    report: Callable[[int], object],
) -> tuple[list[PolicyForecast], bool]:
    """The forecasts of the jobs, and whether they were interrupted."""
    found: list[PolicyForecast] = []
    try:
        for job in jobs:
            results = simulate(
                job.method,
                job.environment,
                runs=request.runs,
                seed=request.seed,
                delta=request.problem.delta,
                executor=executor,
                progress=lambda done, _total: report(len(found) * request.runs + done),
            )
            if results.runs:
                found.append(
                    forecast(results, policy=job.policy, block=job.block, assumed=job.assumed)
                )
            if results.interrupted:
                return found, True
    except KeyboardInterrupt:  # between two policies
        return found, True
    return found, False


def _check_effort(worlds: Sequence[AssumedWorld], request: PlanRequest, policies: int) -> None:
    """Refuse a plan that would not end: no rule takes fewer pulls than the lower bound."""
    runs = request.runs
    most = math.inf if request.max_pulls is None else request.max_pulls
    least = runs * policies * sum(min(each.lower_bound, most) for each in worlds)
    if least <= _MOST:
        return
    assumed = max(worlds, key=lambda each: each.lower_bound)
    raise InvalidInputError(
        f"Finding a lead of {assumed.gap:.3g} takes at least {assumed.lower_bound:.2g} outcomes by "
        f"any rule (scenario {assumed.scenario!r}). Simulating {runs:,} experiments per policy "
        f"would take at least {least:.2g} pulls; the limit is {_MOST:.0g}.",
        field="gap",
        value=assumed.gap,
        remedy="Plan for a larger gap, tighter bounds or fewer runs, or cut the experiments with "
        "`max_pulls`.",
    )
