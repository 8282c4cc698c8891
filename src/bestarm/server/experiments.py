"""The experiments that a server has open, and how many threads may use them at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread
from anyio import CapacityLimiter

from bestarm.errors import ExperimentExistsError, UnknownExperimentError
from bestarm.live import Experiment, Receipt, Status
from bestarm.live.store.sql import Store
from bestarm.live.watch.overview import Watch
from bestarm.problem import Problem
from bestarm.server.gathering import Gathering
from bestarm.server.security.limits import Limits
from bestarm.server.streams import StatusStreams

_MOST_OPEN = 200

# Threads at a time. Writers to one experiment wait for each other, and those that use its policy
# wait while a phase closes. They must not take all threads, nor all connections: reading counters
# stays quick whatever the others do, and one slow experiment does not hold up the others.
_WRITERS = 8
_WRITERS_OF_ONE = 3
_COMPUTING = 4
_COMPUTING_OF_ONE = 2
_BROWSING = 2
_FEW = 100  # outcomes

T = TypeVar("T")
Outcomes = Sequence[tuple[int, float]]


class OpenExperiments:
    """Experiments by name, opened once and kept open, all on the connections of one store."""

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self.store = store
        self.streams = StatusStreams(self.open, limits=limits)
        self._lock = Lock()
        self._open: OrderedDict[str, Watch] = OrderedDict()
        self._generation = store.generation
        self._writing_threads = CapacityLimiter(_WRITERS)
        self._computing_threads = CapacityLimiter(_COMPUTING)
        self._browsing_threads = CapacityLimiter(_BROWSING)
        # A limit is kept as long as somebody uses it or waits for it.
        self._writers: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        self._computing: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        self._tells = TellQueue(
            lambda name, several: self.write(name, lambda each: each.tell_each(several))
        )

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
                f"There is no experiment {name!r}.", field="name", value=name
            ) from error

    def create(self, name: str, problem: Problem, **settings: Any) -> Experiment:
        """Create an experiment; settings as for `Experiment.create`."""
        generation = self.store.generation
        try:
            experiment = Experiment.create(self.store, name, problem, **settings)
        except ExperimentExistsError as error:
            raise ExperimentExistsError(
                f"An experiment {name!r} exists already.",
                field="name",
                value=name,
                remedy="Continue it, or choose another name.",
            ) from error
        return self._keep(experiment, generation).experiment

    async def browse(self, do: Callable[[OpenExperiments], T]) -> T:
        """Go through many experiments, without their policies."""
        return await anyio.to_thread.run_sync(do, self, limiter=self._browsing_threads)

    async def read(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something quick with an experiment, in a thread: read its counters or its log."""
        return await anyio.to_thread.run_sync(lambda: do(self.open(name)))

    async def compute(self, name: str, do: Callable[[Watch], T]) -> T:
        """Do something that needs the policy or reads a lot."""
        async with self._computing.setdefault(name, CapacityLimiter(_COMPUTING_OF_ONE)):
            return await anyio.to_thread.run_sync(
                lambda: do(self.watch(name)), limiter=self._computing_threads
            )

    async def write(self, name: str, do: Callable[[Experiment], T]) -> T:
        """Do something that writes to an experiment."""
        async with self._writers.setdefault(name, CapacityLimiter(_WRITERS_OF_ONE)):
            return await self.write_store(lambda: do(self.open(name)))

    async def change(self, name: str, do: Callable[[Experiment], object]) -> Status:
        """Do something that writes to an experiment; its status then."""

        def changed(experiment: Experiment) -> Status:
            do(experiment)
            return experiment.status()

        return await self.write(name, changed)

    async def tell(self, name: str, outcomes: Outcomes) -> Receipt:
        """Record outcomes; a few together with those that others tell at the same time."""
        if len(outcomes) > _FEW:
            return await self.write(name, lambda each: each.tell_many(outcomes))
        return await self._tells.tell(name, outcomes)

    async def write_store(self, do: Callable[[], T]) -> T:
        """Do something that writes to the store."""
        return await anyio.to_thread.run_sync(do, limiter=self._writing_threads)

    def _keep(self, experiment: Experiment, generation: int) -> Watch:
        watch = Watch(experiment)
        with self._lock:
            if generation != self.store.generation:
                return watch  # the file was replaced meanwhile: opened anew the next time
            kept = self._open.setdefault(experiment.name, watch)
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)  # the connections are the store's, not its own
            return kept


class TellQueue(Gathering[Outcomes, Receipt]):
    """Outcomes that wait to be written, by experiment: together they wait for the disk once.

    Each caller is answered once its own outcomes are on disk, and is told of its own mistake alone.
    """

    async def tell(self, name: str, outcomes: Outcomes) -> Receipt:
        """Have outcomes of an experiment written."""
        return await self.add(name, outcomes)
