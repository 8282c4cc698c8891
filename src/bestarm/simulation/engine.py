"""Seeded replications of a method in an environment, the same on any number of workers.

Run i draws everything from `SeedSequence(seed, spawn_key=(i,))`, and linear algebra runs on one
thread, so a run depends only on its number and the seed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed, wait
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from bestarm.checks import probability, whole
from bestarm.defaults import DELTA
from bestarm.environments import Environment, Stream, World
from bestarm.environments.fixed import fixed_world
from bestarm.environments.forecasts import ForecastStream
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.forecasting import Forecaster
from bestarm.forecasting.rewards import find_forecaster, less_forecasts
from bestarm.recommendation import Recommendation
from bestarm.records import Plan
from bestarm.simulation.methods import Oracle, method_name, source_of
from bestarm.simulation.progress import Progress, reporting
from bestarm.simulation.results import Outcome, Results, RunJournal, run_count

if TYPE_CHECKING:
    from bestarm.policies.policy import Method, Policy  # loading every method would be slow

Collect = Callable[[Sequence[Outcome]], None]
GoOn = Callable[[int, int, Plan], bool]
Observe = Callable[["Policy"], object]

_PIECES = 32  # a simulation is cut into about this many pieces: to send one takes 3 ms
_LONGEST_PIECE = 32  # runs: progress shows, and an interruption loses little
_MOST_PIECES = 4096  # of hundreds of thousands of runs pieces are longer
_BLOCK, _LONGEST_BLOCK = 2**10, 2**16  # rounds known ahead: few for short runs, then more
_TRY = "Try bestarm.environments.small_gap()."
_GRACE = 1.0  # seconds that running pieces have to return after an interruption


def simulate(
    method: Method | Oracle,
    environment: Environment,
    *,
    runs: int,
    seed: int = 0,
    delta: float = DELTA,
    forecaster: Forecaster | str | None = None,
    delay: int = 0,
    executor: Executor | None = None,
    progress: Progress = False,
    journal: RunJournal | None = None,
) -> Results:
    """Run a method many times, independently.

    Args:
        method: makes a policy from a problem and a seed: a policy class, or a partial of one; or
            an `Oracle`, which also tells it truths of the world.
        environment: the environment of the runs.
        runs: the number of runs, at most 10 million.
        seed: results depend only on it; run i is the same whatever `runs` is.
        delta: the error probability that the policy must keep.
        forecaster: what foresees the level of rewards before each draw: `"default"`, a forecaster
            of one's own, which is copied for every run, or None.
        delay: the outcome of a pull is known this many rounds later, as in a live experiment with a
            window. Rounds then count the waiting too. 0 and 1: it is known before the next round.
        executor: any `concurrent.futures` executor; without one the runs are made in this process.
        progress: True shows a bar; a function is called with (runs done, runs in total).
        journal: outcomes of the same simulation, interrupted earlier, which are not repeated; and
            a function that stores the outcomes of further runs.

    Returns:
        One entry per run. Ctrl-C returns the runs finished so far, with `interrupted` set.

    Raises:
        InvalidInputError: an argument is invalid.
        Exception: an exception of the method, with a note that names the run.
    """
    work = Simulation(
        method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
    )
    total = run_count(runs)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        remedy = "Try concurrent.futures.ProcessPoolExecutor(), or leave it out."
        raise _wrong("executor", "be a concurrent.futures executor", executor, remedy)
    journal = journal or RunJournal()
    table = np.full((total, len(Outcome._fields)), -1, dtype=np.int64)  # −1 until a run is finished
    for outcome in journal.known:
        table[_known_run(outcome, total)] = outcome
    missing: list[int] = np.flatnonzero(table[:, 0] < 0).tolist()
    finished, interrupted = total - len(missing), False
    with one_thread(), reporting(progress, total) as report:

        def collect(outcomes: Sequence[Outcome]) -> None:
            nonlocal finished
            fresh = [outcome for outcome in outcomes if table[outcome.run, 0] < 0]
            if fresh and journal.record is not None:
                journal.record(fresh)
            for outcome in fresh:
                table[outcome.run] = outcome
            finished += len(fresh)
            report(finished)

        try:
            if finished:
                report(finished)
            if executor is None:
                for run in missing:
                    collect([work.outcome(run)])
            else:
                _spread(work, missing, executor, collect)
        except KeyboardInterrupt:
            interrupted = True
    rows = table if finished == total else table[table[:, 0] >= 0]
    rows.flags.writeable = False
    columns: dict[str, Any] = dict(zip(("index", *Outcome._fields[1:]), rows.T, strict=True))
    columns |= {name: columns[name] != 0 for name in ("correct", "final")}
    about = method_name(method), environment.name, work.seed, work.delta
    return Results(*about, requested=total, interrupted=interrupted, **columns)


def _known_run(entry: Outcome, total: int) -> int:
    try:
        return whole(Outcome(*entry).run, "known", least=0, below=total)
    except TypeError:
        remedy = "Pass the outcomes that `record` was called with, or `Results.outcomes()`."
        raise _wrong("known", "hold outcomes of runs", entry, remedy) from None


def _wrong(field: str, must: str, value: object, remedy: str) -> InvalidInputError:
    what = f"`{field}` must {must}; got {value!r}."
    return InvalidInputError(what, field=field, value=value, remedy=remedy)


def run_once(
    method: Method | Oracle,
    environment: Environment,
    *,
    run: int = 0,
    seed: int = 0,
    delta: float = DELTA,
    forecaster: Forecaster | str | None = None,
    delay: int = 0,
    observe: Callable[[Policy], object] | None = None,
) -> Recommendation:
    """Repeat a run of `simulate`; return its recommendation with the trace of its phases.

    `run` is its number, the other arguments are those of the simulation, and `observe` is called
    with the policy after every plan.
    """
    with one_thread():
        work = Simulation(
            method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
        )
        return work.play(whole(run, "run", least=0), observe)[0]


_limits: list[Any] = []  # an entry per holder; the first one is the limit
_lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread: the workers are the parallelism, and sums keep their order.

    The limit is of the whole process. Its last holder lifts it, because the results of another
    thread that still simulates must not change.
    """
    limit_threads()
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if limit is not None:
                limit.restore_original_limits()


