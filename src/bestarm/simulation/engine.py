"""Seeded replications of a method in an environment, the same on any number of workers.

Run i draws everything from `SeedSequence(seed, spawn_key=(i,))`, and linear algebra runs on one
thread, so a run depends only on its number and the seed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed, wait
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cached_property, lru_cache
from typing import Any
from uuid import uuid4

import numpy as np

from bestarm.checks import probability, whole
from bestarm.defaults import DELTA
from bestarm.environments import Environment, Stream, World
from bestarm.environments.environment import fixed_world
from bestarm.environments.streams import ForecastStream
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.forecasting import Forecaster, Regression
from bestarm.forecasting.forecaster import find_forecaster, subtract_forecasts
from bestarm.numerics.blas import one_thread
from bestarm.policies.policy import Method, Policy
from bestarm.policies.registry import accepted
from bestarm.recommendation import Recommendation
from bestarm.simulation.methods import Oracle, code_version, method_name, with_mean_bound
from bestarm.simulation.progress import Progress, reporting
from bestarm.simulation.results import Outcome, Results, RunJournal, run_count
from bestarm.simulation.run import (
    NoPresampledRewardsError,
    Observe,
    PresamplingStream,
    run_policy,
    run_side_by_side,
)

Collect = Callable[[Sequence[Outcome]], None]

_BATCHES = 32  # a simulation is cut into about this many batches: to send one takes 3 ms
_LONGEST_BATCH = 32  # runs: progress shows, and an interruption loses little
_SIDE_BY_SIDE = 512  # runs at most: more do not become quicker
_BATCHES_SIDE_BY_SIDE = 8  # batches that these are cut into: fewer runs take longer each
_MOST_BATCHES = 4096  # of hundreds of thousands of runs batches are longer
_EXAMPLE = "Try bestarm.environments.small_gap()."
_GRACE = 1.0  # seconds that running batches have to return after an interruption


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
        method: makes a policy from a problem: a policy class, or a partial of one; or an `Oracle`,
            which also tells it truths of the world. One that takes a `seed` is given one.
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
    simulation = Simulation(
        method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
    )
    total = run_count(runs)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        remedy = "Try concurrent.futures.ProcessPoolExecutor(), or leave it out."
        raise _invalid("executor", "be a concurrent.futures executor", executor, remedy)
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
                for outcome in simulation.outcomes(missing):
                    collect([outcome])
            else:
                _distribute(simulation, missing, executor, collect)
        except KeyboardInterrupt:
            interrupted = True
    rows = table if finished == total else table[table[:, 0] >= 0]
    rows.flags.writeable = False
    columns: dict[str, Any] = dict(zip(("index", *Outcome._fields[1:]), rows.T, strict=True))
    columns |= {name: columns[name] != 0 for name in ("correct", "final", "contradicted")}
    labels = method_name(method), environment.name, simulation.seed, simulation.delta
    return Results(*labels, requested=total, interrupted=interrupted, **columns)


def _known_run(entry: Outcome, total: int) -> int:
    try:
        return whole(Outcome(*entry).run, "known", least=0, below=total)
    except TypeError:
        remedy = "Pass the outcomes that `record` was called with, or `Results.outcomes()`."
        raise _invalid("known", "hold outcomes of runs", entry, remedy) from None


def _invalid(field: str, must: str, value: object, remedy: str) -> InvalidInputError:
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
    observe: Observe | None = None,
) -> Recommendation:
    """Repeat a run of `simulate`; return its recommendation with the trace of its phases.

    `run` is its number, and the other arguments are those of the simulation. `observe` is called
    with the policy after every plan; then a method whose runs `simulate` makes side by side draws
    other numbers, with the same law.
    """
    with one_thread():
        simulation = Simulation(
            method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
        )
        return simulation.run(whole(run, "run", least=0), observe)[0]


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
        maker: Any = method.method if isinstance(method, Oracle) else method
        if not callable(maker):
            remedy = "Give a policy class, or a functools.partial of one."
            raise _invalid("method", "make a policy from a problem", method, remedy)
        if not isinstance(environment, Environment):
            raise _invalid("environment", "have a name and an instance(rng)", environment, _EXAMPLE)
        self.method, self.environment = method, environment
        self.seed = whole(seed, "seed", least=0)
        self.delta = probability(delta)
        self.forecaster = find_forecaster(forecaster)
        self.delay = whole(delay, "delay", least=0)
        if self.delay and self.forecaster is not None:
            what, remedy = "Forecasts cannot be simulated with a delay.", "Leave one of them out."
            raise InvalidInputError(what, field="delay", value=delay, remedy=remedy)
        self._fixed = fixed_world(environment)
        self._draws = "seed" in accepted(maker, seed=self.seed)
        self._pickled: tuple[bytes, str] | None = None

    def begin(self, run: int) -> tuple[Policy, Stream, World]:
        """The policy, stream and world of run number `run`."""
        world = self._world(run)
        method = self.method.bind(world) if isinstance(self.method, Oracle) else self.method
        drawn: dict[str, Any] = {"seed": self._policy_seed(run)} if self._draws else {}
        problem, stream = world.problem(self.delta), world.begin(_generator(self._seed(run, 2)))
        method = with_mean_bound(method, world, problem)
        if self.forecaster is None:
            return method(problem, **drawn), stream, world
        adjusted = subtract_forecasts(method, problem)
        forecaster = deepcopy(self.forecaster)
        stream = ForecastStream(stream, forecaster, problem.source, adjusted.interval)
        return adjusted.method(adjusted.problem, **drawn), stream, world

    def _policy_seed(self, run: int) -> int:
        return int(self._seed(run, 1).generate_state(1, np.uint64)[0]) >> 11  # exact in JSON

    def _seed(self, run: int, place: int) -> np.random.SeedSequence:
        """One of `SeedSequence(seed, spawn_key=(run,)).spawn(3)`, made only if it is needed."""
        return np.random.SeedSequence(self.seed, spawn_key=(run, place))

    def _world(self, run: int) -> World:
        """The world of run number `run`."""
        of_run: Callable[[int], World] | None = getattr(self.environment, "of_run", None)
        if of_run:
            return of_run(run)
        return self._fixed or self.environment.instance(_generator(self._seed(run, 0)))

    def run(self, run: int, observe: Observe | None = None) -> tuple[Recommendation, Outcome]:
        """Make run number `run` from beginning to end."""
        policy, stream, world = self.begin(run)
        if observe is None and self._stands_side_by_side(policy, stream):
            [(recommendation, outcome)] = self._together([run])
            return recommendation, outcome
        pulls, rounds, plans, _ = run_policy(policy, stream, delay=self.delay, observe=observe)
        recommendation = policy.recommend()
        return recommendation, self._outcome_of(
            run, recommendation, world, pulls=pulls, plans=plans, rounds=rounds
        )

    def _outcome_of(
        self,
        run: int,
        recommendation: Recommendation,
        world: World,
        *,
        pulls: int,
        plans: int,
        rounds: int,
    ) -> Outcome:
        target, targets = int(recommendation.target), world.problem(self.delta).targets
        if not 0 <= target < targets:
            what, remedy = f"The policy names target {target} of {targets}.", "The first one is 0."
            raise ProtocolError(what, field="target", value=target, remedy=remedy)
        correct, final = target == world.best, bool(recommendation.final)
        contradicted = bool(recommendation.contradicted)
        return Outcome(run, pulls, correct, final, contradicted, target, plans, rounds)

    def _presampling_stream(self, policy: Policy, stream: Stream) -> PresamplingStream | None:
        """The stream of rewards of a run that may be made beside others, or None."""
        if not policy.traits.side_by_side or self.delay > 1:
            return None
        if isinstance(stream, ForecastStream):
            if not stream.allows_side_by_side(policy):
                return None
            stream = stream.stream
        return stream if isinstance(stream, PresamplingStream) else None

    def _stands_side_by_side(self, policy: Policy, stream: Stream) -> bool:
        """Whether a run that has just begun can be made beside others; it must begin anew."""
        presampling = self._presampling_stream(policy, stream)
        return presampling is not None and presampling.presample(1) is not None

    def _together(self, runs: Sequence[int]) -> Iterator[tuple[Recommendation, Outcome]]:
        """Make runs beside those of the same problem and policy, and yield them as they end.

        Raises:
            NoPresampledRewardsError: some run must be made alone.
        """
        groups: dict[Hashable, list[tuple[int, Policy, PresamplingStream, World]]] = {}
        for run in runs:
            policy, stream, world = self.begin(run)
            presampling = self._presampling_stream(policy, stream)
            if presampling is None:
                raise NoPresampledRewardsError
            groups.setdefault(policy.like(), []).append((run, policy, presampling, world))
        for members in groups.values():
            streams, forecaster = [stream for _, _, stream, _ in members], None
            if isinstance(self.forecaster, Regression):
                forecaster = deepcopy(self.forecaster)
                forecaster.select(np.zeros(len(members), dtype=np.int64))
            seeds = [self._policy_seed(run) for run, *_ in members]
            group = members[0][1].group(seeds, forecaster)
            for place in run_side_by_side(group, streams):
                run, _, _, world = members[place]
                pulls, plans = int(group.pulls[place]), int(group.plans[place])
                recommendation = group.recommend(place)
                yield (
                    recommendation,
                    self._outcome_of(
                        run, recommendation, world, pulls=pulls, plans=plans, rounds=pulls
                    ),
                )

    @cached_property
    def side_by_side(self) -> bool:
        """Whether its runs can be made beside each other."""
        with self._naming(0):
            policy, stream, _ = self.begin(0)
            return self._stands_side_by_side(policy, stream)

    def outcomes(self, runs: Sequence[int]) -> Iterator[Outcome]:
        """The outcomes of these runs, as they end; a note on an exception names the run."""
        if len(runs) < 2 or not self.side_by_side:
            yield from (self.outcome(run) for run in runs)
            return
        for first in range(0, len(runs), _SIDE_BY_SIDE):
            left = list(runs[first : first + _SIDE_BY_SIDE])
            with suppress(Exception, SystemExit):
                for _, outcome in self._together(left.copy()):
                    left.remove(outcome.run)
                    yield outcome
            # If one failed, it fails again alone, where a note names it.
            yield from (self.outcome(run) for run in left)

    def outcome(self, run: int) -> Outcome:
        """The outcome of run number `run`; a note on an exception names the run."""
        with self._naming(run):
            return self.run(run)[1]

    @contextmanager
    def _naming(self, run: int) -> Iterator[None]:
        try:
            try:
                yield
            except SystemExit as error:
                what, remedy = "The policy tried to end the program.", "Let it raise an error."
                raise ProtocolError(
                    what, field="method", value=error.code, remedy=remedy
                ) from error
        except Exception as error:
            error.add_note(self._how_to_repeat(run))
            raise

    def _how_to_repeat(self, run: int) -> str:
        """Which run it was, on which problem, and how to make it again."""
        call = f"run={run}, seed={self.seed}, delta={self.delta:g}"
        call += f", delay={self.delay}" if self.delay else ""
        call += ", forecaster=..." if self.forecaster is not None else ""
        note = (
            f"This was run {run} of a simulation with seed {self.seed}; run_once(..., {call}) "
            "repeats it, rewards included."
        )
        with suppress(Exception):  # an environment may have failed
            note += (
                f" It was on {self.environment.name}: {self._world(run).problem(self.delta)!r}, "
                f"and the policy had seed={self._policy_seed(run)}."
            )
        return note

    def __reduce__(self) -> tuple[object, ...]:
        # As bytes that workers recognise: caches of an environment then outlive one batch.
        if self._pickled is None:
            try:
                numbers = self.delta, self.seed, self.delay
                parts = self.method, self.environment, self.forecaster, *numbers
                # With its source, because a module that was edited meanwhile has the same name.
                self._pickled = pickle.dumps(parts), code_version(self.method)
            except Exception as error:
                raise InvalidInputError(
                    f"The method or the environment cannot be sent to another process ({error}).",
                    field="method",
                    remedy="Define its functions at the top level of a module and bind arguments "
                    "with functools.partial, or use a ThreadPoolExecutor.",
                ) from error
        return _unpickle, self._pickled


@lru_cache(maxsize=4)
def _unpickle(pickled: bytes, _version: str) -> Simulation:
    method, environment, forecaster, delta, seed, delay = pickle.loads(pickled)
    return Simulation(
        method, environment, delta=delta, seed=seed, forecaster=forecaster, delay=delay
    )


_stopped: set[str] = set()  # simulations to stop, in this process


def _run_batch(simulation: Simulation, key: str, runs: Sequence[int]) -> list[Outcome]:
    """The outcomes of some runs, or of fewer if it is stopped: the unit sent to executors."""
    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt), one_thread():  # Ctrl-C in a terminal reaches workers too
        for outcome in simulation.outcomes(runs):
            outcomes.append(outcome)
            if key in _stopped:
                break
        else:
            return outcomes
    _stopped.add(key)  # batches in the queue of this process must not run
    return outcomes


def _distribute(
    simulation: Simulation, runs: Sequence[int], executor: Executor, collect: Collect
) -> None:
    """Make the runs on an executor; if interrupted, collect the finished runs, then raise."""
    batches, longest = _BATCHES, _LONGEST_BATCH
    if simulation.side_by_side:
        batches, longest = _BATCHES_SIDE_BY_SIDE, _SIDE_BY_SIDE
    size = max(min(max(len(runs) // batches, 1), longest), len(runs) // _MOST_BATCHES)
    key = uuid4().hex
    futures: dict[Future[list[Outcome]], int] = {}
    try:
        for start in range(0, len(runs), size):
            batch = runs[start : start + size]
            futures[executor.submit(_run_batch, simulation, key, batch)] = len(batch)
        for future in as_completed(list(futures)):
            collect(outcomes := future.result())
            # Forgotten, so that a cluster does not repeat it after losing a worker.
            if len(outcomes) < futures.pop(future):
                raise KeyboardInterrupt  # noqa: TRY301 - a worker was interrupted
    except BaseException as error:
        _stopped.add(key)  # threads check it between runs
        for future in futures:
            future.cancel()
        if isinstance(error, KeyboardInterrupt):
            wait(futures, timeout=_GRACE)
            done = [f for f in futures if f.done() and not f.cancelled() and not f.exception()]
            collect([outcome for future in done for outcome in future.result()])
        raise


def _generator(seed: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64DXSM(seed))
