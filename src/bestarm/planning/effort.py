"""What a plan will cost to simulate: estimated before it is, from short trial runs.

The time of a run of N pulls is taken to be

    N · (seconds per pull) + plans(N) · (seconds per plan),

with `plans(N)` growing as a power of N, as far as it was watched. A drifting baseline has every
pull drawn on its own, tens of nanoseconds each; a policy that keeps its batches short, as the
anytime rule does on a fast wave, computes a plan every few hundred pulls, milliseconds each. Either
can be what takes long. Where a run is too long to be watched to its end, N is taken from the lower
bound and from how many times that a policy usually needs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.policies import Method
from bestarm.policies.registry import policies
from bestarm.records import Plan
from bestarm.simulation.engine import sample_run, sample_stream

__all__ = ["LONGEST", "Clock", "Effort", "Job", "estimate_effort"]

LONGEST = 3600.0  # seconds: no plan that is estimated to take longer is begun on the command line

Clock = Callable[[], float]

_WATCH = 0.25  # seconds for which a run is watched,
_PLANS = 64  # or until so many plans were made: the first ones say little of how sizes grow;
_LONGEST_WATCH = 2.0  # but no longer
_PROBE = 2**16  # pulls by which the time of one is measured
_PROBES = 3
_PULL = 5e-8  # seconds of a pull before any was measured
_RATIO = 5.0  # runs take about so many times the lower bound, where nothing is known of a policy


@dataclass(frozen=True)
class Job:
    """One policy in one scenario.

    Attributes:
        policy: the policy's name.
        scenario: the scenario's name.
        method: makes the policy, with all it is told.
        environment: the scenario's world.
        gap: the lead of the best target there.
        lower_bound: pulls that no rule stays below on average.
        cap: pulls at which a run is cut.
    """

    policy: str
    scenario: str
    method: Method
    environment: Environment
    gap: float
    lower_bound: float
    cap: int


@dataclass(frozen=True)
class JobEffort:
    """What one policy costs in one scenario.

    Attributes:
        policy: the policy's name.
        scenario: the scenario's name.
        gap: the lead of the best target there.
        pulls: of one run, about.
        seconds: of one run, about, on one process.
        seen: whether runs were watched to their end, rather than extrapolated.
    """

    policy: str
    scenario: str
    gap: float
    pulls: float
    seconds: float
    seen: bool


@dataclass(frozen=True)
class Effort:
    """What a plan is estimated to cost before it is simulated.

    Attributes:
        runs: simulated runs of each policy in each scenario.
        jobs: one for each policy in each scenario.
    """

    runs: int
    jobs: tuple[JobEffort, ...]

    @property
    def seconds(self) -> float:
        """Of all runs, on one process."""
        return self.runs * self.once

    @property
    def once(self) -> float:
        """Seconds of one run of every policy in every scenario, on one process."""
        return sum(job.seconds for job in self.jobs)

    @property
    def pulls(self) -> tuple[float, float]:
        """The fewest and the most pulls of a run, about, over policies and scenarios."""
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

    def refuse_beyond(self, limit: float, *, expected: float, rounds: int) -> None:
        """Raise where this would take longer than it may.

        Args:
            limit: how many seconds it may take.
            expected: how many it is estimated to take.
            rounds: for how many runs of every policy in every scenario.

        Raises:
            InvalidInputError: it is longer.
        """
        if expected <= limit:
            return
        longest = max(self.jobs, key=lambda job: job.seconds)
        each = "one run" if rounds == 1 else f"{rounds:,} runs"
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
    """What it will cost to simulate all of these, from short looks at runs of each.

    Args:
        jobs: what is to be simulated.
        runs: simulated runs of each.
        seed: of the simulation; the runs that are watched are its first ones.
        delta: the error probability.
        clock: seconds that have passed: of this process's own computing by default, so that what
            else the machine does is not taken for the plan's.
    """
    return Effort(runs, tuple(_watched(job, seed, delta, clock) for job in jobs))


@dataclass
class _Watch:
    """Follows a run: how far it has come, and whether it may go on."""

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
    """The first run is for what is compiled and solved once; the second one is timed."""
    seconds_per_pull = _seconds_per_pull(job, seed, delta, clock)
    ends: list[int] = []
    for run in range(2):
        start = clock()
        watch = _Watch(clock, start, seconds_per_pull)
        pulls, _, over = sample_run(
            job.method, job.environment, run=run, seed=seed, delta=delta, go_on=watch
        )
        took = clock() - start
        ends += [pulls] * over
    if over:
        return JobEffort(job.policy, job.scenario, job.gap, float(np.mean(ends)), took, seen=True)
    known = policies().get(job.policy)
    likely = (_RATIO if known is None else known.effort) * job.lower_bound
    expected = min(max(likely, float(pulls + watch.coming)), float(job.cap))
    planning = max(took - seconds_per_pull * pulls, 0.0)
    further = (expected / pulls) ** _growth(watch.marks) if pulls else 1.0
    seconds = seconds_per_pull * expected + planning * further
    return JobEffort(job.policy, job.scenario, job.gap, expected, seconds, seen=False)


def _growth(marks: Sequence[tuple[int, int]]) -> float:
    """The power of the pulls with which plans became more, over the latter half of them."""
    pulls, plans = marks[-1]
    half = next(mark for mark in marks if 2 * mark[0] >= pulls)
    if not half[1] or half[0] == pulls:
        return 0.0
    most = 1.0 if plans >= _PLANS else 0.5  # between growing batches and equal ones
    return min(math.log(plans / half[1]) / math.log(pulls / half[0]), most)


def _seconds_per_pull(job: Job, seed: int, delta: float, clock: Clock) -> float:
    """Measured on the policy's first plan; the first time is for what is compiled on the way."""
    stream, plan = sample_stream(job.method, job.environment, seed=seed, delta=delta)
    if plan is None:
        return 0.0
    sized = _resized(plan, _PROBE)
    stream.pull(sized)
    times = []
    for _ in range(_PROBES):  # the shortest: others were held up by what else the machine does
        start = clock()
        stream.pull(sized)
        times.append(clock() - start)
    return max(min(times), 0.0) / sized.pulls or _PULL


def _resized(plan: Plan, pulls: int) -> Plan:
    if plan.counts is None:
        return replace(plan, pulls=pulls, open=False, most=None)
    counts = np.ceil(plan.counts * (pulls / plan.pulls)).astype(np.int64)
    return Plan.fixed(counts, phase=plan.phase)