def limit_threads() -> None:
    """Run linear algebra on one thread from now on."""
    import scipy.linalg  # noqa: F401, PLC0415 - a library loaded later would escape the limit
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with _lock:
        _limits.append(None if _limits else threadpool_limits(limits=1, user_api="blas"))


class Simulation:
    """A method in an environment, from which runs are made. It is sent to a process once."""

    def __init__(
        self,
        method: Method | Oracle,
        environment: Environment,
        *,
        delta: float,
        seed: int,
        forecaster: Forecaster | str | None = None,
        delay: int = 0,
    ) -> None:
        if not callable(method.method if isinstance(method, Oracle) else method):
            remedy = "Give a policy class, or a functools.partial of one."
            raise _wrong("method", "make a policy from a problem and a seed", method, remedy)
        if not isinstance(environment, Environment):
            raise _wrong("environment", "have a name and an instance(rng)", environment, _TRY)
        self.method, self.environment = method, environment
        self.seed = whole(seed, "seed", least=0)
        self.delta = probability(delta)
        self.forecaster = find_forecaster(forecaster)
        self.delay = whole(delay, "delay", least=0)
        if self.delay and self.forecaster is not None:
            what, remedy = "Forecasts cannot be simulated with a delay.", "Leave one of them out."
            raise InvalidInputError(what, field="delay", value=delay, remedy=remedy)
        self._fixed = fixed_world(environment)
        self._sent: tuple[bytes, str] | None = None

    def begin(self, run: int) -> tuple[Policy, Stream, World]:
        """The policy, stream and world of run number `run`."""
        from bestarm.compiling import compile_eagerly  # noqa: PLC0415 - loads slowly

        compile_eagerly()
        world = self._world(run)
        method = self.method.bind(world) if isinstance(self.method, Oracle) else self.method
        words = self._seed(run, 1).generate_state(1, np.uint64)
        number = int(words[0]) >> 11  # 53 bits: exact in JSON
        problem, stream = world.problem(self.delta), world.begin(_generator(self._seed(run, 2)))
        if self.forecaster is None:
            return method(problem, seed=number), stream, world
        told = less_forecasts(method, problem)
        stream = ForecastStream(stream, deepcopy(self.forecaster), problem.source, told.interval)
        return told.method(told.problem, seed=number), stream, world

    def _seed(self, run: int, place: int) -> np.random.SeedSequence:
        """One of `SeedSequence(seed, spawn_key=(run,)).spawn(3)`, made only if it is needed."""
        return np.random.SeedSequence(self.seed, spawn_key=(run, place))

    def _world(self, run: int) -> World:
        """The world of run number `run`."""
        of_run: Callable[[int], World] | None = getattr(self.environment, "of_run", None)
        if of_run:
            return of_run(run)
        return self._fixed or self.environment.instance(_generator(self._seed(run, 0)))

    def play(self, run: int, observe: Observe | None = None) -> tuple[Recommendation, Outcome]:
        """Make run number `run` from beginning to end."""
        policy, stream, world = self.begin(run)
        pulls, rounds, plans, _ = carry_out(policy, stream, delay=self.delay, observe=observe)
        answer = policy.recommend()
        target, targets = int(answer.target), world.problem(self.delta).targets
        if not 0 <= target < targets:
            what, remedy = f"The policy names target {target} of {targets}.", "The first one is 0."
            raise ProtocolError(what, field="target", value=target, remedy=remedy)
        correct, final = target == world.best, bool(answer.final)
        return answer, Outcome(run, pulls, correct, final, target, plans, rounds)

    def outcome(self, run: int) -> Outcome:
        """The outcome of run number `run`; a note on an exception names the run."""
        try:
            try:
                return self.play(run)[1]
            except SystemExit as error:
                what, remedy = "The policy tried to end the program.", "Let it raise an error."
                raise ProtocolError(
                    what, field="method", value=error.code, remedy=remedy
                ) from error
        except Exception as error:
            error.add_note(
                f"This was run {run} of a simulation with seed {self.seed}; "
                f"run_once(..., run={run}, seed={self.seed}, delta={self.delta:g}) repeats it."
            )
            raise

    def __reduce__(self) -> tuple[object, ...]:
        # As bytes that workers recognise: caches of an environment then outlive one piece of work.
        if self._sent is None:
            try:
                numbers = self.delta, self.seed, self.delay
                parts = self.method, self.environment, self.forecaster, *numbers
                # With its source, because a module that was edited meanwhile has the same name.
                self._sent = pickle.dumps(parts), source_of(self.method)
            except Exception as error:
                raise InvalidInputError(
                    f"The method or the environment cannot be sent to another process ({error}).",
                    field="method",
                    remedy="Define its functions at the top level of a module and bind arguments "
                    "with functools.partial, or use a ThreadPoolExecutor.",
                ) from error
        return _received, self._sent


