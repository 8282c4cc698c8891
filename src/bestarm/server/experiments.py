"""The experiments that a server has open, and how many threads may use them at a time."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live import Experiment, Status
from bestarm.live.store.sql import Store
from bestarm.live.watch.overview import Watch
from bestarm.problem import Problem

_MOST_OPEN = 200

# Threads at a time, in all and for one experiment. Writers to one experiment share a transaction,
# and those that use its policy wait while a phase closes. They must not take all threads: reading
# counters stays quick whatever the others do, and one slow experiment does not hold up the others.
_WRITING = 48, 16
_COMPUTING = 4, 2

T = TypeVar("T")


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

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = Lock()
        self._open: OrderedDict[str, Watch] = OrderedDict()
        self._generation = store.generation
        self.writing, self._computing = _Threads(*_WRITING), _Threads(*_COMPUTING)

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
            return self._keep(Experiment.open(self.store, name), generation)
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

    def close(self) -> None:
        """Wait until nothing is at work, even for callers who have gone, and close the store."""
        for threads in (self.writing, self._computing):
            threads.pool.shutdown(cancel_futures=True)
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
