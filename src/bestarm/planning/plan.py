"""Simulate an experiment before it is run, under stated assumptions; estimate the time first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import product

from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.numerics.blas import one_thread
from bestarm.planning.forecasts import (
    AssumedWorld,
    ExperimentPlan,
    PolicyForecast,
    forecast,
    name_in_blocks,
    plan_warnings,
    savings,
)
from bestarm.planning.request import PlanRequest
from bestarm.planning.worlds import ScenarioWorld
from bestarm.policies import Method
from bestarm.policies.registry import accepted, policies
from bestarm.records import Plan
from bestarm.simulation import simulate
from bestarm.simulation.engine import Simulation
from bestarm.simulation.progress import Progress, Report, reporting
from bestarm.simulation.results import Results
from bestarm.simulation.run import run_policy

LONGEST = 3600.0  # seconds: the command line refuses plans that are estimated to take longer

Clock = Callable[[], float]
# Pulls, plans and seconds so far, and the pulls of the next plan.
_Checkpoint = tuple[int, int, float, int]

_WATCH = 4.0  # seconds for which a run is followed
_SIDE_BY_SIDE = 15  # times quicker are runs beside others, of a few options
_PLANS = 64  # fewer of them do not show whether batches grow
_RATIO = 5.0  # pulls of a run over the lower bound, for a policy that is not registered
_CAP, _LEAST_CAP = 100, 1_000_000  # a run is cut at 100 times bound and delay, or later
MOST_PULLS = 10**11  # pulls of all simulated experiments together: about an hour of one core


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
        >>> request = PlanRequest(Problem(np.eye(3)), gap=0.5, policies=["sp-bai"], runs=20)
        >>> plan_experiment(request).forecasts[0].wrong
        0
    """
    problem, bounds, per_day = request.problem, request.bounds, request.per_day
    methods = request.methods()
    worlds = [ScenarioWorld(request, each).make() for each in request.resolved_scenarios()]
    scenarios = tuple(assumed for _, assumed in worlds)
    _check_effort(scenarios, request, len(methods) * len(request.sizes))
    jobs = []
    for environment, assumed in worlds:
        long = math.ceil(_CAP * (assumed.lower_bound + request.delay))
        cap = request.max_pulls or max(_LEAST_CAP, long)
        for name, block in product(methods, request.sizes):
            method = capped(methods[name], request, block=block, cap=cap)
            jobs.append(Job(name, block, method, environment, assumed, cap))
    total = request.runs * len(jobs)
    with reporting(progress, total) as report:
        runs = Runs(request, executor, report, total=total)
        if on_estimate is not None:
            on_estimate(estimate_effort(jobs, request))
        found, interrupted = _simulate_jobs(jobs, runs)
    return ExperimentPlan(
        arms=problem.arms,
        targets=problem.targets,
        delta=problem.delta,
        drifts=problem.drifts,
        bounds=bounds,
        block=request.block,
        per_day=per_day,
        window=None if request.window is None else float(request.window),
        delay=request.delay,
        runs=request.runs,
        seed=request.seed,
        scenarios=scenarios,
        forecasts=tuple(found),
        savings=tuple(savings(found)),
        interrupted=interrupted,
        warnings=tuple(plan_warnings(request, scenarios, found, partial=interrupted)),
    )


def capped(plain: Method, request: PlanRequest, *, block: int, cap: int) -> Method:
    """A method for the problem of a request that stops at so many pulls.

    As in an experiment, options may come and go, unless what is asked of the policy excludes that.

    Raises:
        InvalidInputError: the method refuses the problem.
    """
    options = accepted(plain, max_pulls=cap, bounds=request.bounds, block=block)
    changing: Method = partial(plain, **accepted(plain, changes=True), **options)
    try:
        changing(request.problem, seed=0)  # refuses before anything is simulated
    except InvalidInputError as error:
        if error.field != "changes":
            raise
    else:
        return changing
    method: Method = partial(plain, **options)
    method(request.problem, seed=0)
    return method


def _simulate_jobs(jobs: Sequence[Job], runs: Runs) -> tuple[list[PolicyForecast], bool]:
    """The forecasts of the jobs, and whether they were interrupted."""
    found: list[PolicyForecast] = []
    try:
        for job in jobs:
            results = runs.simulate(job)
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
    if least <= MOST_PULLS:
        return
    assumed = max(worlds, key=lambda each: each.lower_bound)
    raise InvalidInputError(
        f"Finding a lead of {assumed.gap:.3g} takes at least {assumed.lower_bound:.2g} outcomes by "
        f"any rule (scenario {assumed.scenario!r}). Simulating {runs:,} experiments per policy "
        f"would take at least {least:.2g} pulls; the limit is {MOST_PULLS:.0g}.",
        field="gap",
        value=assumed.gap,
        remedy="Plan for a larger gap, tighter bounds or fewer runs, or cut the experiments with "
        "`max_pulls`.",
    )


@dataclass(frozen=True)
class Job:
    """One policy with rounds of `block` pulls, in the world of one scenario.

    Its runs are cut at `cap` pulls.
    """

    policy: str
    block: int
    method: Method
    environment: Environment
    assumed: AssumedWorld
    cap: int


class Runs:
    """Simulates jobs one after the other, and reports the runs of all of them together.

    `total` is how many runs there will be, as far as is known.
    """

    def __init__(
        self, request: PlanRequest, executor: Executor | None, report: Report, *, total: int
    ) -> None:
        self.request, self.total = request, total
        self._executor, self._report, self._done = executor, report, 0
        report(0)  # before the first run, which may take long

    def simulate(self, job: Job, runs: int | None = None) -> Results:
        """The runs of a job: as many as the request says, unless told otherwise."""
        before = self._done

        def progress(done: int, _total: int) -> None:
            self._done = before + done
            self._report(self._done, max(self._done, self.total))

        return simulate(
            job.method,
            job.environment,
            runs=runs or self.request.runs,
            seed=self.request.seed,
            delta=self.request.problem.delta,
            delay=self.request.delay,
            executor=self._executor,
            progress=progress,
        )


