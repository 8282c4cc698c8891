"""The experiments that a server has open: who writes to them, threads, and their maintenance."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Semaphore, Task
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

from bestarm.errors import BestArmError, ExperimentExistsError, UnknownExperimentError
from bestarm.live import Experiment, Receipt, Status
from bestarm.live.engine import Answer, Engine
from bestarm.live.store import ChangeFeed, Store
from bestarm.live.tell import Tell
from bestarm.live.values import Checks
from bestarm.live.watch.overview import Watch
from bestarm.problem import Problem

_MOST_OPEN = 200

# Threads at a time, in all and for one experiment. Those that use its policy wait while a phase
# closes, and those that write wait for another program that has it locked. They must not take all
# threads: outcomes are recorded, counters are read and tokens looked up quickly whatever the others
# do, and one slow or locked experiment does not hold up the others.
_RECORDING = 16  # one for each experiment whose outcomes are being recorded
_WRITING = 32, 8
_COMPUTING = 4, 2
READING = 20  # and tokens, maintenance, notifications: the default threads of AnyIO
# Each thread has one connection at most, and one holds the lock of who sends notifications. Were
# there fewer, threads that wait for a lock could have them all.
CONNECTIONS = _RECORDING + _WRITING[0] + _COMPUTING[0] + READING + 1

T = TypeVar("T")
_log = logging.getLogger("bestarm.server")


class _Threads:
    """Threads for one kind of work: so many in all, and so many for one experiment."""

    def __init__(self, most: int, of_one: int) -> None:
        self.pool, self._most_of_one = ThreadPoolExecutor(most), of_one
        # Kept as long as somebody uses it or waits for it.
        self._of_one: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()

    async def run(self, name: str, do: Callable[[], T]) -> T:
        """Do something with an experiment in one of them."""
        async with self._of_one.setdefault(name, Semaphore(self._most_of_one)):
            return await asyncio.get_running_loop().run_in_executor(self.pool, do)


class OpenExperiments:
    """Experiments by name, opened once and kept open, all on the connections of one store."""

    def __init__(self, store: Store, allow_modules: tuple[str, ...] = ()) -> None:
        self.store, self._allowed = store, allow_modules
        self._lock = Lock()
        self._open: OrderedDict[str, Watch] = OrderedDict()
        self.recording = ThreadPoolExecutor(_RECORDING)
        self.writing, self._computing = _Threads(*_WRITING), _Threads(*_COMPUTING)
        self._recorders: dict[Engine, Task[None]] = {}
        self._tasks: set[Task[None]] = set()  # steps for which nobody waits

    def open(self, name: str) -> Experiment:
        """An experiment of the store."""
        return self.watch(name).experiment

    def watch(self, name: str) -> Watch:
        """An experiment of the store, to look at again and again."""
        if (found := self._find(name)) is not None:
            return found
        try:
            opened = Experiment.open(self.store, name, allow_modules=self._allowed)
            return self._keep(opened)
        except UnknownExperimentError as error:
            raise UnknownExperimentError(
                f"There is no experiment {name!r}.",
                field="name",
                value=name,
                remedy="GET /api/v1/experiments lists them.",
            ) from error

    def _find(self, name: str) -> Watch | None:
        """An experiment that is open already."""
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)

    def create(self, name: str, problem: Problem, **settings: Any) -> Experiment:
        """Create an experiment; settings as for `Experiment.create`."""
        try:
            experiment = Experiment.create(self.store, name, problem, **settings)
        except ExperimentExistsError as error:
            message, remedy = f"An experiment {name!r} exists already.", "Choose another name."
            raise ExperimentExistsError(message, field="name", value=name, remedy=remedy) from error
        return self._keep(experiment).experiment

    async def read(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something quick with an experiment, in a thread: read its counters or its log."""
        return await run_in_threadpool(lambda: do(self.open(name)))

    async def compute(self, name: str, do: Callable[[Watch], T]) -> T:
        """Do something that needs the policy or reads a lot."""
        return await self._computing.run(name, lambda: do(self.watch(name)))

    async def change(self, name: str, do: Callable[[Experiment], object]) -> Status:
        """Do something that writes to an experiment; its status then."""

        def changed() -> Status:
            experiment = self.open(name)
            do(experiment)
            return experiment.status()

        return await self.writing.run(name, changed)

    async def tell(self, name: str, call: Tell) -> Receipt:
        """Record the outcomes of one call, together with those that wait.

        One that leaves a step pending is answered after that step and the plan that follows it, or
        at once where another thread is taking steps. Nobody waits for the steps that outcomes of
        others make pending meanwhile.
        """
        if call.is_of_served:
            return await self.read(name, lambda experiment: experiment.engine.tell(call))
        watch = self._find(name)
        if watch is None:
            watch = await run_in_threadpool(self.watch, name)
        engine = watch.experiment.engine
        submitted = engine.submit(call)
        if engine not in self._recorders:
            self._recorders[engine] = asyncio.create_task(self._record(engine))
        answer: Answer = await asyncio.wrap_future(submitted)
        if answer.step_pending and not await self.writing.run(
            name, lambda: engine.advance(to_plan=True)
        ):
            task = asyncio.create_task(self._advance(name, engine))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer.receipt

    async def _record(self, engine: Engine) -> None:
        """Have calls carried out as long as any wait: those that come in meanwhile, together."""
        loop = asyncio.get_running_loop()
        try:
            while engine.has_waiting:
                await loop.run_in_executor(self.recording, engine.carry_out)
        finally:
            del self._recorders[engine]

    async def _advance(self, name: str, engine: Engine) -> None:
        """Take the steps that are left."""
        try:
            await self.writing.run(name, engine.advance)
        except Exception as error:
            _log.error("A step is postponed", exc_info=error)

    def close(self) -> None:
        """Wait until nothing is at work, even for callers who have gone, and close the store."""
        for pool in (self.recording, self.writing.pool, self._computing.pool):
            pool.shutdown(cancel_futures=True)
        self.store.close()

    def _keep(self, experiment: Experiment) -> Watch:
        watch = Watch(experiment)
        with self._lock:
            kept = self._open.setdefault(experiment.name, watch)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)  # the connections are the store's, not its own
            return kept


