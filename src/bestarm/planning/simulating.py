"""Simulated experiments within a time limit, in batches of which only whole ones count."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bestarm.checks import positive
from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.planning.request import PlanRequest
from bestarm.planning.worlds import AssumedWorld
from bestarm.policies import Method
from bestarm.policies.registry import accepted, make_policy
from bestarm.simulation import simulate
from bestarm.simulation.progress import Progress, Report, reporting
from bestarm.simulation.results import Results, RunJournal

MOST_PULLS = 10**11  # pulls of all simulated experiments together: about an hour of one core

_SHARES = (16, 4, 1)  # a sixteenth of the runs is simulated first, then a quarter, then all
_LEAST_BATCH = 6  # runs: a median of fewer has no interval


def batches(runs: int) -> list[int]:
    """The numbers of runs after which figures are complete, the last one being all of them.

    >>> batches(100), batches(20), batches(1)
    ([7, 25, 100], [6, 20], [1])
    """
    return sorted({min(runs, max(math.ceil(runs / share), _LEAST_BATCH)) for share in _SHARES})


@dataclass(frozen=True, eq=False)
class Job:
    """One policy in the world of one drift."""

    policy: str
    method: Method
    environment: Environment
    assumed: AssumedWorld


class Simulator:
    """Simulates the runs of jobs, and reports those of all jobs together.

    Attributes:
        total: how many runs there will be, as far as is known.
        interrupted: whether Ctrl-C ended it.
        timed_out: whether its time limit ended it.
    """

    def __init__(
        self, request: PlanRequest, seconds: float | None, executor: Executor | None
    ) -> None:
        self.request, self.total = request, 0
        self.interrupted = self.timed_out = False
        self._time_is_up = self._stopping = False
        self._seconds = None if seconds is None else positive(seconds, "seconds")
        self._end = math.inf
        self._executor, self._done = executor, 0
        self._report: Report = lambda *_: None

    @contextmanager
    def running(self, progress: Progress, total: int) -> Iterator[None]:
        """A block that Ctrl-C ends, or KeyboardInterrupt, or the time limit."""
        self.total = total
        with reporting(progress, total) as self._report:
            self._report(0)  # before the first run, which may take long
            try:
                with self._alarm():
                    yield
            except KeyboardInterrupt:
                self.timed_out = self._time_is_up
                self.interrupted = not self._time_is_up

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        """In the main thread, and where there are signals, interrupt whatever is computed."""
        main = threading.current_thread() is threading.main_thread()
        if self._seconds is None:
            yield
            return
        self._end = time.monotonic() + self._seconds
        if not (main and hasattr(signal, "setitimer")):
            yield
            return
        before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _stop(self, *_: object) -> None:
        self._time_is_up = True
        raise KeyboardInterrupt

    def _check_time(self) -> None:
        if time.monotonic() >= self._end:
            self._stop()

    def simulate(self, job: Job, runs: int, known: Results | None = None) -> Results:
        """So many runs of a job, without repeating those that are known.

        Runs side by side end in the order of their lengths, so those that have ended when a batch
        is interrupted are its shortest: they are not returned.

        Raises:
            KeyboardInterrupt: the batch was interrupted, or its time is up.
        """
        if self._stopping:
            raise KeyboardInterrupt
        self._check_time()
        before = self._done - (0 if known is None else known.runs)

        def progress(done: int, _total: int) -> None:
            self._done = before + done
            self._report(self._done, max(self._done, self.total))
            self._check_time()

        results = simulate(
            job.method,
            job.environment,
            runs=runs,
            seed=self.request.seed,
            delta=self.request.problem.delta,
            delay=self.request.delay,
            executor=self._executor,
            progress=progress,
            journal=None if known is None else RunJournal(known.outcomes()),
        )
        if results.runs < runs:
            raise KeyboardInterrupt
        self._stopping = results.interrupted  # at its last run: the batch counts, as the last one
        return results

    def check_found(self, found: object, worlds: Sequence[AssumedWorld]) -> None:
        """Raise if it ended before anything was found in the worlds.

        Raises:
            InvalidInputError: the time was up.
            KeyboardInterrupt: it was interrupted.
        """
        if found:
            return
        if self.interrupted:
            raise KeyboardInterrupt
        hardest = max(worlds, key=lambda each: each.lower_bound)
        raise InvalidInputError(
            f"Within {self._seconds:g} seconds too few experiments could be simulated. Finding a "
            f"lead of {hardest.gap:.3g} takes at least {hardest.lower_bound:,.0f} outcomes by any "
            f"rule ({hardest.scenario!r}).",
            field="seconds",
            value=self._seconds,
            remedy="Allow more seconds, or plan for a larger gap, tighter bounds, or fewer "
            "visitors, policies or drifts.",
        )

    def describe_end(self, fewest: int) -> Iterator[str]:
        """That figures are partial, if they are; `fewest` are the runs behind one of them."""
        if not (self.interrupted or self.timed_out):
            return
        why = "Interrupted"
        if self.timed_out:
            why = f"The time limit of {self._seconds:g} seconds was reached"
        of = f"from {fewest:,} of {self.request.runs:,} simulated experiments"
        yield f"{why}: the figures are partial, {of if fewest else 'and some are missing'}."


def capped(plain: Method, request: PlanRequest, *, cap: int) -> Method:
    """A method for the problem of a request that stops at so many pulls.

    As in an experiment, options may come and go, unless what is asked of the policy excludes that.

    Raises:
        InvalidInputError: the method refuses the problem.
    """
    options = accepted(plain, max_pulls=cap, bounds=request.bounds, block=request.block)
    changing: Method = partial(plain, **accepted(plain, changes=True), **options)
    try:
        make_policy(changing, request.problem)  # refuses before anything is simulated
    except InvalidInputError as error:
        if error.field != "changes":
            raise
    else:
        return changing
    method: Method = partial(plain, **options)
    make_policy(method, request.problem)
    return method