@dataclass(frozen=True)
class JobEffort:
    """What a run of one policy costs in one scenario, about: pulls, and seconds on one process."""

    policy: str
    scenario: str
    gap: float
    pulls: float
    seconds: float


@dataclass(frozen=True)
class Effort:
    """The estimated cost of a plan: of so many runs of each job."""

    runs: int
    jobs: tuple[JobEffort, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all runs, on one process."""
        return self.runs * self.seconds_per_run

    @property
    def seconds_per_run(self) -> float:
        """Seconds of one run of every policy in every scenario, on one process."""
        return sum(job.seconds for job in self.jobs)

    @property
    def pulls(self) -> tuple[float, float]:
        """The fewest and the most pulls per run over policies and scenarios, about."""
        return min(job.pulls for job in self.jobs), max(job.pulls for job in self.jobs)

    def describe(self, workers: int = 1) -> str:
        """The estimate in a few words."""
        span = " to ".join(dict.fromkeys(_rounded(each) for each in self.pulls))
        total = self.runs * len(self.jobs)
        time = describe_time(self.seconds / workers)
        return f"about {time}; {total:,} run{'s' * (total > 1)} of about {span} outcomes"

    def refuse_beyond(self, limit: float, *, expected: float, runs: int) -> None:
        """Raise if so many runs of every job are expected to exceed the limit, in seconds.

        Raises:
            InvalidInputError: `expected` exceeds `limit`.
        """
        if expected <= limit:
            return
        longest = max(self.jobs, key=lambda job: job.seconds)
        each = "one run" if runs == 1 else f"{runs:,} runs"
        raise InvalidInputError(
            f"This plan is out of reach: {each} of each policy would take about "
            f"{describe_time(expected)}, and the limit is {describe_time(limit)}. A run of "
            f"{longest.policy} under {longest.scenario!r} has about {_rounded(longest.pulls)} "
            f"outcomes and takes {describe_time(longest.seconds)}.",
            field="gap",
            value=longest.gap,
            remedy="Plan for a larger gap, tighter bounds, fewer runs, visitors or policies, or "
            "cut runs short with `max_pulls`.",
        )


def describe_time(seconds: float) -> str:
    """A length of time in words, to about two digits."""
    for unit, name in ((86_400 * 365.0, "years"), (86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            text = f"{seconds / unit:.2g}" if seconds < 10 * unit else _rounded(seconds / unit)
            return f"{text} {name.removesuffix('s') if text == '1' else name}"
    return f"{max(seconds, 1.0):.0f} s"


def _rounded(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}"


def estimate_effort(
    jobs: Sequence[Job], request: PlanRequest, *, clock: Clock = time.process_time
) -> Effort:
    """Estimate the cost of the runs of each job, from two timed runs of each.

    The clock is by default the processor time of this process, so that other work of the machine
    does not count.
    """
    with one_thread():
        return Effort(request.runs, tuple(_estimate_job(job, request, clock) for job in jobs))


def _estimate_job(job: Job, request: PlanRequest, clock: Clock) -> JobEffort:
    """Follow two runs: the first pays for designs, the second counts.

    If that does not end in time, its pulls are the lower bound times a ratio that is usual for the
    policy, plus those made before the first outcome is known. Its time grows with the same power of
    the pulls as over the latter half of those seen, which is less than in proportion where batches
    grow.
    """
    delta, delay = request.problem.delta, request.delay
    simulation = Simulation(
        job.method, job.environment, delta=delta, seed=request.seed, delay=delay
    )
    for run in range(2):
        over, marks = _watch_run(simulation, run, clock)
    pulls, plans, seconds, coming = marks[-1]
    if simulation.begin(0)[0].traits.side_by_side:  # what was watched stood alone
        seconds /= min(request.runs, _SIDE_BY_SIDE)
    expected = float(pulls)
    if not over:
        known = policies().get(job.policy)
        likely = (_RATIO if known is None else known.effort) * job.assumed.lower_bound
        expected = min(max(likely + delay, float(pulls + coming)), float(job.cap))
        half, _, earlier, _ = next(mark for mark in marks if 2 * mark[0] >= pulls)
        power = 1.0 if half == pulls else math.log(seconds / earlier) / math.log(pulls / half)
        if plans < _PLANS and coming < 10 * marks[0][3]:  # batches may still begin to grow
            power = min(power, 0.5)
        seconds *= (expected / pulls) ** min(power, 1.0)
    name = name_in_blocks(job.policy, job.block)
    return JobEffort(name, job.assumed.scenario, job.assumed.gap, expected, seconds)


def _watch_run(simulation: Simulation, run: int, clock: Clock) -> tuple[bool, list[_Checkpoint]]:
    """Whether a run ended within some seconds, and what was known before each plan and after."""
    start, marks = clock(), list[_Checkpoint]()

    def may_continue(pulls: int, plans: int, plan: Plan) -> bool:
        marks.append((pulls, plans, clock() - start, plan.pulls))
        return not pulls or clock() - start < _WATCH

    policy, stream, _ = simulation.begin(run)
    pulls, _, plans, over = run_policy(
        policy, stream, delay=simulation.delay, may_continue=may_continue
    )
    return over, [*marks, (pulls, plans, clock() - start, 0)] if over else marks