def carry_out(
    policy: Policy,
    stream: Stream,
    *,
    delay: int = 0,
    observe: Observe | None = None,
    go_on: GoOn | None = None,
) -> tuple[int, int, int, bool]:
    """Carry out the plans of a policy on a stream.

    With a delay, the outcome of a pull is known before the round that is `delay` rounds later. Open
    plans are then carried out by `carry_out_late`; every closed one waits for its last outcome.

    A policy that can follow a stream known ahead makes many rounds at a time, each for a plan.
    `observe` is called with the policy after every plan; `go_on` before every plan with the pulls
    and plans so far, and the plan: False ends the run there.

    Returns:
        The numbers of pulls, rounds and plans, and whether the run ended by itself.
    """
    if delay > 1 and (first := policy.plan()) is not None and first.open:
        from bestarm.simulation.late import carry_out_late  # noqa: PLC0415 - compiles

        return carry_out_late(policy, stream, delay, observe=observe, go_on=go_on)
    waiting = max(delay - 1, 0)  # rounds after the last pull of a plan
    pulls, rounds, plans, block = 0, 0, 0, _BLOCK
    presample, skip = (getattr(stream, name, None) for name in ("presample", "skip"))
    follows = policy.traits.follows and observe is None and presample and skip
    skips = follows and go_on is None  # plans are made only where the policy does not follow
    while True:
        plan = None if skips else policy.plan()
        if policy.has_stopped() if skips else plan is None:
            break
        if plan is not None and go_on is not None and not go_on(pulls, plans, plan):
            return pulls, rounds, plans, False
        if presample and skip and follows:
            known = presample(block)
            block = min(2 * block, _LONGEST_BLOCK)
            followed, made = (0, 0) if known is None else policy.follow(known)
            if followed:
                skip(followed)
                pulls += followed
                rounds += followed + made * waiting
                plans += made
                continue
        plan = plan or policy.plan()
        assert plan is not None  # it is not finished
        policy.update(stream.pull(plan))
        pulls += plan.pulls
        rounds += plan.rounds + waiting
        plans += 1
        if observe is not None:
            observe(policy)
    return pulls, rounds, plans, True


@lru_cache(maxsize=4)
def _received(sent: bytes, _source: str) -> Simulation:
    method, environment, forecaster, delta, seed, delay = pickle.loads(sent)
    return Simulation(
        method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
    )


_stopped: set[str] = set()  # simulations to stop, in this process


def _piece(work: Simulation, simulation: str, runs: Sequence[int]) -> list[Outcome]:
    """The outcomes of some runs, or of fewer if it is stopped: the unit sent to executors."""
    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt), one_thread():  # Ctrl-C in a terminal reaches workers too
        for run in runs:
            if simulation in _stopped:
                break
            outcomes.append(work.outcome(run))
        else:
            return outcomes
    _stopped.add(simulation)  # pieces in the queue of this process must not run
    return outcomes


def _spread(work: Simulation, runs: Sequence[int], executor: Executor, collect: Collect) -> None:
    """Make the runs on an executor; if interrupted, collect the finished runs, then raise."""
    size = max(min(max(len(runs) // _PIECES, 1), _LONGEST_PIECE), len(runs) // _MOST_PIECES)
    simulation = uuid4().hex
    futures: dict[Future[list[Outcome]], int] = {}
    try:
        for start in range(0, len(runs), size):
            piece = runs[start : start + size]
            futures[executor.submit(_piece, work, simulation, piece)] = len(piece)
        for future in as_completed(list(futures)):
            collect(outcomes := future.result())
            # Forgotten, so that a cluster does not repeat it after losing a worker.
            if len(outcomes) < futures.pop(future):
                raise KeyboardInterrupt  # noqa: TRY301 - a worker was interrupted
    except BaseException as error:
        _stopped.add(simulation)  # threads check it between runs
        for future in futures:
            future.cancel()
        if isinstance(error, KeyboardInterrupt):
            wait(futures, timeout=_GRACE)
            done = [f for f in futures if f.done() and not f.cancelled() and not f.exception()]
            collect([outcome for future in done for outcome in future.result()])
        raise


def _generator(seed: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64DXSM(seed))
