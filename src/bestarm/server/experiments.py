"""The experiments that a server has open: who writes to them, threads, and their maintenance."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import FIRST_COMPLETED, Future, Semaphore, Task
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

from bestarm.errors import BestArmError, ExperimentExistsError, UnknownExperimentError
from bestarm.live import Experiment, Receipt, Status
from bestarm.live.close import StepIdentity
from bestarm.live.core import Answer
from bestarm.live.store.sql import ChangeFeed, Store
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


class _Writer:
    """Records the outcomes of one experiment: those told during a transaction, in the next one.

    A tell that leaves a step pending is answered after that step, or at once where another thread
    is taking steps. Nobody waits for the steps that outcomes of others make pending meanwhile.
    """

    def __init__(self, experiments: OpenExperiments, name: str) -> None:
        self._experiments, self._name = experiments, name
        self._waiting: list[tuple[Tell, Future[Answer]]] = []
        self._steps: dict[Future[None], StepIdentity] = {}  # those that tells wait for
        self._task: Task[None] | None = None

    async def tell(self, call: Tell) -> Receipt:
        """Record the outcomes of one call."""
        future: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        if self._task is None:
            self._task = asyncio.create_task(self._record())
        answer = await future
        if answer.step_pending is not None:
            await self._advance(answer.step_pending)
        return answer.receipt

    async def _record(self) -> None:
        """Record what waits, until nothing does; calls whose callers have gone are left out."""
        loop, pool = asyncio.get_running_loop(), self._experiments.recording
        while group := [each for each in self._waiting if not each[1].done()]:
            self._waiting = []
            answers: Sequence[Answer | BaseException]
            try:
                calls = [call for call, _ in group]
                answers = await loop.run_in_executor(pool, self._commit, calls)
            except BaseException as error:
                answers = [error] * len(group)
            for (_, future), answer in zip(group, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Answer):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)
            pending = {each.step_pending for each in answers if isinstance(each, Answer)}
            for step_done, step in self._steps.items():
                if pending and step not in pending and not step_done.done():
                    step_done.set_result(None)
        self._task = None

    def _commit(self, calls: Sequence[Tell]) -> Sequence[Answer | Exception]:
        return self._experiments.open(self._name).commit_tells(calls)

    async def _advance(self, step: StepIdentity) -> None:
        """Have all pending steps taken; it returns when this one was, and others tell meanwhile."""
        experiments, name = self._experiments, self._name
        taking = experiments.writing.run(name, lambda: experiments.open(name).advance())
        steps = asyncio.create_task(taking)
        step_done: Future[None] = asyncio.get_running_loop().create_future()
        self._steps[step_done] = step
        await asyncio.wait((steps, step_done), return_when=FIRST_COMPLETED)
        del self._steps[step_done]
        if steps.done():
            steps.result()
        else:
            steps.add_done_callback(_log_failure)


def _log_failure(steps: Task[bool]) -> None:
    if not steps.cancelled() and (error := steps.exception()) is not None:
        _log.error("A step is postponed", exc_info=error)


class OpenExperiments:
    """Experiments by name, opened once and kept open, all on the connections of one store."""

    def __init__(self, store: Store, allow_modules: tuple[str, ...] = ()) -> None:
        self.store, self._allowed = store, allow_modules
        self._lock = Lock()
        self._open: OrderedDict[str, Watch] = OrderedDict()
        self._generation = store.generation
        self.recording = ThreadPoolExecutor(_RECORDING)
        self.writing, self._computing = _Threads(*_WRITING), _Threads(*_COMPUTING)
        # Kept as long as somebody waits for it.
        self._writers: WeakValueDictionary[str, _Writer] = WeakValueDictionary()

    def open(self, name: str) -> Experiment:
        """An experiment of the store."""
        return self.watch(name).experiment

    def watch(self, name: str) -> Watch:
        """An experiment of the store, to look at again and again."""
        with self._lock:
            generation = self.store.generation
            if generation != self._generation:
                self._generation = generation
                self._open.clear()  # they were in another file
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
        try:
            opened = Experiment.open(self.store, name, allow_modules=self._allowed)
            return self._keep(opened, generation)
        except UnknownExperimentError as error:
            raise UnknownExperimentError(
                f"There is no experiment {name!r}.",
                field="name",
                value=name,
                remedy="GET /api/v1/experiments lists them.",
            ) from error

    def create(self, name: str, problem: Problem, **settings: Any) -> Experiment:
        """Create an experiment; settings as for `Experiment.create`."""
        generation = self.store.generation
        try:
            experiment = Experiment.create(self.store, name, problem, **settings)
        except ExperimentExistsError as error:
            message, remedy = f"An experiment {name!r} exists already.", "Choose another name."
            raise ExperimentExistsError(message, field="name", value=name, remedy=remedy) from error
        return self._keep(experiment, generation).experiment

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
        """Record the outcomes of one call, together with those that wait."""
        return await self._writers.setdefault(name, _Writer(self, name)).tell(call)

    def close(self) -> None:
        """Wait until nothing is at work, even for callers who have gone, and close the store."""
        for pool in (self.recording, self.writing.pool, self._computing.pool):
            pool.shutdown(cancel_futures=True)
        self.store.close()

    def _keep(self, experiment: Experiment, generation: int) -> Watch:
        watch = Watch(experiment)
        with self._lock:
            if generation != self.store.generation:
                return watch  # the file was replaced meanwhile: opened anew the next time
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