async def repeat(do: Callable[[], object], *, every: float, failure: str) -> None:
    """Do something in a thread again and again until cancelled; failures are logged."""
    while True:
        try:
            await run_in_threadpool(do)
        except BestArmError as error:
            _log.warning("%s: %s", failure, error)
        except Exception as error:
            _log.error(failure, exc_info=error)
        await asyncio.sleep(every)


_EVERY = 5.0  # seconds between two rounds
_HEALTH = 0.1  # seconds of a processor's time per round, for health checks


class Maintenance:
    """Visits the experiments of a server, round after round.

    Leases that ran out are seen to in every round. Health is checked of what has changed, then of
    all others that are not over, as time alone may make an outcome overdue; what there is no time
    for is left to the next round. An alarm or a stall that begins is added to the log.
    """

    def __init__(self, experiments: OpenExperiments) -> None:
        self._experiments = experiments
        self.checks: dict[str, Checks] = {}  # by experiment
        self._changes = ChangeFeed(experiments.store)
        self._unchecked: dict[str, None] = {}  # names, in order

    async def run(self) -> None:
        """Make rounds until cancelled."""
        await repeat(self.run_once, every=_EVERY, failure="Maintenance is postponed")

    def run_once(self) -> None:
        """Make one round."""
        changes, gone = self._changes.read(now=self._experiments.store.now())
        for name in gone:
            self.checks.pop(name, None)
            self._unchecked.pop(name, None)
        for change in changes:
            if change.overdue:
                self._try(lambda name: self._experiments.open(name).expire(), change.name)
        self._unchecked = dict.fromkeys(change.name for change in changes) | self._unchecked
        if not self._unchecked:
            self._unchecked = dict.fromkeys(self._changes.running)
        end = time.thread_time() + _HEALTH
        while self._unchecked and time.thread_time() < end:
            name = next(iter(self._unchecked))
            del self._unchecked[name]
            self._try(self._check, name)

    def _try(self, do: Callable[[str], object], name: str) -> None:
        try:
            do(name)
        except BestArmError:
            pass  # the list shows what is wrong with it
        except Exception as error:  # of a user's own policy
            _log.error("Maintenance skips an experiment", exc_info=error)

    def _check(self, name: str) -> None:
        watch = self._experiments.watch(name)
        self.checks[name] = watch.health()
        watch.record_alarms()
