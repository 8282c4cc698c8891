"""Estimate the cost of a plan before it is simulated, from short runs.

The time of a run of N pulls is taken to be

    N · (seconds per pull) + plans(N) · (seconds per plan),

with `plans(N)` growing as a power of N, fitted to the observed part. Under a drifting baseline
every pull is drawn separately, which takes tens of nanoseconds; a policy that keeps its batches
short, as the anytime rule does on a fast wave, computes a plan every few hundred pulls, which takes
milliseconds. Either can dominate. If a run is too long to be followed to its end, N is the lower
bound times a ratio that is usual for the policy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.planning.forecasts import AssumedWorld, in_blocks
from bestarm.policies import Method
from bestarm.policies.registry import policies
from bestarm.records import Plan
from bestarm.simulation.engine import Simulation, carry_out, one_thread

LONGEST = 3600.0  # seconds: the command line refuses plans that are estimated to take longer

Clock = Callable[[], float]

_WATCH = 0.25  # seconds for which a run is followed,
_PLANS = 64  # or until this many plans were made, as the first ones say little about growth,
_LONGEST_WATCH = 2.0  # but at most this long
_PROBE = 2**16  # pulls over which the time per pull is measured
_PROBES = 3
_PULL = 5e-8  # seconds per pull, where the measurement gives 0
_RATIO = 5.0  # pulls of a run over the lower bound, for a policy that is not registered


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


@dataclass(frozen=True)
class JobEffort:
    """What one policy costs in one scenario.

    Attributes:
        policy: the policy's name, with its block.
        scenario: the scenario's name.
        gap: the lead of the best target there.
        pulls: pulls per run, about.
        seconds: seconds per run on one process, about.
    """

    policy: str
    scenario: str
    gap: float
    pulls: float
    seconds: float


@dataclass(frozen=True)
class Effort:
    """The estimated cost of a plan.

    Attributes:
        runs: simulated runs of each policy in each scenario.
        jobs: one for each policy in each scenario.
    """

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

    def words(self, workers: int = 1) -> str:
        """The estimate in a few words."""
        fewest, most = (_rounded(each) for each in self.pulls)
        span = fewest if fewest == most else f"{fewest} to {most}"
        total = self.runs * len(self.jobs)
        return (
            f"about {duration(self.seconds / workers)}; {total:,} run{'s' * (total > 1)} of about "
            f"{span} outcomes"
        )

    def refuse_beyond(self, limit: float, *, expected: float, runs: int) -> None:
        """Raise if so many runs of every job are expected to exceed the limit.

        Times are in seconds.

        Raises:
            InvalidInputError: `expected` exceeds `limit`.
        """
        if expected <= limit:
            return
        longest = max(self.jobs, key=lambda job: job.seconds)
        each = "one run" if runs == 1 else f"{runs:,} runs"
        raise InvalidInputError(
            f"This plan is out of reach: {each} of each policy would take about "
            f"{duration(expected)}, and the limit is {duration(limit)}. A run of {longest.policy} "
            f"under {longest.scenario!r} has about {_rounded(longest.pulls)} outcomes and takes "
            f"{duration(longest.seconds)}.",
            field="gap",
            value=longest.gap,
            remedy="Plan for a larger gap, tighter bounds, fewer runs or fewer policies, or cut "
            "runs short with `max_pulls`.",
        )


def duration(seconds: float) -> str:
    """A length of time in words, to about two digits."""
    for unit, name in ((86_400 * 365.0, "years"), (86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            count = seconds / unit
            return f"{count:.2g} {name}" if count < 100 else f"{float(f'{count:.2g}'):,.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 1 else "1 s"


def _rounded(pulls: float) -> str:
    return f"{float(f'{pulls:.2g}'):,.0f}"


def estimate_effort(
    jobs: Sequence[Job], *, runs: int, seed: int, delta: float, clock: Clock = time.process_time
) -> Effort:
    """Estimate the cost of so many runs of each job, from short runs of each.

    The clock is by default the processor time of this process, so that other work of the machine
    does not count.
    """
    with one_thread():
        return Effort(runs, tuple(_watched(job, seed, delta, clock) for job in jobs))


@dataclass
class _Watch:
    """Follows a run: its progress, and whether it may continue."""

    clock: Clock
    start: float
    seconds_per_pull: float
    marks: list[tuple[int, int]] = field(default_factory=list)  # pulls and plans so far
    coming: int = 0

    def __call__(self, pulls: int, plans: int, plan: Plan) -> bool:
        self.marks.append((pulls, plans))
        self.coming = plan.pulls
        most = _WATCH if plans >= _PLANS else _LONGEST_WATCH
        return self.clock() + plan.pulls * self.seconds_per_pull <= self.start + most


def _watched(job: Job, seed: int, delta: float, clock: Clock) -> JobEffort:
    """Follow two runs: the first pays for compiling and for designs, the second is timed."""
    name, scenario, gap = in_blocks(job.policy, job.block), job.assumed.scenario, job.assumed.gap
    simulation = Simulation(job.method, job.environment, delta=delta, seed=seed)
    seconds_per_pull = _seconds_per_pull(simulation, clock)
    ends: list[int] = []
    for run in range(2):
        start = clock()
        watch = _Watch(clock, start, seconds_per_pull)
        policy, stream, _ = simulation.begin(run)
        pulls, _, _, over = carry_out(policy, stream, go_on=watch)
        took = clock() - start
        ends += [pulls] * over
    if over:
        return JobEffort(name, scenario, gap, float(np.mean(ends)), took)
    known = policies().get(job.policy)
    likely = (_RATIO if known is None else known.effort) * job.assumed.lower_bound
    expected = min(max(likely, float(pulls + watch.coming)), float(job.cap))
    planning = max(took - seconds_per_pull * pulls, 0.0)
    further = (expected / pulls) ** _growth(watch.marks) if pulls else 1.0
    seconds = seconds_per_pull * expected + planning * further
    return JobEffort(name, scenario, gap, expected, seconds)


def _growth(marks: Sequence[tuple[int, int]]) -> float:
    """The power of the pulls at which the number of plans grew, over the latter half."""
    pulls, plans = marks[-1]
    half = next(mark for mark in marks if 2 * mark[0] >= pulls)
    if not half[1] or half[0] == pulls:
        return 0.0
    most = 1.0 if plans >= _PLANS else 0.5  # between growing batches and equal ones
    return min(math.log(plans / half[1]) / math.log(pulls / half[0]), most)


def _seconds_per_pull(simulation: Simulation, clock: Clock) -> float:
    """Measured on the policy's first plan, after one call that pays for compiling."""
    policy, stream, _ = simulation.begin(0)
    plan = policy.plan()
    if plan is None:
        return 0.0
    sized = _resized(plan, _PROBE)
    stream.pull(sized)
    times = []
    for _ in range(_PROBES):  # take the shortest: others were delayed by other work of the machine
        start = clock()
        stream.pull(sized)
        times.append(clock() - start)
    return max(min(times), 0.0) / sized.pulls or _PULL


def _resized(plan: Plan, pulls: int) -> Plan:
    if plan.counts is None:
        pulls += -pulls % plan.size
        return replace(plan, pulls=pulls, open=False, most=None)
    counts = np.ceil(plan.counts * (pulls / plan.pulls)).astype(np.int64)
    return Plan.fixed(counts, phase=plan.phase)
